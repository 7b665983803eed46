"""The velocity of a point of the body along a direction vanishes, or equals that of a surface there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jmbs.library.mechanics import checks
from jmbs.library.mechanics.constraint_types.constraint_type import (
    ConstraintKey,
    ConstraintParameter,
    ConstraintType,
    Values,
    vector,
)
from jmbs.library.mechanics.surface_specification import SurfaceSpec
from jmbs.library.mechanics.velocity_constraints import NoSlide
from jmbs.lie import AbstractGroup


def _system(values: Values, group: AbstractGroup, array: Callable[[Any], Any]) -> NoSlide:
    surface = values["relative_to"]
    origin = array(surface.point) if surface.moving else None
    return NoSlide(array(values["point"]), array(values["direction"]), origin, values["frame"], group)


NO_SLIDE = ConstraintType(
    "no_slide",
    (
        ConstraintKey("point", "vector", vector, (0.0, 0.0, 0.0)),
        ConstraintKey("direction", "vector", checks.direction, needed=True),
        ConstraintKey("frame", "word", lambda path, value: checks.choice(path, value, ("body", "world")), "body"),
        ConstraintKey("relative_to", "surface", lambda path, value: SurfaceSpec.make(path, value, plane=False)),
    ),
    (
        ConstraintParameter("point", "point", "m", "numbers"),
        ConstraintParameter("direction", "direction", "1", "direction"),
    ),
    _system,
    surface="relative_to",
)
