"""Gears between the joints of an open tree, where they are all that is beside it: their rows and coordinates."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from jmbs.by_value import by_value
from jmbs.ephs import FlatSystem, Plan, follows
from jmbs.library.mechanics import Gear, Ground, JointRelation
from jmbs.tree.recognise import Recognised
from jmbs.tree.segments import Segment, segments

_KINDS = (Gear, JointRelation)


@by_value
@dataclasses.dataclass(frozen=True, eq=False)
class GearRows:
    """**Arguments:** the `gears` in the order of their rows, in segments of one kind; of the ends of each, per segment
    `(ends, members)`, the `velocities` and the `coordinates`, which are places among all entries of these `blocks` of
    the tree's state."""

    gears: tuple[Segment, ...]
    velocities: tuple[np.ndarray, ...]
    blocks: tuple[int, ...]
    coordinates: tuple[np.ndarray, ...]


def gear_rows(
    flat: FlatSystem,
    plan: Plan,
    recognised: Recognised,
    rate_slots: np.ndarray,
    rows: np.ndarray,
    beside: Sequence[str],
    kept: tuple[int, ...],
) -> GearRows | None:
    """See `GearRows`; None where there are no gears, or anything else is beside the tree.

    **Arguments:** slots of the tree's rates; constraint `rows` that are not the tree's; paths of the components that
    are `beside` the tree and its springs; blocks that are `kept` in its state.
    """
    if recognised.tree.cut or not rows.size or not all(follows(flat.components[p], (*_KINDS, Ground)) for p in beside):
        return None
    gears = [path for path in beside if follows(flat.components[path], _KINDS)]
    row_of = {path: plan.batches[i].multipliers[m, 0] for path in gears for i, m in [plan.member_of[path]]}
    paths = sorted(gears, key=row_of.__getitem__)
    velocity_of = {int(slot): place for place, slot in enumerate(rate_slots)}
    constraint_of = {plan.junction_of[j.constraint, "p_r"]: j.constraint for j in recognised.joints}
    ends = []
    for path in paths:
        gear = flat.components[path]
        for port, number in gear.ends:
            junction = plan.junction_of[path, list(gear.ports)[port]]
            block, row = plan.state_of[plan.junction_of[constraint_of[junction], "q_r"]]
            ends.append((velocity_of[int(plan.slots[junction][number])], kept.index(block), row, number))
    velocities, places, elements, numbers = np.array(ends, dtype=int).T
    blocks = tuple(np.unique(places).tolist())
    sizes = np.array([plan.blocks[kept[b]].space.dim for b in blocks])
    counts = sizes * np.array([len(plan.blocks[kept[b]].junctions) for b in blocks])
    at = np.searchsorted(blocks, places)
    coordinates = (np.cumsum(counts) - counts)[at] + elements * sizes[at] + numbers
    parts = segments([plan.member_of[path] for path in paths])
    ends_of = [len(flat.components[path].ends) for path in paths]
    shared = lambda entries: _by_segment(entries, parts, ends_of)  # noqa: E731
    return GearRows(parts, shared(velocities), blocks, shared(coordinates))


def _by_segment(entries: np.ndarray, parts: tuple[Segment, ...], counts: list[int]) -> tuple[np.ndarray, ...]:
    """Entries of all ends `(ends,)`, gear by gear, as `(ends, members)` per segment; `counts`: ends of each gear."""
    by_gear = np.split(entries, np.cumsum(counts)[:-1])
    firsts = np.cumsum([0, *(len(part.members) for part in parts)])
    return tuple(np.stack(by_gear[a:b], axis=1) for a, b in zip(firsts[:-1], firsts[1:], strict=True))
