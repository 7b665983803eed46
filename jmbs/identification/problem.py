"""A study as a least-squares problem: recordings as arrays, one program for all of equal shapes, rows in one order."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jmbs.errors import ModelError
from jmbs.identification.expressions import Expression, parse_expression
from jmbs.identification.output_names import OutputName, parse_output
from jmbs.identification.parameter_paths import known_parameters, parse_parameter
from jmbs.identification.places import Place, has_place, place_of
from jmbs.identification.prediction import (
    SENSOR_KEYS,
    FitProgram,
    Member,
    UnknownBlock,
    prediction,
    residual_and_jacobian,
)
from jmbs.identification.study import Channel, Input, Parameter, Recording, Study
from jmbs.identification.unknowns import Unknown, Unknowns, samples, unknowns_of
from jmbs.library.mechanics import TableSpec, nearest
from jmbs.simulation import Model, loops, with_inputs

AWAY = 1e9
"""s beyond the end of a table to which its last value is held."""
EDGE = 1e-9
"""Half the length of a step of an input that is held, beside the time between two of them."""


class Experiment(NamedTuple):
    """A recording ready to be compared: its program and arrays, `recording` itself, and where its unknowns stand."""

    recording: Recording
    program: FitProgram
    member: Member
    local: np.ndarray


@dataclasses.dataclass
class Counts:
    """How often recordings were simulated, and how many of these runs carried derivatives."""

    simulations: int = 0
    jacobians: int = 0


@dataclasses.dataclass(frozen=True)
class FitProblem:
    """All experiments of a study with its unknowns; `noise` by sensor, standard deviations that hold where a recording
    gives none; `ties` and `derived`, expressions by path and name, each after those that it follows from."""

    study: Study
    models: Mapping[str, Model]
    unknowns: Unknowns
    experiments: tuple[Experiment, ...]
    counts: Counts
    noise: Mapping[str, float]
    ties: Mapping[str, Expression]
    derived: Mapping[str, Expression]

    def evaluate(
        self, x: np.ndarray, horizons: Mapping[str, float], role: str = "train"
    ) -> tuple[np.ndarray, np.ndarray]:
        """Whitened residuals (m,) of all samples up to each recording's horizon, s, and their Jacobian (m, p)."""
        rows, columns = [], []
        for experiment in self.experiments:
            if experiment.recording.role == role:
                local = x[experiment.local]
                residual, jacobian = self.evaluate_one(experiment, local, horizons[experiment.recording.name])
                rows.append(residual)
                whole = np.zeros((len(residual), len(x)))
                whole[:, experiment.local] = jacobian
                columns.append(whole)
        empty = [np.zeros(0)], [np.zeros((0, len(x)))]
        return np.concatenate(rows or empty[0]), np.concatenate(columns or empty[1])

    def evaluate_one(self, experiment: Experiment, local: np.ndarray, horizon: float) -> tuple[np.ndarray, np.ndarray]:
        """The same of one recording, by its local unknowns: rows of all its channels, zero where there is no sample."""
        at, until = (jnp.asarray(array, experiment.member.model.dtype) for array in (local, horizon))
        residual, jacobian = residual_and_jacobian(experiment.program, experiment.member, at, until)
        self.counts.simulations += 1
        self.counts.jacobians += 1
        residual = np.asarray(residual, float)
        return residual.reshape(-1), np.asarray(jacobian, float).reshape(residual.size, -1)

    def local(self, experiment: Experiment, x: np.ndarray) -> np.ndarray:
        """The unknowns that a recording depends on; those of its own are at their start where it is held out."""
        own = self.unknowns.held_out.get(experiment.recording.name, ())
        return np.concatenate([x[experiment.local], *(block.first for block in own)])

    def predicted(self, experiment: Experiment, local: np.ndarray) -> dict[str, np.ndarray]:
        """What the sensors of a recording show at its sample times, by name, at its local unknowns."""
        self.counts.simulations += 1
        at = jnp.asarray(local, experiment.member.model.dtype)
        shown = np.asarray(prediction(experiment.program, experiment.member, at))
        n = len(experiment.recording.ts)
        return {name: row[:n] for name, row in zip(experiment.program.sensors, shown, strict=True)}

    def ends(self) -> dict[str, float]:
        """The last sample's time of each recording, s."""
        return {e.recording.name: float(np.max(e.recording.ts)) for e in self.experiments}


