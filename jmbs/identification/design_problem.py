"""An experiment by the coefficients of its inputs: what it shows, its information with derivatives, and its limits."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from jmbs.errors import ModelError
from jmbs.identification.driven import InputBasis, shown_with_slopes, table_of
from jmbs.identification.excitation import Excitation
from jmbs.identification.information import criterion_of
from jmbs.identification.motion_problem import is_by_motion
from jmbs.identification.output_names import OutputName
from jmbs.identification.posing import pose
from jmbs.identification.priors import prior_rows
from jmbs.identification.problem import FitProblem
from jmbs.identification.study import Input, Parameter, Recording, Sensor, Study

DESIGN = "design"
"""The name of the recording that is designed, as unknowns of its own bear it."""
STEP = 3e-5
"""Of coordinates, which are of order one, in differences of derivatives: their error is that of its square."""


class Limit(NamedTuple):
    """What may not be left: of an `input`, its `rate` or an `output`, which `path` names."""

    name: str
    kind: str
    path: str
    lower: float
    upper: float

    @property
    def half(self) -> float:
        """Half the distance between its ends."""
        return (self.upper - self.lower) / 2


@dataclasses.dataclass(frozen=True)
class ExperimentPlan:
    """What decides an experiment but for its coefficients.

    **Arguments:** `study`: its unknowns and sensors, whose noise is known; `excitation`; `ts` (n,): of samples and rows
    of tables, s; `duration`, s; `limits`; `outputs`: those that are limited, by name; `known` (r, s): what was known of
    shared unknowns.
    """

    study: Study
    excitation: Excitation
    ts: np.ndarray
    duration: float
    limits: tuple[Limit, ...]
    outputs: Mapping[str, OutputName]
    known: np.ndarray

    @property
    def sizes(self) -> list[int]:
        """How many coefficients each input has."""
        return [self.functions(path).shape[1] for path in self.excitation.inputs]

    def functions(self, path: str) -> np.ndarray:
        """Values (n, k) of an input's basis at the rows of its table."""
        return self.excitation.inputs[path].functions(self.ts - self.ts[0], self.duration)

    def parts(self, coefficients: np.ndarray) -> dict[str, np.ndarray]:
        """The coefficients of each input."""
        pieces = np.split(coefficients, np.cumsum(self.sizes)[:-1])
        return dict(zip(self.excitation.inputs, pieces, strict=True))

    def inputs(self, coefficients: np.ndarray) -> dict[str, np.ndarray]:
        """The values (n,) of each input's table."""
        return {path: self.functions(path) @ part for path, part in self.parts(coefficients).items()}

    def recording(self, coefficients: np.ndarray) -> Recording:
        """The experiment as a recording whose samples are all zero: information does not depend on them."""
        inputs = {path: Input(self.ts, values) for path, values in self.inputs(coefficients).items()}
        return Recording(DESIGN, self.ts, {name: np.zeros(len(self.ts)) for name in self.study.sensors}, inputs)


