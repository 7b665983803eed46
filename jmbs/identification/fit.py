"""From a study to estimates: check, estimate, judge, hold out."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from jmbs.errors import ModelError
from jmbs.identification import checkpoint as checkpoints
from jmbs.identification.at_estimate import at_estimate
from jmbs.identification.batched_starts import are_batched, first_stages
from jmbs.identification.channels import channels_beside
from jmbs.identification.check import Check, check_fit
from jmbs.identification.cross_validation import left_out_predictions, require_several
from jmbs.identification.estimated_noise import estimated_deviation, noise_of_residuals, with_noise
from jmbs.identification.estimates import ChannelFit
from jmbs.identification.estimation import estimate, stages_of
from jmbs.identification.findings import Finding
from jmbs.identification.held_out import held_out_local
from jmbs.identification.held_out_findings import held_out_findings
from jmbs.identification.least_squares import Iterate
from jmbs.identification.posing import pose
from jmbs.identification.position import Position, Progress, iterations_before
from jmbs.identification.prediction import fitted_model
from jmbs.identification.problem import FitProblem
from jmbs.identification.problem_steps import has_shorter_steps, of_steps, with_steps
from jmbs.identification.quantities import model_at
from jmbs.identification.residual_tests import NOT_WHITE, residual_findings
from jmbs.identification.result import Fit
from jmbs.identification.solution import Solution
from jmbs.identification.study import Study
from jmbs.identification.trust import (
    correlation_of,
    derived_of,
    estimates_of,
    invisible_directions,
    quantile_of,
    robust_sensitivity,
    with_robust_errors,
)
from jmbs.jaxext import compile_clock

SETTLED = 1e-3
"""Estimated noise has settled when it changes by less than this part."""
MOST_REFITS = 8
SPREAD = 0.5
"""Of starts beyond the first, in coordinates of order one."""


def fit_study(
    study: Study,
    *,
    check: Check | None = None,
    progress: Callable[[Progress], None] | None = None,
    checkpoint: Path | None = None,
    resume: bool = False,
) -> Fit:
    """Fits a study.

    **Arguments:**

    - `check`: what `check_fit` said of it, which is done first where it is None. Its errors are raised.
    - `progress`: called after each iteration.
    - `checkpoint`: a file that holds where the fit is, written after each iteration; with `resume` it goes on from
      there, to the same bits on the same machine.

    Raises `ModelError`. Ctrl-C ends the fit with the best so far, status `interrupted`.
    """
    require_several(study)
    started = time.perf_counter()
    before = 0.0 if check is None else check.seconds
    check = check_fit(study) if check is None else check
    errors = [finding for finding in check.findings if finding.severity == "error"]
    if errors:
        raise ModelError("study", f"{len(errors)} errors, the first: {errors[0].message}", "data without errors")
    with compile_clock() as compiled:
        problem = check.problem if check.problem is not None else pose(study)
        run = _Run(problem, checkpoint, progress)
        position = run.begin(resume)
        try:
            run.to_the_end(position)
        except KeyboardInterrupt:
            run.interrupted = True
        fit = _judged(run, check)
        seconds = {
            "total": before + time.perf_counter() - started,
            "compile": check.compile_seconds + compiled(),
            "check": check.seconds,
        }
    counts = {
        "simulations": problem.counts.simulations,
        "jacobians": problem.counts.jacobians,
        "iterations": iterations_before(run.at)[0],
    }
    return dataclasses.replace(fit, evaluations=counts, seconds=seconds)


class _Run:
    """A fit under way: its problem, which changes where noise is estimated, and where it is."""

    def __init__(self, problem: FitProblem, file: Path | None, progress: Callable[[Progress], None] | None):
        self.problem = self.original = problem
        self.file, self.progress = file, progress
        self.noise: dict[str, float] = {}
        self.refits, self.interrupted = 0, False
        self.at = Position(0, Iterate(problem.unknowns.first))

    def begin(self, resume: bool) -> Position:
        if not resume or self.file is None or not self.file.exists():
            return self.at
        of, position, self.refits, noise, steps, counts = checkpoints.load(self.file)
        if of != checkpoints.fingerprint(self.problem):
            raise ModelError("checkpoint", "one of another study", "the same study, or no --resume")
        # In place of what the check counted anew.
        self.problem.counts.simulations, self.problem.counts.jacobians = counts.simulations, counts.jacobians
        self.problem = of_steps(self.problem, dict(zip(self.problem.steps(), steps, strict=True)))
        if noise:
            self.take(noise)
        self.at = position
        return position

    def take(self, noise: Mapping[str, float]) -> None:
        """Other standard deviations of the samples whose noise is estimated."""
        self.noise = dict(noise)
        self.problem = with_noise(self.problem, self.noise)

    def seen(self, position: Position, progress: Progress) -> None:
        self.at = position
        if position.steps and position.steps != self.problem.steps():
            self.problem = of_steps(self.problem, position.steps)
        if self.file is not None:
            checkpoints.save(
                self.file, self.original, position, self.refits, self.noise, list(self.problem.steps().values())
            )
        if self.progress is not None:
            self.progress(progress)

    def to_the_end(self, position: Position) -> None:
        """All starts that are left, with one noise; from the best of them on with the noise of the residuals."""
        starts = self.problem.study.estimator.starts
        if are_batched(self.problem) and position.start == 0:
            position = self.at = self.side_by_side(position)
        while position.start < starts:
            position = self.at = estimate(self.problem, position, self.seen)
            before = iterations_before(position)
            best, following = better(position.best, position.iterate), position.start + 1
            if following < starts:
                position = self.begun(following, position.waiting, before, best)
            else:
                taken = before[0] - best.iterations, before[1] - best.evaluations
                position = Position(position.stage, best, taken, following, best)
        self.at = position = estimate(self.problem, position, self.seen)
        self.settle(position)

    def begun(
        self, start: int, waiting: tuple[Position, ...], before: tuple[int, int], best: Iterate | None
    ) -> Position:
        """Where a start begins, or where it waits for its last stage."""
        if not waiting:
            return Position(0, Iterate(_start(self.problem, start)), before, start, best)
        own = waiting[start]
        counted = before[0] + own.before[0], before[1] + own.before[1]
        return dataclasses.replace(own, before=counted, best=best, waiting=waiting)

    def side_by_side(self, position: Position) -> Position:
        """The first start before its last stage, with the others waiting there."""
        waiting = position.waiting
        if not waiting:
            others = range(1, self.problem.study.estimator.starts)
            waiting = (position, *(Position(0, Iterate(_start(self.problem, k)), start=k) for k in others))
        last = len(stages_of(self.problem.study.estimator)) - 1
        if position.stage == last and all(one.stage == last for one in waiting):
            return position
        waiting = first_stages(self.problem, waiting, self.seen)
        return dataclasses.replace(waiting[0], waiting=waiting)

    def settle(self, position: Position) -> None:
        """Goes on until the estimated noise is that of the residuals, of a fit with just that noise, and steps follow
        the fitted motion, which may be livelier than that at the start."""
        by_gradients = self.problem.study.estimator.method == "gradient_descent"
        settled = ("converged", "limit") if by_gradients else ("converged",)
        while self.refits < MOST_REFITS and position.iterate.stopped in settled:
            steps = self.problem.steps()
            try:
                finer = with_steps(self.problem, position.iterate.x, steps)
            except ModelError:  # no step is short enough
                self.at = _too_coarse(position)
                break
            shorter = has_shorter_steps(finer, steps, training=by_gradients)
            self.problem = finer if has_shorter_steps(finer, steps) else self.problem
            noise = noise_of_residuals(self.problem, position.iterate.x)
            noise = {name: max(value, 1e-6 * self.problem.noise[name]) for name, value in noise.items()}
            before = {**{name: estimated_deviation(self.problem, name) for name in noise}, **self.noise}
            if not shorter and all(abs(noise[name] / before[name] - 1) < SETTLED for name in noise):
                break
            self.refits += 1
            self.take(noise)
            if by_gradients and not shorter:
                break  # new noise alone does not call for another course
            if by_gradients and (self.refits > 1 or self.problem.study.estimator.segments is not None):
                self.at = _too_coarse(position)  # its end wants shorter steps still
                break
            again, taken = Iterate(position.iterate.x, position.iterate.damping), iterations_before(position)
            position = dataclasses.replace(position, iterate=again, memory={}, before=taken, best=None)
            position = self.at = estimate(self.problem, position, self.seen)


def _too_coarse(position: Position) -> Position:
    return dataclasses.replace(position, iterate=dataclasses.replace(position.iterate, stopped="coarse"))


def better(best: Iterate | None, other: Iterate) -> Iterate:
    """The iterate of less cost."""
    return other if best is None or other.cost < best.cost else best


def _start(problem: FitProblem, number: int) -> np.ndarray:
    """The first start with the coordinates of the models' parameters moved at random, within their bounds."""
    rng = np.random.default_rng([problem.study.seed, number])
    pieces = []
    for block in problem.unknowns.blocks:
        moved = SPREAD * rng.normal(size=block.size) if block.kind == "model" else np.zeros(block.size)
        pieces.append(np.clip(block.first + moved, block.lower, block.upper))
    return np.concatenate([np.zeros(0), *pieces])


