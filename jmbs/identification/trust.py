"""How far estimates can be trusted: covariance, intervals, and the combinations that the data do not show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats

from jmbs.identification.expressions import Expression, parse_expression
from jmbs.identification.least_squares import is_invisible
from jmbs.identification.places import place_of, value_at
from jmbs.identification.problem import Problem, paths_of, ties_of
from jmbs.identification.result import DerivedEstimate, Estimate, InvisibleDirection
from jmbs.identification.transforms import jacobian as transform_jacobian
from jmbs.identification.unknowns import Unknown, parts

CONFIDENCE = 0.95
VISIBLE = 1e-3
"""A value is visible if at most this part of its gradient lies along invisible directions."""
SHOWN = 0.02
"""Coefficients of an invisible direction below this are left out of its words."""
AT_BOUND = 1e-6


class Sensitivity(NamedTuple):
    """What a Jacobian (m, p) of whitened residuals says, in scaled coordinates.

    **Arguments:** `names` (n,) of all values; `values` (n,); `scaling` (n,), what relative changes are counted in;
    `slopes` (n, p), of the values by scaled coordinates; `singular_values` (p,), `directions` (p, p), rows; `invisible`
    (p,); `covariance` (p, p) of the scaled coordinates along what is visible.
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
        """Whether the data show a quantity whose derivative by scaled coordinates (p,) is given."""
        length = float(np.linalg.norm(slope))
        along = float(np.linalg.norm(self.directions[self.invisible] @ slope))
        return length == 0 or along <= VISIBLE * length

    def error(self, slope: np.ndarray) -> float:
        """The standard error of such a quantity."""
        return float(np.sqrt(max(slope @ self.covariance @ slope, 0.0)))


def sensitivity_of(problem: Problem, x: np.ndarray, jacobian: np.ndarray) -> Sensitivity:
    """See `Sensitivity`; `jacobian` (m, p) by coordinates at `x`, rows of priors included."""
    blocks = problem.unknowns.blocks
    names, values, scaling, slopes = [], [], [], np.zeros((0, len(x)))
    unit = np.ones(len(x))
    start = 0
    for block, piece in zip(blocks, parts(blocks, x) if blocks else [], strict=True):
        value, slope = np.asarray(block.transform.values(piece)), transform_jacobian(block.transform, piece)
        scale = scale_of(block, value)
        if block.transform.entrywise:
            unit[start : start + block.size] = scale / np.diag(slope)
        rows = np.zeros((len(value), len(x)))
        rows[:, start : start + block.size] = slope
        names += block.names
        values, scaling, slopes = [*values, *value], [*scaling, *scale], np.concatenate([slopes, rows])
        start += block.size
    _, s, Vt = np.linalg.svd(jacobian * unit, full_matrices=True)
    s = np.concatenate([s, np.zeros(len(x) - len(s))])
    invisible = is_invisible(s)
    seen = Vt[~invisible] / s[~invisible, None]
    return Sensitivity(
        tuple(names), np.array(values), np.array(scaling), slopes * unit, s, Vt, invisible, seen.T @ seen
    )


def scale_of(block: Unknown, value: np.ndarray) -> np.ndarray:
    """What relative changes of a block's values are counted in."""
    if block.scale is not None:
        return block.scale
    size = np.abs(value)
    return np.where(size == 0, np.max(size) or 1.0, size)


def estimates_of(problem: Problem, sensitivity: Sensitivity, x: np.ndarray, degrees: int) -> dict[str, Estimate]:
    """By name all estimates, with intervals by Student's t at that many degrees of freedom; tied ones last."""
    quantile = float(scipy.stats.t.ppf(0.5 + CONFIDENCE / 2, max(degrees, 1)))
    found: dict[str, Estimate] = {}
    row = 0
    blocks = problem.unknowns.blocks
    for block, piece in zip(blocks, parts(blocks, x) if blocks else [], strict=True):
        for i, name in enumerate(block.names):
            slope, value = sensitivity.slopes[row], float(sensitivity.values[row])
            visible = sensitivity.is_visible(slope)
            error = sensitivity.error(slope) if visible else None
            interval = None
            if error is not None:
                interval = _interval(block, piece, i, value, error, quantile)
            held = _at_bound(block, piece, i)
            prior = None if block.prior is None or error is None else error / _prior_error(block, value)
            start = float(block.start[i])
            found[name] = Estimate(
                value, start, unit_in(problem, block), block.kind, visible, error, interval, held, prior
            )
            row += 1
    for path, expression in ties_of(problem.study).items():
        value, slope = expression_of(problem, sensitivity, expression)
        visible = sensitivity.is_visible(slope)
        error = sensitivity.error(slope) if visible else None
        interval = None if error is None else (value - quantile * error, value + quantile * error)
        own = value_at(problem.study.model, place_of(problem.study.model, path))
        start = value if own is None else float(own[0])
        found[path] = Estimate(value, start, "", "tied", visible, error, interval)
    return found


