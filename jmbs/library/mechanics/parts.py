"""The components of single parts of a mechanism, from their specifications."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jmbs.ephs import Closure, System, pattern
from jmbs.library.mechanics.body import relative_momentum, rigid_body
from jmbs.library.mechanics.body_constraint import BodyConstraint, body_constraint_closure
from jmbs.library.mechanics.checks import is_law, shape_made
from jmbs.library.mechanics.composition import make_drive
from jmbs.library.mechanics.elements import LineOfAction, spring_damper
from jmbs.library.mechanics.friction import (
    Friction,
    JointFriction,
    LawFriction,
    TemperatureDependentFriction,
    ViscousFriction,
    viscous_friction,
)
from jmbs.library.mechanics.gear import Gear
from jmbs.library.mechanics.joint import JointLaw, JointPotential, NoPotential, Offset, joint
from jmbs.library.mechanics.joint_relation import JointRelation
from jmbs.library.mechanics.joint_types import JOINT_TYPES
from jmbs.library.mechanics.prescribed_motion import MOTION, PrescribedMotion
from jmbs.library.mechanics.reduced_body import reduced_body
from jmbs.library.mechanics.relation_specification import RelationSpec
from jmbs.library.mechanics.rotor import RotorInertia, RotorRate
from jmbs.library.mechanics.velocity_constraints import SurfaceMotion
from jmbs.lie import SE3, AbstractGroup, SO3xR3, rotation_from_z

if TYPE_CHECKING:
    from jmbs.library.mechanics.body_constraint_specification import BodyConstraintSpec
    from jmbs.library.mechanics.constraint_specification import ConstraintSpec
    from jmbs.library.mechanics.gear_specification import GearSpec
    from jmbs.library.mechanics.mechanism import Mechanism
    from jmbs.library.mechanics.specification import BodySpec, JointSpec, SpringDamperSpec
    from jmbs.library.mechanics.surface_specification import SurfaceSpec

GROUPS: dict[str, AbstractGroup] = {"SE3": SE3, "SO3xR3": SO3xR3}
MOTION_PORTS = {"p_joint": "p_r", "p_drive": "p_m"}
"""Junctions of a joint at which its prescribed motion stands."""


def body_system(mechanism: Mechanism, spec: BodySpec) -> System:
    """A rigid body, or a particle or rod with its momentum reduced to the motions that have inertia."""
    mass, gravity, group = array(spec.mass), array(mechanism.gravity), GROUPS[spec.group]
    match spec.kind:
        case "rigid":
            return rigid_body(mass, array(spec.inertia), gravity, group, spec.potential)
        case "particle":
            return reduced_body(mass, None, jnp.eye(6)[:, 3:], gravity, group, spec.potential)
        case _:
            across = rotation_from_z(array(spec.axis))[:, :2]
            iota = jnp.eye(6)[:, 1:].at[:3, :2].set(across)
            return reduced_body(mass, array(spec.moment), iota, gravity, group, spec.potential)


def velocity_box(spec: BodySpec) -> str:
    """The box of a body whose port `p` has the whole velocity (6,) as its effort."""
    return "ke" if spec.kind == "rigid" else "in"


def motion_of(spec: JointSpec) -> Any:
    """The joint's configuration group and map into SE(3)."""
    return spec.motion if spec.motion is not None else JOINT_TYPES[spec.type].motion(spec.geometry, array)


def dry_groups(spec: JointSpec) -> tuple[tuple[int, ...], ...]:
    """Entries of `v` whose magnitudes dry friction acts on."""
    whole = None if spec.motion is not None else JOINT_TYPES[spec.type].whole
    return tuple((i,) for i in range(spec.dimension)) if whole is None else whole.dry


def joint_system(mechanism: Mechanism, spec: JointSpec) -> System:
    """A joint with its offsets, spring, friction and rotor."""
    motion = motion_of(spec)
    offsets = []
    for body, frame in ((spec.parent, spec.parent_frame), (spec.child, spec.child_frame)):
        group = SE3 if body == "ground" else GROUPS[mechanism.bodies[body].group]
        offsets.append(Offset(array(frame.position), array(frame.quaternion), group))
    heats = spec.friction is None or spec.friction.heats == "environment"
    spring, friction = joint_potential(motion, spec), joint_friction(motion, spec)
    more = {} if spec.prescribed is None else {MOTION: (PrescribedMotion(spec.dimension), MOTION_PORTS)}
    return joint(motion, offsets[0], offsets[1], spring, friction, heats, joint_rotor(motion, spec), more)


def joint_rotor(motion, spec: JointSpec) -> tuple[RotorInertia, RotorRate] | None:
    """The inertia of the joint's rotors and what turns them, None where there is none."""
    if spec.armature is None:
        return None
    return RotorInertia(array(spec.armature), spec.with_rotor), RotorRate(spec.with_rotor, motion.group)


