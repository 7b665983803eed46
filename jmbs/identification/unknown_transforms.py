"""How the values of an unknown are coordinates of a search: their transform, bounds and scale."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from jmbs.errors import ModelError
from jmbs.identification.places import INERTIAL, Place
from jmbs.identification.study import Parameter
from jmbs.identification.transforms import (
    InertiaTransform,
    LinearTransform,
    LogTransform,
    PseudoInertiaTransform,
    RotationTransform,
    Transform,
    inertia_bounds,
)
from jmbs.library.mechanics import WEIGHTS
from jmbs.simulation import Model, parameter_value

POSITIVE = (
    *("positive number", "positive numbers", "non-negative number", "non-negative numbers"),
    *("damping", "stiffness", "armature"),
)
"""Rules of parameters whose values are never negative: these get the logarithm, but for matrices."""
UNIT_SCALES = {
    **{"q": 0.1, "guess": 0.1, "v": 1.0},
    **{"position": 0.1, "quaternion": 0.1, "velocity": 1.0, "angular_velocity": 1.0},
}
"""What initial values are counted in, in their unit, where singular values are judged."""
TRANSFORMS = ("log", "linear", "pseudo_inertia", "rotation")


def transform_of(model: Model, path: str, place: Place, parameter: Parameter, start: np.ndarray) -> Transform:
    """The transform that is asked for, or the default one. Raises `ModelError` for one that cannot be there."""
    named = parameter.transform or default_transform(model, place, start)
    if named == "log":
        return log_transform(path, start)
    if named == "linear":
        return LinearTransform(jnp.asarray(start), jnp.asarray(_linear_scale(model, place, start)))
    if named == "pseudo_inertia" and place.base == INERTIAL:
        return PseudoInertiaTransform(jnp.asarray(start))
    if named == "pseudo_inertia" and _is_whole_inertia(place, start):
        return InertiaTransform(jnp.asarray(start), float(np.sqrt(np.max(np.abs(start)))))
    if named == "rotation" and len(start) in (4, 7):
        return RotationTransform(jnp.asarray(start))
    if named not in TRANSFORMS:
        raise ModelError(f"parameters/{path}/transform", repr(named), f"one of {', '.join(TRANSFORMS)}")
    wanted = {"pseudo_inertia": f"<body>/{INERTIAL} or a whole <body>/inertia", "rotation": "a quaternion"}[named]
    raise ModelError(f"parameters/{path}/transform", named, f"{wanted} for it")


def default_transform(model: Model, place: Place, start: np.ndarray) -> str:
    """The transform of an unknown that gives none: by what the model's own rules allow at its place."""
    if place.base == INERTIAL or _is_whole_inertia(place, start):
        return "pseudo_inertia"
    if place.index is None and _is_rotation(model, place, len(start)):
        return "rotation"
    positive = _rules(model, place) & set(POSITIVE)
    return "log" if positive and np.ndim(parameter_value(model, place.base)) < 2 else "linear"


def _rules(model: Model, place: Place) -> set[str]:
    """The kinds of rules that the parameter at a place has."""
    return {rule.kind for parameter in model.table if parameter.path == place.base for rule in parameter.rules}


def _is_whole_inertia(place: Place, start: np.ndarray) -> bool:
    return place.index is None and place.base.endswith("/inertia") and len(start) == 9


def _is_rotation(model: Model, place: Place, size: int) -> bool:
    if place.base.endswith("quaternion"):
        return True
    name = place.base.removeprefix("initial/").rpartition("/")[0]
    if not place.base.startswith("initial/") or name not in model.layout.joints or size not in (4, 7):
        return False
    return model.layout.joint(name).type in ("spherical", "free")


def log_transform(path: str, start: np.ndarray) -> Transform:
    """By logarithms. Raises `ModelError` for a `start` that has none."""
    if not np.all(start > 0):
        wanted = "a start above zero, since it is fitted as a logarithm; or transform: linear"
        raise ModelError(f"parameters/{path}/start", ", ".join(f"{x:g}" for x in start), wanted)
    return LogTransform(jnp.asarray(start))


def _linear_scale(model: Model, place: Place, start: np.ndarray) -> np.ndarray:
    if place.base.startswith("initial/"):
        return initial_scale(place, len(start))
    if WEIGHTS in _rules(model, place):
        return np.ones(len(start))
    largest = float(np.max(np.abs(start), initial=0.0)) or (0.1 if place.body is not None else 1.0)
    return np.where(start == 0, largest, np.abs(start))


def initial_scale(place: Place, size: int) -> np.ndarray:
    """What `size` initial values at a place are counted in."""
    return np.full(size, UNIT_SCALES.get(place.base.rpartition("/")[2], 1.0))


def coordinate_bounds(path: str, parameter: Parameter, transform: Transform) -> tuple[np.ndarray, np.ndarray]:
    """The lowest and highest coordinates (k,). Raises `ModelError` for bounds that are none, and a start beyond."""
    first = transform.coordinates(np.asarray(transform.start))
    lower, upper = np.full(len(first), -np.inf), np.full(len(first), np.inf)
    if isinstance(transform, PseudoInertiaTransform | InertiaTransform):
        lower, upper = inertia_bounds(transform)
    if parameter.bounds is None:
        return lower, upper
    low, high = parameter.bounds
    if not transform.entrywise:
        raise ModelError(f"parameters/{path}/bounds", "bounds", "none beside this transform, which keeps it physical")
    if low is not None and high is not None and not low < high:
        raise ModelError(f"parameters/{path}/bounds", f"[{low:g}, {high:g}]", "a lower and a higher number")
    start = np.asarray(transform.start)
    if (low is not None and np.any(start < low)) or (high is not None and np.any(start > high)):
        raise ModelError(f"parameters/{path}/start", ", ".join(f"{x:g}" for x in start), "a start within the bounds")
    if low is not None and not (isinstance(transform, LogTransform) and low <= 0):
        lower = transform.coordinates(np.full(start.shape, float(low)))
    if high is not None:
        upper = transform.coordinates(np.full(start.shape, float(high)))
    return lower, upper
