"""Gears between joints of the tree, where they are all that constrains it beside loop joints: their rows and
coordinates."""

from __future__ import annotations

import dataclasses

import numpy as np

from jmbs.by_value import by_value
from jmbs.ephs import FlatSystem, Plan, follows
from jmbs.library.mechanics import Gear, JointRelation
from jmbs.tree.recognise import Recognised
from jmbs.tree.segments import Segment, segments

GEARS = (Gear, JointRelation)


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
    kept: tuple[int, ...],
) -> GearRows | None:
    """See `GearRows`; None where there are no gears, or anything else but loop joints constrains the tree.

    **Arguments:** slots of the tree's rates; constraint `rows` of neither the tree nor loop joints; blocks that are
    `kept` in its state.
    """
    gears = [path for path in plan.member_of if follows(flat.components[path], GEARS)]
    own = {int(plan.batches[i].multipliers[m, 0]) for i, m in map(plan.member_of.__getitem__, gears)}
    if not rows.size or own != set(rows.tolist()):
        return None
    # Rows that bind velocities of the tree to nothing else.
    if plan.seen_by_rows[np.ix_(rows, np.setdiff1d(np.arange(plan.seen_by_rows.shape[1]), rate_slots))].any():
        return None
    row_of = {path: plan.batches[i].multipliers[m, 0] for path in gears for i, m in [plan.member_of[path]]}
    paths = sorted(gears, key=row_of.__getitem__)
    velocity_of = {int(slot): place for place, slot in enumerate(rate_slots)}
    constraint_of = {plan.junction_of[j.constraint, "p_r"]: j.constraint for j in recognised.joints}
    junctions = [plan.junction_of[path, port] for path in paths for port in flat.components[path].ports]
    if not all(j in constraint_of and velocity_of.keys() >= set(plan.slots[j].tolist()) for j in junctions):
        return None
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
