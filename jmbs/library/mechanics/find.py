"""The mechanical parts of a flattened system: bodies, joints, elements, constraints, stores, by the path of their box.

They are found by their components and by where these meet, so it does not matter who built the pattern or how deep in
it they stand. A part that stands alone in its pattern is called by its component (`hc`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from jmbs.by_value import by_value
from jmbs.ephs import Closure, FlatSystem, Junctions
from jmbs.library.mechanics.body import BodyPotential, Gravity, KineticEnergy, PotentialKineticCoupling
from jmbs.library.mechanics.body_constraint import BodyConstraint
from jmbs.library.mechanics.elements import LineOfAction, ThermalStore
from jmbs.library.mechanics.gear import Gear, gear_closure_between
from jmbs.library.mechanics.joint import Ground, HolonomicConstraint, Offset, joint_closure_between
from jmbs.library.mechanics.joint_relation import JointRelation
from jmbs.library.mechanics.prescribed_motion import PrescribedMotion
from jmbs.library.mechanics.reduced_body import Inclusion, ReducedCoupling, ReducedKineticEnergy
from jmbs.library.mechanics.rotor import RotorRate
from jmbs.library.mechanics.velocity_constraints import Contact, NoSlide, NoSlip, Perpendicular
from jmbs.library.thermal import Conduction
from jmbs.lie import AbstractGroup

GROUND = "ground"
End = TypeVar("End")


@dataclasses.dataclass(frozen=True)
class FoundBody:
    """A body. Junctions: of its `pose` and stored `momentum`, and where forces act on it, `velocity`, whose effort is
    the whole velocity (6,). Paths: of its `kinetic` energy, of its `weight`, None where it has another potential, and
    of the `inclusion` of a particle or rod, whose momentum has fewer entries. `pose_port`: path and port of a component
    that has its pose; `group` of the pose."""

    name: str
    kinetic: str
    pose_port: tuple[str, str]
    pose: str
    momentum: str
    velocity: str
    group: AbstractGroup
    weight: str | None
    inclusion: str | None


class JointCoordinates(NamedTuple):
    """Names and units of the coordinates `q` and velocities `v` of one joint."""

    joint: str
    q_names: tuple[str, ...]
    q_units: tuple[str, ...]
    v_names: tuple[str, ...]
    v_units: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class FoundJoint:
    """A joint from `parent` to `child`, names of bodies or "ground". `type` as configs spell it, or the name of a
    user's class. Paths of its `constraint` and of its `offsets` on the bodies; junctions of its `coordinates`, elements
    of `group`, and of its `rates`; `names` of both. `rotor`: junction of its rotors' momentum, None without any."""

    name: str
    type: str
    parent: str
    child: str
    constraint: str
    offsets: tuple[str, str]
    coordinates: str
    rates: str
    group: AbstractGroup
    names: JointCoordinates
    rotor: str | None = None


@dataclasses.dataclass(frozen=True)
class FoundElement:
    """A spring and damper between points: path of its `line` of action, junction of its `length`."""

    name: str
    line: str
    length: str


@dataclasses.dataclass(frozen=True)
class FoundConstraint:
    """A constraint beyond joints: paths of its `components` in the order of its multipliers, and their names."""

    name: str
    components: tuple[str, ...]
    multipliers: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class FoundGear:
    """A gear by name: the `joints` at its ports, and its `ends`, joint and number of each coordinate that it binds; the
    one in whose unit it is `measured`."""

    name: str
    joints: tuple[str, ...]
    ends: tuple[tuple[str, int], ...]
    measured: tuple[str, int]


@dataclasses.dataclass(frozen=True)
class FoundMotion:
    """The prescribed motion of a `joint`, by the path of its component, which its `drive` has too."""

    drive: str
    joint: str


@by_value
@dataclasses.dataclass(frozen=True, eq=False)
class MechanicalParts:
    """What `find_parts` finds, each in the order in which the boxes were given."""

    bodies: tuple[FoundBody, ...] = ()
    joints: tuple[FoundJoint, ...] = ()
    elements: tuple[FoundElement, ...] = ()
    constraints: tuple[FoundConstraint, ...] = ()
    gears: tuple[FoundGear, ...] = ()
    stores: tuple[str, ...] = ()
    conductions: tuple[str, ...] = ()
    motions: tuple[FoundMotion, ...] = ()

    def below(self, prefix: str) -> MechanicalParts:
        """Bodies and joints of the system whose paths begin with `prefix` (`arm/`), named as in it."""
        short = lambda path: path.removeprefix(prefix)  # noqa: E731
        bodies = [b for b in self.bodies if b.kinetic.startswith(prefix)]
        joints = [j for j in self.joints if j.constraint.startswith(prefix)]
        return MechanicalParts(
            bodies=tuple(
                dataclasses.replace(
                    b,
                    name=short(b.name),
                    kinetic=short(b.kinetic),
                    pose_port=(short(b.pose_port[0]), b.pose_port[1]),
                    inclusion=None if b.inclusion is None else short(b.inclusion),
                )
                for b in bodies
            ),
            joints=tuple(dataclasses.replace(j, name=short(j.name), constraint=short(j.constraint)) for j in joints),
        )