def problem_of(study: Study, steps: Callable[[Recording, Model], float], noise: Mapping[str, float]) -> FitProblem:
    """The problem that a study poses.

    **Arguments:** `steps`: the run's step, s, for a recording; `noise`: by sensor, where a study does not give it.
    Raises `ModelError`.
    """
    _refuse_recordings(study)
    models = recording_models(study)
    unknowns = unknowns_of(study, models)
    outputs = outputs_of(study, models)
    ties, derived = expressions_of(study, unknowns)
    ready = {r.name: _with_recording_inputs(study, r, models[r.name], unknowns) for r in study.data}
    step = {r.name: steps(r, ready[r.name]) for r in study.data}
    shapes = _common_shapes(study, ready, step)
    experiments = []
    for recording in study.data:
        model, (knots, n) = ready[recording.name], shapes[recording.name]
        program = _program(study, recording, model, outputs[recording.name], unknowns, knots, ties)
        member = _member(study, recording, model, program, unknowns, step[recording.name], n, noise)
        experiments.append(Experiment(recording, program, member, unknowns.local(recording.name)))
    return FitProblem(study, models, unknowns, tuple(experiments), Counts(), noise, ties, derived)


def _refuse_recordings(study: Study) -> None:
    names = [recording.name for recording in study.data]
    if doubled := {name for name in names if names.count(name) > 1}:
        raise ModelError(f"recordings/{min(doubled)}", "two recordings of this name", "names of their own")
    if not any(recording.role == "train" for recording in study.data):
        raise ModelError("recordings", f"{len(names)} recordings, none to be fitted", "one of role train at least")
    for recording in study.data:
        where, size = f"recordings/{recording.name}", np.shape(recording.ts)
        if recording.role not in ("train", "test"):
            raise ModelError(f"{where}/role", repr(recording.role), "train or test")
        if len(size) != 1 or size[0] < 2 or not np.all(np.diff(recording.ts) > 0):
            raise ModelError(f"{where}/ts", f"times of shape {size}", "2 or more, increasing")
        for name in recording.channels:
            if samples(recording, name).shape != size:
                found = f"shape {samples(recording, name).shape}"
                raise ModelError(f"{where}/channels/{name}", found, f"a value for each of the {size[0]} times")


def recording_models(study: Study) -> dict[str, Model]:
    """By recording, its model with the values that hold in it. Raises `ModelError`."""
    models = {}
    for recording in study.data:
        model = study.model if recording.model is None else recording.model
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
            if output.kind == "actuation":
                wanted = "what a motion shows; measured torques are inputs of a fit by shooting"
                raise ModelError(where, study.sensors[name].output, wanted)
            found[recording.name][name] = output
    return found


def _with_recording_inputs(study: Study, recording: Recording, model: Model, unknowns: Unknowns) -> Model:
    """The model with the recording's inputs as tables, and with guesses where unknown initial values need them."""
    inputs = {path: _table(model, recording, path, value) for path, value in recording.inputs.items()}
    for path in _ports(study) - set(inputs):
        constant = _constant(model, path)
        if constant is not None:
            inputs[path] = np.array([model.settings.t0, AWAY]), np.stack([constant, constant])
    length = max((len(times) for times, _ in inputs.values()), default=0)
    length = max(length, *(_rows(r) for r in study.data)) if inputs else 0
    tables: dict[str, Any] = {path: _padded(times, values, length) for path, (times, values) in inputs.items()}
    return _with_guesses(with_inputs(model, tables), unknowns, recording.name)


def _ports(study: Study) -> set[str]:
    return {path for recording in study.data for path in recording.inputs}


def _rows(recording: Recording) -> int:
    """Rows of the longest table among a recording's inputs, with the one that holds its end."""
    return max((2 * len(i.times) if i.hold == "zero" else len(i.times) for i in _inputs(recording)), default=1) + 1


def _inputs(recording: Recording) -> list[Input]:
    return [value for value in recording.inputs.values() if isinstance(value, Input)]


def _constant(model: Model, path: str) -> np.ndarray | None:
    """The constant that a model has at a port, None where it has none or something else."""
    drive = model.dae.drives.get(path)
    value = getattr(drive, "value", None)
    return None if value is None or np.ndim(value) != 1 else np.asarray(value)


