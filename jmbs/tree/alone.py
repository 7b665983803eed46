"""What acts on a tree where nothing is beside it but springs and friction of its joints, gears, and loop joints."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from jmbs.by_value import by_value
from jmbs.ephs import FlatSystem, Plan, follows
from jmbs.library.mechanics import Ground
from jmbs.tree.friction import FrictionSource, friction_sources
from jmbs.tree.gear_rows import GEARS
from jmbs.tree.loop_groups import LoopGroup, in_order
from jmbs.tree.recognise import Recognised


@by_value
@dataclasses.dataclass(frozen=True, eq=False)
class Alone:
    """What is known of the loop joints of such a tree.

    **Arguments:** `friction` of these joints, as a function of their rates; `kept_source`: where the rates of the
    kept slots come from among these, friction's entropy production, and zero."""

    friction: tuple[FrictionSource, ...]
    kept_source: np.ndarray


def tree_alone(
    flat: FlatSystem,
    plan: Plan,
    recognised: Recognised,
    loops: tuple[LoopGroup, ...],
    beside: Sequence[str],
    kept_slots: np.ndarray,
) -> Alone | None:
    """See `Alone`; None where something else is among the components `beside` the tree and its springs.

    Also where only the reference semantics knows all of the loop joints: those with a spring, or friction that heats
    something of its own.
    """
    joints = in_order(plan, recognised, loops)
    if any(j.empty is None or j.friction is None for j in joints):
        return None
    inside = {path for joint in joints for path in joint.paths}
    if not all(path in inside or follows(flat.components[path], (*GEARS, Ground)) for path in beside):
        return None
    freedom = np.array([joint.freedom for joint in joints], dtype=int)
    start = np.cumsum(freedom) - freedom
    friction, entropies = friction_sources(plan, joints, start)
    source = {slot: int(freedom.sum()) + place for slot, place in entropies.items()}
    for joint, first in zip(joints, start, strict=True):
        slots = plan.slots[plan.junction_of[joint.constraint, "q_r"]]
        source.update({int(slot): int(first) + k for k, slot in enumerate(slots)})
    nothing = int(freedom.sum()) + len(entropies)
    kept_source = np.array([source.get(int(slot), nothing) for slot in kept_slots], dtype=int)
    return Alone(friction, kept_source)
