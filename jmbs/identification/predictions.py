"""What the sensors would show in a recording, by the fitted model, and how far that can be trusted."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np

from jmbs.errors import ModelError
from jmbs.identification.held_out import held_out_local, window_rows
from jmbs.identification.least_squares import visible_directions
from jmbs.identification.measured_starts import samples
from jmbs.identification.motion import MotionProgram
from jmbs.identification.motion_problem import driven, is_by_motion
from jmbs.identification.noise import deviations_of
from jmbs.identification.output_names import OutputName, parse_output
from jmbs.identification.posing import experiment_of, outputs_of, recording_models, refuse_recording
from jmbs.identification.problem import Experiment, FitProblem
from jmbs.identification.problem_steps import shows_of, stepped
from jmbs.identification.recording_inputs import with_recording_inputs
from jmbs.identification.solution import Solution
from jmbs.identification.steps import chosen_step
from jmbs.identification.study import Parameter, Recording, Study
from jmbs.identification.unknowns import Unknowns, unknowns_of
from jmbs.simulation import Model


@dataclasses.dataclass(frozen=True)
class PredictedChannel:
    """What one sensor would show at `ts` (n,), s: `values` (n,) without noise, SI; NumPy takes it as these.

    `standard_deviation` (n,): of `values`, for what the estimates leave open, NaN where they depend on what the data do
    not show; `noise` (n,): that of a single sample beside it.
    """

    ts: np.ndarray
    values: np.ndarray
    standard_deviation: np.ndarray
    noise: np.ndarray
    unit: str

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.values, dtype) if copy else np.asarray(self.values, dtype)


def predict_recording(solution: Solution, recording: Recording) -> dict[str, PredictedChannel]:
    """By sensor what it would show at the times of a recording, see `Fit.predict`. Raises `ModelError`."""
    fitted = any(r is recording and r.role == "train" for r in solution.problem.study.data)
    problem, experiment = _ready(solution, recording, fitted)
    seen = _is_seen(recording) and not fitted
    local = (held_out_local if seen else FitProblem.local)(problem, experiment, solution.x)
    found = {}
    for name, (values, error) in shown_with_errors(solution, problem, experiment, local, seen).items():
        noise = deviations_of(problem.study, experiment.recording, [name], solution.noise)[name]
        ts, unit = np.asarray(recording.ts, float), experiment.outputs[name].unit
        found[name] = PredictedChannel(ts, values, error, np.broadcast_to(noise, ts.shape), unit)
    return found


def shown_with_errors(
    solution: Solution, problem: FitProblem, experiment: Experiment, local: np.ndarray, seen: bool
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """By sensor what it shows (n,) at local unknowns, and its standard deviations (n,).

    **Arguments:** `problem`, with the recording's own unknowns; `seen`: these follow from its first part, else they are
    known, or those of the fit.
    """
    if isinstance(experiment.program, MotionProgram):
        return _along_motion(solution, problem, experiment, local, seen)
    if not solution.sensitivity.known:
        shown = problem.predicted(experiment, local)
        return {name: (values, np.full(len(values), np.nan)) for name, values in shown.items()}
    values, slopes = _shown(problem, experiment, local)
    rows = dict(zip(experiment.program.sensors, range(len(values)), strict=True))
    return {
        name: (values[row], _errors(solution, problem, experiment, local, slopes[row], seen))
        for name, row in rows.items()
    }


def _is_seen(recording: Recording) -> bool:
    return any(np.isfinite(samples(recording, name)).any() for name in recording.channels)


def _ready(solution: Solution, recording: Recording, fitted: bool) -> tuple[FitProblem, Experiment]:
    """The recording as an experiment of all sensors that its model has, and the problem with it."""
    refuse_recording(recording)
    problem, seen = solution.problem, _is_seen(recording)
    others = tuple(r for r in problem.study.data if r.name != recording.name)
    study = dataclasses.replace(problem.study, data=(dataclasses.replace(recording, role="test"),))
    model = recording_models(study)[recording.name]
    outputs = _outputs(study, recording, model)
    empty = np.full(np.shape(recording.ts), np.nan)
    channels = {name: recording.channels.get(name, empty) for name in outputs}
    asked = dataclasses.replace(recording, role="test", channels=channels)
    parameters = study.parameters if seen else {path: _unmeasured(p) for path, p in study.parameters.items()}
    study = dataclasses.replace(study, data=(*others, asked), parameters=parameters)
    unknowns = problem.unknowns
    if not fitted:
        unknowns = _with_own(unknowns, recording.name, unknowns_of(study, {**problem.models, recording.name: model}))
    problem = dataclasses.replace(problem, study=study, unknowns=unknowns)
    by_motion = is_by_motion(study)
    model = with_recording_inputs(study, driven(asked, model, outputs) if by_motion else asked, model, unknowns)

    def made(n: int) -> Experiment:
        return experiment_of(study, asked, model, outputs, unknowns, problem.ties, n, solution.noise)

    if by_motion:
        return problem, made(_shared_samples(problem, made(len(asked.ts))))
    known = next((e for e in problem.experiments if e.recording is recording), None)
    knots, n = _shared_shape(problem, made(len(asked.ts)))
    experiment = made(n)
    experiment = experiment._replace(program=dataclasses.replace(experiment.run, knots=knots))
    step = _step(solution, problem, experiment) if known is None else float(known.member.step)
    return problem, stepped(experiment, step)


def _unmeasured(parameter: Parameter) -> Parameter:
    """The same without samples to start from: it stays at the model's value."""
    return dataclasses.replace(parameter, start=None) if isinstance(parameter.start, str) else parameter


