"""A ball, or with an axis a thin disk, centred at the centre of mass, rolls without slip on a plane."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jmbs.ephs import System
from jmbs.library.mechanics import checks
from jmbs.library.mechanics.constraint_types.constraint_type import (
    ConstraintKey,
    ConstraintParameter,
    ConstraintType,
    Values,
)
from jmbs.library.mechanics.surface_specification import SurfaceSpec
from jmbs.library.mechanics.velocity_constraints import Roller, contact_closure, rolling
from jmbs.lie import AbstractGroup


def _radius(path: str, value: Any) -> float:
    return checks.number(path, value, positive=True, unit="m")


def _system(values: Values, group: AbstractGroup, array: Callable[[Any], Any]) -> System:
    plane, axis = values["plane"], values["axis"]
    axis = None if axis is None else array(axis)
    return rolling(Roller(array(values["radius"]), axis, array(plane.point), array(plane.normal)), plane.moving, group)


ROLLING = ConstraintType(
    "rolling",
    (
        ConstraintKey("radius", "number", _radius, needed=True),
        ConstraintKey("axis", "vector", checks.direction, may_lack=True),
        ConstraintKey("plane", "surface", lambda path, value: SurfaceSpec.make(path, value, plane=True)),
    ),
    (
        ConstraintParameter("radius", "roller.radius", "m", "positive number"),
        ConstraintParameter("axis", "roller.axis", "1", "direction"),
        ConstraintParameter("plane/point", "roller.point", "m", "numbers"),
        ConstraintParameter("plane/normal", "roller.normal", "1", "direction"),
    ),
    _system,
    lambda name, body: (contact_closure(name, body),),
    ("slip", "contact"),
    "plane",
)
