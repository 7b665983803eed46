"""What simulation knows of mechanisms: where bodies, joints and elements stand in the state."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jmbs.by_value import by_value
from jmbs.ephs import ReferenceDAE
from jmbs.errors import ModelError
from jmbs.library.mechanics import (
    GearStep,
    Mechanism,
    Placement,
    make_gear_steps,
    make_placement,
    motion_of,
    nearest,
    velocity_box,
)
from jmbs.simulation.trajectory import JointCoordinates


@by_value
@dataclasses.dataclass(frozen=True, eq=False)
class MechanicalLayout:
    """Bodies, joints, elements and stores of a mechanism, by name; static.

    **Arguments:** `groups`: pose group of each body; `coordinates`: names and units per joint; `placement`: the plan
    of assembly, None for systems that are no mechanisms; `initial_names`: sections of initial values and their names;
    `state_shapes`: shape of every state, by junction name; `constraints`: name, paths of components,
    and names of the multipliers of each; `velocity_boxes`: path of the component whose effort at `p` is a body's
    velocity; `gear_steps`: how gears carry given coordinates on; `parents`: body or "ground", per joint; `children`;
    `motions`: joint types.
    """

    bodies: tuple[str, ...]
    groups: tuple[Any, ...]
    joints: tuple[str, ...]
    parents: tuple[str, ...]
    children: tuple[str, ...]
    types: tuple[str, ...]
    coordinates: tuple[JointCoordinates, ...]
    elements: tuple[str, ...]
    stores: tuple[str, ...]
    placement: Placement | None
    initial_names: tuple[tuple[str, tuple[str, ...]], ...]
    sizes: tuple[tuple[int, int], ...]
    state_shapes: tuple[tuple[str, tuple[int, ...]], ...] = ()
    systems: tuple[str, ...] = ()
    conductions: tuple[str, ...] = ()
    constraints: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = ()
    velocity_boxes: tuple[str, ...] = ()
    gear_steps: tuple[GearStep, ...] = ()

    @staticmethod
    def empty(shapes: dict[str, tuple[int, ...]]) -> MechanicalLayout:
        """The layout of a system that is no mechanism, from the shapes of its states by junction name."""
        names = (("states", tuple(shapes)),)
        return MechanicalLayout((), (), (), (), (), (), (), (), (), None, names, (), tuple(shapes.items()))

    def initial_shapes(self, section: str, name: str) -> dict[str, tuple[int, ...]]:
        """Shapes of the initial values that a joint or body may have."""
        if section == "joints":
            q, v = self.sizes[self.joints.index(name)]
            return {"q": (q,), "v": (v,)}
        if section == "bodies":
            return {"position": (3,), "quaternion": (4,), "angular_velocity": (3,), "velocity": (3,)}
        return {"value": dict(self.state_shapes)[name]}


def layout_of(mechanism: Mechanism, dae: ReferenceDAE) -> MechanicalLayout:
    """The layout of a mechanism; `dae` is its compiled form."""
    bodies, joints = tuple(mechanism.bodies), tuple(mechanism.joints)
    posed = {n for n, v in mechanism.initial_bodies.items() if v["position"] is not None or v["quaternion"] is not None}
    turned = {n for n, v in mechanism.initial_joints.items() if v["q"] is not None}
    ends = {name: (spec.parent, spec.child) for name, spec in mechanism.joints.items()}
    motions = [motion_of(spec) for spec in mechanism.joints.values()]
    coordinates = tuple(_coordinates(name, m) for name, m in zip(joints, motions, strict=True) if m.group.dim)
    # What acts on a velocity, by its unit.
    forces = {c.joint: [("torque" if unit == "rad/s" else "force",) for unit in c.v_units] for c in coordinates}
    shapes = state_shapes(dae, (*bodies, *joints, *mechanism.elements))
    pose_space = {n: b.space for b in dae.plan.blocks for n in b.junctions}
    return MechanicalLayout(
        bodies=bodies,
        groups=tuple(pose_space[dae.plan.junction_of[f"{name}/pe", "q"]] for name in bodies),
        joints=joints,
        parents=tuple(spec.parent for spec in mechanism.joints.values()),
        children=tuple(spec.child for spec in mechanism.joints.values()),
        types=tuple(spec.type for spec in mechanism.joints.values()),
        coordinates=coordinates,
        elements=tuple(mechanism.elements),
        stores=tuple(mechanism.stores),
        placement=make_placement(bodies, ends, posed, turned),
        initial_names=(("joints", joints), ("bodies", bodies), ("states", tuple(shapes))),
        sizes=tuple((m.group.coordinate_size, m.group.dim) for m in motions),
        state_shapes=tuple(shapes.items()),
        systems=tuple(mechanism.systems),
        conductions=tuple(mechanism.conductions),
        constraints=(
            *((c.name, c.components, c.multiplier_names) for c in mechanism.constraints.values()),
            *((gear.name, (gear.name,), forces[gear.joint][gear.coordinate]) for gear in mechanism.gears.values()),
        ),
        gear_steps=make_gear_steps(mechanism.gears, joints, turned),
        velocity_boxes=tuple(f"{name}/{velocity_box(body)}" for name, body in mechanism.bodies.items()),
    )


def state_shapes(dae: ReferenceDAE, parts: Collection[str] = ()) -> dict[str, tuple[int, ...]]:
    """Shape of every state by junction name, without those of mechanical `parts`, which have sections of their own."""
    names = {name: b.space.shape for b in dae.plan.blocks for name in b.junctions}
    return {name: shape for name, shape in names.items() if name.split("/")[0] not in parts}


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


def _coordinates(name: str, motion) -> JointCoordinates:
    n, k = motion.group.coordinate_size, motion.group.dim
    numbered = lambda letter, count: tuple(f"{letter}{i + 1}" for i in range(count))  # noqa: E731
    return JointCoordinates(
        name,
        getattr(motion, "coordinate_names", numbered("q", n)),
        getattr(motion, "coordinate_units", ("1",) * n),
        getattr(motion, "velocity_names", numbered("v", k)),
        getattr(motion, "velocity_units", ("1",) * k),
    )


def initial_values(mechanism: Mechanism, dtype) -> dict[str, Any]:
    """The given initial values as arrays, without those that are not given."""

    def given(section):
        kept = {}
        for name, values in section.items():
            entry = {key: jnp.asarray(np.asarray(v, float), dtype) for key, v in values.items() if v is not None}
            if entry:
                kept[name] = entry
        return kept

    return {"joints": given(mechanism.initial_joints), "bodies": given(mechanism.initial_bodies)}


def component(dae: ReferenceDAE, path: str) -> Any:
    """One component of a batch."""
    batch, member = dae.plan.member_of[path]
    return jax.tree.map(lambda leaf: leaf[member] if eqx.is_array(leaf) else leaf, dae.components[batch])
