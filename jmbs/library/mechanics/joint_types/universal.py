"""A turn about an axis, then one about a second axis that it carries along."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jmbs.errors import ModelError
from jmbs.library.mechanics import checks
from jmbs.library.mechanics.joint_types.joint_type import (
    AXIS,
    AXIS_PARAMETER,
    Geometry,
    GeometryParameter,
    JointType,
    Key,
)
from jmbs.lie import Universal


def _second_axis(path: str, value: Any, beside: Geometry) -> np.ndarray:
    axis2 = checks.direction(path, value)
    require_apart(path, value, beside["axis"])
    return axis2


def require_apart(path: str, axis2: Any, axis: Any) -> None:
    """Refuses a second axis that is parallel to the first. Raises `ModelError`."""
    first, second = (checks.direction(path, value) for value in (axis, axis2))
    if np.linalg.norm(np.cross(first, second)) < checks.UNIT_TOLERANCE:
        raise ModelError(path, checks.show(axis2), "a direction not parallel to axis")


def are_apart(axis2: Float[Array, "3"], axis: Float[Array, "3"]) -> Bool[Array, ""]:
    """Whether traced axes are not parallel."""
    squares = jnp.sum(axis2**2) * jnp.sum(axis**2)
    return jnp.sum(jnp.cross(axis, axis2) ** 2) >= checks.UNIT_TOLERANCE**2 * squares


UNIVERSAL = JointType(
    "universal",
    2,
    lambda geometry, array: Universal(array(geometry["axis"]), array(geometry["axis2"])),
    (AXIS, Key("axis2", "vector", _second_axis)),
    (AXIS_PARAMETER, GeometryParameter("axis2", "axis2", "1", "direction", "not parallel", ("axis",))),
    rules={"not parallel": (lambda given, axis: require_apart(given.path, given.value, axis), are_apart)},
)
