"""Where everything beside the tree is joints that close loops: how these stand in the tree's own numbering."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np

from jmbs.ephs import FlatSystem, Plan
from jmbs.library.mechanics import Ground
from jmbs.lie import AbstractLowerPair
from jmbs.multibody.closing import Loops, loops_of
from jmbs.multibody.friction import FrictionSource, friction_sources
from jmbs.multibody.loop_groups import LoopGroup
from jmbs.multibody.recognise import Recognised


@dataclasses.dataclass(frozen=True, eq=False)
class ClosedLoops:
    """**Arguments:** the `loops`; `friction` of their joints, as a function of the joints' rates; `kept_source`: where
    the rates of the kept slots come from among these, friction's entropy production, and zero; `elements`: by group,
    where the joints' elements are in the tree's state, block and rows."""

    loops: Loops
    friction: tuple[FrictionSource, ...]
    kept_source: np.ndarray
    elements: tuple[tuple[int, np.ndarray], ...]


def closed_loops(
    flat: FlatSystem,
    plan: Plan,
    recognised: Recognised,
    loops: tuple[LoopGroup, ...],
    others: tuple[int, ...],
    kept: tuple[int, ...],
    kept_slots: np.ndarray,
) -> ClosedLoops | None:
    """The loops, or None where nothing is constrained, or something else is beside the tree.

    Also None for joints of which only the reference semantics knows all: those with a tangent that is not constant, a
    spring, or friction that heats something of its own.
    """
    joints = {j.constraint: j for j in (recognised.joints[e] for e in recognised.tree.cut)}
    in_order = [joints[plan.batches[g.constraint.batch].paths[m]] for g in loops for m in g.constraint.members]
    if len(in_order) < len(joints) or all(joint.freedom == 6 for joint in in_order):
        return None
    if any(j.empty is None or j.friction is None for j in in_order):
        return None
    if not all(isinstance(flat.components[j.constraint].motion, AbstractLowerPair) for j in in_order):
        return None
    inside = {path for joint in in_order for path in joint.paths}
    rest = [p for i in others for p in plan.batches[i].paths if p not in inside and p not in recognised.known]
    if not all(isinstance(flat.components[p], Ground) for p in rest):
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
    where = [plan.state_of[plan.junction_of[joint.constraint, "q_r"]] for joint in in_order]
    count = np.cumsum([0, *(len(g.bodies) for g in loops)])
    by_group = [where[i:j] for i, j in itertools.pairwise(count)]
    elements = tuple((kept.index(part[0][0]), np.array([row for _, row in part])) for part in by_group)
    return ClosedLoops(loops_of(loops), friction, kept_source, elements)
