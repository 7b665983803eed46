"""Constraints on trees of rigid bodies: rows on velocities, and the dynamics that keeps them."""

from jmbs.constraints.bound_dynamics import BindingRows, bound_dynamics, bound_impulse
from jmbs.constraints.constrained_dynamics import ConstrainedTree, LoopInputs, constrained_dynamics, loop_impulse
from jmbs.constraints.loop_joints import (
    LoopJoints,
    Loops,
    Residuals,
    Split,
    gaps,
    loop_joints_of,
    rates_and_rows,
    residuals,
    split,
    split_pose,
)
from jmbs.constraints.row_blocks import block_solver, by_colour, in_blocks
from jmbs.constraints.row_plan import RowPlan

__all__ = [
    "BindingRows",
    "bound_dynamics",
    "bound_impulse",
    "ConstrainedTree",
    "LoopJoints",
    "LoopInputs",
    "Loops",
    "Residuals",
    "RowPlan",
    "Split",
    "block_solver",
    "by_colour",
    "constrained_dynamics",
    "loop_impulse",
    "loop_joints_of",
    "gaps",
    "in_blocks",
    "rates_and_rows",
    "residuals",
    "split",
    "split_pose",
]
