"""What of a run may be kept, by the names of results: `total`, `q`, `q/hinge`, `position`, `position/link2`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array

from jmbs.ephs import output_units
from jmbs.errors import ModelError
from jmbs.library.mechanics import nearest, show
from jmbs.simulation import (
    BY_COMPONENT,
    SCALARS,
    WRENCH_NAMES,
    WRENCH_UNITS,
    Model,
    Trajectory,
    saved_names,
    state_units,
)

BODY_FIELDS = {
    "position": ("xyz", "m"),
    "quaternion": ("wxyz", "1"),
    "angular_velocity": ("xyz", "rad/s"),
    "velocity": ("xyz", "m/s"),
}
"""By field the axis of its values and their unit."""
LABELS = {"xyz": tuple("xyz"), "wxyz": tuple("wxyz"), "wrench": WRENCH_NAMES}
UNAUDITED = (*BODY_FIELDS, "q", "v", "temperature", "states", "outputs")
"""Fields of trajectories that a run without its account has too."""


class Axis(NamedTuple):
    """A named axis with the labels along it; none for plain numbers."""

    name: str
    labels: tuple[str, ...] = ()


class KeptQuantity(NamedTuple):
    """One array of a trajectory.

    **Arguments:** `name`: of its variable; `field` of the trajectory; `elements`: names in it, none for a field that is
    no mapping; `axes` after time, None where the array alone tells them; `unit`; `stacked`: whether the elements are
    along the first of the axes, else there is one.
    """

    name: str
    field: str
    elements: tuple[str, ...]
    axes: tuple[Axis, ...] | None
    unit: str
    stacked: bool = False

    @property
    def needs_audit(self) -> bool:
        """Whether only a run with its account shows it."""
        return self.field not in UNAUDITED

    def read(self, run: Trajectory) -> Array:
        """The values (T, ...) of a run."""
        values = getattr(run, self.field)
        if not self.elements:
            return values
        if self.stacked:
            return jnp.stack([values[name] for name in self.elements], axis=1)
        return values[self.elements[0]]

    def axes_of(self, shape: tuple[int, ...]) -> tuple[Axis, ...]:
        """The axes of values of a shape."""
        if self.axes is not None:
            return self.axes
        return tuple(Axis(f"{self.name}_axis{number}") for number in range(len(shape)))


def variable(path: str) -> str:
    """A path in the name of a variable, where a slash would be a group, as in result files."""
    return path.replace("/", ".")


def quantities(model: Model, name: str, place: str) -> list[KeptQuantity]:
    """What a name stands for: one quantity, or one for each joint, store or path. Raises `ModelError` at `place`."""
    known = catalogue(model)
    if name not in known:
        raise ModelError(place, show(name), f"a name of results{nearest(name, known)}")
    return known[name]


def catalogue(model: Model) -> dict[str, list[KeptQuantity]]:
    """All that may be kept of a model's runs, by every name that it has."""
    names = saved_names(model)
    found = {field: [KeptQuantity(field, field, (), (), unit)] for field, (unit, _) in SCALARS.items()}
    for field, (axis, unit) in BODY_FIELDS.items():
        found |= _along(field, names[field], "body", (Axis(axis, LABELS[axis]),), unit)
    joints = model.layout.joints
    found |= _along("reaction", joints, "joint", (Axis("wrench", WRENCH_NAMES),), ", ".join(WRENCH_UNITS))
    for field, unit in (("constraint_position", "m or rad"), ("constraint_velocity", "m/s or rad/s")):
        found |= _along(field, names[field], "constraint", (), unit)
    for field in ("destroyed", "production", "stored"):
        axis, unit, _ = BY_COMPONENT[field]
        found |= _along(field, names[field], axis, (), unit)
    found |= _coordinates(model)
    units, of_states = output_units(model.dae), state_units(model)
    found |= _one_by_one("temperature", "temperature", {name: "K" for name in names["temperature"]}, ())
    found |= _one_by_one("states", "state", {name: of_states.get(name, "1") for name in names["states"]}, None)
    found |= _one_by_one("outputs", "output", {name: units[name] for name in names["outputs"]}, None)
    found |= {path: found[f"outputs/{path}"] for path in names["outputs"] if path not in found}
    return found | _one_by_one("multipliers", "multiplier", dict.fromkeys(names["multipliers"], "1"), None)


def _along(
    field: str, elements: tuple[str, ...], axis: str, axes: tuple[Axis, ...], unit: str
) -> dict[str, list[KeptQuantity]]:
    """A field whose elements are of one shape: as a whole, along an axis of their names, and each."""
    if not elements:
        return {}
    found = {field: [KeptQuantity(field, field, elements, (Axis(axis, elements), *axes), unit, True)]}
    for name in elements:
        found[f"{field}/{name}"] = [KeptQuantity(f"{field}_{variable(name)}", field, (name,), axes, unit)]
    return found


def _coordinates(model: Model) -> dict[str, list[KeptQuantity]]:
    """Joint coordinates and velocities; they share the axis `joint_<name>` where they are as many."""
    found: dict[str, list[KeptQuantity]] = {"q": [], "v": []}
    for joint, q_names, q_units, v_names, v_units in model.layout.coordinates:
        of_v = Axis(f"joint_{variable(joint)}", q_names)
        of_v = of_v if len(q_names) == len(v_names) else Axis(f"joint_{variable(joint)}_velocity", v_names)
        of_q = Axis(f"joint_{variable(joint)}", q_names)
        for field, axis, units in (("q", of_q, q_units), ("v", of_v, v_units)):
            unit = units[0] if len(set(units)) == 1 else ", ".join(units)
            one = KeptQuantity(f"{field}_{variable(joint)}", field, (joint,), (axis,), unit)
            found[field].append(one)
            found |= {f"{field}/{joint}": [one], f"{field}_{variable(joint)}": [one]}
    return {name: some for name, some in found.items() if some}


def _one_by_one(
    field: str, stem: str, units: Mapping[str, str], axes: tuple[Axis, ...] | None
) -> dict[str, list[KeptQuantity]]:
    """A field whose elements have shapes of their own: a variable for each."""
    each = [KeptQuantity(f"{stem}_{variable(name)}", field, (name,), axes, unit) for name, unit in units.items()]
    if not each:
        return {}
    by_element = {f"{field}/{name}": [one] for name, one in zip(units, each, strict=True)}
    return {field: each} | by_element | {one.name: [one] for one in each}
