"""Profile likelihood: how chi-squared rises as one value is moved and all others are fitted again."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.interpolate

from jmbs.errors import ModelError
from jmbs.identification.estimation import limits_of, rows_of
from jmbs.identification.fit_table import number_text, printable_lines
from jmbs.identification.least_squares import Evaluate, Iterate, minimise, robust_cost
from jmbs.identification.quantities import is_logarithmic, names_of, quantity_at, unit_at
from jmbs.identification.solution import Solution

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HOLD = 10.0
"""How stiffly a value is held, beside how the data hold it; where it ends counts, not where it was to go."""


@dataclasses.dataclass(frozen=True)
class Profile:
    """Chi-squared along one value, all other unknowns fitted again at each point.

    **Arguments:** `name`, `unit`; `estimate`, `standard_error`; `values` (n,), increasing, the estimate among them;
    `increase` (n,) of chi-squared above that of the estimate, of a robust loss in terms of what it rises in one
    standard error; `converged` (n,); `threshold`: the increase at the ends of the 95 % likelihood `interval`, whose
    ends are None where the profile does not reach it; `others`: by name the values (n,) of all unknowns along it;
    `evaluations`: how many Jacobians it took.
    """

    name: str
    unit: str
    estimate: float
    standard_error: float
    values: np.ndarray
    increase: np.ndarray
    converged: np.ndarray
    threshold: float
    interval: tuple[float | None, float | None]
    others: Mapping[str, np.ndarray]
    evaluations: int

    @property
    def lowest(self) -> float:
        """The lowest increase: below zero where the fit had not found the minimum."""
        return float(np.min(self.increase))

    def summary(self) -> str:
        """The interval by likelihood in words; printable text."""
        low, high = ("beyond the profile" if end is None else number_text(end) for end in self.interval)
        text = f"profile of {self.name}: 95 % by likelihood {low} ... {high}{f' {self.unit}' if self.unit else ''}"
        if not np.all(self.converged):
            text += f"; {int(np.sum(~self.converged))} of {len(self.values)} points did not converge"
        if self.lowest < -1e-3 * self.threshold:
            text += f"; chi-squared falls by {-self.lowest:.3g} along it: the fit had not found the minimum"
        return printable_lines(text)

    def plot(self) -> Figure:
        """The profile beside the parabola of the standard error."""
        from jmbs.visualise import profile_figure

        return profile_figure(self)


class _Point(NamedTuple):
    """Where the others fit best: coordinates, the value there, chi-squared, and whether the search converged."""

    x: np.ndarray
    value: float
    chi2: float
    converged: bool


def profile_of(solution: Solution, name: str, n: int = 15, span: float = 3.0) -> Profile:
    """See `Fit.profile`. Raises `ModelError` for what is no value of the fit, or one that the data do not show."""
    if n < 3 or not span > 0:
        raise ModelError(f"profile/{name}", f"n={n}, span={span:g}", "3 points or more, over a positive span")
    if not solution.sensitivity.known:
        raise ModelError(f"profile/{name}", "a fit without a covariance", "one of fewer unknowns, or by shooting")
    value, slope = quantity_at(solution.problem, name, solution.x)
    error = solution.sensitivity.error(slope)
    if not error:
        wanted = "a value that the data show: chi-squared is the same whatever it is"
        raise ModelError(f"profile/{name}", "not visible" if error is None else "a constant", wanted)
    walk = _Walk(solution, name, value, error)
    start = walk.point(solution.x)
    sides = [walk.outward(start, sign * span * np.arange(1, n // 2 + 1) / (n // 2)) for sign in (-1, 1)]
    points = [*sides[0][::-1], start, *sides[1]]
    rise, threshold = solution.sensitivity.rise, solution.quantile**2
    increase = np.array([point.chi2 - start.chi2 for point in points]) / rise
    ends = [_crossing([start, *side], start.chi2, threshold * rise, walk.logarithmic) for side in sides]
    return Profile(
        name,
        unit_at(solution.problem, name),
        value,
        error,
        np.array([point.value for point in points]),
        increase,
        np.array([point.converged for point in points]),
        threshold,
        (ends[0], ends[1]),
        _along(solution, points),
        walk.evaluations,
    )


class _Walk:
    """Outward from the estimate, each point from the one before. A row beside those of the samples holds the value; at
    the minimum with any such row the others fit best for the value that is there."""

    def __init__(self, solution: Solution, name: str, value: float, error: float):
        problem = solution.problem
        self.solution, self.name, self.value, self.error = solution, name, value, error
        self.logarithmic = is_logarithmic(problem, name) and value > 0
        self.evaluations = 0
        self._rows: Evaluate = rows_of(problem, 1.0, pull=False)[0]
        self._costs: dict[bytes, float] = {}
        self.limits = limits_of(problem)

    def point(self, x: np.ndarray, converged: bool = True) -> _Point:
        """The point at coordinates."""
        if x.tobytes() not in self._costs:
            self._evaluate(x)
        return _Point(x, quantity_at(self.solution.problem, self.name, x)[0], 2 * self._costs[x.tobytes()], converged)

    def outward(self, start: _Point, steps: np.ndarray) -> list[_Point]:
        """The points at so many standard errors from the estimate, those beyond a bound left out."""
        found, at = [], start
        for z in steps:
            target = self.value + z * self.error
            if self.logarithmic:
                target = self.value * np.exp(z * self.error / self.value)
            following = self._refitted(at, float(target))
            # What is held at a bound goes no further.
            if (following.value - at.value) * np.sign(z) < 1e-3 * abs(steps[0]) * self._unit(at.value):
                break
            found.append(following)
            at = following
        return found

    def _unit(self, value: float) -> float:
        """One standard error at a value."""
        return self.error * value / self.value if self.logarithmic else self.error

    def _refitted(self, at: _Point, target: float) -> _Point:
        """The others fitted again near a target of the value, from a point along the direction that costs least."""
        weight = HOLD / self._unit(target)

        def evaluate(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            residual, jacobian = self._evaluate(x)
            value, slope = quantity_at(self.solution.problem, self.name, x)
            return np.append(residual, weight * (value - target)), np.vstack([jacobian, weight * slope])

        _, slope = quantity_at(self.solution.problem, self.name, at.x)
        along = self.solution.sensitivity.covariance @ slope
        x = at.x + along * (target - at.value) / float(slope @ along)
        first = Iterate(np.clip(x, self.limits.lower, self.limits.upper))
        iterate = minimise(evaluate, first, self.limits, lambda _: None)
        return self.point(iterate.x, iterate.stopped == "converged")

    def _evaluate(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        residual, jacobian = self._rows(x)
        self.evaluations += 1
        self._costs[x.tobytes()] = robust_cost(residual, self.limits)
        return residual, jacobian


def _crossing(points: list[_Point], lowest: float, threshold: float, logarithmic: bool) -> float | None:
    """Where a side of the profile reaches the threshold: on the root of the increase, which is nearly straight."""
    roots = np.sqrt(np.maximum([point.chi2 - lowest for point in points], 0.0))
    values = np.array([point.value for point in points])
    rising = np.concatenate([[True], roots[1:] > np.maximum.accumulate(roots)[:-1]])
    roots, values = roots[rising], values[rising]
    if len(roots) < 2 or not roots[-1] >= np.sqrt(threshold):
        return None
    curve = scipy.interpolate.PchipInterpolator(roots, np.log(values) if logarithmic else values)
    end = float(curve(np.sqrt(threshold)))
    return float(np.exp(end)) if logarithmic else end


def _along(solution: Solution, points: list[_Point]) -> dict[str, np.ndarray]:
    """By name the values (n,) at points."""
    problem = solution.problem
    return {
        name: np.array([quantity_at(problem, name, point.x)[0] for point in points])
        for name in names_of(problem)
        if name not in problem.derived
    }
