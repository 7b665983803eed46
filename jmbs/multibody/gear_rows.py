"""Gears between the joints of an open tree, where they are all that is beside it: their rows and coordinates."""

from __future__ import annotations

import dataclasses

import numpy as np

from jmbs.by_value import by_value
from jmbs.ephs import FlatSystem, Plan, follows
from jmbs.library.mechanics import Gear, Ground
from jmbs.multibody.recognise import Recognised
from jmbs.multibody.segments import Segment, segments


@by_value
@dataclasses.dataclass(frozen=True, eq=False)
class GearRows:
    """**Arguments:** the `gears` in the order of their rows; of driver and joint, `(n, 2)`, the `velocities` and the
    `coordinates`, which are places among all entries of these `blocks` of the tree's state."""

    gears: tuple[Segment, ...]
    velocities: np.ndarray
    blocks: tuple[int, ...]
    coordinates: np.ndarray


def gear_rows(
    flat: FlatSystem,
    plan: Plan,
    recognised: Recognised,
    rate_slots: np.ndarray,
    rows: np.ndarray,
    others: tuple[int, ...],
    kept: tuple[int, ...],
) -> GearRows | None:
    """See `GearRows`; None where there are no gears, or anything else is beside the tree.

    **Arguments:** slots of the tree's rates; constraint `rows` that are not the tree's; batches `others` than the
    tree's; blocks that are `kept` in its state.
    """
    rest = [p for i in others for p in plan.batches[i].paths if p not in recognised.known]
    if recognised.tree.cut or not rows.size or not all(follows(flat.components[p], (Gear, Ground)) for p in rest):
        return None
    gears = [path for path in rest if follows(flat.components[path], Gear)]
    row_of = {path: plan.batches[i].multipliers[m, 0] for path in gears for i, m in [plan.member_of[path]]}
    paths = sorted(gears, key=row_of.__getitem__)
    velocity_of = {int(slot): place for place, slot in enumerate(rate_slots)}
    constraint_of = {plan.junction_of[j.constraint, "p_r"]: j.constraint for j in recognised.joints}
    ends = []
    for path in paths:
        for port, number in zip(("p_driver", "p_joint"), flat.components[path].coordinates, strict=True):
            junction = plan.junction_of[path, port]
            block, row = plan.state_of[plan.junction_of[constraint_of[junction], "q_r"]]
            ends.append((velocity_of[int(plan.slots[junction][number])], kept.index(block), row, number))
    velocities, places, elements, numbers = np.array(ends, dtype=int).T
    blocks = tuple(np.unique(places).tolist())
    sizes = np.array([plan.blocks[kept[b]].space.dim for b in blocks])
    counts = sizes * np.array([len(plan.blocks[kept[b]].junctions) for b in blocks])
    at = np.searchsorted(blocks, places)
    coordinates = (np.cumsum(counts) - counts)[at] + elements * sizes[at] + numbers
    parts = segments([plan.member_of[path] for path in paths])
    return GearRows(parts, velocities.reshape(-1, 2), blocks, coordinates.reshape(-1, 2))
