"""How far estimates can be trusted: covariance, intervals, and the combinations that the data do not show."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple, TypeVar

import jax.numpy as jnp
import numpy as np
import scipy.stats

from jmbs.identification.estimates import DerivedEstimate, Estimate, InvisibleDirection
from jmbs.identification.least_squares import is_invisible
from jmbs.identification.places import unit_of, value_at
from jmbs.identification.problem import FitProblem
from jmbs.identification.quantities import expression_of, is_logarithmic, place_of_tie, unit_in
from jmbs.identification.robust import robust_covariance
from jmbs.identification.transforms import LinearTransform
from jmbs.identification.transforms import jacobian as transform_jacobian
from jmbs.identification.unknowns import Unknown, parts

CONFIDENCE = 0.95
VISIBLE = 1e-3
"""A value is visible if at most this part of its gradient lies along invisible directions."""
MOST_WITH_ERRORS = 100
"""Unknowns by gradient descent, up to which a Jacobian at the end gives a covariance."""
SHOWN = 0.02
"""Coefficients of an invisible direction below this are left out of its words."""
AT_BOUND = 1e-6


class Sensitivity(NamedTuple):
    """What a Jacobian (m, p) of whitened residuals by coordinates says; coordinates are of order one.

    **Arguments:** `names` (n,) of all values; `values` (n,); `scaling` (n,), what relative changes are counted in;
    `slopes` (n, p), of the values by coordinates; `singular_values` (p,), `directions` (p, p), rows; `invisible`
    (p,); `covariance` (p, p) of the coordinates along what is visible. `rise`: what one standard error
    adds to the loss, one for squares. Without a Jacobian it is not `known`: `slopes` and all after them are empty, and
    nothing has an error.
    """

    names: tuple[str, ...]
    values: np.ndarray
    scaling: np.ndarray
    slopes: np.ndarray
    singular_values: np.ndarray
    directions: np.ndarray
    invisible: np.ndarray
    covariance: np.ndarray
    known: bool = True
    rise: float = 1.0

    def is_visible(self, slope: np.ndarray) -> bool:
        """Whether the data show a quantity whose derivative by coordinates (p,) is given."""
        length = float(np.linalg.norm(slope))
        along = float(np.linalg.norm(self.directions[self.invisible] @ slope))
        return length == 0 or along <= VISIBLE * length

    def error(self, slope: np.ndarray) -> float | None:
        """The standard error of such a quantity, None where it is not visible."""
        if not self.known:
            return None
        return float(np.sqrt(max(slope @ self.covariance @ slope, 0.0))) if self.is_visible(slope) else None

    def seen(self, error: float | None) -> bool | None:
        """Whether the data show a quantity of this standard error, None where nobody knows."""
        return error is not None if self.known else None

    def errors(self, slopes: np.ndarray) -> np.ndarray:
        """Standard errors (m,) of one quantity at m times, whose derivatives (m, p) are given; NaN where not visible.

        What hardly moves beside the largest is judged by that, for rounding has no direction.
        """
        if not self.known:
            return np.full(len(slopes), np.nan)
        length = np.linalg.norm(slopes, axis=1)
        along = np.linalg.norm(slopes @ self.directions[self.invisible].T, axis=1)
        seen = along <= VISIBLE * np.maximum(length, VISIBLE * np.max(length, initial=0.0))
        variance = np.einsum("mi,ij,mj->m", slopes, self.covariance, slopes)
        return np.where(seen, np.sqrt(np.maximum(variance, 0.0)), np.nan)


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


def has_errors(problem: FitProblem) -> bool:
    """Whether a covariance is worked out: not of large sets by gradient descent, whose Jacobian would take longer."""
    by_gradients = problem.study.estimator.method == "gradient_descent"
    return not by_gradients or len(problem.unknowns.first) <= MOST_WITH_ERRORS


def values_only(problem: FitProblem, x: np.ndarray) -> Sensitivity:
    """What is known at `x` without a Jacobian: values."""
    blocks = problem.unknowns.blocks
    values = [np.asarray(block.transform.values(piece)) for block, piece in zip(blocks, parts(blocks, x), strict=True)]
    scaling = [scale_of(block, value) for block, value in zip(blocks, values, strict=True)]
    names = tuple(name for block in blocks for name in block.names)
    none, empty = np.zeros(0), np.zeros((0, 0))
    slopes = np.zeros((len(names), 0))
    known = np.concatenate([none, *values]), np.concatenate([none, *scaling])
    return Sensitivity(names, *known, slopes, none, empty, np.zeros(0, bool), empty, known=False)


def robust_sensitivity(
    problem: FitProblem, sensitivity: Sensitivity, residual: np.ndarray, jacobian: np.ndarray
) -> Sensitivity:
    """The same with the covariance that holds where residuals are correlated over time; rows as of `rows_of`."""
    seen = ~sensitivity.invisible
    directions, values = sensitivity.directions[seen], sensitivity.singular_values[seen]
    return sensitivity._replace(covariance=robust_covariance(problem, residual, jacobian, directions, values))


Estimates = TypeVar("Estimates", Estimate, DerivedEstimate)


def with_robust_errors(found: Mapping[str, Estimates], robust: Mapping[str, Estimates]) -> dict[str, Estimates]:
    """Estimates with the standard errors of others beside their own."""
    return {
        name: dataclasses.replace(one, standard_error_robust=robust[name].standard_error) for name, one in found.items()
    }


def scale_of(block: Unknown, value: np.ndarray) -> np.ndarray:
    """What changes of a block's values are counted in: what a coordinate of one is."""
    if isinstance(block.transform, LinearTransform):
        return np.asarray(block.transform.scale)
    size = np.abs(value)
    return np.where(size == 0, np.max(size) or 1.0, size)


