"""From a study to its problem: what is wrong is refused, and recordings become arrays with their programs."""

from __future__ import annotations

from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np

from jmbs.errors import ModelError
from jmbs.identification.expressions import Expression
from jmbs.identification.interpolation import ORDER
from jmbs.identification.measured_starts import samples
from jmbs.identification.motion_problem import along_motion, driven, is_by_motion, require_motion_output
from jmbs.identification.noise import deviation_of, noise_of
from jmbs.identification.output_names import OutputName, parse_output
from jmbs.identification.parameter_paths import has_parameter
from jmbs.identification.places import Place, place_of
from jmbs.identification.prediction import FitProgram, Member, fitted_model
from jmbs.identification.problem import Counts, Experiment, FitProblem, groups_of
from jmbs.identification.problem_steps import with_steps
from jmbs.identification.quantities import expression_of, model_of
from jmbs.identification.recording_inputs import with_recording_inputs
from jmbs.identification.steps import fixed_method
from jmbs.identification.study import SENSOR_KEYS, Parameter, Recording, Study, models_of
from jmbs.identification.ties import expressions_of
from jmbs.identification.unknowns import Unknown, UnknownBlock, Unknowns, unknowns_of
from jmbs.library.mechanics import is_number, nearest, show
from jmbs.simulation import Model


def pose(study: Study) -> FitProblem:
    """The problem of a study, with noise where none is given and steps that fit it. Raises `ModelError`."""
    _refuse_recordings(study)
    _refuse_sensors(study)
    noise, models = noise_of(study), recording_models(study)
    outputs, unknowns = outputs_of(study, models), unknowns_of(study, models)
    ties, derived = expressions_of(study, unknowns)
    if not unknowns.blocks:
        raise ModelError("parameters", "none", "at least one unknown")
    ready = {r.name: ready_model(study, r, models[r.name], outputs[r.name], unknowns) for r in study.data}
    most = _most_samples(study)
    experiments = []
    for recording in study.data:
        model, named, n = ready[recording.name], outputs[recording.name], most[recording.name]
        experiments.append(experiment_of(study, recording, model, named, unknowns, ties, n, noise))
    problem = FitProblem(study, models, unknowns, tuple(experiments), Counts(), noise, ties, derived)
    _refuse_expressions(problem)
    _refuse_starts(problem)
    return with_steps(problem, unknowns.first)


def ready_model(
    study: Study, recording: Recording, model: Model, outputs: Mapping[str, OutputName], unknowns: Unknowns
) -> Model:
    """The model of a recording with its inputs. Raises `ModelError`."""
    inputs = driven(recording, model, outputs) if is_by_motion(study) else recording
    return with_recording_inputs(study, inputs, model, unknowns)


def _refuse_recordings(study: Study) -> None:
    names = [recording.name for recording in study.data]
    if doubled := {name for name in names if names.count(name) > 1}:
        raise ModelError(f"recordings/{min(doubled)}", "two recordings of this name", "names of their own")
    if not any(recording.role == "train" for recording in study.data):
        raise ModelError("recordings", f"{len(names)} recordings, none to be fitted", "one of role train at least")
    for recording in study.data:
        refuse_recording(recording)


def _refuse_sensors(study: Study) -> None:
    """Refuses sensors whose gain is zero, or starts there, and known delays below zero, which would look ahead."""
    for name, sensor in study.sensors.items():
        path, gain = f"sensors/{name}/gain", sensor.gain
        if isinstance(gain, Parameter):
            path, gain = f"{path}/start", 1.0 if gain.start is None else gain.start
        gain = np.asarray(gain).item() if np.ndim(gain) == 0 else gain
        if not is_number(gain) or gain == 0:
            found = f"{gain:g}" if is_number(gain) else show(gain)
            raise ModelError(path, found, "a finite number other than zero")
        if not isinstance(sensor.delay, Parameter) and not 0 <= sensor.delay < np.inf:
            raise ModelError(f"sensors/{name}/delay", f"{sensor.delay:g}", "a finite number of zero or more, s")


def _refuse_expressions(problem: FitProblem) -> None:
    """Refuses what is of no model, ties of which a model has one side only, and ties that are no numbers at the
    start."""
    unknown = {name for block in problem.unknowns.blocks for name in block.names}
    for section, expressions in (("ties", problem.ties), ("derived", problem.derived)):
        for name in expressions:
            try:
                model_of(problem, name)
            except ModelError as error:
                raise ModelError(f"{section}/{error.path}", error.found, error.wanted) from None
    for path, expression in problem.ties.items():
        for model in (m for m in models_of(problem.study) if has_parameter(m, path)):
            for name in expression.names:
                if not (name in unknown or name.startswith("sensors/") or has_parameter(model, name)):
                    found = f"{name}, which a model that has {path} has not"
                    raise ModelError(f"ties/{path}", found, "unknowns, or paths of the same model")
        value, _ = expression_of(problem, problem.unknowns.first, path)
        if not np.isfinite(value):
            raise ModelError(f"ties/{path}", f"{value:g} at the start", "a finite number")


def _refuse_starts(problem: FitProblem) -> None:
    """Refuses starts at which no model is one, such as a body whose moments of inertia do not belong together."""
    for experiment in problem.experiments:
        local = jnp.asarray(problem.local(experiment, problem.unknowns.first))
        try:
            fitted_model(experiment.program, experiment.member, local)
        except ModelError as error:
            raise ModelError(f"parameters/{error.path}", f"{error.found} at the start", error.wanted) from None