def find_parts(flat: FlatSystem) -> MechanicalParts:
    """The mechanical parts of a flattened system."""
    at = Junctions(flat)
    paths = {path: flat.components[path] for path in flat.order}
    of = lambda kind: [path for path, component in paths.items() if isinstance(component, kind)]  # noqa: E731
    bodies = [b for path in of((KineticEnergy, ReducedKineticEnergy)) if (b := _body(at, path)) is not None]
    at_velocity = {body.velocity: body.name for body in bodies}
    joints = [j for path in of(HolonomicConstraint) if (j := _joint(at, path, at_velocity)) is not None]
    at_rates = {joint.rates: joint for joint in joints}
    gears = [g for path in of((Gear, JointRelation)) if (g := _gear(at, path, at_rates)) is not None]
    driven = {path: at_rates.get(at.name[path, "p_joint"]) for path in of(PrescribedMotion)}
    motions = tuple(FoundMotion(path, joint.name) for path, joint in driven.items() if joint is not None)
    lines = [e for path in of(LineOfAction) if (e := _element(at, path)) is not None]
    return MechanicalParts(
        tuple(bodies),
        tuple(joints),
        tuple(lines),
        (
            *_constraints(paths),
            *(_gear_constraint(gear, joints) for gear in gears),
            *(_motion_constraint(motion, joints) for motion in motions),
        ),
        tuple(gears),
        tuple(of(ThermalStore)),
        tuple(of(Conduction)),
        motions,
    )


def with_joint_closures(flat: FlatSystem, parts: MechanicalParts) -> FlatSystem:
    """The system with the position-level closure of each joint and gear whose pattern came without it."""
    closed = {closure.constraint for closure in flat.closures}
    pose = {body.name: body.pose_port for body in parts.bodies}
    joint = {joint.name: joint for joint in parts.joints}
    added: list[Closure] = [
        joint_closure_between(j.name, (j.constraint, *j.offsets), pose.get(j.parent), pose[j.child])
        for j in parts.joints
        if j.constraint not in closed
    ]
    added += [
        gear_closure_between(gear.name, *((joint[name].constraint, "q_r") for name in gear.joints))
        for gear in parts.gears
        if gear.name not in closed
    ]
    if not added:
        return flat
    return dataclasses.replace(flat, closures=tuple(sorted((*flat.closures, *added), key=lambda c: c.name)))


def _body(at: Junctions, path: str) -> FoundBody | None:
    momentum = at.name[path, "p"]
    coupling = at.instance(momentum, (PotentialKineticCoupling, ReducedCoupling))
    if coupling is None:
        return None
    component = at.flat.components[coupling[0]]
    pose_port = coupling[0], getattr(component, "names", ("q",))[0]
    inclusion = at.instance(momentum, Inclusion)
    velocity = momentum if inclusion is None else at.name[inclusion[0], "p"]
    weight = at.instance(at.name[pose_port], (Gravity, BodyPotential))
    return FoundBody(
        name=path.removesuffix("/ke"),
        kinetic=path,
        pose_port=pose_port,
        pose=at.name[pose_port],
        momentum=momentum,
        velocity=velocity,
        group=at.flat.components[path].group,
        weight=None if weight is None else weight[0],
        inclusion=None if inclusion is None else inclusion[0],
    )


def joint_ends(
    at: Junctions,
    path: str,
    bodies: Mapping[str, End],
    ground: End,
    look: Callable[[str, type], tuple[str, str] | None],
) -> tuple[tuple[str, str], tuple[End, End]] | None:
    """Paths of the two offsets of the joint with this constraint, and what it joins; None where that is something else.

    **Arguments:** `bodies` by the junction where forces act on them; `look`: what is at a junction of a class, `only`
    or `instance` of `at`. The second end is a body.
    """
    offsets, ends = [], []
    for port in ("p_j1", "p_j2"):
        offset = look(at.name[path, port], Offset)
        if offset is None:
            return None
        far = at.name[offset[0], "p"]
        if far not in bodies and look(far, Ground) is None:
            return None
        offsets.append(offset[0])
        ends.append(bodies.get(far, ground))
    return None if ends[1] == ground else ((offsets[0], offsets[1]), (ends[0], ends[1]))