def joint_potential(motion, spec: JointSpec) -> JointPotential | JointLaw | NoPotential:
    """The spring on a joint's motion, or what holds its state where there is none."""
    group = motion.group
    if spec.spring is None:
        return NoPotential(group)
    if is_law(spec.spring):
        law: Any = spec.spring
        shape_made(f"joints/{spec.name}/spring", law.energy, group.to_coordinates(group.identity()).shape)
        return JointLaw(law, group)
    identity = group.to_coordinates(group.identity())
    rest = identity if spec.spring.rest is None else array(spec.spring.rest)
    return JointPotential(array(spec.spring.stiffness), rest, group)


def joint_friction(motion, spec: JointSpec) -> JointFriction:
    """The friction on a joint's velocity, of no size where there is none."""
    if spec.friction is not None and spec.friction.law is not None:
        return LawFriction(spec.friction.law, relative_momentum(motion.group))
    friction, f = _isothermal_friction(motion, spec), spec.friction
    if f is None or f.temperature_coefficient == 0:
        return friction
    return TemperatureDependentFriction(friction, array(f.temperature_coefficient), array(f.reference_temperature))


def _isothermal_friction(motion, spec: JointSpec) -> Friction | ViscousFriction:
    k = motion.group.dim
    momentum = relative_momentum(motion.group)
    if spec.friction is None:
        return viscous_friction(array(np.zeros(k)), momentum)
    f = spec.friction
    if not np.any(f.static):
        return viscous_friction(array(f.viscous), momentum)
    return Friction(
        array(f.viscous),
        array(f.coulomb),
        array(f.static),
        array(f.stribeck_velocity),
        array(f.regularisation_velocity),
        momentum,
        dry_groups(spec),
    )


def element_system(mechanism: Mechanism, spec: SpringDamperSpec) -> System:
    """A spring and damper between two points."""
    a, b = (None if body == "ground" else GROUPS[mechanism.bodies[body].group] for body in (spec.a, spec.b))
    line = LineOfAction(array(spec.point_a), array(spec.point_b), (a, b))
    heats = spec.heats == "environment"
    stiffness = spec.stiffness if is_law(spec.stiffness) else array(spec.stiffness)
    return spring_damper(line, stiffness, array(spec.length), array(spec.damping), heats)


def constraint_system(mechanism: Mechanism, spec: ConstraintSpec) -> Any:
    """A constraint on the velocity of a body: a component, or for rolling a system."""
    return spec.kind.system(spec.values, GROUPS[mechanism.bodies[spec.body].group], array)


def body_constraint_system(mechanism: Mechanism, spec: BodyConstraintSpec) -> Any:
    """A constraint between two bodies: a component, or for several laws a system of one box each."""
    first = GROUPS[mechanism.bodies[spec.body].group]
    second = None if spec.other == "ground" else GROUPS[mechanism.bodies[spec.other].group]
    boxes = {
        box: BodyConstraint(jax.tree.map(_own_array, law), names, (first, second))
        for box, (law, names) in spec.laws.items()
    }
    if list(boxes) == [""]:
        return boxes[""]
    ports = next(iter(boxes.values())).ports
    junctions = {port: " ".join(f"{box}.{port}" for box in boxes) for port in ports}
    outer = {port if kind.power else f"{port}?": port for port, kind in ports.items()}
    return System(pattern({name: box.ports for name, box in boxes.items()}, junctions, outer), boxes)


def _own_array(leaf: Any) -> Any:
    """Numbers of jmbs's own laws, which are numpy's, as arrays of JAX's default float; what users bring as it is."""
    return array(leaf) if isinstance(leaf, np.ndarray) else leaf


def body_constraint_closures(spec: BodyConstraintSpec) -> tuple[Closure, ...]:
    """The position-level constraints of the laws that are gaps."""
    bodies = tuple(body for body in (spec.body, spec.other) if body != "ground")
    gaps = [path for box, path in spec.boxes.items() if hasattr(spec.laws[box][0], "gap")]
    return tuple(body_constraint_closure(spec.name, path, bodies) for path in gaps)


def gear_system(mechanism: Mechanism, spec: GearSpec | RelationSpec) -> Gear | JointRelation:
    """A gear between joints."""
    if isinstance(spec, RelationSpec):
        sizes = tuple(len(own) for own in spec.joints.values())
        return JointRelation(array(spec.coefficients), array(spec.offset), sizes)
    (_, driver, first), (_, joint, second) = spec.ends
    sizes = mechanism.joints[driver].dimension, mechanism.joints[joint].dimension
    return Gear(array(spec.ratio), array(spec.offset), (first, second), sizes)


def surface_motion(path: str, surface: SurfaceSpec) -> SurfaceMotion:
    """The drive of a moving surface; `path` of its specification, for messages."""
    rates = {"angular_velocity": surface.angular_velocity, "velocity": surface.velocity}
    drives = {
        key: make_drive(f"{path}/{key}", "effort", np.zeros(3) if value is None else value, 3)
        for key, value in rates.items()
    }
    return SurfaceMotion(**drives)


def array(value) -> Array:
    """A number or array of a specification, as an array of JAX's default float."""
    return jax.device_put(np.asarray(value, dtype=float))
