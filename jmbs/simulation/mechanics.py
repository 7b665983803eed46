"""What simulation knows of mechanisms: where bodies, joints and elements stand in the state."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jmbs.by_value import by_value
from jmbs.ephs import Plan, ReferenceDAE, Role
from jmbs.errors import ModelError
from jmbs.library.mechanics import (
    JOINT_TYPES,
    FoundBody,
    FoundConstraint,
    FoundJoint,
    GearStep,
    Guess,
    JointCoordinates,
    MechanicalParts,
    Placement,
    check_coordinates,
    check_velocities,
    make_gear_steps,
    make_placement,
    nearest,
    require_keys,
    unit_quaternion,
    vector,
)
from jmbs.lie import SE3, SO3, AbstractGroup

BODY_VALUES = {"position": (3,), "quaternion": (4,), "angular_velocity": (3,), "velocity": (3,)}
"""Shapes of what can be given of a body."""


@by_value
@dataclasses.dataclass(frozen=True, eq=False)
class MechanicalLayout:
    """What is mechanical in a system, by name; static.

    **Arguments:** `parts`: bodies, joints, elements, constraints and stores; `placement`: the plan of assembly;
    `state_shapes`: shape of every state that may be given, by junction name; `systems`: boxes that a mechanism holds
    beside its own parts; `other_rows`: constraints that components impose which are no such parts, by their paths.
    """

    parts: MechanicalParts
    placement: Placement
    state_shapes: tuple[tuple[str, tuple[int, ...]], ...]
    systems: tuple[str, ...] = ()
    other_rows: tuple[FoundConstraint, ...] = ()

    @property
    def bodies(self) -> tuple[str, ...]:
        """Names of the bodies."""
        return tuple(body.name for body in self.parts.bodies)

    @property
    def joints(self) -> tuple[str, ...]:
        """Names of the joints."""
        return tuple(joint.name for joint in self.parts.joints)

    @property
    def constraints(self) -> tuple[FoundConstraint, ...]:
        """All constraints beyond joints."""
        return (*self.parts.constraints, *self.other_rows)

    @property
    def coordinates(self) -> tuple[JointCoordinates, ...]:
        """Names and units of the coordinates of each joint that has some."""
        return tuple(joint.names for joint in self.parts.joints if joint.group.dim)

    @property
    def joint_states(self) -> tuple[tuple[str, str, AbstractGroup], ...]:
        """Of each joint that has coordinates its name, the junction that holds them, and their group."""
        return tuple((joint.name, joint.coordinates, joint.group) for joint in self.parts.joints if joint.group.dim)

    def body(self, name: str) -> FoundBody:
        """The body of that name."""
        return next(body for body in self.parts.bodies if body.name == name)

    def joint(self, name: str) -> FoundJoint:
        """The joint of that name."""
        return next(joint for joint in self.parts.joints if joint.name == name)

    def initial_sections(self) -> dict[str, tuple[str, ...]]:
        """Sections of initial values and the names in each."""
        states = tuple(name for name, _ in self.state_shapes)
        return {"joints": self.joints, "bodies": self.bodies, "states": states}

    def initial_shapes(self, section: str, name: str) -> dict[str, tuple[int, ...]]:
        """Shapes of the initial values that a joint, body or state may have."""
        if section == "joints":
            group = self.joint(name).group
            return {"q": (group.coordinate_size,), "guess": (group.coordinate_size,), "v": (group.dim,)}
        return BODY_VALUES if section == "bodies" else {"value": dict(self.state_shapes)[name]}


def layout_of(
    dae: ReferenceDAE, parts: MechanicalParts, initial: Mapping[str, Mapping[str, Any]], systems: Iterable[str] = ()
) -> MechanicalLayout:
    """The layout of a system.

    **Arguments:** `initial`: sections `joints`, `bodies` and `states` of what is given, by name; `systems`: names.
    """
    bodies, states = (initial.get(section, {}) for section in ("bodies", "states"))
    posed = {name for name, entry in bodies.items() if {"position", "quaternion"} & entry.keys()}
    posed |= {body.name for body in parts.bodies if body.pose in states}
    turned = _turned(parts, initial)
    ends = {joint.name: (joint.parent, joint.child) for joint in parts.joints}
    return MechanicalLayout(
        parts,
        make_placement(tuple(body.name for body in parts.bodies), ends, posed, turned),
        tuple(state_shapes(dae, parts).items()),
        tuple(systems),
        _other_rows(dae.plan, parts),
    )


def gear_steps(
    layout: MechanicalLayout, initial: Mapping[str, Mapping[str, Any]], rates: bool = False
) -> tuple[GearStep, ...]:
    """How gears carry given coordinates on, or given `rates`; `initial` as in `layout_of`."""
    moving = {name for name, entry in initial.get("joints", {}).items() if "v" in entry}
    given = moving if rates else _turned(layout.parts, initial)
    return make_gear_steps(layout.parts.gears, layout.joints, given, rates)


def _turned(parts: MechanicalParts, initial: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """The joints of whose coordinates something is said."""
    turned = {name for name, entry in initial.get("joints", {}).items() if {"q", "guess"} & entry.keys()}
    turned |= {joint.name for joint in parts.joints if joint.coordinates in initial.get("states", {})}
    return turned | {motion.joint for motion in parts.motions}


def _other_rows(plan: Plan, parts: MechanicalParts) -> tuple[FoundConstraint, ...]:
    """Rows of components that are no mechanical parts: of users, of systems in redundant coordinates, and of
    transformers that meet another's output, where the multiplier is the force that the one exerts on the other."""
    known = {path for constraint in parts.constraints for path in constraint.components}
    known |= {joint.constraint for joint in parts.joints}
    found = []
    for batch in plan.batches:
        # A transformer whose output has a storage only says what that storage's velocity is.
        defines = batch.role is Role.TRANSFORMER and bool((batch.outputs < plan.n_stored).all())
        names = tuple(f"row_{i + 1}" for i in range(batch.multipliers.shape[1]))
        if names and not defines:
            found += [FoundConstraint(path, (path,), names) for path in batch.paths if path not in known]
    return tuple(sorted(found, key=lambda entry: entry.name))