def _joint(at: Junctions, path: str, bodies: dict[str, str]) -> FoundJoint | None:
    found = joint_ends(at, path, bodies, GROUND, at.instance)
    if found is None:
        return None
    offsets, (parent, child) = found
    name, motion = path.removesuffix("/hc"), at.flat.components[path].motion
    rotor = at.instance(at.name[path, "p_r"], RotorRate)
    return FoundJoint(
        name=name,
        type=motion.name if type(motion).__module__.startswith("jmbs.lie.") else type(motion).__name__,
        parent=parent,
        child=child,
        constraint=path,
        offsets=offsets,
        coordinates=at.name[path, "q_r"],
        rates=at.name[path, "p_r"],
        group=motion.group,
        names=_coordinates(name, motion),
        rotor=None if rotor is None else at.name[rotor[0], "p"],
    )


def _coordinates(name: str, motion: Any) -> JointCoordinates:
    n, k = motion.group.coordinate_size, motion.group.dim
    numbered = lambda letter, count: tuple(f"{letter}{i + 1}" for i in range(count))  # noqa: E731
    return JointCoordinates(
        name,
        getattr(motion, "coordinate_names", numbered("q", n)),
        getattr(motion, "coordinate_units", ("1",) * n),
        getattr(motion, "velocity_names", numbered("v", k)),
        getattr(motion, "velocity_units", ("1",) * k),
    )


def _element(at: Junctions, path: str) -> FoundElement | None:
    coupling = at.instance(at.name[path, "p_l"], PotentialKineticCoupling)
    if coupling is None:
        return None
    length = at.name[coupling[0], at.flat.components[coupling[0]].names[0]]
    return FoundElement(path.removesuffix("/line"), path, length)


def _gear(at: Junctions, path: str, joints: dict[str, FoundJoint]) -> FoundGear | None:
    gear = at.flat.components[path]
    found = [joint.name for port in gear.ports if (joint := joints.get(at.name[path, port])) is not None]
    if len(found) < len(gear.ports):
        return None
    ends = [(found[joint], number) for joint, number in gear.ends]
    return FoundGear(path, tuple(found), tuple(ends), ends[gear.measured_at])


def _gear_constraint(gear: FoundGear, joints: list[FoundJoint]) -> FoundConstraint:
    name, coordinate = gear.measured
    turns = next(joint.names.v_units[coordinate] for joint in joints if joint.name == name) == "rad/s"
    return FoundConstraint(gear.name, (gear.name,), ("torque" if turns else "force",))


def _motion_constraint(motion: FoundMotion, joints: list[FoundJoint]) -> FoundConstraint:
    """Its multipliers are forces and torques on the joint, with the names of its coordinates where it has several."""
    names = next(joint.names for joint in joints if joint.name == motion.joint)
    kinds = ["torque" if unit == "rad/s" else "force" for unit in names.v_units]
    several = len(kinds) > 1
    rows = tuple(f"{kind}_{name}" if several else kind for kind, name in zip(kinds, names.q_names, strict=True))
    return FoundConstraint(motion.drive, (motion.drive,), rows)


_MULTIPLIERS = {
    NoSlide: ("force",),
    Perpendicular: ("torque",),
    NoSlip: ("force_x", "force_y"),
    Contact: ("force_normal",),
}


def _constraints(components: dict[str, Any]) -> list[FoundConstraint]:
    """Constraints on bodies; the rows of a rolling box, `slip` before `contact`, are those of one."""
    names: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    for path, component in components.items():
        rows = next((rows for kind, rows in _MULTIPLIERS.items() if isinstance(component, kind)), None)
        if isinstance(component, BodyConstraint):
            rows = component.multiplier_names
        if rows is not None:
            name, _, last = path.rpartition("/")
            rolls = last in ("slip", "contact") and {f"{name}/slip", f"{name}/contact"} <= components.keys()
            names.setdefault(name if rolls else path, []).append((path, rows))
    found = []
    for name, members in names.items():
        members.sort(key=lambda member: -len(member[1]))
        rows = tuple(row for _, own in members for row in own)
        found.append(FoundConstraint(name, tuple(path for path, _ in members), rows))
    return found
