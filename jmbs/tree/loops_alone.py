"""Joints that close loops, where they alone constrain the tree or even are all that is beside it."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from jmbs.by_value import by_value
from jmbs.constraints import Loops
from jmbs.ephs import FlatSystem, Plan, follows
from jmbs.library.mechanics import Ground
from jmbs.lie import is_lower_pair
from jmbs.tree.friction import FrictionSource, friction_sources
from jmbs.tree.gear_rows import GEARS
from jmbs.tree.loop_groups import LoopGroup, loops_of
from jmbs.tree.recognise import JointParts, Recognised


@by_value
@dataclasses.dataclass(frozen=True, eq=False)
class LoopsAlone:
    """**Arguments:** `friction` of the joints, as a function of their rates; `kept_source`: where the rates of the kept
    slots come from among these, friction's entropy production, and zero."""

    friction: tuple[FrictionSource, ...]
    kept_source: np.ndarray


def loops_alone(
    flat: FlatSystem,
    plan: Plan,
    recognised: Recognised,
    loops: tuple[LoopGroup, ...],
    beside: Sequence[str],
    kept_slots: np.ndarray,
) -> LoopsAlone | None:
    """See `LoopsAlone`; None where something else but gears is among the components `beside` the tree and its springs.

    Also where only the reference semantics knows all of these joints: those with a spring, or friction that heats
    something of its own.
    """
    in_order = _in_order(plan, recognised, loops)
    if any(j.empty is None or j.friction is None for j in in_order):
        return None
    inside = {path for joint in in_order for path in joint.paths}
    if not all(path in inside or follows(flat.components[path], (*GEARS, Ground)) for path in beside):
        return None
    freedom = np.array([joint.freedom for joint in in_order], dtype=int)
    start = np.cumsum(freedom) - freedom
    friction, entropies = friction_sources(plan, in_order, start)
    source = {slot: int(freedom.sum()) + place for slot, place in entropies.items()}
    for joint, first in zip(in_order, start, strict=True):
        slots = plan.slots[plan.junction_of[joint.constraint, "q_r"]]
        source.update({int(slot): int(first) + k for k, slot in enumerate(slots)})
    nothing = int(freedom.sum()) + len(entropies)
    kept_source = np.array([source.get(int(slot), nothing) for slot in kept_slots], dtype=int)
    return LoopsAlone(friction, kept_source)


def loop_elements(
    plan: Plan, recognised: Recognised, groups: tuple[LoopGroup, ...], kept: tuple[int, ...]
) -> tuple[tuple[int, np.ndarray], ...]:
    """By group, where the joints' elements are in the tree's state: block and rows."""
    joints = _in_order(plan, recognised, groups)
    where = [plan.state_of[plan.junction_of[joint.constraint, "q_r"]] for joint in joints]
    count = np.cumsum([0, *(len(g.bodies) for g in groups)])
    by_group = [where[i:j] for i, j in itertools.pairwise(count)]
    return tuple((kept.index(part[0][0]), np.array([row for _, row in part])) for part in by_group)


def only_loops(
    flat: FlatSystem, plan: Plan, recognised: Recognised, groups: tuple[LoopGroup, ...], others: bool
) -> Loops | None:
    """The joints that close loops, where nothing but them and gears is constrained beyond the tree, and their tangents
    constant; None where `others` are constrained, or nothing."""
    joints = _in_order(plan, recognised, groups)
    if others or all(joint.freedom == 6 for joint in joints):
        return None
    constant = all(is_lower_pair(flat.components[j.constraint].motion) for j in joints)
    return loops_of(groups) if constant else None


def _in_order(plan: Plan, recognised: Recognised, groups: tuple[LoopGroup, ...]) -> list[JointParts]:
    joints = {j.constraint: j for j in (recognised.joints[e] for e in recognised.tree.cut)}
    return [joints[plan.batches[g.constraint.batch].paths[m]] for g in groups for m in g.constraint.members]