def state_shapes(dae: ReferenceDAE, parts: MechanicalParts) -> dict[str, tuple[int, ...]]:
    """Shape of every state that may be given, by junction name: all but lengths of elements and rates of rotors, which
    follow."""
    follow = {element.length for element in parts.elements} | {joint.rotor for joint in parts.joints}
    return {name: b.space.shape for b in dae.plan.blocks for name in b.junctions if name not in follow}


def initial_states(
    dae: ReferenceDAE, shapes: Mapping[str, tuple[int, ...]], given: Mapping[str, Any], path: str = "initial"
) -> dict[str, dict[str, Any]]:
    """Given states by junction name, as `{"value": array}`; velocities where a storage has momenta.

    **Arguments:** `shapes` of the states that may be given. Raises `ModelError` for an unknown name or a wrong shape.
    """
    entries = {}
    for name, value in given.items():
        if name not in shapes:
            raise ModelError(f"{path}/{name}", "no such state", f"a known one{nearest(name, shapes)}")
        array = jnp.asarray(value, dae.reference_temperature.dtype)
        if array.size != int(np.prod(shapes[name])):
            raise ModelError(f"{path}/{name}", f"shape {array.shape}", f"shape {shapes[name]}")
        entries[name] = {"value": array.reshape(shapes[name])}
    return entries


def initial_values(
    parts: MechanicalParts, joints: Mapping[str, Mapping[str, Any]], bodies: Mapping[str, Mapping[str, Any]], dtype: Any
) -> dict[str, dict[str, dict[str, Any]]]:
    """What is given of joints and bodies, checked and as arrays, without what is None. Raises `ModelError`."""

    def checked(section: str, kind: str, values: Mapping[str, Mapping[str, Any]], known: dict[str, Any], check):
        entries = {}
        for name, entry in values.items():
            path = f"initial/{section}/{name}"
            if name not in known:
                raise ModelError(path, f"no {kind} {name}", f"the name of a {kind}{nearest(name, known)}")
            numbers = check(path, known[name], {key: value for key, value in entry.items() if value is not None})
            if numbers:
                entries[name] = {key: jnp.asarray(np.asarray(value), dtype) for key, value in numbers.items()}
        return entries

    return {
        "joints": checked("joints", "joint", joints, {j.name: j for j in parts.joints}, _joint_values),
        "bodies": checked("bodies", "body", bodies, {b.name: b for b in parts.bodies}, _body_values),
    }


def refuse_given_twice(parts: MechanicalParts, given: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuses a state that is given by its junction and as a part's. Raises `ModelError`."""
    owners = {j.coordinates: ("joints", j.name, ("q", "guess")) for j in parts.joints}
    owners |= {b.pose: ("bodies", b.name, ("position", "quaternion")) for b in parts.bodies}
    owners |= {b.momentum: ("bodies", b.name, ("angular_velocity", "velocity")) for b in parts.bodies}
    for junction in given["states"]:
        section, name, keys = owners.get(junction, ("", "", ()))
        for key in keys:
            if key in given.get(section, {}).get(name, {}):
                raise ModelError(f"initial/{section}/{name}/{key}", f"{junction} given too", "one of the two")


def _joint_values(path: str, joint: FoundJoint, entry: Mapping[str, Any]) -> dict[str, np.ndarray]:
    require_keys(path, entry, ("q", "v"))
    named = "spherical" if joint.group == SO3 else "free" if joint.group == SE3 else None
    whole, values = None if named is None else JOINT_TYPES[named].whole, {}
    if "q" in entry:
        q = check_coordinates(f"{path}/q", entry["q"], whole, joint.group.coordinate_size, joint.type)
        values = {"guess": q.value} if isinstance(q, Guess) else {"q": q}
    if "v" in entry:
        values["v"] = check_velocities(f"{path}/v", entry["v"], joint.group.dim, joint.type)
    return values


def _body_values(path: str, body: FoundBody, entry: Mapping[str, Any]) -> dict[str, np.ndarray]:
    del body
    require_keys(path, entry, tuple(BODY_VALUES))
    check = lambda key: unit_quaternion if key == "quaternion" else lambda at, value: vector(at, value, 3)  # noqa: E731
    return {key: check(key)(f"{path}/{key}", value) for key, value in entry.items()}


def component(dae: ReferenceDAE, path: str) -> Any:
    """One component of a batch."""
    batch, member = dae.plan.member_of[path]
    return jax.tree.map(lambda leaf: leaf[member] if eqx.is_array(leaf) else leaf, dae.components[batch])
