"""Where the values of a study's paths stand in a model: whole parameters, entries, and a body's inertial parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.errors import ModelError
from jmbs.identification.parameter_paths import parse_parameter
from jmbs.lie import quaternion_to_rotation
from jmbs.simulation import Model, parameter_unit, parameter_value

CENTRE, INERTIAL = "com", "inertial"


class Place(NamedTuple):
    """A path of a study: the model's own path `base`, the entry in it or None, and the body of a virtual path, whose
    `base` is `com` or `inertial`."""

    path: str
    base: str
    index: tuple[int, ...] | None = None
    body: str | None = None


def place_of(model: Model, path: str) -> Place:
    """Where a path stands in a model. Raises `ModelError` for one that it does not have."""
    found = parse_parameter((model,), path)
    if found.kind != "virtual":
        return Place(path, found.base, found.index)
    body, _, key = found.base.rpartition("/")
    if found.index is not None:
        raise ModelError(f"parameters/{path}", "an index", f"{found.base} as a whole")
    return Place(path, key, None, body)


def unit_of(model: Model, place: Place) -> str:
    """The unit of the values at a place."""
    if place.body is not None:
        return "m" if place.base == CENTRE else "kg, m, kg m^2"
    unit = parameter_unit(model, place.base)
    return _unit_at_joint(model, place.base, unit)


def _unit_at_joint(model: Model, base: str, unit: str) -> str:
    """That of the joint at hand where a unit leaves open whether it turns or slides: `rad or m`."""
    turning, _, sliding = unit.partition(" or ")
    if not sliding:
        return unit
    for coordinates in model.layout.coordinates:
        if base.startswith((f"{coordinates.joint}/", f"initial/{coordinates.joint}/")):
            units = set(coordinates.q_units)
            return turning if units == {"rad"} else sliding if units == {"m"} else unit
    return unit


def value_at(model: Model, place: Place) -> np.ndarray | None:
    """The model's values (n,) at a place; None for an initial value that is not given."""
    if place.base == CENTRE:
        return np.zeros(3)
    if place.base == INERTIAL:
        mass, inertia = (np.asarray(parameter_value(model, f"{place.body}/{key}")) for key in ("mass", "inertia"))
        moments = inertia[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]
        return np.concatenate([mass[None], np.zeros(3), moments])
    try:
        value = np.asarray(parameter_value(model, place.base))
    except ModelError:
        if not place.base.startswith("initial/"):
            raise
        return None
    return value.reshape(-1) if place.index is None else value[place.index].reshape(1)


def with_places(
    model: Model, values: Mapping[Place, Float[Array, " n"]], fixed: Mapping[str, Array] | None = None
) -> tuple[Model, dict[str, Array]]:
    """The model with values at places, and by how much the centre of mass of bodies has moved (3,), m, in their axes.

    Values may be traced. A moved centre of mass carries all joint frames, loads and elements of its body with it, and
    what is given of its start, so that geometry and motion stay. Raises `ModelError` where a body has what cannot be
    carried.

    **Arguments:** `fixed`: by path values that hold whatever is said of them at places.
    """
    whole: dict[str, Any] = {}
    moved: dict[str, Array] = {}
    for place, value in values.items():
        if place.base == INERTIAL:
            xx, yy, zz, xy, xz, yz = value[4:]
            rows = [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]
            whole[f"{place.body}/mass"] = value[0]
            whole[f"{place.body}/inertia"] = jnp.stack([jnp.stack(row) for row in rows])
        if place.body is not None:
            moved[place.body] = value[1:4] if place.base == INERTIAL else value
        elif place.index is None:
            whole[place.base] = value
        else:
            array = whole.get(place.base, parameter_value(model, place.base))
            array = array.at[place.index].set(value[0])
            if place.base.endswith("/inertia") and len(place.index) == 2:
                array = array.at[place.index[::-1]].set(value[0])
            whole[place.base] = array
    whole |= fixed or {}
    for body, shift in moved.items():
        for path in points_of(model, body):
            whole[path] = whole.get(path, parameter_value(model, path)) - shift
        whole |= _carried_start(model, body, shift, whole)
    return model.with_parameters(whole), moved


def points_of(model: Model, body: str) -> tuple[str, ...]:
    """Paths of the points of a body, which are counted from its centre of mass. Raises `ModelError`."""
    points = next(points for points in model.body_points if points.body == body)
    if points.others:
        found, wanted = f"a body with {points.others[0]}", "one with joints, elements and loads only"
        raise ModelError(f"parameters/{body}/{CENTRE}", found, wanted)
    return points.paths


def _carried_start(model: Model, body: str, shift: Float[Array, " 3"], values: Mapping[str, Any]) -> dict[str, Array]:
    """Initial values of a body whose centre of mass has moved; those given, or among `values`, are said of its place
    before."""
    given, part = model.initial.get("bodies", {}).get(body, {}), model.layout.body(body)
    said = {*model.initial.get("states", {}), *(path.removeprefix("initial/") for path in values)}
    if said & {part.pose, part.momentum}:
        wanted = "in `bodies`, or by its joints: where its centre of mass is depends on it"
        raise ModelError(f"parameters/{body}/{CENTRE}", "a start of the body among the states", wanted)
    keys = ("position", "quaternion", "velocity", "angular_velocity")
    own = {key: values.get(f"initial/{body}/{key}", given.get(key)) for key in keys}
    own = {key: value for key, value in own.items() if value is not None}
    held = any(body in (joint.parent, joint.child) for joint in model.layout.parts.joints)
    turns = {"velocity", "angular_velocity"} <= own.keys()
    if "quaternion" not in own and held and ("position" in own or turns):
        wanted = "its quaternion too, or coordinates of its joints: where its centre of mass is depends on it"
        raise ModelError(f"parameters/{body}/{CENTRE}", "a start of the body without its quaternion", wanted)
    turn = quaternion_to_rotation(own["quaternion"]) if "quaternion" in own else jnp.eye(3, dtype=shift.dtype)
    found = {}
    if "position" in own:
        found[f"initial/{body}/position"] = own["position"] + turn @ shift
    if turns:
        found[f"initial/{body}/velocity"] = own["velocity"] + turn @ jnp.cross(own["angular_velocity"], shift)
    return found
