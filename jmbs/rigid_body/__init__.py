"""Algorithms of rigid bodies in trees: topology and body parameters in, motions and forces out; O(n) recursions."""

from jmbs.rigid_body.adjoint import Wrenches, crossed, difference, linearisation, power_gradient, twists_of, wrench_sum
from jmbs.rigid_body.articulated import Factor, articulated_factor, articulated_solve
from jmbs.rigid_body.batches import Changes, Inputs
from jmbs.rigid_body.body_motions import body_motions, motion_of
from jmbs.rigid_body.dynamics import forward_dynamics, inverse_dynamics, mass_solver, rates_and_factor
from jmbs.rigid_body.implicit import Equations, solution
from jmbs.rigid_body.joints import (
    Column,
    Frame,
    FreeBodies,
    GeneralJoints,
    Joints,
    OneParameterJoints,
    basis,
    entries_of,
    frame_of,
    poses_of,
    sum_of,
)
from jmbs.rigid_body.kinematics import TreeMotion, joint_rates, kinematics
from jmbs.rigid_body.mass_matrix import (
    about_origin,
    body_wrenches,
    generalised_forces,
    less_loads,
    mass_matrix,
    turned_inertias,
    wrenches_of,
)
from jmbs.rigid_body.paths import Paths, select
from jmbs.rigid_body.tangents import (
    MotionChange,
    ResidualChange,
    crossed_twists,
    forces_change,
    momenta_change,
    motion_change,
    total_twist,
    twists_about_origin,
    velocity_change,
)
from jmbs.rigid_body.topology import JointGroup, Links, Tree

__all__ = [
    "Changes",
    "Column",
    "Equations",
    "Factor",
    "Frame",
    "FreeBodies",
    "GeneralJoints",
    "Inputs",
    "JointGroup",
    "Joints",
    "Links",
    "MotionChange",
    "crossed_twists",
    "forces_change",
    "momenta_change",
    "motion_change",
    "total_twist",
    "twists_about_origin",
    "velocity_change",
    "OneParameterJoints",
    "Paths",
    "ResidualChange",
    "Tree",
    "TreeMotion",
    "Wrenches",
    "about_origin",
    "articulated_factor",
    "articulated_solve",
    "basis",
    "body_motions",
    "body_wrenches",
    "crossed",
    "difference",
    "entries_of",
    "forward_dynamics",
    "frame_of",
    "generalised_forces",
    "inverse_dynamics",
    "joint_rates",
    "kinematics",
    "less_loads",
    "linearisation",
    "mass_matrix",
    "mass_solver",
    "motion_of",
    "poses_of",
    "power_gradient",
    "rates_and_factor",
    "select",
    "solution",
    "sum_of",
    "turned_inertias",
    "twists_of",
    "wrench_sum",
    "wrenches_of",
]
