"""The search for the coefficients of the most telling inputs, by sequential quadratic programming from many starts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np

from jmbs.errors import ModelError
from jmbs.identification.design_limits import Reach, beyond, input_rows, output_room, reached, scaled_to_inputs
from jmbs.identification.design_problem import DesignProblem

DRAWN = 6
"""Inputs drawn at random for each start, of which the most telling is taken."""
FIRST_PART = 0.9
"""Of what the limits allow, where a search starts."""
SMALLER = 0.7
LEAST_PART = 1e-3
TOLERANCE = 1e-5
"""Of the criterion, which is a logarithm."""
FIRST_RADIUS, LAST_RADIUS, GROWS, SHRINKS = 0.1, 2e-3, 1.5, 0.3
"""Of the box that a search stays in for a ROUND of iterations; one: from nothing to an input's limit."""
ROUND = 6
GAIN = 1e-3
"""Of the criterion, which a round brings where its box may grow: a thousandth of the variances."""
ROUNDING = 1e-9
"""How far, beside half its width, a limit is left by rounding alone."""
FAILED = 1e3
"""Stands for the criterion of a run that fails, with the sign turned."""


@dataclasses.dataclass(frozen=True)
class DesignProgress:
    """Where a search is: `start` of `starts`, its `iteration`, the `criterion`, and how far the worst limit is left
    (`beyond`, beside half its width; not above zero where all are kept)."""

    start: int
    starts: int
    iteration: int
    criterion: float
    beyond: float


Seen = Callable[[DesignProgress], None]


def first_coefficients(problem: DesignProblem, rng: np.random.Generator) -> np.ndarray:
    """Coefficients drawn at random, so large that they nearly fill the limits. Raises `ModelError` where even small
    inputs leave one."""
    drawn = rng.normal(size=sum(problem.plan.sizes))
    part = FIRST_PART
    while part >= LEAST_PART:
        found = scaled_to_inputs(problem.plan, drawn, part)
        if beyond(reach_of(problem, found))[0] <= ROUNDING:
            return found
        part *= SMALLER
    name = beyond(reach := reach_of(problem, found))[1]
    one = reach[name]
    found, wanted = f"{one.least:g} to {one.most:g} with hardly an input", "a limit that the model keeps by itself"
    raise ModelError(f"limits/{name}", found, wanted)


def reach_of(problem: DesignProblem, coefficients: np.ndarray) -> dict[str, Reach]:
    """By name each limit and what is reached."""
    shown: Mapping[str, np.ndarray] = problem.shown(coefficients) if problem.plan.outputs else {}
    return reached(problem.plan, coefficients, shown)


def best_of_drawn(problem: DesignProblem, rng: np.random.Generator) -> np.ndarray:
    """The most telling of some coefficients drawn at random."""
    drawn = [first_coefficients(problem, rng) for _ in range(DRAWN)]
    return max(drawn, key=problem.value)


class Search:
    """A search from a start by sequential quadratic programming. `coefficients`, the best so far within all limits, and
    their `criterion` hold at any moment, wherever Ctrl-C ends it."""

    def __init__(self, problem: DesignProblem, start: np.ndarray, number: int, seen: Seen):
        self.problem, self.number, self.seen = problem, number, seen
        self.iterations = 0
        self._last = (start.tobytes(), problem.value(start))
        self.coefficients, self.criterion = start, self._last[1]

    def value(self, coefficients: np.ndarray) -> float:
        """The criterion; computed once for coefficients that are asked for again."""
        key = coefficients.tobytes()
        if self._last[0] != key:
            self._last = key, self.problem.value(coefficients)
        return self._last[1]

    def iterated(self, coefficients: np.ndarray) -> None:
        """Takes note of an iteration's end, drawn into the limits where it is a little beyond."""
        self.iterations += 1
        by = beyond(reach_of(self.problem, coefficients))[0]
        criterion = self.value(coefficients)
        excitation = self.problem.plan.excitation
        self.seen(DesignProgress(self.number, excitation.starts, self.iterations, criterion, by))
        if criterion <= self.criterion:
            return
        within = _drawn_in(self.problem, coefficients) if by > 0 else coefficients
        if within is None:
            return
        criterion = criterion if by <= ROUNDING else self.problem.value(within)
        if criterion > self.criterion:
            self.coefficients, self.criterion = within, criterion

    def improve(self) -> None:
        """Searches within a box around the best so far, which grows and shrinks: motions follow their inputs so little
        linearly that free steps leave all limits."""
        # What takes an input to its limit by one coefficient alone.
        size = 1 / np.max(np.abs(input_rows(self.problem.plan)[0]), axis=0)
        radius = FIRST_RADIUS
        while radius > LAST_RADIUS and self.iterations < self.problem.plan.excitation.max_iterations:
            before = self.criterion
            _search_within(self.problem, self, radius * size)
            radius *= GROWS if self.criterion > before + GAIN else SHRINKS


def _search_within(problem: DesignProblem, best: Search, half: np.ndarray) -> None:
    """Some iterations within a box of half widths (k,) around the best."""
    import scipy.optimize

    centre, rows_and_bounds = best.coefficients, input_rows(problem.plan)
    rows, bounds = rows_and_bounds[0] * half, rows_and_bounds[1] - rows_and_bounds[0] @ centre
    constraints = [{"type": "ineq", "fun": lambda v: bounds - rows @ v, "jac": lambda v: -rows}]
    if problem.plan.outputs:
        room = {"fun": lambda v: output_room(problem, centre + half * v)[0]}
        slope = {"jac": lambda v: half * output_room(problem, centre + half * v)[1]}
        constraints.append({"type": "ineq", **room, **slope})
    left = problem.plan.excitation.max_iterations - best.iterations
    scipy.optimize.minimize(
        lambda v: -max(best.value(centre + half * v), -FAILED),
        np.zeros(len(centre)),
        jac=lambda v: -half * np.nan_to_num(problem.gradient(centre + half * v)),
        bounds=[(-1.0, 1.0)] * len(centre),
        constraints=constraints,
        method="SLSQP",
        callback=lambda v: best.iterated(centre + half * v),
        options={"maxiter": min(ROUND, left), "ftol": TOLERANCE},
    )


def _drawn_in(problem: DesignProblem, coefficients: np.ndarray) -> np.ndarray | None:
    """The coefficients a little smaller, so that all limits are kept; None where that takes more than a tenth."""
    factor = 1.0
    for _ in range(8):
        by = beyond(reach_of(problem, factor * coefficients))[0]
        if by <= 0:
            return factor * coefficients
        factor *= 1 - 1.5 * min(by, 0.05) - ROUNDING
        if factor < 0.9:
            return None
    return factor * coefficients if by <= ROUNDING else None