def refuse_recording(recording: Recording) -> None:
    """Raises `ModelError` for a recording that is none: its role, times, or channels of another length."""
    where, size = f"recordings/{recording.name}", np.shape(recording.ts)
    if recording.role not in ("train", "test"):
        raise ModelError(f"{where}/role", repr(recording.role), "train or test")
    recording.refuse_shapes()
    if size[0] < 2 or not np.all(np.diff(recording.ts) > 0):
        raise ModelError(f"{where}/ts", f"times of shape {size}", "2 or more, increasing")


def recording_models(study: Study) -> dict[str, Model]:
    """By recording, its model with the values that hold in it. Raises `ModelError`."""
    models = {}
    for recording in study.data:
        model = study.model if recording.model is None else recording.model
        if both := recording.set.keys() & recording.inputs.keys():
            where = f"recordings/{recording.name}/set/{min(both)}"
            raise ModelError(where, "a constant beside an input of the recording", "one of both")
        try:
            models[recording.name] = model.with_parameters(recording.set) if recording.set else model
        except ModelError as error:
            raise ModelError(f"recordings/{recording.name}/set/{error.path}", error.found, error.wanted) from None
    return models


def outputs_of(study: Study, models: Mapping[str, Model]) -> dict[str, dict[str, OutputName]]:
    """By recording and sensor what its channels measure. Raises `ModelError`."""
    found: dict[str, dict[str, OutputName]] = {}
    for recording in study.data:
        found[recording.name] = {}
        for name in recording.channels:
            if not np.isfinite(samples(recording, name)).any():
                continue  # it says nothing
            if name not in study.sensors:
                wanted = f"a sensor of the study{nearest(name, study.sensors)}"
                raise ModelError(f"recordings/{recording.name}/channels/{name}", "no such sensor", wanted)
            where = f"sensors/{name}/output"
            output = parse_output(models[recording.name], study.sensors[name].output, where)
            if is_by_motion(study):
                require_motion_output(where, study.sensors[name].output, output)
            elif output.kind == "actuation":
                wanted = "what a motion shows; measured torques are inputs of a fit by shooting"
                raise ModelError(where, study.sensors[name].output, wanted)
            found[recording.name][name] = output
    return found


def _most_samples(study: Study) -> dict[str, int]:
    """Samples of each recording, the most among those that share a program."""
    groups = groups_of(study, study.data)
    return {r.name: max(len(other.ts) for other in group) for group in groups for r in group}


def experiment_of(
    study: Study,
    recording: Recording,
    model: Model,
    outputs: Mapping[str, OutputName],
    unknowns: Unknowns,
    ties: Mapping[str, Expression],
    n: int,
    noise: Mapping[str, float],
) -> Experiment:
    """A recording as arrays of `n` samples or more with its program; `stepped` gives it its steps. Raises `ModelError`.

    **Arguments:** `model` with its inputs; `outputs`: what its channels measure.
    """
    start, last = model.settings.t0, float(np.max(recording.ts))
    if not last > start:
        wanted = f"one after the start of the model, {start:g} s"
        raise ModelError(f"recordings/{recording.name}", f"a last sample at {last:g} s", wanted)
    program = _program(study, recording, model, outputs, unknowns, ties)
    member = _member(study, recording, model, program, unknowns, n, noise)
    if is_by_motion(study):
        program, member = along_motion(study, recording, program, member)
    return Experiment(recording, program, member, unknowns.local(recording.name))


def _program(
    study: Study,
    recording: Recording,
    model: Model,
    outputs: Mapping[str, OutputName],
    unknowns: Unknowns,
    expressions: Mapping[str, Expression],
) -> FitProgram:
    sensors = tuple(name for name in study.sensors if name in outputs)
    blocks = tuple(UnknownBlock(b.local_names, _place_in(model, b), b.size) for b in unknowns.of(recording.name))
    ties = [
        (place_of(model, path), expression) for path, expression in expressions.items() if has_parameter(model, path)
    ]
    method = fixed_method(model)
    return FitProgram(tuple(outputs[name] for name in sensors), sensors, blocks, tuple(ties), ORDER, method)


def _place_in(model: Model, block: Unknown) -> Place | None:
    """The place, None where this model has nothing there: unknowns may belong to another recording's model."""
    return block.place if block.place is not None and has_parameter(model, block.path) else None


def _member(
    study: Study,
    recording: Recording,
    model: Model,
    program: FitProgram,
    unknowns: Unknowns,
    n: int,
    noise: Mapping[str, float],
) -> Member:
    dtype = model.dtype
    c, own = len(program.sensors), len(recording.ts)
    times, measured, weights = np.full(n, np.max(recording.ts)), np.zeros((c, n)), np.zeros((c, n))
    times[:own] = recording.ts
    constants = np.zeros((c, 3))
    for row, name in enumerate(program.sensors):
        values, deviation = samples(recording, name), deviation_of(study, recording, name, noise)
        seen = np.isfinite(values)
        measured[row, :own] = np.where(seen, values, 0.0)
        weights[row, :own] = np.where(seen, 1 / deviation, 0.0)
        for i, key in enumerate(SENSOR_KEYS):
            value = getattr(study.sensors[name], key)
            constants[row, i] = 0.0 if isinstance(value, Parameter) else value
    arrays = [jnp.asarray(a, dtype) for a in (model.settings.t0, np.nan, times, measured, weights, constants)]
    transforms = tuple(block.transform for block in unknowns.of(recording.name))
    start, step_, times_, measured_, weights_, constants_ = arrays
    # Beside a recording that has an input there, such a value stands in a table of the model.
    held = {path: value for path, value in recording.set.items() if has_parameter(model, path)}
    fixed, knots = {path: jnp.asarray(value, dtype) for path, value in held.items()}, jnp.asarray(ORDER)
    return Member(model, start, step_, knots, times_, measured_, weights_, constants_, transforms, fixed)
