"""How far estimates can be trusted: covariance, intervals, and the combinations that the data do not show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats
from jaxtyping import Array, Float

from jmbs.identification.expressions import Expression
from jmbs.identification.least_squares import is_invisible
from jmbs.identification.parameter_paths import has_parameter
from jmbs.identification.places import place_of, unit_of, value_at
from jmbs.identification.prediction import value_of, with_ties
from jmbs.identification.problem import FitProblem
from jmbs.identification.result import DerivedEstimate, Estimate, InvisibleDirection
from jmbs.identification.study import SENSOR_KEYS, Parameter, models_of
from jmbs.identification.transforms import LinearTransform
from jmbs.identification.transforms import jacobian as transform_jacobian
from jmbs.identification.unknowns import Unknown, by_name, parts, values_of
from jmbs.simulation import Model

CONFIDENCE = 0.95
VISIBLE = 1e-3
"""A value is visible if at most this part of its gradient lies along invisible directions."""
SHOWN = 0.02
"""Coefficients of an invisible direction below this are left out of its words."""
AT_BOUND = 1e-6


class Sensitivity(NamedTuple):
    """What a Jacobian (m, p) of whitened residuals by coordinates says; coordinates are of order one.

    **Arguments:** `names` (n,) of all values; `values` (n,); `scaling` (n,), what relative changes are counted in;
    `slopes` (n, p), of the values by coordinates; `singular_values` (p,), `directions` (p, p), rows; `invisible`
    (p,); `covariance` (p, p) of the coordinates along what is visible.
    """

    names: tuple[str, ...]
    values: np.ndarray
    scaling: np.ndarray
    slopes: np.ndarray
    singular_values: np.ndarray
    directions: np.ndarray
    invisible: np.ndarray
    covariance: np.ndarray

    def is_visible(self, slope: np.ndarray) -> bool:
        """Whether the data show a quantity whose derivative by coordinates (p,) is given."""
        length = float(np.linalg.norm(slope))
        along = float(np.linalg.norm(self.directions[self.invisible] @ slope))
        return length == 0 or along <= VISIBLE * length

    def error(self, slope: np.ndarray) -> float | None:
        """The standard error of such a quantity, None where it is not visible."""
        return float(np.sqrt(max(slope @ self.covariance @ slope, 0.0))) if self.is_visible(slope) else None


def sensitivity_of(problem: FitProblem, x: np.ndarray, jacobian: np.ndarray) -> Sensitivity:
    """See `Sensitivity`; `jacobian` (m, p) by coordinates at `x`, rows of priors included."""
    blocks = problem.unknowns.blocks
    names, values, scaling, slopes = [], [], [], np.zeros((0, len(x)))
    start = 0
    for block, piece in zip(blocks, parts(blocks, x), strict=True):
        value, slope = np.asarray(block.transform.values(piece)), transform_jacobian(block.transform, piece)
        rows = np.zeros((len(value), len(x)))
        rows[:, start : start + block.size] = slope
        names += block.names
        values, scaling = [*values, *value], [*scaling, *scale_of(block, value)]
        slopes = np.concatenate([slopes, rows])
        start += block.size
    triangle = np.zeros((len(x), len(x)))
    R = np.linalg.qr(jacobian, mode="r")
    triangle[: len(R)] = R
    _, s, Vt = np.linalg.svd(triangle)
    invisible = is_invisible(s)
    seen = Vt[~invisible] / s[~invisible, None]
    return Sensitivity(tuple(names), np.array(values), np.array(scaling), slopes, s, Vt, invisible, seen.T @ seen)


def scale_of(block: Unknown, value: np.ndarray) -> np.ndarray:
    """What changes of a block's values are counted in: what a coordinate of one is."""
    if isinstance(block.transform, LinearTransform):
        return np.asarray(block.transform.scale)
    size = np.abs(value)
    return np.where(size == 0, np.max(size) or 1.0, size)


