"""Finds rigid bodies, joints and a spanning tree in a flattened system, by its components and junctions alone.

Components are known by their class, and those of a derived class that redefines nothing. What is not recognised is left
to the reference semantics, and so are the joints that close loops. Where it acts on what the tree alone moves, on poses
of bodies or on their momenta beside those of rigid bodies, there is no tree formulation.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Sequence

from jmbs.ephs import Environment, FlatSystem, Junctions, Role, follows, role
from jmbs.errors import ModelError
from jmbs.graphs import GROUND, SpanningTree, spanning_tree
from jmbs.library.mechanics import (
    BodyPotential,
    Friction,
    Gravity,
    HolonomicConstraint,
    JointLaw,
    JointPotential,
    KineticEnergy,
    LawFriction,
    LiePoisson,
    NoPotential,
    PotentialKineticCoupling,
    ReducedKineticEnergy,
    Rotor,
    RotorInertia,
    RotorRate,
    ViscousFriction,
    joint_ends,
)
from jmbs.lie import SE3

_MOST_FREEDOM = 6


@dataclasses.dataclass(frozen=True)
class BodyParts:
    """Paths of a rigid body's components; `lawful`: its `potential` is more than its weight, by a user's law."""

    energy: str
    potential: str
    coupling: str
    gyroscope: str
    lawful: bool

    @property
    def paths(self) -> tuple[str, ...]:
        return self.energy, self.potential, self.coupling, self.gyroscope

    @property
    def known(self) -> tuple[str, ...]:
        """What the tree takes over; a user's law stays on the reference semantics."""
        return tuple(path for path in self.paths if not (self.lawful and path == self.potential))


@dataclasses.dataclass(frozen=True)
class RotorParts:
    """Paths of a rotor's `inertia`, whose momentum is its port `momentum`, and of the `rate` that turns it, None where
    the joint's rate is its own effort; the joint's `coordinates` that have one."""

    inertia: str
    momentum: str
    rate: str | None
    coordinates: tuple[int, ...]

    @property
    def known(self) -> tuple[str, ...]:
        """What the tree takes over."""
        return (self.inertia,) if self.rate is None else (self.inertia, self.rate)


@dataclasses.dataclass(frozen=True)
class JointParts:
    """Paths of a joint's components; its `ends`: bodies by number, or `GROUND`.

    `friction` heats the environment; `spring` is a potential energy of the joint's elements, `empty` the place of one
    that is not there; None where something else stands, which the reference semantics evaluates. `driven`: its velocity
    is prescribed or somebody else's state, so the joint cannot be in the tree, unless that is the state of its `rotor`:
    what turns with it, None without.
    """

    constraint: str
    before: str
    after: str
    coupling: str
    friction: str | None
    spring: str | None
    empty: str | None
    ends: tuple[int, int]
    freedom: int
    driven: bool
    rotor: RotorParts | None

    @property
    def paths(self) -> tuple[str, ...]:
        paths = self.constraint, self.before, self.after, self.coupling, self.friction, self.empty
        return tuple(p for p in paths if p is not None)


@dataclasses.dataclass(frozen=True)
class Recognised:
    """**Arguments:** all `bodies` and `joints`, the spanning `tree` over them, and `known`, the components whose part
    the tree takes over."""

    bodies: tuple[BodyParts, ...]
    joints: tuple[JointParts, ...]
    tree: SpanningTree
    known: frozenset[str]


def recognise(flat: FlatSystem, cut: Collection[str] = ()) -> Recognised | str:
    """The bodies, joints and spanning tree of a system, or why there is no tree formulation of it.

    **Arguments:** `cut`: joints (by the path of their box) that shall close loops. Joints with rotors come first into
    the tree, those with a motor's only if the tree takes over the rotors of all of them; beside that it has the least
    freedom that is possible, so that loops are closed with few constraints.
    Raises `ModelError` for a cut that is no joint.
    """
    at = Junctions(flat)
    momenta = [p for p, c in flat.components.items() if getattr(c, "state_from_effort", None) is not None]
    bodies = []
    for path in sorted(momenta):
        body = _body(at, path)
        if isinstance(body, str):
            return body
        if body is not None:
            bodies.append(body)
    if not bodies:
        return "there is no rigid body"
    own = {p for b in bodies for p in b.paths}
    quantities = {
        at.flat.components[p].ports[port].quantity for b in bodies for p, port in ((b.energy, "p"), (b.potential, "q"))
    }
    for path, port in at.storing(quantities):
        if path not in own:
            return f"{path}.{port} stores a {flat.components[path].ports[port].quantity.name} and is no rigid body's"
    number = {at.name[b.energy, "p"]: i for i, b in enumerate(bodies)}
    joints = [j for p in sorted(flat.components) if (j := _joint(at, p, number)) is not None]
    names = {j.constraint.removesuffix("/hc"): i for i, j in enumerate(joints)}
    for name in cut:
        if name not in names:
            raise ModelError("simulation/cut_joints", repr(name), f"joints among {', '.join(sorted(names))}")
    never = {names[name] for name in cut} | {i for i, j in enumerate(joints) if j.driven and j.rotor is None}
    while True:
        tree = _tree(bodies, joints, never)
        inside = [joints[e] for e in tree.edge if e >= 0]
        turning = frozenset(_known_rotors(at, [j.rotor for j in inside]))
        not_its_own = {e for e in tree.edge if e >= 0 and joints[e].driven and joints[e].rotor.inertia not in turning}
        if not not_its_own:
            break
        never |= not_its_own
    known = turning.union(*(j.paths for j in inside), *(b.known for b in bodies))
    return Recognised(tuple(bodies), tuple(joints), tree, known)


