"""A study as a least-squares problem: recordings as arrays, one program for all of equal shapes, rows in one order."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jmbs.errors import ModelError
from jmbs.identification.expressions import Expression
from jmbs.identification.interpolation import ORDER
from jmbs.identification.motion import MotionProgram
from jmbs.identification.motion_problem import along_motion, driven, is_by_motion, require_motion_output
from jmbs.identification.noise import noise_of
from jmbs.identification.output_names import OutputName, parse_output
from jmbs.identification.parameter_paths import has_parameter
from jmbs.identification.places import Place, place_of
from jmbs.identification.prediction import FitProgram, Member
from jmbs.identification.recording_inputs import with_recording_inputs
from jmbs.identification.steps import chosen_step, fixed_method, shortest_of
from jmbs.identification.study import SENSOR_KEYS, Channel, Parameter, Recording, Study
from jmbs.identification.ties import expressions_of
from jmbs.identification.unknowns import Unknown, UnknownBlock, Unknowns, samples, starts_of, unknowns_of
from jmbs.library.mechanics import nearest
from jmbs.simulation import Model

CAPACITY = 4096
"""For how many knots programs of fits have room at least. Those that are not wanted cost no steps; shorter steps or
other recordings find the program compiled."""


SAME_STEP = 1e-6
"""Steps that differ by no more than this part are the same: they are rounded to the model's precision."""


class Experiment(NamedTuple):
    """A recording ready to be compared: its program and arrays, `recording` itself, and where its unknowns stand."""

    recording: Recording
    program: FitProgram | MotionProgram
    member: Any
    local: np.ndarray

    def samples(self, horizon: float = np.inf) -> int:
        """How many there are up to a time, s."""
        times, weights = np.asarray(self.member.times), np.asarray(self.member.weights)
        return int(np.sum((weights > 0) & (times <= horizon)))

    @property
    def run(self) -> FitProgram:
        """The program of a recording that is simulated."""
        assert isinstance(self.program, FitProgram)
        return self.program

    @property
    def outputs(self) -> dict[str, OutputName]:
        """What its channels measure, by sensor."""
        return dict(zip(self.program.sensors, self.program.outputs, strict=True))

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """One over the standard deviations of samples, zero where there is none, by sensor."""
        return dict(zip(self.program.sensors, np.asarray(self.member.weights, float), strict=True))


@dataclasses.dataclass
class Counts:
    """How often recordings were simulated, and how many of these runs carried derivatives."""

    simulations: int = 0
    jacobians: int = 0


