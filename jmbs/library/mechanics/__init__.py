"""Rigid multibody mechanics: components, composites, and the mechanism built from them."""

from jmbs.library.mechanics.assemble import build
from jmbs.library.mechanics.body import (
    Gravity,
    KineticEnergy,
    LiePoisson,
    PotentialKineticCoupling,
    momentum_quantity,
    rigid_body,
)
from jmbs.library.mechanics.checks import is_number, nearest, show
from jmbs.library.mechanics.distributed_force import (
    CentreOfForce,
    ForceDistribution,
    central_wrench,
    centre_of_force,
    field_forces,
    field_on,
    gravitational_forces,
    inertial_forces,
    resultant_force,
    resultant_torque,
)
from jmbs.library.mechanics.elements import (
    LineOfAction,
    LineSpring,
    PointLoad,
    ThermalStore,
    UserForce,
    body_wrench,
    spring_damper,
)
from jmbs.library.mechanics.friction import (
    Friction,
    TemperatureDependentFriction,
    ViscousFriction,
    viscous_friction,
)
from jmbs.library.mechanics.gear import Gear
from jmbs.library.mechanics.joint import (
    Ground,
    HolonomicConstraint,
    JointPotential,
    NoPotential,
    Offset,
    closure_gap,
    joint,
    joint_closure,
    joint_residual,
    relative_momentum,
)
from jmbs.library.mechanics.mass_distribution import MassDistribution, density_over, point_masses
from jmbs.library.mechanics.mechanism import STANDARD_GRAVITY, Mechanism
from jmbs.library.mechanics.parameters import Parameter, parameter_table
from jmbs.library.mechanics.parts import motion_of, velocity_box
from jmbs.library.mechanics.placement import Placement, make_placement, place_along_joints
from jmbs.library.mechanics.point_velocity import PointVelocity
from jmbs.library.mechanics.reduced_body import (
    Inclusion,
    ReducedCoupling,
    ReducedKineticEnergy,
    ReducedLiePoisson,
    reduced_body,
    reduced_momentum,
)
from jmbs.library.mechanics.specification import JOINT_DIMENSIONS, JointSpec, SimulationSpec, TableSpec
from jmbs.library.mechanics.two_bodies import two_body_system
from jmbs.library.mechanics.velocity_constraints import (
    Contact,
    NoSlide,
    NoSlip,
    Perpendicular,
    Roller,
    SurfaceMotion,
    rolling,
)

__all__ = [
    "JOINT_DIMENSIONS",
    "JointSpec",
    "STANDARD_GRAVITY",
    "CentreOfForce",
    "Contact",
    "ForceDistribution",
    "Friction",
    "Gear",
    "Gravity",
    "Ground",
    "HolonomicConstraint",
    "Inclusion",
    "JointPotential",
    "KineticEnergy",
    "LiePoisson",
    "LineOfAction",
    "LineSpring",
    "MassDistribution",
    "Mechanism",
    "NoPotential",
    "NoSlide",
    "NoSlip",
    "Offset",
    "Parameter",
    "Perpendicular",
    "Placement",
    "PointLoad",
    "PointVelocity",
    "PotentialKineticCoupling",
    "ReducedCoupling",
    "ReducedKineticEnergy",
    "ReducedLiePoisson",
    "Roller",
    "SimulationSpec",
    "SurfaceMotion",
    "TableSpec",
    "TemperatureDependentFriction",
    "ThermalStore",
    "UserForce",
    "ViscousFriction",
    "body_wrench",
    "build",
    "central_wrench",
    "centre_of_force",
    "closure_gap",
    "density_over",
    "field_forces",
    "field_on",
    "gravitational_forces",
    "inertial_forces",
    "is_number",
    "joint",
    "joint_closure",
    "joint_residual",
    "make_placement",
    "momentum_quantity",
    "motion_of",
    "nearest",
    "parameter_table",
    "place_along_joints",
    "point_masses",
    "reduced_body",
    "reduced_momentum",
    "relative_momentum",
    "resultant_force",
    "resultant_torque",
    "rigid_body",
    "rolling",
    "show",
    "spring_damper",
    "two_body_system",
    "velocity_box",
    "viscous_friction",
]