def estimates_of(problem: FitProblem, sensitivity: Sensitivity, x: np.ndarray, degrees: int) -> dict[str, Estimate]:
    """By name all estimates, with intervals by Student's t at that many degrees of freedom; tied ones last."""
    quantile = quantile_of(degrees)
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
            unit, seen = unit_in(problem, block), sensitivity.seen(error)
            found[name] = Estimate(value, start, unit, block.kind, seen, error, interval, held, prior)
            row += 1
    for path in problem.ties:
        value, slope = expression_of(problem, x, path)
        error = sensitivity.error(slope)
        interval = None if error is None else around(value, quantile * error, is_logarithmic(problem, path))
        model, place = place_of_tie(problem, path)
        own = value_at(model, place)
        start = value if own is None else float(own[0])
        found[path] = Estimate(value, start, unit_of(model, place), "tied", sensitivity.seen(error), error, interval)
    return found


def quantile_of(degrees: int) -> float:
    """Of Student's t: how many standard errors to each side an interval reaches."""
    return float(scipy.stats.t.ppf(0.5 + CONFIDENCE / 2, max(degrees, 1)))


def around(value: float, wide: float, positive: bool = False) -> tuple[float, float]:
    """The interval about a value; that of its logarithm, mapped back, where it is positive whatever happens."""
    if positive and value > 0:
        factor = float(np.exp(wide / value))
        return value / factor, value * factor
    return value - wide, value + wide


def _interval(block: Unknown, piece: np.ndarray, i: int, value: float, wide: float) -> tuple[float, float]:
    """Through the transform where it is one of a single coordinate, so that what is positive stays so."""
    if not block.transform.entrywise:
        return around(value, wide)
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


def derived_of(
    problem: FitProblem, sensitivity: Sensitivity, x: np.ndarray, degrees: int
) -> dict[str, DerivedEstimate]:
    """What a study derives, with standard errors by the delta method."""
    quantile = quantile_of(degrees)
    found = {}
    for name, expression in problem.derived.items():
        value, slope = expression_of(problem, x, name)
        error = sensitivity.error(slope) if np.isfinite(value) else None
        interval = None if error is None else around(value, quantile * error)
        found[name] = DerivedEstimate(value, expression.text, sensitivity.seen(error), error, interval)
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
