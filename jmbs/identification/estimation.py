"""Shooting in stages: each recording simulated from its start over a horizon that grows, or in windows whose gaps
close, and at last as a whole."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from jmbs.errors import ModelError
from jmbs.identification.bordered import Bordered
from jmbs.identification.gradient_descent import descend
from jmbs.identification.horizons import PARTS, next_part
from jmbs.identification.least_squares import Evaluate, Iterate, Limits, minimise
from jmbs.identification.multiple_shooting import MultipleShooting
from jmbs.identification.position import Position, Progress, iterations_before
from jmbs.identification.priors import prior_rows
from jmbs.identification.problem import FitProblem
from jmbs.identification.study import Estimator
from jmbs.identification.unknowns import bounds_of, longest_of

EARLY_ITERATIONS = 8
EARLY_TOLERANCE = 1e-3
USUAL_EVALUATIONS = 6
"""Of a stage, of studies like those in the tests: only for what a fit is expected to take."""
GAPS = (0.1, 1.0, 10.0, 1e3, 1e5)
"""What gaps between windows count in the stages of multiple shooting, beside what samples say of a window's start."""
GAPS_TOLERANCE = 1e-9
"""Of these stages: gaps that are left are larger for the next one."""
METHODS = ("shooting", "multiple_shooting", "gradient_descent", "inverse_dynamics")
LOSSES = ("squares", "huber", "cauchy")
PULL = 1.0
"""In stages before the last: how strongly coordinates, of order one, are held near the start. One that is off by one
counts as one sample that is off by its noise, which keeps what is not yet seen where it was."""


@dataclasses.dataclass(frozen=True)
class Stage:
    """The `part` of each recording that is looked at; `gaps`: what gaps between windows count, None without windows."""

    part: float
    gaps: float | None = None


def stages_of(estimator: Estimator) -> tuple[Stage, ...]:
    """The stages, of which the last looks at the whole of each recording in one run. Raises `ModelError` for what is
    not there."""
    if estimator.method not in METHODS:
        raise ModelError("estimator/method", repr(estimator.method), f"one of {', '.join(METHODS)}")
    if estimator.loss not in LOSSES:
        raise ModelError("estimator/loss", repr(estimator.loss), f"one of {', '.join(LOSSES)}")
    if estimator.method == "gradient_descent":
        return (Stage(1.0),)
    if estimator.method == "inverse_dynamics":
        if estimator.loss != "squares":
            raise ModelError("estimator/loss", repr(estimator.loss), "squares, where the motion is estimated along")
        return (Stage(1.0),)
    if estimator.horizon not in ("growing", "full"):
        raise ModelError("estimator/horizon", repr(estimator.horizon), "growing or full")
    if estimator.method == "multiple_shooting":
        return (*(Stage(1.0, gaps) for gaps in GAPS), Stage(1.0))
    return tuple(Stage(part) for part in (PARTS if estimator.horizon == "growing" else PARTS[-1:]))


def limits_of(problem: FitProblem) -> Limits:
    """The limits of a last stage."""
    estimator, blocks = problem.study.estimator, problem.unknowns.blocks
    return Limits(
        *bounds_of(blocks),
        tolerance=estimator.tolerance,
        most=estimator.max_iterations,
        loss=estimator.loss,
        scale=estimator.scale,
        samples=problem.rows,
        longest=longest_of(blocks),
    )


def evaluations_expected(estimator: Estimator) -> int:
    """How many residuals with Jacobian, or passes along gradients, a fit will about take."""
    if estimator.method == "gradient_descent":
        return estimator.max_iterations * estimator.starts
    stages = stages_of(estimator)
    taken = len(stages) if stages[0].gaps is not None else (len(stages) + 1) // 2  # of a growing horizon, about half
    return USUAL_EVALUATIONS * taken * estimator.starts