def _judged(run: _Run, check: Check) -> Fit:
    problem, position = run.problem, run.at
    if run.interrupted and position.best is not None:
        position = run.at = dataclasses.replace(position, iterate=position.best)
    x, study = position.iterate.x, problem.study
    residual, jacobian, found, sound, count, degrees, chi2 = at_estimate(problem, x)
    parameters = estimates_of(problem, found, x, degrees)
    covariance = np.zeros((0, 0))
    if found.known:
        covariance = found.slopes @ found.covariance @ found.slopes.T
        hidden = np.array([not parameters[name].visible for name in found.names], bool)
        covariance[hidden, :] = covariance[:, hidden] = np.nan
    directions = invisible_directions(found) if sound else ()
    # What the data do not show was said of the start; here it is said of the estimate.
    warnings = [f for f in check.findings if f.code != "invisible_direction"] if sound else [*check.findings]
    idle = {f"{name} changes nothing that is measured" for name in check.no_effect}
    for direction in directions:
        message = f"the data do not show {direction.text}"
        if f"{direction.text.removesuffix(' alone')} changes nothing that is measured" not in idle:
            warnings.append(Finding("invisible_direction", "warning", message))
    for name, entry in parameters.items():
        if entry.at_bound:
            warnings.append(Finding("at_bound", "warning", f"{name} stays at its bound, {entry.estimate:.6g}"))
    status, message = _status(run, sound)
    noise = {**problem.noise, **run.noise}
    solution = Solution(problem, x, found, quantile_of(degrees), noise)
    channels, models = {}, {}
    heldout: dict[str, dict[str, ChannelFit]] = {}
    for experiment in problem.experiments:
        name, trained = experiment.recording.name, experiment.recording.role == "train"
        local = problem.local(experiment, x) if trained else held_out_local(problem, experiment, x)
        at = jnp.asarray(local, experiment.member.model.dtype)
        models[name] = fitted_model(experiment.program, experiment.member, at)[0]
        shown = channels_beside(problem, experiment, problem.predicted(experiment, local), noise)
        (channels if trained else heldout)[name] = shown
        if sound and not trained:
            warnings += held_out_findings(solution, experiment, local, shown)
    derived = derived_of(problem, found, x, degrees)
    white = not _is_coloured(channels, chi2, count) or study.estimator.loss != "squares"
    if sound and found.known and not white:
        robust = robust_sensitivity(problem, found, residual, jacobian)
        parameters = with_robust_errors(parameters, estimates_of(problem, robust, x, degrees))
        derived = with_robust_errors(derived, derived_of(problem, robust, x, degrees))
    left_out, alone = _left_out(run, noise) if sound and study.estimator.cross_validation else ({}, [])
    if study.estimator.cross_validation and len(left_out) < len(channels):
        message = f"cross-validation was done for {len(left_out)} of {len(channels)} recordings only"
        warnings.append(Finding("cross_validation", "warning", message))
    if alone:
        message = f"without {', '.join(alone)} the other recordings do not show all unknowns, some of which then stay"
        message += " at the study's start: what cross-validation says there is not of the model"
        warnings.append(Finding("cross_validation", "warning", message))
    return Fit(
        name=study.name,
        status=status,
        message=message,
        parameters=parameters,
        derived=derived,
        order=found.names,
        covariance=covariance,
        correlation=correlation_of(covariance),
        scaling=found.scaling,
        singular_values=found.singular_values,
        invisible_directions=directions,
        noise=_noise(run, channels),
        samples=count,
        degrees=degrees,
        chi2_per_degree=chi2,
        channels=channels,
        heldout=heldout,
        evaluations={},
        seconds={},
        warnings=tuple(warnings),
        model=model_at(problem, jnp.asarray(x, study.model.dtype), study.model)[0],
        models=models,
        source=study.source,
        cross_validation=left_out,
        solution=solution,
    )


