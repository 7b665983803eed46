"""From a study to estimates: check, estimate, judge, hold out."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from jmbs.errors import ModelError
from jmbs.identification import checkpoint as checkpoints
from jmbs.identification.check import Check, check_fit
from jmbs.identification.estimation import Position, Progress, estimate, iterations_before, rows_of
from jmbs.identification.findings import Finding
from jmbs.identification.least_squares import Iterate, Limits, minimise
from jmbs.identification.prediction import fitted_model
from jmbs.identification.priors import prior_rows
from jmbs.identification.problem import Experiment, FitProblem, deviations_of, noise_given, pose
from jmbs.identification.result import ChannelFit, Fit
from jmbs.identification.study import Recording, Study
from jmbs.identification.trust import (
    correlation_of,
    derived_of,
    estimates_of,
    invisible_directions,
    sensitivity_of,
    study_model,
)
from jmbs.identification.unknowns import bounds_of, longest_of, samples

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
    started = time.perf_counter()
    check = check_fit(study) if check is None else check
    errors = [finding for finding in check.findings if finding.severity == "error"]
    if errors:
        raise ModelError("study", f"{len(errors)} errors, the first: {errors[0].message}", "data without errors")
    problem = check.problem if check.problem is not None else pose(study)
    compiling = time.perf_counter()
    compiled = 0.0
    run = _Run(problem, checkpoint, progress)
    position = run.begin(resume)
    try:
        rows_of(run.problem, 1.0, pull=False)[0](position.iterate.x)
        compiled = time.perf_counter() - compiling
        run.to_the_end(position)
    except KeyboardInterrupt:
        run.interrupted = True
    return _judged(run, check, started, compiled)


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
        of, position, self.refits, noise = checkpoints.load(self.file)
        if of != checkpoints.fingerprint(self.problem):
            raise ModelError("checkpoint", "one of another study", "the same study, or no --resume")
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
        if self.file is not None:
            checkpoints.save(self.file, self.original, position, self.refits, self.noise)
        if self.progress is not None:
            self.progress(progress)

    def to_the_end(self, position: Position) -> None:
        """All starts that are left, with one noise; from the best of them on with the noise of the residuals."""
        starts = self.problem.study.estimator.starts
        while position.start < starts:
            position = self.at = estimate(self.problem, position, self.seen)
            before = iterations_before(position)
            best, following = better(position.best, position.iterate), position.start + 1
            if following < starts:
                position = Position(0, Iterate(_start(self.problem, following)), before, following, best)
            else:
                taken = before[0] - best.iterations, before[1] - best.evaluations
                position = Position(position.stage, best, taken, following, best)
        self.at = position = estimate(self.problem, position, self.seen)
        self.settle(position)

    def settle(self, position: Position) -> None:
        """Goes on until the estimated noise is that of the residuals, of a fit with just that noise."""
        while self.refits < MOST_REFITS and position.iterate.stopped == "converged":
            noise = _noise_of_residuals(self.problem, position.iterate.x)
            noise = {name: max(value, 1e-6 * self.problem.noise[name]) for name, value in noise.items()}
            before = {**{name: _deviation(self.problem, name) for name in noise}, **self.noise}
            if all(abs(noise[name] / before[name] - 1) < SETTLED for name in noise):
                break
            self.refits += 1
            self.take(noise)
            again = Iterate(position.iterate.x, position.iterate.damping)
            position = dataclasses.replace(position, iterate=again, before=iterations_before(position))
            position = self.at = estimate(self.problem, position, self.seen)


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


def _estimated(study: Study) -> list[str]:
    """Sensors some of whose noise is estimated."""
    return [name for name in study.sensors if any(_is_estimated(study, r, name) for r in study.data)]


def _is_estimated(study: Study, recording: Recording, name: str) -> bool:
    return name in recording.channels and isinstance(noise_given(study, recording, name), str)


def _deviation(problem: FitProblem, sensor: str) -> float:
    """The standard deviation that holds now of a sensor whose noise is estimated."""
    for e in problem.experiments:
        if sensor in e.program.sensors and _is_estimated(problem.study, e.recording, sensor):
            weights = np.asarray(e.member.weights)[e.program.sensors.index(sensor)]
            return 1 / float(np.max(weights))
    raise AssertionError(sensor)


def _noise_of_residuals(problem: FitProblem, x: np.ndarray) -> dict[str, float]:
    """By sensor whose noise is estimated: what the residuals of training data say."""
    found = {}
    free, taken = len(x), problem.nuisances(x)
    whole = sum(e.samples() for e in problem.training)
    shown = {e.recording.name: problem.predicted(e, problem.local(e, x)) for e in problem.training}
    for name in _estimated(problem.study):
        squares, count, nuisances = 0.0, 0, 0.0
        for e in problem.training:
            if name in e.program.sensors and _is_estimated(problem.study, e.recording, name):
                values = samples(e.recording, name)
                seen = np.isfinite(values)
                squares += float(np.sum((values - shown[e.recording.name][name])[seen] ** 2))
                count += int(np.sum(seen))
                nuisances += taken[e.recording.name][name]
        if count:
            found[name] = float(np.sqrt(squares / (count * max(1 - free / whole - nuisances / count, 0.1))))
    return found


def with_noise(problem: FitProblem, noise: Mapping[str, float]) -> FitProblem:
    """The same problem with other weights of samples whose noise is estimated; nothing is compiled anew."""
    experiments = []
    for experiment in problem.experiments:
        weights = np.array(experiment.member.weights)
        for row, name in enumerate(experiment.program.sensors):
            if name in noise and _is_estimated(problem.study, experiment.recording, name):
                weights[row] = np.where(weights[row] > 0, 1 / noise[name], 0.0)
        member = dataclasses.replace(experiment.member, weights=jnp.asarray(weights, experiment.member.weights.dtype))
        experiments.append(experiment._replace(member=member))
    return dataclasses.replace(problem, experiments=tuple(experiments))


def _judged(run: _Run, check: Check, started: float, compiled: float) -> Fit:
    problem, position = run.problem, run.at
    if run.interrupted and position.best is not None:
        position = run.at = dataclasses.replace(position, iterate=position.best)
    x, study = position.iterate.x, problem.study
    evaluate, count = rows_of(problem, 1.0, pull=False)
    residual, jacobian = evaluate(x)
    sound = bool(np.all(np.isfinite(residual)) and np.all(np.isfinite(jacobian)))
    if not sound:
        residual, jacobian = np.zeros(len(residual)), np.zeros(jacobian.shape)
    found = sensitivity_of(problem, x, jacobian)
    taken = sum(sum(channels.values()) for channels in problem.nuisances(x).values()) if sound else 0.0
    degrees = max(count - int(np.sum(~found.invisible)) - round(taken), 1)
    priors = prior_rows(problem.unknowns.blocks, x)[0]
    chi2 = float(np.sum(residual**2) - np.sum(priors**2)) / degrees if sound else float("inf")
    parameters = estimates_of(problem, found, x, degrees)
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
    channels, models = {}, {}
    heldout: dict[str, dict[str, ChannelFit]] = {}
    for experiment in problem.experiments:
        name, trained = experiment.recording.name, experiment.recording.role == "train"
        local = problem.local(experiment, x) if trained else _held_out(problem, experiment, x)
        at = jnp.asarray(local, experiment.member.model.dtype)
        models[name] = fitted_model(experiment.program, experiment.member, at)[0]
        shown = _channels(problem, experiment, problem.predicted(experiment, local), run)
        (channels if trained else heldout)[name] = shown
    return Fit(
        name=study.name,
        status=status,
        message=message,
        parameters=parameters,
        derived=derived_of(problem, found, x, degrees),
        order=found.names,
        covariance=covariance,
        correlation=correlation_of(covariance),
        scaling=found.scaling,
        singular_values=found.singular_values,
        invisible_directions=directions,
        noise=_noise(run, channels),
        samples=count,
        chi2_per_degree=chi2,
        channels=channels,
        heldout=heldout,
        evaluations={
            "simulations": problem.counts.simulations,
            "jacobians": problem.counts.jacobians,
            "iterations": iterations_before(position)[0],
        },
        seconds={"total": time.perf_counter() - started, "compile": compiled, "check": check.seconds},
        warnings=tuple(warnings),
        model=study_model(problem, jnp.asarray(x, study.model.dtype))[0],
        models=models,
        source=study.source,
    )


def _status(run: _Run, sound: bool) -> tuple[str, str]:
    at = run.at.iterate
    if run.interrupted:
        return "interrupted", "interrupted: the best so far"
    if not sound or not np.isfinite(at.cost):
        return "diverged", "the model does not come to the end of each recording"
    if at.stopped == "converged":
        return "converged", "the cost does not fall any further"
    if at.stopped == "limit":
        return "not_converged", f"still falling after {at.iterations} iterations of the last stage"
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


def _channels(
    problem: FitProblem, experiment: Experiment, predicted: Mapping[str, np.ndarray], run: _Run
) -> dict[str, ChannelFit]:
    recording, found = experiment.recording, {}
    deviations = deviations_of(problem.study, recording, experiment.program.sensors, {**problem.noise, **run.noise})
    ts = np.asarray(recording.ts)
    for name, deviation in deviations.items():
        values = samples(recording, name)
        seen = np.isfinite(values)
        noise = np.broadcast_to(deviation, values.shape)[seen]
        found[name] = ChannelFit(ts[seen], values[seen], predicted[name][seen], noise)
    return found


def _held_out(problem: FitProblem, experiment: Experiment, x: np.ndarray) -> np.ndarray:
    """The local unknowns of a recording that was not fitted: its own ones from its first part, with their priors."""
    ts = np.asarray(experiment.recording.ts)
    window = float(ts[0] + problem.study.test_window * (ts[-1] - ts[0]))
    blocks = problem.unknowns.held_out.get(experiment.recording.name, ())
    local = problem.local(experiment, x)
    if not blocks:
        return local
    shared, own = local[: len(experiment.local)], local[len(experiment.local) :]

    def evaluate(part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        residual, jacobian = problem.evaluate_one(experiment, np.concatenate([shared, part]), window)
        more, derivative = prior_rows(blocks, part)
        return np.concatenate([residual, more]), np.concatenate([jacobian[:, len(shared) :], derivative])

    estimator = problem.study.estimator
    given = {"most": estimator.max_iterations, "loss": estimator.loss, "scale": estimator.scale}
    limits = Limits(*bounds_of(blocks), **given, longest=longest_of(blocks))
    return np.concatenate([shared, minimise(evaluate, Iterate(own), limits, lambda _: None).x])
