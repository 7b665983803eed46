"""What values parameters may have: the rules of configs, for values given from Python, known or traced.

A known value is refused by the function that refuses it in a config. Of a traced one only a predicate can be computed;
it leaves out what makes the motion itself infinite or NaN, which needs no rule.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jmbs.errors import ModelError
from jmbs.library.mechanics import checks
from jmbs.library.mechanics.joint_specification import require_rotors, require_static
from jmbs.library.mechanics.joint_types import JOINT_TYPES
from jmbs.library.mechanics.relation_specification import require_some
from jmbs.library.mechanics.specification import TRIANGLE_TOLERANCE, inertia_matrix
from jmbs.library.mechanics.surface_specification import require_within

WEIGHTS = "weights"
"""The kind of numbers of order one that have no meaning alone, as those of networks."""


@dataclasses.dataclass(frozen=True)
class Rule:
    """What a parameter's value must be, alone or beside others.

    **Arguments:** `kind`: a key of `RULES`; `others`: paths of the parameters that it also looks at; `detail`: what
    else it must know.
    """

    kind: str
    others: tuple[str, ...] = ()
    detail: tuple = ()

    def refuse(self, path: str, unit: str, value: Any, others: Sequence[Any]) -> None:
        """Raises the config's `ModelError` for known values that are not allowed."""
        RULES[self.kind][0](Given(path, unit, value, self.detail), *others)

    def holds(self, value: Array, others: Sequence[Array]) -> Bool[Array, ""] | None:
        """Whether traced values are allowed; None where the motion itself tells."""
        predicate = RULES[self.kind][1]
        return None if predicate is None else predicate(value, *others, *self.detail)


@dataclasses.dataclass(frozen=True)
class Given:
    """A known value, with what a message says of it."""

    path: str
    unit: str
    value: Any
    detail: tuple


def _number(**bounds: bool) -> Callable[[Given], Any]:
    return lambda given: checks.number(given.path, given.value, unit=given.unit, **bounds)


def _numbers(positive: bool) -> Callable[[Given], Any]:
    return lambda given: checks.per_coordinate_non_negative(
        given.path, given.value, np.size(given.value), positive=positive
    )


def _non_negative_matrix(given: Given) -> np.ndarray:
    rows = np.shape(given.value)[-1] if np.ndim(given.value) else 1
    return checks.non_negative_matrix(given.path, given.value, rows)


def _finite(given: Given) -> Any:
    size = np.size(given.value)
    wanted = ", ".join([f"{size} finite number{'' if size == 1 else 's'}", *given.detail])
    return checks.array(given.path, given.value, None, wanted)


def _bounds(given: Given) -> None:
    """Numbers between the ends `detail`, which belong to them."""
    low, high = given.detail
    ends = {f"from {low:g}": low, f"up to {high:g}": high}
    wanted = f"numbers {' '.join(text for text, end in ends.items() if np.isfinite(end))}, in {given.unit}"
    values = np.asarray(checks.array(given.path, given.value, None, wanted))
    if not np.all((values >= low) & (values <= high)):
        raise ModelError(given.path, checks.show(given.value), wanted)


def _directions(given: Given) -> None:
    for i, row in enumerate(given.value):
        checks.direction(f"{given.path}/{i}", row)


def _is_positive(x: Array) -> Bool[Array, ""]:
    return jnp.all(x > 0)


def _is_non_negative(x: Array) -> Bool[Array, ""]:
    return jnp.all(x >= 0)


def _has_length(x: Float[Array, "*n 3"]) -> Bool[Array, ""]:
    return jnp.all(jnp.any(x != 0, axis=-1))


def _is_unit(x: Float[Array, " n"]) -> Bool[Array, ""]:
    """Of the last four numbers."""
    return jnp.abs(jnp.sum(x[-4:] ** 2) - 1) <= 2 * checks.UNIT_TOLERANCE


def _is_non_negative_matrix(x: Float[Array, "n n"]) -> Bool[Array, ""]:
    shift = _matrix_tolerance(x) * jnp.max(jnp.abs(x))
    return _is_symmetric(x) & jnp.all(_pivots(x + shift * jnp.eye(len(x), dtype=x.dtype)) >= 0)