@dataclasses.dataclass(frozen=True)
class FitProblem:
    """All experiments of a study with its unknowns; `noise` by sensor, standard deviations that hold where a recording
    gives none; `ties` and `derived`, expressions by path and name, each after those that it follows from; `latest`:
    by recording, what was evaluated last, and where; `runs`: by recording, the last two plain runs, and what they
    showed."""

    study: Study
    models: Mapping[str, Model]
    unknowns: Unknowns
    experiments: tuple[Experiment, ...]
    counts: Counts
    noise: Mapping[str, float]
    ties: Mapping[str, Expression]
    derived: Mapping[str, Expression]
    latest: dict[str, tuple[Member, tuple[bytes, float], tuple[np.ndarray, np.ndarray]]] = dataclasses.field(
        default_factory=dict, repr=False
    )
    runs: dict[str, list[tuple[Experiment, bytes, np.ndarray]]] = dataclasses.field(default_factory=dict, repr=False)

    @property
    def training(self) -> tuple[Experiment, ...]:
        """Those that are fitted."""
        return tuple(experiment for experiment in self.experiments if experiment.recording.role == "train")

    def evaluate(self, x: np.ndarray, horizons: Mapping[str, float]) -> tuple[np.ndarray, np.ndarray]:
        """Whitened residuals (m,) of all samples up to each recording's horizon, s, and their Jacobian (m, p)."""
        rows, columns = [], []
        for experiment in self.training:
            local = x[experiment.local]
            residual, jacobian = self.evaluate_one(experiment, local, horizons[experiment.recording.name])
            rows.append(residual)
            whole = np.zeros((len(residual), len(x)))
            whole[:, experiment.local] = jacobian
            columns.append(whole)
        return np.concatenate(rows), np.concatenate(columns)

    def evaluate_one(self, experiment: Experiment, local: np.ndarray, horizon: float) -> tuple[np.ndarray, np.ndarray]:
        """The same of one recording, by its local unknowns: rows of all its channels, zero where there is no sample.

        What was evaluated last is not run again: a check ends where a fit begins, and a fit where it is judged.
        """
        name, place = experiment.recording.name, (np.asarray(local, float).tobytes(), float(horizon))
        member, before, found = self.latest.get(name, (None, None, None))
        if found is not None and member is experiment.member and before == place:
            return found
        at, until = (jnp.asarray(array, experiment.member.model.dtype) for array in (local, horizon))
        residual, jacobian = experiment.program.evaluate(experiment.member, at, until)
        self.count(experiment.program.simulates)
        residual = np.asarray(residual, float)
        found = residual.reshape(-1), np.asarray(jacobian, float).reshape(residual.size, -1)
        self.latest[name] = experiment.member, place, found
        return found

    def count(self, simulates: bool = True) -> None:
        """Counts one evaluation of a recording with derivatives, and the run that it is."""
        self.counts.simulations += simulates
        self.counts.jacobians += 1

    def local(self, experiment: Experiment, x: np.ndarray) -> np.ndarray:
        """The unknowns that a recording depends on; those of its own are at their start where it is held out."""
        own = self.unknowns.held_out.get(experiment.recording.name, ())
        return np.concatenate([x[experiment.local], starts_of(own)])

    def predicted(
        self, experiment: Experiment, local: np.ndarray, times: np.ndarray | None = None
    ) -> dict[str, np.ndarray]:
        """What the sensors of a recording show at its local unknowns, by name: at its sample times, or at others, s, of
        a recording that is simulated."""
        n = len(experiment.recording.ts if times is None else times)
        if times is None:
            shown = self.shown(experiment, local)
        else:
            shown = self._run(lambda at: experiment.run.shown_at(experiment.member, at, times), experiment, local)
        return {name: row[:n] for name, row in zip(experiment.program.sensors, shown, strict=True)}

    def shown(self, experiment: Experiment, local: np.ndarray) -> np.ndarray:
        """The same (c, n) at all times of its program. The last two runs of a recording are not made again: steps are
        chosen by comparing runs, and the one whose steps are taken is then wanted itself."""
        runs, place = self.runs.setdefault(experiment.recording.name, []), np.asarray(local, float).tobytes()
        for run in runs:
            if run[1] == place and _show_the_same(run[0], experiment):
                runs.append(run)
                break
        else:
            found = self._run(lambda at: experiment.program.shown(experiment.member, at), experiment, local)
            runs.append((experiment, place, found))
        del runs[:-2]
        return runs[-1][2]

    def _run(self, shows: Callable[[Array], Array], experiment: Experiment, local: np.ndarray) -> np.ndarray:
        self.counts.simulations += experiment.program.simulates
        return np.asarray(shows(jnp.asarray(local, experiment.member.model.dtype)))

    def steps(self) -> dict[str, float]:
        """The step of each recording that is simulated, s."""
        return {e.recording.name: float(e.member.step) for e in self.experiments if e.program.simulates}

    def nuisances(self, x: np.ndarray) -> dict[str, dict[str, float]]:
        """By recording that is fitted and sensor: degrees of freedom of its samples that nuisance unknowns take."""
        found = {}
        for e in self.training:
            taken = e.program.taken(e.member, jnp.asarray(self.local(e, x), e.member.model.dtype))
            found[e.recording.name] = dict(zip(e.program.sensors, np.asarray(taken, float).tolist(), strict=True))
        return found

    def ends(self) -> dict[str, float]:
        """The last sample's time of each recording, s."""
        return {e.recording.name: float(np.max(e.recording.ts)) for e in self.experiments}