def estimates_of(problem: FitProblem, sensitivity: Sensitivity, x: np.ndarray, degrees: int) -> dict[str, Estimate]:
    """By name all estimates, with intervals by Student's t at that many degrees of freedom; tied ones last."""
    quantile = _quantile(degrees)
    found: dict[str, Estimate] = {}
    row = 0
    blocks = problem.unknowns.blocks
    for block, piece in zip(blocks, parts(blocks, x), strict=True):
        for i, name in enumerate(block.names):
            slope, value = sensitivity.slopes[row], float(sensitivity.values[row])
            error = sensitivity.error(slope)
            interval = None if error is None else _interval(block, piece, i, value, quantile * error)
            held = _at_bound(block, piece, i)
            prior = None if block.prior is None or error is None else error / _prior_error(block, value)
            start = float(block.start[i])
            unit, seen = unit_in(problem, block), error is not None
            found[name] = Estimate(value, start, unit, block.kind, seen, error, interval, held, prior)
            row += 1
    for path, expression in problem.ties.items():
        value, slope = expression_of(problem, x, expression)
        error = sensitivity.error(slope)
        interval = None if error is None else _around(value, quantile * error)
        model = next(m for m in models_of(problem.study) if has_parameter(m, path))
        place = place_of(model, path)
        own = value_at(model, place)
        start = value if own is None else float(own[0])
        found[path] = Estimate(value, start, unit_of(model, place), "tied", error is not None, error, interval)
    return found


def unit_in(problem: FitProblem, block: Unknown) -> str:
    """The unit of a block's values: a sensor's bias has that of its output."""
    if block.unit or block.kind != "sensor":
        return block.unit
    sensor = block.path.split("/")[1]
    for experiment in problem.experiments:
        if sensor in experiment.outputs:
            return experiment.outputs[sensor].unit
    return ""


def _quantile(degrees: int) -> float:
    return float(scipy.stats.t.ppf(0.5 + CONFIDENCE / 2, max(degrees, 1)))


def _around(value: float, wide: float) -> tuple[float, float]:
    return value - wide, value + wide


def _interval(block: Unknown, piece: np.ndarray, i: int, value: float, wide: float) -> tuple[float, float]:
    """Through the transform where it is one of a single coordinate, so that what is positive stays so."""
    if not block.transform.entrywise:
        return _around(value, wide)
    derivative = np.diag(transform_jacobian(block.transform, piece))[i]
    change = np.zeros(len(piece))
    change[i] = wide / abs(float(derivative))
    low, high = (float(block.transform.values(jnp.asarray(piece + sign * change))[i]) for sign in (-1, 1))
    return min(low, high), max(low, high)


def _at_bound(block: Unknown, piece: np.ndarray, i: int) -> bool:
    if not block.transform.entrywise:
        return False
    return bool(piece[i] - block.lower[i] <= AT_BOUND or block.upper[i] - piece[i] <= AT_BOUND)


def _prior_error(block: Unknown, value: float) -> float:
    assert block.prior is not None
    return block.prior.std * (abs(value) if block.prior.log else 1.0)


def study_model(problem: FitProblem, x: Float[Array, " p"]) -> tuple[Model, dict[str, Array]]:
    """The study's model at coordinates, with what is tied, and all values by name; pure. Initial values that are
    unknown per recording stay as they were."""
    blocks, model = problem.unknowns.blocks, problem.study.model
    values = values_of([block.transform for block in blocks], blocks, x)
    named = _named(problem, x)
    placed = {
        block.place: value
        for block, value in zip(blocks, values, strict=True)
        if block.place is not None and block.recording is None and has_parameter(model, block.path)
    }
    ties = [(place_of(model, path), e) for path, e in problem.ties.items() if has_parameter(model, path)]
    fitted, tied, _ = with_ties(model, placed, ties, named)
    return fitted, named | tied


def _named(problem: FitProblem, x: Float[Array, " p"]) -> dict[str, Array]:
    """What is unknown, and what is known of sensors, by name; pure."""
    blocks = problem.unknowns.blocks
    values = values_of([block.transform for block in blocks], blocks, x)
    return _sensor_values(problem) | by_name(blocks, values)


