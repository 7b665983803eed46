"""Rigid multibody mechanics: components, composites, and the mechanism built from them."""

from jmbs.library.mechanics.assemble import build, motion_of
from jmbs.library.mechanics.body import (
    Gravity,
    KineticEnergy,
    LiePoisson,
    PotentialKineticCoupling,
    momentum_quantity,
    rigid_body,
)
from jmbs.library.mechanics.checks import is_number, nearest, show
from jmbs.library.mechanics.elements import LineOfAction, LineSpring, PointLoad, ThermalStore, UserForce, spring_damper
from jmbs.library.mechanics.friction import Friction, ViscousFriction, viscous_friction
from jmbs.library.mechanics.joint import (
    Ground,
    HolonomicConstraint,
    JointPotential,
    NoPotential,
    Offset,
    closure_gap,
    joint,
    joint_closure,
    relative_momentum,
)
from jmbs.library.mechanics.mechanism import STANDARD_GRAVITY, Mechanism
from jmbs.library.mechanics.parameters import Parameter, parameter_table
from jmbs.library.mechanics.placement import Placement, make_placement, place_along_joints
from jmbs.library.mechanics.specification import JOINT_DIMENSIONS, SimulationSpec, TableSpec
from jmbs.library.mechanics.two_bodies import two_body_system

__all__ = [
    "JOINT_DIMENSIONS",
    "STANDARD_GRAVITY",
    "Friction",
    "Gravity",
    "Ground",
    "HolonomicConstraint",
    "JointPotential",
    "KineticEnergy",
    "LiePoisson",
    "LineOfAction",
    "LineSpring",
    "Mechanism",
    "NoPotential",
    "Offset",
    "Parameter",
    "Placement",
    "PointLoad",
    "PotentialKineticCoupling",
    "SimulationSpec",
    "TableSpec",
    "ThermalStore",
    "UserForce",
    "ViscousFriction",
    "build",
    "closure_gap",
    "is_number",
    "joint",
    "joint_closure",
    "make_placement",
    "momentum_quantity",
    "motion_of",
    "nearest",
    "parameter_table",
    "place_along_joints",
    "relative_momentum",
    "rigid_body",
    "show",
    "spring_damper",
    "two_body_system",
    "viscous_friction",
]