def _table(model: Model, recording: Recording, path: str, given: Any) -> tuple[np.ndarray, np.ndarray]:
    """An input as times and values (n, k), linear in between."""
    where = f"recordings/{recording.name}/inputs/{path}"
    if isinstance(given, TableSpec):
        given = Input(given.times, given.values)
    elif isinstance(given, tuple) and len(given) == 2:
        given = Input(*given)
    if not isinstance(given, Input):
        value = np.atleast_1d(np.asarray(given, float))
        return np.array([model.settings.t0, AWAY]), np.stack([value, value])
    times, values = np.asarray(given.times, float), np.asarray(given.values, float)
    values = values[:, None] if values.ndim == 1 else values
    if len(times) < 2 or len(times) != len(values) or np.any(np.diff(times) <= 0):
        raise ModelError(where, f"{len(times)} times and {len(values)} values", "as many of both, 2 or more, in order")
    last = float(np.max(recording.ts))
    end = times[-1] + (times[-1] - times[-2] if given.hold == "zero" else 0.0)
    if times[0] > model.settings.t0 + 1e-9 or end < last - 1e-9 * max(1.0, abs(last)):
        found = f"values from {times[0]:g} to {times[-1]:g} s"
        raise ModelError(where, found, f"values from the start {model.settings.t0:g} s to the last sample, {last:g} s")
    if given.hold == "zero":
        half = EDGE * float(np.min(np.diff(times)))
        edges = np.stack([times[1:] - half, times[1:] + half], axis=1).ravel()
        return np.concatenate([times[:1], edges]), np.repeat(values, 2, axis=0)[:-1]
    if given.hold != "linear":
        raise ModelError(f"{where}/hold", repr(given.hold), "linear or zero")
    return times, values


