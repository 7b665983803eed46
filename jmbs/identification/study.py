"""What a fit is asked: unknowns, sensors, recordings and how to estimate, as plain data."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from jmbs.errors import ModelError
from jmbs.identification.excitation import Excitation
from jmbs.identification.findings import Finding
from jmbs.identification.optimiser import Optimiser
from jmbs.identification.wildcards import by_single_path
from jmbs.library.mechanics import TableSpec, count, known_seed, number, show
from jmbs.simulation import Model

SENSOR_KEYS = ("gain", "bias", "delay")
"""What of a sensor may be unknown."""


@dataclasses.dataclass(frozen=True)
class Prior:
    """A Gaussian belief about a value, or about its logarithm with `log`; `std` then is one of the logarithm."""

    mean: float
    std: float
    log: bool = False


@dataclasses.dataclass(frozen=True)
class Parameter:
    """An unknown of a model: how it starts and what it may become.

    **Arguments:**

    - `start`: its first value, SI and radians; None: the model's; `"measured"`: from a recording's first samples.
    - `bounds`: lower and upper bound of the value (of every entry), None where there is none.
    - `transform`: `log`, `linear`, `pseudo_inertia` or `rotation`; None: by kind (`docs/identification.md`).
    - `prior`: a `Prior` or None.
    - `per`: `study`, one value for all recordings; `recording`, one for each.
    """

    start: Any = None
    bounds: tuple[float | None, float | None] | None = None
    transform: str | None = None
    prior: Prior | None = None
    per: str = "study"


@dataclasses.dataclass(frozen=True)
class Sensor:
    """What a channel measures: `gain * h(x(t - delay)) + bias + noise`.

    **Arguments:**

    - `output`: `<joint>/q[i]`, `<body>/position[i]`, `<body>/accelerometer(x,y,z)[i]` and so on; the index may be left
      out of scalars.
    - `noise`: its standard deviation, SI; or `"estimate"`, from the residuals. Recordings may say otherwise.
    - `gain`, `bias`, `delay` (s): numbers that are known, or a `Parameter`.
    """

    output: str
    noise: float | str = "estimate"
    gain: float | Parameter = 1.0
    bias: float | Parameter = 0.0
    delay: float | Parameter = 0.0


@dataclasses.dataclass(frozen=True)
class Channel:
    """What a recording holds of one sensor, in SI and radians.

    **Arguments:** `values` (n,), NaN where a sample is missing; `noise`: a standard deviation, () or (n,), in place of
    the sensor's; `unit`: what the values were given in, for messages.
    """

    values: np.ndarray
    noise: float | np.ndarray | str | None = None
    unit: str = ""


@dataclasses.dataclass(frozen=True)
class Input:
    """A known input: `values` (n,) or (n, k) at `times` (n,), s; `hold`: `linear`, or `zero` for steps."""

    times: np.ndarray
    values: np.ndarray
    hold: str = "linear"


def table_times(given: Any) -> np.ndarray | None:
    """The times (n,), s, of an input that is a table in any of its forms; None of a constant."""
    if isinstance(given, Input | TableSpec):
        return np.asarray(given.times, float)
    return np.asarray(given[0], float) if isinstance(given, tuple) and len(given) == 2 else None


@dataclasses.dataclass(frozen=True)
class Recording:
    """One recorded motion.

    **Arguments:**

    - `name`; `ts` (n,), s, increasing; `channels`: by sensor, a `Channel` or plain values (n,).
    - `inputs`: by port path an `Input`, `(times, values)` or a constant; they replace the model's.
    - `role`: `train`, or `test`: never fitted, and held against the fitted model.
    - `set`: values of parameters by path that hold in this recording; `model`: one of its own, None: the study's.

    Arrays may be numpy's, or those of pandas and xarray. Raises `ModelError` for what is no such array of numbers.
    """

    name: str
    ts: np.ndarray
    channels: Mapping[str, Channel | np.ndarray]
    inputs: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    role: str = "train"
    set: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    model: Model | None = None

    def __post_init__(self) -> None:
        where = f"recordings/{self.name}"
        channels = {name: _of_numbers(f"{where}/channels/{name}", given) for name, given in self.channels.items()}
        object.__setattr__(self, "ts", real_numbers(f"{where}/ts", self.ts))
        object.__setattr__(self, "channels", channels)

    def refuse_shapes(self) -> None:
        """Raises `ModelError` where there is not one value for each time, or noise of another shape."""
        where, size = f"recordings/{self.name}", self.ts.shape
        if len(size) != 1:
            raise ModelError(f"{where}/ts", f"times of shape {size}", "one time for each sample")
        for name, given in self.channels.items():
            path, wanted = f"{where}/channels/{name}", f"a value for each of the {size[0]} times"
            channel = given if isinstance(given, Channel) else Channel(given)
            values, noise = np.asarray(channel.values), np.asarray(channel.noise)
            if values.shape != size:
                raise ModelError(path, f"shape {values.shape}", wanted)
            if noise.shape not in ((), size):
                raise ModelError(f"{path}/noise", f"shape {noise.shape}", f"one number, or {wanted}")


def _of_numbers(path: str, given: Any) -> Channel | np.ndarray:
    """The same with arrays of floats. Raises `ModelError`."""
    if not isinstance(given, Channel):
        return real_numbers(path, given)
    noise = given.noise
    if noise is not None and not isinstance(noise, str):
        noise = real_numbers(f"{path}/noise", noise)
        noise = noise if noise.ndim else float(noise)
    return dataclasses.replace(given, values=real_numbers(path, given.values), noise=noise)


def real_numbers(path: str, given: Any) -> np.ndarray:
    """An array of floats, NaN where a number is missing. Raises `ModelError` for anything else."""
    try:
        array = np.ma.asarray(given)
        words = array.dtype.kind == "O" and any(isinstance(entry, str) for entry in array.ravel())
        if array.dtype.kind in "biufO" and not words:
            return np.ma.filled(array.astype(float, copy=False), np.nan)
    except (TypeError, ValueError, OverflowError):
        raise ModelError(path, show(given), "real numbers") from None
    raise ModelError(path, "words" if words else f"values of type {array.dtype}", "real numbers")


@dataclasses.dataclass(frozen=True)
class Estimator:
    """How to estimate. Raises `ModelError` for numbers that cannot be, and an optimiser of a method that has none.

    **Arguments:**

    - `method`: `shooting`, `multiple_shooting`, `gradient_descent` or `inverse_dynamics`.
    - `horizon`: `growing`, from a short start of each recording to its whole length, without stages over which the
      model follows the recordings already, or `full`.
    - `loss`: `squares`, `huber` or `cauchy`, the last two with `scale` in standard deviations.
    - `max_iterations` (of gradient descent: passes over the data), and `tolerance`, relative, of the cost and of the
      unknowns.
    - `starts`: how many starts; those beyond the first are drawn around it.
    - `segments`: of each recording in multiple shooting, and in gradient descent, which does not cut them by default.
    - `optimiser`: of gradient descent. `trajectory`: the smooth motion of inverse dynamics, a `basis`, `fourier` with
      `period` (s) and `harmonics` or `spline` with `cutoff` (Hz). None: by default.
    - `cross_validation`: also fit without each training recording in turn, from the estimate on, and predict it.
    """

    method: str = "shooting"
    horizon: str = "growing"
    loss: str = "squares"
    scale: float = 1.0
    max_iterations: int = 100
    tolerance: float = 1e-8
    starts: int = 1
    segments: int | None = None
    trajectory: Mapping[str, Any] | None = None
    cross_validation: bool = False
    optimiser: Optimiser | None = None

    def __post_init__(self) -> None:
        for name in ("scale", "tolerance"):
            object.__setattr__(self, name, number(f"estimator/{name}", getattr(self, name), positive=True))
        for name in ("max_iterations", "starts", *(() if self.segments is None else ("segments",))):
            object.__setattr__(self, name, count(f"estimator/{name}", getattr(self, name)))
        if self.optimiser is not None and not isinstance(self.optimiser, Optimiser):
            raise ModelError("estimator/optimiser", repr(self.optimiser), "a jmbs.Optimiser")
        if self.trajectory is not None and not isinstance(self.trajectory, Mapping):
            raise ModelError("estimator/trajectory", repr(self.trajectory), "a dictionary such as {'basis': 'spline'}")
        if self.optimiser is not None and self.method != "gradient_descent":
            raise ModelError("estimator/optimiser", f"one with method {self.method}", "method gradient_descent")


@dataclasses.dataclass(frozen=True)
class Study:
    """A whole question: what `jmbs.load_study` reads and `jmbs.fit` answers.

    **Arguments:**

    - `model`: the mechanism, whose values are the starts of what has no other.
    - `parameters`: path to `Parameter`, where `<path>/*` stands for all below it; `sensors`: name to `Sensor`;
      `data`: the recordings.
    - `ties`: path to expression, values that follow from others; `derived`: name to expression, reported only.
    - `source`: the study as it was written, for reports; `findings`: what was found while files were read.
    - `design`: an experiment that is to be designed, for `jmbs.design_excitation`.
    """

    model: Model
    data: tuple[Recording, ...]
    parameters: Mapping[str, Parameter]
    sensors: Mapping[str, Sensor]
    ties: Mapping[str, str] = dataclasses.field(default_factory=dict)
    derived: Mapping[str, str] = dataclasses.field(default_factory=dict)
    estimator: Estimator = Estimator()
    name: str = "fit"
    seed: int = 0
    test_window: float = 0.2
    source: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    design: Excitation | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", known_seed(self.seed))
        object.__setattr__(self, "parameters", by_single_path(models_of(self), self.parameters))


def models_of(study: Study) -> list[Model]:
    """The study's model, then those of recordings that have their own."""
    return [study.model, *(recording.model for recording in study.data if recording.model is not None)]