def unit_in(problem: Problem, block: Unknown) -> str:
    """The unit of a block's values: a sensor's bias has that of its output."""
    if block.unit or block.kind != "sensor":
        return block.unit
    sensor = block.path.split("/")[1]
    for experiment in problem.experiments:
        for name, output in zip(experiment.program.sensors, experiment.program.outputs, strict=True):
            if name == sensor:
                return output.unit
    return ""


def _interval(
    block: Unknown, piece: np.ndarray, i: int, value: float, error: float, quantile: float
) -> tuple[float, float]:
    """Through the transform where it is one of a single coordinate, so that what is positive stays so."""
    if not block.transform.entrywise:
        return value - quantile * error, value + quantile * error
    derivative = np.diag(transform_jacobian(block.transform, piece))[i]
    wide = np.zeros(len(piece))
    wide[i] = quantile * error / abs(float(derivative))
    low, high = (float(block.transform.values(jnp.asarray(piece + sign * wide))[i]) for sign in (-1, 1))
    return min(low, high), max(low, high)


def _at_bound(block: Unknown, piece: np.ndarray, i: int) -> bool:
    if not block.transform.entrywise:
        return False
    return bool(piece[i] - block.lower[i] <= AT_BOUND or block.upper[i] - piece[i] <= AT_BOUND)


def _prior_error(block: Unknown, value: float) -> float:
    assert block.prior is not None
    return block.prior.std * (abs(value) if block.prior.log else 1.0)


def expression_of(problem: Problem, sensitivity: Sensitivity, expression: Expression) -> tuple[float, np.ndarray]:
    """The value of an expression of named values, and its derivative (p,) by scaled coordinates."""
    places = {name: i for i, name in enumerate(sensitivity.names)}

    def value(values: Any) -> Any:
        named = _Values(problem, {name: values[i] for name, i in places.items()})
        return expression({path: named[path] for path in expression.names})

    values = jnp.asarray(sensitivity.values)
    found, gradient = jax.value_and_grad(value)(values)
    return float(found), np.asarray(gradient) @ sensitivity.slopes


class _Values:
    """Values by path: unknown ones, tied ones, and those of the model."""

    def __init__(self, problem: Problem, named: Mapping[str, Any]):
        self.problem, self.named, self.ties = problem, named, ties_of(problem.study)

    def __getitem__(self, path: str) -> Any:
        if path in self.named:
            return self.named[path]
        if path in self.ties:
            expression = self.ties[path]
            return expression({inner: self[inner] for inner in expression.names})
        model = self.problem.study.model
        value = value_at(model, place_of(model, path))
        assert value is not None
        return jnp.asarray(value[0])


def derived_of(problem: Problem, sensitivity: Sensitivity, degrees: int) -> dict[str, DerivedEstimate]:
    """What a study derives, with standard errors by the delta method."""
    quantile = float(scipy.stats.t.ppf(0.5 + CONFIDENCE / 2, max(degrees, 1)))
    found, known = {}, paths_of(problem.study)
    for name, text in problem.study.derived.items():
        expression = parse_expression(f"derived/{name}", str(text), known)
        value, slope = expression_of(problem, sensitivity, expression)
        visible = sensitivity.is_visible(slope)
        error = sensitivity.error(slope) if visible else None
        interval = None if error is None else (value - quantile * error, value + quantile * error)
        found[name] = DerivedEstimate(value, str(text), visible, error, interval)
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