def estimate(
    problem: FitProblem,
    position: Position,
    seen: Callable[[Position, Progress], None],
) -> Position:
    """Goes on from a position to the end of the last stage; `seen` is called after each iteration."""
    estimator = problem.study.estimator
    stages = stages_of(estimator)
    if estimator.method == "gradient_descent":
        return descend(problem, position, seen)
    bounds = bounds_of(problem.unknowns.blocks)
    p, windows = len(problem.unknowns.first), None
    position = at_first_stage(problem, stages, position)
    while True:
        stage, last = stages[position.stage], position.stage == len(stages) - 1
        if stage.gaps is None:
            evaluate, samples = rows_of(problem, stage.part, pull=not last)
            states = np.zeros(0)
        else:
            windows = MultipleShooting(problem) if windows is None else windows
            evaluate, samples = rows_of_windows(windows, stage.gaps)
            states = position.windows if position.windows.size else windows.first
        lower, upper = (
            np.append(b, np.full(len(states), end)) for b, end in zip(bounds, (-np.inf, np.inf), strict=True)
        )
        limits = dataclasses.replace(limits_of(problem), lower=lower, upper=upper)
        if not last:
            tolerance = EARLY_TOLERANCE if stage.gaps is None else GAPS_TOLERANCE
            limits = dataclasses.replace(limits, tolerance=tolerance, most=EARLY_ITERATIONS)
        if stage.gaps is not None:
            limits = dataclasses.replace(limits, loss="squares")

        def parted(iterate: Iterate, at: Position = position, states: np.ndarray = states) -> Position:
            """The position with the starts of windows apart from the study's unknowns."""
            kept = iterate.x[p:] if states.size else at.windows
            return dataclasses.replace(at, iterate=dataclasses.replace(iterate, x=iterate.x[:p]), windows=kept)

        def show(iterate: Iterate, at: Position = position, samples: int = samples, parted=parted) -> None:
            done = at.before[0] + iterate.iterations
            cost = 2 * iterate.cost / max(samples, 1)
            progress = Progress(at.stage + 1, len(stages), done, cost, iterate.step, iterate.change)
            seen(parted(iterate), progress)

        whole = dataclasses.replace(position.iterate, x=np.concatenate([position.iterate.x, states]))
        position = parted(minimise(evaluate, whole, limits, show))
        if last:
            return position
        position = after_stage(problem, stages, position)


def at_first_stage(problem: FitProblem, stages: tuple[Stage, ...], position: Position) -> Position:
    """The position at the first stage that it has to take, where it has not evaluated anything."""
    if position.stage or position.iterate.evaluations:
        return position
    return dataclasses.replace(position, stage=_next_stage(problem, stages, -1, position.iterate.x))


def after_stage(problem: FitProblem, stages: tuple[Stage, ...], position: Position) -> Position:
    """The position at the begin of the stage that comes after its own."""
    x = position.iterate.x
    following = _next_stage(problem, stages, position.stage, x)
    before, iterate = iterations_before(position), Iterate(x, position.iterate.damping)
    return dataclasses.replace(position, stage=following, iterate=iterate, before=before)


def _next_stage(problem: FitProblem, stages: tuple[Stage, ...], at: int, x: np.ndarray) -> int:
    """The stage after number `at`: while a horizon grows, the longest that the model at `x` follows already."""
    grows = len(stages) > 1 and stages[0].gaps is None
    return next_part(problem, x, at + 1) if grows else at + 1


def rows_of(problem: FitProblem, part: float, pull: bool) -> tuple[Evaluate, int]:
    """The function of all rows, those of samples over a `part` of each recording and those of priors; how many samples.

    With `pull` there are rows that hold coordinates near the start.
    """
    horizons, count = horizons_of(problem, part)

    def evaluate(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        residual, jacobian = problem.evaluate(x, horizons)
        more, derivative = beliefs_of(problem, x, pull)
        return np.concatenate([residual, more]), np.concatenate([jacobian, derivative])

    return evaluate, count


def horizons_of(problem: FitProblem, part: float) -> tuple[dict[str, float], int]:
    """By recording the end, s, of a `part` of what is measured, and how many samples there are in these."""
    horizons, count = {}, 0
    for experiment in problem.training:
        end = experiment.end_of(part)
        horizons[experiment.recording.name] = end
        count += experiment.samples(end)
    return horizons, count


def rows_of_windows(windows: MultipleShooting, gaps: float) -> tuple[Evaluate, int]:
    """The same of samples in windows and of the gaps between these, which count as `gaps` says; of vectors that hold
    the states at windows' starts too."""
    p = len(windows.problem.unknowns.first)

    def evaluate(z: np.ndarray) -> tuple[np.ndarray, Bordered]:
        residual, jacobian = windows.evaluate(z, gaps)
        more, derivative = beliefs_of(windows.problem, z[:p], pull=True)
        return np.concatenate([residual, more]), jacobian.with_rows(derivative)

    return evaluate, windows.samples


def beliefs_of(problem: FitProblem, x: np.ndarray, pull: bool) -> tuple[np.ndarray, np.ndarray]:
    """Rows (m,) of priors, and with `pull` those that hold coordinates near the start; their derivative (m, p)."""
    residual, jacobian = prior_rows(problem.unknowns.blocks, x)
    if pull:
        residual = np.concatenate([residual, PULL * (x - problem.unknowns.first)])
        jacobian = np.concatenate([jacobian, PULL * np.eye(len(x))])
    return residual, jacobian