def _is_inertia(x: Float[Array, "3 3"]) -> Bool[Array, ""]:
    """Positive definite, and the largest moment at most the sum of the others: half the trace, up to tolerances."""
    trace, one = jnp.trace(x), jnp.eye(3, dtype=x.dtype)
    share = (1 + TRIANGLE_TOLERANCE) / (2 + TRIANGLE_TOLERANCE)
    definite = _pivots(x - checks.MATRIX_TOLERANCE / 2 * trace * one)
    return _is_symmetric(x) & jnp.all(jnp.stack([definite, _pivots(share * trace * one - x)]) > 0)


def _is_symmetric(x: Float[Array, "n n"]) -> Bool[Array, ""]:
    return jnp.max(jnp.abs(x - x.T)) <= _matrix_tolerance(x) * jnp.max(jnp.abs(x))


def _matrix_tolerance(x: Array) -> float:
    return max(checks.MATRIX_TOLERANCE, 8 * float(jnp.finfo(x.dtype).eps))


def _pivots(x: Float[Array, "n n"]) -> Float[Array, " n"]:
    """Those of Gaussian elimination: all of them positive where the symmetric matrix is positive definite."""
    found = []
    for i in range(len(x)):
        pivot = x[i, i]
        found.append(pivot)
        x = x - jnp.outer(x[:, i], x[i] / jnp.where(pivot == 0, 1.0, pivot))
    return jnp.stack(found)


def _are_rotors(armature: Float[Array, " k"], with_rotor: tuple[int, ...]) -> Bool[Array, ""]:
    turns = np.isin(np.arange(len(armature)), with_rotor)
    return jnp.all(jnp.where(turns, armature > 0, armature == 0))


def _is_within(rate: Float[Array, "3"], normal: Float[Array, "3"], key: str) -> Bool[Array, ""]:
    length = jnp.sqrt(jnp.sum(normal**2))
    beyond = jnp.abs(rate @ normal)[None] if key == "velocity" else jnp.abs(jnp.cross(rate, normal))
    return jnp.all(beyond <= checks.UNIT_TOLERANCE * length * jnp.max(jnp.abs(rate)))


RULES: dict[str, tuple[Callable[..., Any], Callable[..., Any] | None]] = {
    "number": (_number(), None),
    "positive number": (_number(positive=True), _is_positive),
    "non-negative number": (_number(non_negative=True), _is_non_negative),
    "numbers": (_finite, None),
    WEIGHTS: (_finite, None),
    "coefficients": (lambda given: require_some(given.path, given.value), lambda x: jnp.any(x != 0)),
    "positive numbers": (_numbers(True), _is_positive),
    "stiffness": (
        lambda given: (_numbers(False) if np.ndim(given.value) < 2 else _non_negative_matrix)(given),
        lambda x: _is_non_negative_matrix(x) if x.ndim == 2 else _is_non_negative(x),
    ),
    "non-negative numbers": (_numbers(False), _is_non_negative),
    "damping": (
        _non_negative_matrix,
        lambda x: _is_non_negative_matrix(x if x.ndim == 2 else jnp.diag(jnp.atleast_1d(x))),
    ),
    "armature": (lambda given: require_rotors(given.path, given.value, given.detail[0]), _are_rotors),
    "inertia": (lambda given: inertia_matrix(given.path, given.value), _is_inertia),
    "bounds": (_bounds, lambda x, low, high: jnp.all((x >= low) & (x <= high))),
    "direction": (lambda given: checks.direction(given.path, given.value), _has_length),
    "directions": (_directions, _has_length),
    "unit quaternion": (lambda given: checks.unit_quaternion(given.path, given.value), _is_unit),
    "pose": (lambda given: checks.pose_coordinates(given.path, given.value), _is_unit),
    "at least coulomb": (
        lambda given, coulomb: require_static(given.path, given.value, coulomb),
        lambda static, coulomb: _is_non_negative(static - coulomb),
    ),
    "within the plane": (
        lambda given, normal: require_within(given.path, given.detail[0], np.asarray(given.value), normal),
        _is_within,
    ),
}
"""By kind: what refuses a known value, and whether a traced one is allowed."""
for _joint_type in JOINT_TYPES.values():
    RULES.update(_joint_type.rules)
