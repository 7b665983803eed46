"""From a mechanism's description to its interconnection pattern: one box per body, joint, element and store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from jmbs.ephs import ConstantFlow, System, TableFlow, pattern
from jmbs.library.mechanics.body import rigid_body
from jmbs.library.mechanics.elements import LineOfAction, PointLoad, ThermalStore, UserForce, spring_damper
from jmbs.library.mechanics.friction import Friction, ViscousFriction, viscous_friction
from jmbs.library.mechanics.joint import (
    Ground,
    JointPotential,
    NoPotential,
    Offset,
    joint,
    joint_closure,
    relative_momentum,
)
from jmbs.library.mechanics.values import TableSpec
from jmbs.lie import (
    SE3,
    AbstractGroup,
    Cylindrical,
    Fixed,
    Free,
    Planar,
    Prismatic,
    Revolute,
    Screw,
    SO3xR3,
    Spherical,
    Universal,
)

if TYPE_CHECKING:
    from jmbs.library.mechanics.mechanism import Mechanism
    from jmbs.library.mechanics.specification import JointSpec

GROUPS: dict[str, AbstractGroup] = {"SE3": SE3, "SO3xR3": SO3xR3}
MOTIONS = {
    "fixed": lambda spec: Fixed(),
    "revolute": lambda spec: Revolute(spec.axis),
    "prismatic": lambda spec: Prismatic(spec.axis),
    "screw": lambda spec: Screw(spec.axis, spec.pitch),
    "cylindrical": lambda spec: Cylindrical(spec.axis),
    "planar": lambda spec: Planar(spec.axis),
    "spherical": lambda spec: Spherical(),
    "universal": lambda spec: Universal(spec.axis, spec.axis2),
    "free": lambda spec: Free(),
}
DRY_GROUPS = {
    "spherical": ((0, 1, 2),),
    "planar": ((0, 1), (2,)),
    "free": ((3, 4, 5), (0, 1, 2)),
}
"""Coordinates of `v` whose magnitudes dry friction acts on: translational before angular."""
ACTUATION = "actuation"


def build(mechanism: Mechanism) -> System:
    """The mechanism as a system: boxes named as its parts, drives `<joint>/actuation` and `<load>`, joint closures.

    Only boxes and junctions that the mechanism needs are there: `ground` when something is fixed to it.
    """
    boxes: dict[str, Any] = {}
    wiring = _Wiring(mechanism)
    for name, body in mechanism.bodies.items():
        boxes[name] = rigid_body(_array(body.mass), _array(body.inertia), _array(mechanism.gravity), GROUPS[body.group])
        wiring.body(name)
    for name, store in mechanism.stores.items():
        boxes[name] = ThermalStore(_array(store.capacity), _array(store.temperature))
        wiring.connect(f"{name}.s", f"{name}.s")
    closures = []
    for name, spec in mechanism.joints.items():
        boxes[name] = _joint(mechanism, spec)
        wiring.joint(spec)
        parent = None if spec.parent == "ground" else spec.parent
        closures.append(joint_closure(name, parent, spec.child))
    for name, spec in mechanism.elements.items():
        boxes[name] = _element(mechanism, spec)
        wiring.element(spec)
    drives = {**_actuations(mechanism), **_loads(mechanism)}
    for name, force in mechanism.forces.items():
        drives[name] = UserForce(force.wrench, force.body, GROUPS[mechanism.bodies[force.body].group])
        wiring.outer[name] = f"{force.body}.p"
    for name, load in mechanism.loads.items():
        wiring.outer[name] = f"{load.body}.p"
    if wiring.uses_ground:
        boxes["ground"] = Ground()
    interfaces = {name: box.ports for name, box in boxes.items()}
    return System(pattern(interfaces, wiring.junctions, wiring.outer), boxes, drives, tuple(closures))


class _Wiring:
    """Junctions of the mechanism's pattern as they grow: one per momentum, pose and store."""

    def __init__(self, mechanism: Mechanism):
        self.mechanism = mechanism
        self.junctions: dict[str, list[str]] = {}
        self.outer: dict[str, str] = {}
        self.uses_ground = False

    def connect(self, junction: str, port: str) -> None:
        self.junctions.setdefault(junction, []).append(port)

    def body(self, name: str) -> None:
        self.connect(f"{name}.p", f"{name}.p")
        self.connect(f"{name}.q", f"{name}.q")

    def attach(self, body: str, power: str) -> None:
        """Joins a momentum port to a body's, or to the ground's."""
        if body == "ground" and not self.uses_ground:
            self.uses_ground = True
            self.connect("ground.p", "ground.p")
        self.connect(f"{body}.p", power)

    def joint(self, spec: JointSpec) -> None:
        for number, body in (("1", spec.parent), ("2", spec.child)):
            self.attach(body, f"{spec.name}.p{number}")
            if body != "ground" and self.mechanism.bodies[body].group == "SO3xR3":
                self.connect(f"{body}.q", f"{spec.name}.q{number}")
        self.connect(f"{spec.name}.p_r", f"{spec.name}.p_r")
        self.outer[f"{spec.name}/{ACTUATION}"] = f"{spec.name}.p_r"
        if spec.friction is not None and spec.friction.heats != "environment":
            self.connect(f"{spec.friction.heats}.s", f"{spec.name}.s")

    def element(self, spec) -> None:
        for end, body in (("a", spec.a), ("b", spec.b)):
            if body != "ground":
                self.attach(body, f"{spec.name}.p_{end}")
                self.connect(f"{body}.q", f"{spec.name}.q_{end}")
        if spec.heats != "environment":
            self.connect(f"{spec.heats}.s", f"{spec.name}.s")