def expression_of(problem: FitProblem, x: np.ndarray, expression: Expression) -> tuple[float, np.ndarray]:
    """The value of an expression at coordinates (p,), and its derivative by them.

    Its paths are unknowns by name, or else what the study's model has where the unknowns and ties hold.
    """

    def value(coordinates: Float[Array, " p"]) -> Array:
        named = _named(problem, coordinates)
        if all(path in named for path in expression.names):
            return value_of(expression, problem.study.model, named)
        return value_of(expression, *study_model(problem, coordinates))

    at = jnp.asarray(x, problem.study.model.dtype)
    if not at.size:
        return float(value(at)), np.zeros(0)
    found, gradient = jax.value_and_grad(value)(at)
    return float(found), np.asarray(gradient, float)


def _sensor_values(problem: FitProblem) -> dict[str, Any]:
    """What is known of sensors, by path."""
    found: dict[str, Any] = {}
    for name, sensor in problem.study.sensors.items():
        for key in SENSOR_KEYS:
            if not isinstance(value := getattr(sensor, key), Parameter):
                found[f"sensors/{name}/{key}"] = jnp.asarray(value, problem.study.model.dtype)
        noise = problem.noise.get(name) if isinstance(sensor.noise, str) else sensor.noise
        if noise is not None:
            found[f"sensors/{name}/noise"] = jnp.asarray(noise, problem.study.model.dtype)
    return found


def derived_of(
    problem: FitProblem, sensitivity: Sensitivity, x: np.ndarray, degrees: int
) -> dict[str, DerivedEstimate]:
    """What a study derives, with standard errors by the delta method."""
    quantile = _quantile(degrees)
    found = {}
    for name, expression in problem.derived.items():
        value, slope = expression_of(problem, x, expression)
        error = sensitivity.error(slope)
        interval = None if error is None else _around(value, quantile * error)
        found[name] = DerivedEstimate(value, expression.text, error is not None, error, interval)
    return found


def invisible_directions(sensitivity: Sensitivity) -> tuple[InvisibleDirection, ...]:
    """Each direction that the data do not show, in relative changes of the values and in words."""
    found = []
    vectors = _sparse(sensitivity.directions[sensitivity.invisible])
    values = sensitivity.singular_values[sensitivity.invisible]
    for vector, value in zip(vectors, values, strict=True):
        changes = sensitivity.slopes @ vector / sensitivity.scaling
        changes = changes / changes[np.argmax(np.abs(changes))]
        kept = {n: float(c) for n, c in zip(sensitivity.names, changes, strict=True) if abs(c) >= SHOWN}
        found.append(InvisibleDirection(float(value), kept, _in_words(kept)))
    return tuple(found)


def _sparse(vectors: np.ndarray) -> np.ndarray:
    """Another basis of the space that rows span, with zeros where they can be, by elimination."""
    rows = vectors.copy()
    for i in range(len(rows)):
        rest = np.abs(rows[i:])
        r, column = np.unravel_index(np.argmax(rest), rest.shape)
        rows[[i, i + r]] = rows[[i + r, i]]
        rows[i] /= rows[i, column]
        for j in range(len(rows)):
            if j != i:
                rows[j] -= rows[j, column] * rows[i]
    return rows


def _in_words(coefficients: Mapping[str, float]) -> str:
    names = list(coefficients)
    if len(names) == 1:
        return f"{names[0]} alone"
    up = [name for name, c in coefficients.items() if c > 0]
    down = [name for name, c in coefficients.items() if c < 0]
    if all(abs(abs(c) - 1) < 0.02 for c in coefficients.values()):
        if not down or not up:
            return f"{_listed(up or down)} in proportion"
        return f"{_listed(up)} against {_listed(down)} in proportion"
    return f"{_listed([f'{name} ({c:+.2g})' for name, c in coefficients.items()])} together"


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def correlation_of(covariance: np.ndarray) -> np.ndarray:
    """Correlations from a covariance; NaN where a variance is zero or unknown."""
    error = np.sqrt(np.diag(covariance))
    with np.errstate(invalid="ignore", divide="ignore"):
        return covariance / np.outer(error, error)