def _show_the_same(a: Experiment, b: Experiment) -> bool:
    """Whether two experiments of one recording show the same at equal unknowns: a run depends on its model, times and
    steps, whatever was measured and however many steps its program has room for."""
    if not (isinstance(a.program, FitProgram) and isinstance(b.program, FitProgram)):
        return a.program is b.program and a.member is b.member
    same_program = dataclasses.replace(a.program, knots=b.program.knots) == b.program
    arrays = ("model", "start", "times", "constants", "transforms", "fixed")
    same_arrays = all(getattr(a.member, name) is getattr(b.member, name) for name in arrays)
    return same_program and same_arrays and float(a.member.step) == float(b.member.step)


def pose(study: Study) -> FitProblem:
    """The problem of a study, with noise where none is given and steps that fit it. Raises `ModelError`."""
    _refuse_recordings(study)
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
    return with_steps(problem, unknowns.first)


def ready_model(
    study: Study, recording: Recording, model: Model, outputs: Mapping[str, OutputName], unknowns: Unknowns
) -> Model:
    """The model of a recording with its inputs. Raises `ModelError`."""
    inputs = driven(recording, model, outputs) if is_by_motion(study) else recording
    return with_recording_inputs(study, inputs, model, unknowns)


def with_steps(
    problem: FitProblem,
    x: np.ndarray,
    at_most: Mapping[str, float] | None = None,
    part: float = 1.0,
    keep: bool = False,
) -> FitProblem:
    """The problem with steps that follow the motion at `x` over a `part` of each recording, none longer than `at_most`
    (s, by recording).

    Raises `ModelError` where no step is short enough; with `keep` that recording keeps its step of `at_most`.
    """
    steps = {}
    for e in (e for e in problem.experiments if e.program.simulates):
        name, shows = e.recording.name, shows_of(problem, e, problem.local(e, x))
        longest, weights = None if at_most is None else at_most[name], np.asarray(e.member.weights)
        weights = np.where(_in_part(e.member, part), weights, 0.0)
        try:
            steps[name] = chosen_step(e.recording, e.member.model, shows, weights, longest)
        except ModelError:
            if longest is None or not keep:
                raise
            steps[name] = longest
    return of_steps(problem, steps)


def has_shorter_steps(problem: FitProblem, steps: Mapping[str, float], training: bool = False) -> bool:
    """Whether a recording, or one of those that are fitted, has a shorter step, s, by more than rounding."""
    names = {e.recording.name for e in (problem.training if training else problem.experiments)}
    return any(step < steps[name] * (1 - SAME_STEP) for name, step in problem.steps().items() if name in names)


def _in_part(member: Member, part: float) -> np.ndarray:
    """Which of its times (n,) lie in a part of what is measured."""
    times, seen = np.asarray(member.times), np.any(np.asarray(member.weights) > 0, axis=0)
    measured = times[seen] if seen.any() else times
    return times <= measured[0] + (part + 1e-9) * (measured[-1] - measured[0])


def shows_of(problem: FitProblem, experiment: Experiment, local: np.ndarray) -> Callable[[float], np.ndarray]:
    """What the sensors of a recording show (c, n) at its local unknowns, by the step, s."""
    return lambda step: problem.shown(stepped(experiment, step), local)


def of_steps(problem: FitProblem, steps: Mapping[str, float]) -> FitProblem:
    """The problem with given steps, s, by recording, or a little shorter ones."""
    kinds: dict[Any, list[Experiment]] = {}
    experiments = {e.recording.name: e for e in problem.experiments}
    for name in steps:
        kinds.setdefault(_shared(problem.study, experiments[name].recording), []).append(experiments[name])
    for kind in kinds.values():
        knots = max(knots_of(e, steps[e.recording.name]) for e in kind)
        experiments |= {e.recording.name: stepped(e, steps[e.recording.name], knots) for e in kind}
    return dataclasses.replace(problem, experiments=tuple(experiments.values()))


def _shared(study: Study, recording: Recording) -> Any:
    """What recordings of one program have in common."""
    return id(study.model if recording.model is None else recording.model), tuple(sorted(recording.channels))