class DesignProblem:
    """The information of an experiment by its coefficients (k,), at steps that fit those it was made with."""

    def __init__(self, plan: ExperimentPlan, coefficients: np.ndarray):
        self.plan = plan
        self.problem = _posed(plan, coefficients)
        (experiment,) = self.problem.experiments
        self.x = self.problem.unknowns.first
        self.weights = np.asarray(experiment.member.weights, float)
        program = experiment.run
        self.looked = dataclasses.replace(
            program,
            outputs=(*program.outputs, *plan.outputs.values()),
            sensors=(*program.sensors, *plan.outputs),
        )
        plain = np.tile([1.0, 0.0, 0.0], (len(plan.outputs), 1))
        constants = np.concatenate([np.asarray(experiment.member.constants), plain])
        self.dtype = experiment.member.model.dtype
        self.looking = dataclasses.replace(experiment.member, constants=self._array(constants))
        paths = tuple(plan.excitation.inputs)
        self.basis = InputBasis(paths, tuple(self._rows(path) for path in paths))
        rows = prior_rows(self.problem.unknowns.blocks, self.x)[1]
        more = len(self.x) - plan.known.shape[1]
        self.beliefs = np.concatenate([np.pad(plan.known, ((0, 0), (0, more))), rows])
        self.runs = 0
        self._last: tuple[bytes, np.ndarray, np.ndarray] | None = None

    @property
    def step(self) -> float:
        """Of the runs, s."""
        return float(self.looking.step)

    def _rows(self, path: str) -> jnp.ndarray:
        """The basis at the rows of a table, whose last one is repeated as the table is."""
        rows = self.plan.functions(path)
        more = table_of(self.looking, path).values.shape[0] - len(rows)
        return self._array(np.concatenate([rows, np.repeat(rows[-1:], more, axis=0)]))

    def _array(self, values: np.ndarray) -> jnp.ndarray:
        return jnp.asarray(values, self.dtype)

    def jacobian(self, coefficients: np.ndarray) -> np.ndarray:
        """The whitened Jacobian (m, p) of the experiment, of what was known and of priors; NaN after a failed run."""
        rows = self._slopes(self.x, coefficients)[1][: len(self.weights), :, : len(self.x)] * self.weights[:, :, None]
        return np.concatenate([rows.reshape(-1, len(self.x)), self.beliefs])

    def shown(self, coefficients: np.ndarray) -> dict[str, np.ndarray]:
        """What sensors and limited outputs show, by name, at the sample times."""
        return dict(zip(self.looked.sensors, self._slopes(self.x, coefficients)[0], strict=True))

    def limited(self, coefficients: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Limited outputs (c, n) and their derivative (c, n, k)."""
        first = len(self.weights)
        shown, slopes = self._slopes(self.x, coefficients)
        return shown[first:], slopes[first:, :, len(self.x) :]

    def _slopes(self, x: np.ndarray, coefficients: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What is shown (c, n) and its derivative (c, n, p + k); kept for the last point that was asked for."""
        key = x.tobytes() + coefficients.tobytes()
        if self._last is None or self._last[0] != key:
            at = self._array(x), self.basis, self._array(coefficients)
            shown, slopes = shown_with_slopes(self.looked, self.looking, *at)
            self._last = key, np.asarray(shown, float), np.asarray(slopes, float)
            self.runs += 1
        return self._last[1], self._last[2]

    def value(self, coefficients: np.ndarray) -> float:
        """The criterion, minus infinity after a failed run."""
        jacobian = self.jacobian(coefficients)
        return criterion_of(jacobian, self.plan.excitation.criterion)[0] if np.all(np.isfinite(jacobian)) else -np.inf

    def gradient(self, coefficients: np.ndarray) -> np.ndarray:
        """The derivative (k,) of the criterion.

        It takes second derivatives, by unknowns and coefficients: central differences of exact derivatives along the
        unknowns, or along the coefficients if these are fewer. A run in reverse mode over the forward derivatives costs
        more than all of them, and has to be compiled.
        """
        c, p, k = len(self.weights), len(self.x), len(coefficients)
        weights = criterion_of(self.jacobian(coefficients), self.plan.excitation.criterion)[1][: self.weights.size]
        weights = weights.reshape(c, -1, p) * self.weights[:, :, None]
        found = np.zeros(k)
        for i in range(min(p, k)):
            ends = []
            for sign in (1.0, -1.0):
                step = sign * STEP * np.eye(min(p, k))[i]
                at = (self.x + step, coefficients) if p <= k else (self.x, coefficients + step)
                ends.append(self._slopes(*at)[1][:c])
            second = (ends[0] - ends[1]) / (2 * STEP)
            if p <= k:
                found += np.einsum("cn,cnk->k", weights[:, :, i], second[:, :, p:])
            else:
                found[i] = np.sum(weights * second[:, :, :p])
        return found


def _posed(plan: ExperimentPlan, coefficients: np.ndarray) -> FitProblem:
    """The problem of a fit to the experiment."""
    return pose(dataclasses.replace(plan.study, data=(plan.recording(coefficients),)))


def study_of_design(study: Study, noise: Mapping[str, float]) -> Study:
    """The study with the noise of all sensors known, and without recordings, whose first samples no start can take.

    **Arguments:** `noise`: by sensor, of those that have samples. Raises `ModelError`.
    """
    if not study.sensors:
        raise ModelError("sensors", "none", "at least one, which sees the experiment")
    if is_by_motion(study):
        raise ModelError("estimator/method", "inverse_dynamics", "shooting, for which an experiment can be designed")
    sensors = {name: _with_noise(name, sensor, noise) for name, sensor in study.sensors.items()}
    parameters = {path: _from_model(parameter) for path, parameter in study.parameters.items()}
    return dataclasses.replace(study, sensors=sensors, parameters=parameters, data=(), findings=(), source={})


def _with_noise(name: str, sensor: Sensor, noise: Mapping[str, float]) -> Sensor:
    if not isinstance(sensor.noise, str):
        return sensor
    if name not in noise:
        found, wanted = f"noise: {sensor.noise}", "a number, or a recording that shows it: nothing is measured yet"
        raise ModelError(f"sensors/{name}/noise", found, wanted)
    return dataclasses.replace(sensor, noise=noise[name])


def _from_model(parameter: Parameter) -> Parameter:
    return dataclasses.replace(parameter, start=None) if isinstance(parameter.start, str) else parameter
