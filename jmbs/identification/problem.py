"""A study as a least-squares problem: recordings as arrays, one program for all of equal shapes, rows in one order."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jmbs.identification.expressions import Expression
from jmbs.identification.motion import MotionProgram
from jmbs.identification.output_names import OutputName
from jmbs.identification.prediction import FitProgram, Member, end_of_part
from jmbs.identification.study import Recording, Study
from jmbs.identification.unknowns import Unknowns, starts_of
from jmbs.simulation import Model


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

    def end_of(self, part: float) -> float:
        """The end, s, of a part of what is measured."""
        member = self.member
        return float(end_of_part(member.times, member.weights, jnp.asarray(part, member.times.dtype)))

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

    @property
    def rows(self) -> int:
        """How many rows `evaluate` gives, missing samples among them."""
        return sum(int(np.size(experiment.member.weights)) for experiment in self.training)

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


def groups_of(study: Study, recordings: Iterable[Recording]) -> list[list[Recording]]:
    """The recordings in groups that share a program: of one model, with the same channels."""
    groups: dict[Any, list[Recording]] = {}
    for recording in recordings:
        model = study.model if recording.model is None else recording.model
        groups.setdefault((id(model), tuple(sorted(recording.channels))), []).append(recording)
    return list(groups.values())