def _is_coloured(channels: Mapping[str, Mapping[str, ChannelFit]], chi2: float, count: int) -> bool:
    """Whether residuals are correlated over time."""
    residuals = {name: {s: one.whitened for s, one in sensors.items()} for name, sensors in channels.items()}
    return any(found.code == NOT_WHITE for found in residual_findings(residuals, chi2, count))


def _left_out(run: _Run, noise: Mapping[str, float]) -> tuple[dict[str, dict[str, ChannelFit]], list[str]]:
    """Each training recording beside a fit of the others, those before an interrupt; without which of them the others
    do not show all."""
    found: dict[str, dict[str, ChannelFit]] = {}
    alone: list[str] = []
    with contextlib.suppress(KeyboardInterrupt):
        for one in () if run.interrupted else left_out_predictions(run.problem, run.at.iterate.x):
            name = one.experiment.recording.name
            found[name] = channels_beside(run.problem, one.experiment, one.predicted, noise)
            if not one.others_show_all:
                alone.append(name)
    return found, alone


def _status(run: _Run, sound: bool) -> tuple[str, str]:
    at = run.at.iterate
    if run.interrupted:
        return "interrupted", "the best so far"
    if not sound or not np.isfinite(at.cost):
        return "diverged", "the model does not come to the end of each recording"
    if at.stopped == "converged":
        return "converged", "the cost does not fall any further"
    if at.stopped == "limit":
        return "not_converged", f"still falling after {at.iterations} iterations of the last stage"
    if at.stopped == "coarse":
        return "not_converged", "the steps of the runs are too long for this motion"
    return "not_converged", "no step lowers the cost"


def _noise(run: _Run, channels: Mapping[str, Mapping[str, ChannelFit]]) -> dict[str, dict[str, float | None]]:
    found: dict[str, dict[str, float | None]] = {}
    study = run.problem.study
    for name in study.sensors:
        fits = [by_sensor[name] for by_sensor in channels.values() if name in by_sensor]
        count = sum(len(f.ts) for f in fits)
        squares = sum(float(np.sum(f.residual**2)) for f in fits)
        estimated = float(np.sqrt(squares / count)) if count else None
        given = study.sensors[name].noise
        found[name] = {"given": None if isinstance(given, str) else float(given), "estimated": estimated}
    return found