def _with_own(unknowns: Unknowns, name: str, asked: Unknowns) -> Unknowns:
    """The unknowns of the fit with a held-out recording's own; one that was fitted under its name is another one."""
    own = {other: blocks for other, blocks in unknowns.own.items() if other != name}
    return Unknowns(unknowns.shared, own, {**unknowns.held_out, name: asked.held_out[name]})


def _outputs(study: Study, recording: Recording, model: Model) -> dict[str, OutputName]:
    """What the sensors of the study measure in a model: those of the channels, and all others that it has."""
    found = outputs_of(study, {recording.name: model})[recording.name]
    for name, sensor in study.sensors.items():
        if name not in found:
            try:
                output = parse_output(model, sensor.output)
            except ModelError:
                continue  # of another recording's model
            # Along a motion all else is samples that tell the motion.
            if (output.kind == "actuation") == is_by_motion(study):
                found[name] = output
    return found


def _step(solution: Solution, problem: FitProblem, asked: Experiment) -> float:
    """The step, s, that the motion at the estimate wants, as for samples of all channels."""
    noise = deviations_of(problem.study, asked.recording, asked.outputs, solution.noise)
    weights = np.zeros(asked.member.weights.shape)
    for row, deviation in enumerate(noise.values()):
        weights[row, : len(asked.recording.ts)] = 1 / deviation
    shows = shows_of(problem, asked, problem.local(asked, solution.x))
    return chosen_step(asked.recording, asked.member.model, shows, weights)


def _shared_shape(problem: FitProblem, own: Experiment) -> tuple[int, int]:
    """Knots and samples: those of a program of the fit that is long enough, for it is compiled already."""
    n = len(own.member.times)
    for experiment in problem.experiments:
        same = dataclasses.replace(experiment.run, knots=own.run.knots) == own.program
        if same and len(experiment.member.times) >= n:
            return experiment.run.knots, len(experiment.member.times)
    return own.run.knots, n


def _shared_samples(problem: FitProblem, own: Experiment) -> int:
    """Samples of a program of the fit that is long enough, for it is compiled already."""
    n = len(own.member.times)
    lengths = [len(e.member.times) for e in problem.experiments if e.program == own.program]
    return min((length for length in lengths if length >= n), default=n)


def _along_motion(
    solution: Solution, problem: FitProblem, experiment: Experiment, local: np.ndarray, seen: bool
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The same of inverse dynamics: along the motion that the coordinates' samples tell, whose noise counts too."""
    program = experiment.program
    assert isinstance(program, MotionProgram)
    at, n = jnp.asarray(local, experiment.member.model.dtype), len(experiment.recording.ts)
    found = [np.asarray(array, float)[:, :n] for array in program.predicted(experiment.member, at)]
    return {
        name: (values, np.hypot(_errors(solution, problem, experiment, local, np.nan_to_num(slopes), seen), own))
        for name, values, slopes, own in zip(program.sensors, *found, strict=True)
    }


def _shown(problem: FitProblem, experiment: Experiment, local: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What all sensors (c, n) show, and its derivative (c, n, p) by local unknowns, in one run of the fit's program:
    whitened residuals of samples that are zero with a noise of one."""
    member, n = experiment.member, len(experiment.recording.ts)
    zero, one = jnp.zeros_like(member.measured), jnp.ones_like(member.weights)
    bare = experiment._replace(member=dataclasses.replace(member, measured=zero, weights=one))
    values, slopes = problem.evaluate_one(bare, local, np.inf)
    shape = member.measured.shape
    return values.reshape(shape)[:, :n], slopes.reshape(*shape, len(local))[:, :n]


def _whole(solution: Solution, experiment: Experiment, slopes: np.ndarray) -> np.ndarray:
    """Derivatives (n, p) by all unknowns of the fit from those by a recording's."""
    whole = np.zeros((len(slopes), len(solution.x)))
    whole[:, experiment.local] = slopes
    return whole


def _errors(
    solution: Solution, problem: FitProblem, experiment: Experiment, local: np.ndarray, slopes: np.ndarray, seen: bool
) -> np.ndarray:
    """Standard deviations (n,). What is `seen` in the first part of a recording that is not fitted moves with the
    shared unknowns, so as to fit that part, and has an error of its own from its noise."""
    count = len(experiment.local)
    shared, own = slopes[:, :count], slopes[:, count:]
    if not (seen and own.shape[1]):
        return solution.sensitivity.errors(_whole(solution, experiment, shared))
    jacobian = window_rows(problem, experiment, local)[1]
    U, s, Vt = visible_directions(jacobian[:, count:])
    follows = -(Vt.T / s) @ U.T @ jacobian[:, :count]
    error = solution.sensitivity.errors(_whole(solution, experiment, shared + own @ follows))
    noise = np.linalg.norm(own @ (Vt.T / s), axis=1)
    hidden = np.linalg.norm(own - own @ Vt.T @ Vt, axis=1) > 1e-3 * np.max(np.linalg.norm(own, axis=1), initial=0.0)
    return np.where(hidden, np.nan, np.hypot(error, noise))