def stepped(experiment: Experiment, step: float, most: int = 0) -> Experiment:
    """The experiment with steps of `step`, s, or a little shorter so that the last sample ends one; in a program that
    has room for `most` knots too."""
    own, before = knots_of(experiment, step), experiment.member
    step = shortest_of(experiment.recording, before.model, step, own)
    arrays = {"step": jnp.asarray(step, before.step.dtype), "knots": jnp.asarray(own, before.knots.dtype)}
    knots = max(capacity_of(max(own, most)), experiment.run.knots)
    program = dataclasses.replace(experiment.run, knots=knots)
    return experiment._replace(program=program, member=dataclasses.replace(before, **arrays))


def capacity_of(knots: int) -> int:
    """For how many knots a program has room that is wanted for so many."""
    return next(CAPACITY * 4**i for i in itertools.count() if CAPACITY * 4**i >= knots)


def knots_of(experiment: Experiment, step: float) -> int:
    """How many ends of steps there are from a model's start to the last sample."""
    span = float(np.max(experiment.recording.ts)) - experiment.member.model.settings.t0
    rounding = max(1e-9, 4 * float(np.finfo(experiment.member.step.dtype).eps))
    return max(int(np.ceil(span / step * (1 - rounding))) + 1, ORDER)


def _refuse_recordings(study: Study) -> None:
    names = [recording.name for recording in study.data]
    if doubled := {name for name in names if names.count(name) > 1}:
        raise ModelError(f"recordings/{min(doubled)}", "two recordings of this name", "names of their own")
    if not any(recording.role == "train" for recording in study.data):
        raise ModelError("recordings", f"{len(names)} recordings, none to be fitted", "one of role train at least")
    for recording in study.data:
        refuse_recording(recording)


def refuse_recording(recording: Recording) -> None:
    """Raises `ModelError` for a recording that is none: its role, times, or channels of another length."""
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
            if is_by_motion(study):
                require_motion_output(where, study.sensors[name].output, output)
            elif output.kind == "actuation":
                wanted = "what a motion shows; measured torques are inputs of a fit by shooting"
                raise ModelError(where, study.sensors[name].output, wanted)
            found[recording.name][name] = output
    return found


def _most_samples(study: Study) -> dict[str, int]:
    """Samples of each recording, the most among those that share a program."""
    kinds: dict[Any, list[Recording]] = {}
    for recording in study.data:
        kinds.setdefault(_shared(study, recording), []).append(recording)
    return {r.name: max(len(other.ts) for other in kind) for kind in kinds.values() for r in kind}


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
    fixed, knots = {path: jnp.asarray(value, dtype) for path, value in recording.set.items()}, jnp.asarray(ORDER)
    return Member(model, start, step_, knots, times_, measured_, weights_, constants_, transforms, fixed)


def noise_given(study: Study, recording: Recording, sensor: str) -> float | np.ndarray | str:
    """What is said of the noise of a channel: by the recording, else by the sensor."""
    channel = recording.channels[sensor]
    own = channel.noise if isinstance(channel, Channel) else None
    return study.sensors[sensor].noise if own is None else own


def deviations_of(
    study: Study, recording: Recording, sensors: Iterable[str], noise: Mapping[str, float]
) -> dict[str, np.ndarray]:
    """By sensor the standard deviations (n,) or () of a recording's samples."""
    return {name: deviation_of(study, recording, name, noise) for name in sensors}


def deviation_of(study: Study, recording: Recording, sensor: str, noise: Mapping[str, float]) -> np.ndarray:
    """The standard deviation (n,) or () of a channel's samples: the recording's, the sensor's, or an estimate."""
    given = noise_given(study, recording, sensor)
    if isinstance(given, str):
        return np.asarray(noise[sensor])
    deviation = np.asarray(given, float)
    seen = np.isfinite(samples(recording, sensor))
    if deviation.ndim:
        deviation = np.where(seen, deviation, 1.0)
    if not (np.all(np.isfinite(deviation)) and np.all(deviation > 0)):
        raise ModelError(f"sensors/{sensor}/noise", json.dumps(np.ravel(deviation)[:4].tolist()), "positive numbers")
    return deviation
