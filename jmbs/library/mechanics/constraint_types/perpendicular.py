"""A direction of the body stays perpendicular to one of the world."""

from __future__ import annotations

from jmbs.library.mechanics import checks
from jmbs.library.mechanics.constraint_types.constraint_type import ConstraintKey, ConstraintParameter, ConstraintType
from jmbs.library.mechanics.velocity_constraints import Perpendicular, perpendicular_closure

PERPENDICULAR = ConstraintType(
    "perpendicular",
    (
        ConstraintKey("direction", "vector", checks.direction, needed=True),
        ConstraintKey("normal", "vector", checks.direction, (0.0, 0.0, 1.0)),
    ),
    (
        ConstraintParameter("direction", "direction", "1", "direction"),
        ConstraintParameter("normal", "normal", "1", "direction"),
    ),
    lambda values, group, array: Perpendicular(array(values["direction"]), array(values["normal"]), group),
    lambda name, body: (perpendicular_closure(name, body),),
)