def motion_of(spec: JointSpec) -> Any:
    """The joint's configuration group and map into SE(3)."""
    return spec.motion if spec.motion is not None else MOTIONS[spec.type](spec)


def _joint(mechanism: Mechanism, spec: JointSpec) -> System:
    motion = motion_of(spec)
    offsets = []
    for body, frame in ((spec.parent, spec.parent_frame), (spec.child, spec.child_frame)):
        group = SE3 if body == "ground" else GROUPS[mechanism.bodies[body].group]
        offsets.append(Offset(_array(frame.position), _array(frame.quaternion), group))
    heats = spec.friction is None or spec.friction.heats == "environment"
    return joint(motion, offsets[0], offsets[1], _potential(motion, spec), _friction(motion, spec), heats)


def _potential(motion, spec: JointSpec) -> JointPotential | NoPotential:
    group = motion.group
    if spec.spring is None:
        return NoPotential(group)
    identity = group.to_coordinates(group.identity())
    rest = identity if spec.spring.rest is None else _array(spec.spring.rest)
    return JointPotential(_array(spec.spring.stiffness), rest, group)


def _friction(motion, spec: JointSpec) -> Friction | ViscousFriction:
    k = motion.group.dim
    momentum = relative_momentum(motion.group)
    groups = DRY_GROUPS.get(spec.type, tuple((i,) for i in range(k))) if spec.motion is None else ()
    if spec.motion is not None:
        groups = tuple((i,) for i in range(k))
    if spec.friction is None:
        return viscous_friction(jnp.zeros(k), momentum)
    f = spec.friction
    if not np.any(f.static):
        return viscous_friction(_array(f.viscous), momentum)
    return Friction(
        _array(f.viscous),
        _array(f.coulomb),
        _array(f.static),
        _array(f.stribeck_velocity),
        _array(f.regularisation_velocity),
        momentum,
        groups,
    )


def _element(mechanism: Mechanism, spec) -> System:
    a, b = (None if body == "ground" else GROUPS[mechanism.bodies[body].group] for body in (spec.a, spec.b))
    line = LineOfAction(_array(spec.point_a), _array(spec.point_b), (a, b))
    heats = spec.heats == "environment"
    return spring_damper(line, _array(spec.stiffness), _array(spec.length), _array(spec.damping), heats)


def _actuations(mechanism: Mechanism) -> dict[str, Any]:
    drives = {}
    for name, spec in mechanism.joints.items():
        if spec.actuation is not None:
            drives[f"{name}/{ACTUATION}"] = _drive(spec.actuation)
    return drives


def _loads(mechanism: Mechanism) -> dict[str, Any]:
    return {
        name: PointLoad(
            _array(load.point),
            _drive(load.force),
            _drive(load.torque),
            load.body,
            load.frame,
            GROUPS[mechanism.bodies[load.body].group],
        )
        for name, load in mechanism.loads.items()
    }


def _drive(value) -> Any:
    if isinstance(value, TableSpec):
        return TableFlow(_array(value.times), _array(value.values))
    return ConstantFlow(_array(value))


def _array(value) -> Any:
    return jnp.asarray(np.asarray(value, dtype=float))
