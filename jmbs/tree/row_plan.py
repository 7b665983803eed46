"""How the condensed rows of constraints on a tree are coupled, planned once."""

from __future__ import annotations

import numpy as np

from jmbs.constraints import RowPlan
from jmbs.ephs import Plan
from jmbs.graphs import blocks_of
from jmbs.rigid_body import Tree
from jmbs.tree.loop_groups import LoopGroup


def row_plan(
    plan: Plan, tree: Tree, loops: tuple[LoopGroup, ...], body_slots, rate_slots, jointed, general_rows, dense: bool
) -> RowPlan:
    """**Arguments:** slots of efforts of bodies and of velocities, and `general_rows`, in the reference numbering;
    `jointed`: which velocities are joints'; `dense`: something else than the tree couples rows."""
    seen = plan.seen_by_rows[general_rows]
    general = seen[:, body_slots].any(axis=2) @ tree.moves
    general[:, jointed] |= seen[:, rate_slots[jointed]]
    moved = [np.any(tree.moving(group.bodies), axis=1) for group in loops]
    for group, moving in zip(loops, moved, strict=True):
        general |= seen[:, group.rates].any(axis=2) @ moving
    by_row = [np.repeat(moving, 6 - group.rates.shape[1], axis=0) for group, moving in zip(loops, moved, strict=True)]
    root = tree.forest.root[tree.body_of]
    touched = np.concatenate([general, *by_row]) @ (root[:, None] == np.arange(len(tree.bodies)))
    pattern = touched @ touched.T
    if dense:
        return RowPlan(general, np.ones_like(pattern), np.arange(len(pattern))[None])
    return RowPlan(general, pattern, blocks_of(pattern))
