"""What a type of joint is: all that schema, checks, components, parameters and export need to know of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from jmbs.library.mechanics import checks

Geometry = Mapping[str, Any]
"""What configs say of where a joint's motion is, checked, by key."""


@dataclasses.dataclass(frozen=True)
class Key:
    """A key of a joint's section, which says where the motion is.

    **Arguments:** `name`; `form` of the value in configs: `vector` (3,), `number` or `motions`; `check`: refuses a
    value at a path, beside the keys before, and gives it checked; `default`: where nothing is given, None if something
    must be.
    """

    name: str
    form: str
    check: Callable[[str, Any, Geometry], Any]
    default: Any = None


@dataclasses.dataclass(frozen=True)
class GeometryParameter:
    """A parameter of the motion.

    **Arguments:** `path` below the joint's name; `field` of the motion; `unit`; `rule` of its values, a key of `RULES`.
    `other_rule` looks at the parameters `beside` too (fields of the motion) and at `detail`, what it must know of the
    motion.
    """

    path: str
    field: str
    unit: str
    rule: str
    other_rule: str | None = None
    beside: tuple[str, ...] = ()
    detail: Callable[[Any], tuple] = lambda motion: ()


@dataclasses.dataclass(frozen=True)
class Whole:
    """Of a motion that is more than its coordinates one by one: stiffness and viscous friction are matrices (k, k).

    **Arguments:** `rest`: its coordinates without motion; `check` of coordinates at a path; `rule` of them as
    parameters; `dry`: the entries of `v` whose magnitudes dry friction acts on, translational before angular.
    """

    rest: tuple[float, ...]
    check: Callable[[str, Any], np.ndarray]
    rule: str
    dry: tuple[tuple[int, ...], ...]


@dataclasses.dataclass(frozen=True)
class JointType:
    """A type of joint.

    **Arguments:** `name` in configs; `dimension`, the number of joint velocities, None where the geometry says it;
    `motion`: configuration group and map into SE(3) from the geometry, arrays of JAX made by its second argument;
    `keys` and `parameters` of the geometry; `whole`: see there; `rules` that are its own, added to `RULES`.
    """

    name: str
    dimension: int | None
    motion: Callable[[Geometry, Callable[[Any], Any]], Any]
    keys: tuple[Key, ...] = ()
    parameters: tuple[GeometryParameter, ...] = ()
    whole: Whole | None = None
    rules: Mapping[str, tuple[Callable[..., Any], Callable[..., Any]]] = dataclasses.field(default_factory=dict)


def _direction(path: str, value: Any, beside: Geometry) -> np.ndarray:
    del beside
    return checks.direction(path, value)


AXIS = Key("axis", "vector", _direction, (0.0, 0.0, 1.0))
"""The axis (3,) of a turn or travel, in the joint frame, made of unit length."""
AXIS_PARAMETER = GeometryParameter("axis", "axis", "1", "direction")


def with_axis(name: str, dimension: int, motion: Callable[[Any], Any], whole: Whole | None = None) -> JointType:
    """A type whose motion is made of an axis."""
    return JointType(name, dimension, lambda own, array: motion(array(own["axis"])), (AXIS,), (AXIS_PARAMETER,), whole)
