"""Shooting: the whole of each recording simulated from its start, compared over a horizon that grows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from jmbs.errors import ModelError
from jmbs.identification.least_squares import Evaluate, Iterate, Limits, minimise
from jmbs.identification.priors import prior_rows
from jmbs.identification.problem import FitProblem
from jmbs.identification.study import Estimator
from jmbs.identification.unknowns import bounds_of, longest_of

FIRST_HORIZON = 1 / 24
"""Of each recording's length."""
GROWTH = 1.5
EARLY_ITERATIONS = 8
EARLY_TOLERANCE = 1e-3
METHODS = ("shooting", "inverse_dynamics")
LOSSES = ("squares", "huber", "cauchy")
PULL = 0.3
"""While the horizon grows: how strongly coordinates, of order one, are held near the start: a weight that is small
beside any sample, and keeps what is not yet seen where it was."""


@dataclasses.dataclass(frozen=True)
class Progress:
    """What is shown of an iteration: `stage` of `stages`, `iteration` of all stages, cost per sample (squared residuals
    over standard deviations), how long the `step` was, and the largest `change` of a coordinate."""

    stage: int
    stages: int
    iteration: int
    cost_per_sample: float
    step: float
    change: float


@dataclasses.dataclass(frozen=True)
class Position:
    """Where an estimation is, all that decides how it goes on: the `stage`, its `iterate`, iterations and evaluations
    of the stages `before`, which `start` it is, and the `best` end of those before."""

    stage: int
    iterate: Iterate
    before: tuple[int, int] = (0, 0)
    start: int = 0
    best: Iterate | None = None


def iterations_before(position: Position) -> tuple[int, int]:
    """Iterations and evaluations of all stages, with the one at hand."""
    iterate = position.iterate
    return position.before[0] + iterate.iterations, position.before[1] + iterate.evaluations


def horizons_of(estimator: Estimator) -> tuple[float, ...]:
    """Parts of each recording that the stages look at, the last 1. Raises `ModelError` for what is not there."""
    if estimator.method not in METHODS:
        raise ModelError("estimator/method", repr(estimator.method), f"{' or '.join(METHODS)}")
    if estimator.loss not in LOSSES:
        raise ModelError("estimator/loss", repr(estimator.loss), f"one of {', '.join(LOSSES)}")
    if estimator.method == "inverse_dynamics":
        if estimator.loss != "squares":
            raise ModelError("estimator/loss", repr(estimator.loss), "squares, where the motion is estimated along")
        return (1.0,)
    if estimator.horizon not in ("growing", "full"):
        raise ModelError("estimator/horizon", repr(estimator.horizon), "growing or full")
    stages = int(np.ceil(np.log(1 / FIRST_HORIZON) / np.log(GROWTH))) if estimator.horizon == "growing" else 0
    return (*(FIRST_HORIZON * GROWTH**i for i in range(stages)), 1.0)


def estimate(
    problem: FitProblem,
    position: Position,
    seen: Callable[[Position, Progress], None],
) -> Position:
    """Goes on from a position to the end of the last stage; `seen` is called after each iteration."""
    estimator = problem.study.estimator
    stages = horizons_of(estimator)
    lower, upper = bounds_of(problem.unknowns.blocks)
    while True:
        last = position.stage == len(stages) - 1
        limits = Limits(
            lower,
            upper,
            tolerance=estimator.tolerance if last else EARLY_TOLERANCE,
            most=estimator.max_iterations if last else EARLY_ITERATIONS,
            loss=estimator.loss,
            scale=estimator.scale,
            longest=longest_of(problem.unknowns.blocks),
        )
        evaluate, samples = rows_of(problem, stages[position.stage], pull=not last)

        def show(iterate: Iterate, at: Position = position, samples: int = samples) -> None:
            done = at.before[0] + iterate.iterations
            cost = 2 * iterate.cost / max(samples, 1)
            progress = Progress(at.stage + 1, len(stages), done, cost, iterate.step, iterate.change)
            seen(dataclasses.replace(at, iterate=iterate), progress)

        iterate = minimise(evaluate, position.iterate, limits, show)
        position = dataclasses.replace(position, iterate=iterate)
        if last:
            return position
        after = Iterate(iterate.x, iterate.damping)
        before = iterations_before(position)
        position = dataclasses.replace(position, stage=position.stage + 1, iterate=after, before=before)


def rows_of(problem: FitProblem, part: float, pull: bool) -> tuple[Evaluate, int]:
    """The function of all rows, those of samples over a `part` of each recording and those of priors; how many samples.

    With `pull` there are rows that hold coordinates near the start.
    """
    horizons = {}
    count = 0
    for experiment in problem.training:
        ts = np.asarray(experiment.recording.ts)
        end = float(ts[0] + part * (ts[-1] - ts[0])) + 1e-12 * max(1.0, abs(float(ts[-1])))
        horizons[experiment.recording.name] = end
        count += experiment.samples(end)
    first = problem.unknowns.first

    def evaluate(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        residual, jacobian = problem.evaluate(x, horizons)
        more, derivative = prior_rows(problem.unknowns.blocks, x)
        residual, jacobian = np.concatenate([residual, more]), np.concatenate([jacobian, derivative])
        if pull:
            residual = np.concatenate([residual, PULL * (x - first)])
            jacobian = np.concatenate([jacobian, PULL * np.eye(len(x))])
        return residual, jacobian

    return evaluate, count