def _tree(bodies: Sequence[BodyParts], joints: Sequence[JointParts], never: Collection[int]) -> SpanningTree:
    """With joints that have rotors before others, and those of little freedom before others."""
    weights = [j.freedom if j.rotor is not None else j.freedom + _MOST_FREEDOM + 1 for j in joints]
    return spanning_tree(len(bodies), [j.ends for j in joints], weights, never)


def _known_rotors(at: Junctions, inside: Iterable[RotorParts | None]) -> list[str]:
    """The components of rotors whose momenta are states of nobody but rotors `inside` the tree."""
    rotors = {rotor.inertia: rotor for rotor in inside if rotor is not None}
    quantity = {path: at.flat.components[path].ports[rotor.momentum].quantity for path, rotor in rotors.items()}
    held = at.storing(set(quantity.values()))
    shared = {at.flat.components[path].ports[port].quantity for path, port in held if path not in rotors}
    return [p for path, rotor in rotors.items() if quantity[path] not in shared for p in rotor.known]


def _body(at: Junctions, path: str) -> BodyParts | str | None:
    component = at.flat.components[path]
    if isinstance(component, ReducedKineticEnergy):
        return f"{path} belongs to a particle or a rod"
    if not follows(component, KineticEnergy):
        return None
    if component.group != SE3:
        return f"{path} is kept on {component.group.name}, which only the absolute formulation does"
    junction = at.name[path, "p"]
    coupling, gyroscope = at.only(junction, PotentialKineticCoupling), at.only(junction, LiePoisson)
    if coupling is None or gyroscope is None:
        return f"{path} has no gyroscopic term or no configuration of its own"
    pose = at.name[coupling[0], at.flat.components[coupling[0]].names[0]]
    potential = at.only(pose, (Gravity, BodyPotential))
    if potential is None:
        return f"{path} has a potential energy that is neither its weight nor a BodyPotential"
    acting = at.acting(pose, (potential[0], coupling[0]))
    if acting:
        return f"{acting[0]} acts on the pose of {path.removesuffix('/ke')}"
    lawful = follows(at.flat.components[potential[0]], BodyPotential)
    return BodyParts(path, potential[0], coupling[0], gyroscope[0], lawful)


def _joint(at: Junctions, path: str, number: dict[str, int]) -> JointParts | None:
    constraint = at.flat.components[path]
    if not follows(constraint, HolonomicConstraint):
        return None
    found = joint_ends(at, path, number, GROUND, at.only)
    rate, place = at.name[path, "p_r"], at.name[path, "q_r"]
    coupling = at.only(rate, PotentialKineticCoupling)
    if found is None or coupling is None:
        return None
    offsets, ends = found
    prescribed = any(hasattr(at.flat.drives.get(port), "effort") for port in at.outer[rate])
    storing = [p for p, _ in at.ports[rate] if role(at.flat.components[p]) is Role.STORAGE]
    friction = at.only(rate, (Friction, LawFriction, ViscousFriction))
    if friction is not None and at.only(at.name[friction[0], "s"], Environment) is None:
        friction = None
    spring = at.only(place, (NoPotential, JointPotential, JointLaw))
    if at.acting(place, (coupling[0], *(() if spring is None else spring[:1]))):
        return None
    empty = at.only(place, NoPotential)
    return JointParts(
        path,
        *offsets,
        coupling[0],
        None if friction is None else friction[0],
        None if spring is None or empty is not None else spring[0],
        None if empty is None else empty[0],
        ends,
        constraint.motion.group.dim,
        prescribed or bool(storing),
        None if prescribed else _rotor(at, rate, storing),
    )


def _rotor(at: Junctions, rate: str, storing: Sequence[str]) -> RotorParts | None:
    """**Arguments:** `storing`: whose state the joint's rate is."""
    found, own = at.only(rate, RotorRate), at.only(rate, Rotor)
    if storing:
        return RotorParts(*own, None, (0,)) if own is not None and [own[0]] == storing and found is None else None
    if found is None:
        return None
    junction = at.name[found[0], "p"]
    inertia, coordinates = at.only(junction, RotorInertia), at.flat.components[found[0]].coordinates
    alone = len(at.ports[junction]) == 2 and not at.outer[junction]
    return RotorParts(*inertia, found[0], coordinates) if inertia is not None and alone else None