def _padded(times: np.ndarray, values: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
    """A table of `length` rows whose last value holds on."""
    more = length - len(times)
    far = times[-1] + AWAY * np.arange(1, more + 1)
    return np.concatenate([times, far]), np.concatenate([values, np.repeat(values[-1:], more, axis=0)])


def _with_guesses(model: Model, unknowns: Unknowns, recording: str) -> Model:
    """Where an initial value within a loop is unknown, the loop's others choose its branch only."""
    free: dict[str, set[str]] = {"q": set(), "v": set()}
    for block in unknowns.of(recording):
        if block.kind == "initial" and block.place is not None:
            name, _, key = block.place.base.removeprefix("initial/").rpartition("/")
            if key in free:
                free[key].add(name)
    if not any(free.values()):
        return model
    joints = {name: dict(entry) for name, entry in model.initial.get("joints", {}).items()}
    for loop in loops(model.layout):
        for key, names in free.items():
            if names & set(loop):
                for joint in set(loop) - names:
                    value = joints.get(joint, {}).pop(key, None)
                    if value is not None and key == "q":
                        joints[joint]["guess"] = value
    return dataclasses.replace(model, initial={**model.initial, "joints": joints})


def _common_shapes(study: Study, models: Mapping[str, Model], step: Mapping[str, float]) -> dict[str, tuple[int, int]]:
    """Knots and samples of each recording, the most among those that can share a program."""
    kinds: dict[Any, list[str]] = {}
    own = {}
    for recording in study.data:
        model = models[recording.name]
        span = float(np.max(recording.ts)) - model.settings.t0
        if not span > 0:
            found = f"a last sample at {np.max(recording.ts):g} s"
            wanted = f"one after the start of the model, {model.settings.t0:g} s"
            raise ModelError(f"recordings/{recording.name}", found, wanted)
        own[recording.name] = max(int(np.ceil(span / step[recording.name] * (1 - 1e-9))) + 1, 8), len(recording.ts)
        kind = id(study.model if recording.model is None else recording.model), tuple(sorted(recording.channels))
        kinds.setdefault(kind, []).append(recording.name)
    shapes = {}
    for names in kinds.values():
        most = tuple(max(own[name][i] for name in names) for i in range(2))
        shapes |= {name: (most[0], most[1]) for name in names}
    return shapes


def _program(
    study: Study,
    recording: Recording,
    model: Model,
    outputs: Mapping[str, OutputName],
    unknowns: Unknowns,
    knots: int,
    expressions: Mapping[str, Expression],
) -> FitProgram:
    sensors = tuple(name for name in study.sensors if name in outputs)
    blocks = tuple(UnknownBlock(b.local_names, _place_in(model, b), b.size) for b in unknowns.of(recording.name))
    ties = [(place_of(model, path), expression) for path, expression in expressions.items() if _is_path(model, path)]
    method = fixed_method(model)
    return FitProgram(tuple(outputs[name] for name in sensors), sensors, blocks, tuple(ties), knots, method)


def expressions_of(study: Study, unknowns: Unknowns) -> tuple[dict[str, Expression], dict[str, Expression]]:
    """Ties by path, each after those that it follows from, and derived values by name. Raises `ModelError`."""
    known = paths_of(study)
    own = {n for blocks in (*unknowns.own.values(), *unknowns.held_out.values()) for b in blocks for n in b.local_names}
    found: dict[str, dict[str, Expression]] = {}
    for section, texts in (("ties", study.ties), ("derived", study.derived)):
        found[section] = {name: parse_expression(f"{section}/{name}", str(text), known) for name, text in texts.items()}
        for name, expression in found[section].items():
            _refuse_names(study, f"{section}/{name}", expression, own)
    return _in_order(found["ties"]), found["derived"]


def _refuse_names(study: Study, where: str, expression: Expression, own: set[str]) -> None:
    """Of what an expression must not hold: what each recording has its own of, and what is no single number."""
    for name in expression.names:
        if name in own:
            raise ModelError(where, f"{name}, which each recording has its own of", "what is one for the study")
        if name.startswith("sensors/"):
            continue
        models = [study.model, *(r.model for r in study.data if r.model is not None)]
        shape = parse_parameter(models, name).shape
        if np.prod(shape, dtype=int) != 1 or place_of_any(models, name).body is not None:
            raise ModelError(where, f"{name}, of shape {shape}", "one number, such as an entry of it")


def place_of_any(models: Sequence[Model], path: str) -> Place:
    """The place in the first of the models that has it. Raises `ModelError`."""
    return place_of(next((m for m in models if _is_path(m, path)), models[0]), path)


def _in_order(ties: Mapping[str, Expression]) -> dict[str, Expression]:
    ordered: dict[str, Expression] = {}
    while len(ordered) < len(ties):
        ready = {
            path: expression
            for path, expression in ties.items()
            if path not in ordered and not (set(expression.names) & (set(ties) - set(ordered)))
        }
        if not ready:
            path = min(set(ties) - set(ordered))
            raise ModelError(f"ties/{path}", "a value that follows from itself", "ties without a circle")
        ordered |= ready
    return ordered


def paths_of(study: Study) -> list[str]:
    """What expressions may hold: parameters of all models, and unknowns of sensors."""
    models = [study.model, *(r.model for r in study.data if r.model is not None)]
    sensors = [f"sensors/{name}/{key}" for name in study.sensors for key in (*SENSOR_KEYS, "noise")]
    return [*dict.fromkeys(path for model in models for path in known_parameters(model)), *sensors]


def _is_path(model: Model, path: str) -> bool:
    return has_place(model, Place(path, path))


def _place_in(model: Model, block: Unknown) -> Place | None:
    """The place, None where this model has nothing there: unknowns may belong to another recording's model."""
    return block.place if block.place is not None and has_place(model, block.place) else None


def fixed_method(model: Model) -> str:
    """The method of a fit's fixed steps: RK4, or the model's own if that is implicit."""
    method = str(model.settings.method)
    return method if method.startswith(("kvaerno", "implicit")) else "rk4"


def _member(
    study: Study,
    recording: Recording,
    model: Model,
    program: FitProgram,
    unknowns: Unknowns,
    step: float,
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
    arrays = [jnp.asarray(a, dtype) for a in (model.settings.t0, step, times, measured, weights, constants)]
    transforms = tuple(block.transform for block in unknowns.of(recording.name))
    start, step_, times_, measured_, weights_, constants_ = arrays
    fixed = {path: jnp.asarray(value, dtype) for path, value in recording.set.items()}
    return Member(model, start, step_, times_, measured_, weights_, constants_, transforms, fixed)


def deviation_of(study: Study, recording: Recording, sensor: str, noise: Mapping[str, float]) -> np.ndarray:
    """The standard deviation (n,) or () of a channel's samples: the recording's, the sensor's, or an estimate."""
    channel = recording.channels[sensor]
    own = channel.noise if isinstance(channel, Channel) else None
    given = study.sensors[sensor].noise if own is None else own
    if isinstance(given, str):
        return np.asarray(noise[sensor])
    deviation = np.asarray(given, float)
    seen = np.isfinite(samples(recording, sensor))
    if deviation.ndim:
        deviation = np.where(seen, deviation, 1.0)
    if not (np.all(np.isfinite(deviation)) and np.all(deviation > 0)):
        raise ModelError(f"sensors/{sensor}/noise", json.dumps(np.ravel(deviation)[:4].tolist()), "positive numbers")
    return deviation
