"""The validated description of how a mechanism is to be simulated."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from jmbs.errors import ModelError
from jmbs.library.mechanics import checks

METHODS = (
    *("euler", "heun", "midpoint", "ralston", "bosh3", "rk4", "tsit5", "dopri5", "dopri8"),
    *("implicit_euler", "implicit_midpoint", "kvaerno3", "kvaerno4", "kvaerno5"),
)
# These compute no error estimate, so only a fixed step makes sense for them.
METHODS_WITHOUT_ERROR_ESTIMATE = ("euler", "rk4", "implicit_midpoint")
FORMULATIONS = ("tree", "absolute")
CONSTRAINT_TREATMENTS, ABSENT_CONSTRAINT_TREATMENTS = ("none", "baumgarte", "project"), ("ggl",)
# Below about eight units in the last place of float32 an error estimate is only rounding.
DEFAULT_TOLERANCE = {"float64": 1e-8, "float32": 1e-5}
DEFAULT_SAMPLES = 100
MOST_SAVED = 10_000_000
"""Times that a run is saved at; each takes eight bytes for every number that is saved."""
MOST_STEPS = 2**31 - 1
"""Steps of a run: they are counted in 32 bits where JAX's x64 is off."""


def refuse_times(path: str, t0: float, t1: float, save_every: float) -> None:
    """Refuses to save a run from `t0` to `t1` too often, times in s. Raises `ModelError`."""
    times = float(t1 - t0) / float(save_every)
    if not times <= MOST_SAVED:
        found = f"{save_every:g} s, which makes {times:.3g} saved times, {8e-9 * times:.3g} GB for each number saved"
        raise ModelError(path, found, f"at most {MOST_SAVED:g} saved times")
    if not (t0 + save_every > t0 and t1 - save_every < t1):
        raise ModelError(
            path, f"{save_every:g} s", f"an interval that numbers near {max(abs(t0), abs(t1)):g} tell apart"
        )


def refuse_steps(path: str, span: float, dt: float) -> None:
    """Refuses to cover a `span` of time with too many steps `dt`, both in s. Raises `ModelError`."""
    steps = float(span) / float(dt)
    if not steps <= MOST_STEPS:
        raise ModelError(path, f"{dt:g} s, which makes {steps:.3g} steps", f"at most {MOST_STEPS} steps")


def count(path: str, value: Any, wanted: str = "a positive whole number") -> int:
    """A whole number from 1 on that counters of steps hold. Raises `ModelError`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 1 <= value <= MOST_STEPS:
        raise ModelError(path, checks.show(value), f"{wanted}, at most {MOST_STEPS}")
    return int(value)


@dataclasses.dataclass(frozen=True)
class SimulationSpec:
    """Time span, method and constraint treatment of a simulation.

    - `t0`, `t1`, `save_every` in s; `t1` None: not said yet (then `save_every` may be None too); the default
      `save_every` is a hundredth of the span.
    - Either `dt` (s, fixed step; then `rtol` and `atol` are None) or tolerances; default both 1e-8, in float32 1e-5.
    - `formulation`: tree, absolute, or None for the tree where nothing binds it; `cut_joints`: joints that shall close
      loops; `method`: one of `METHODS`; `constraints`: none, baumgarte or project;
      `precision`: float32 or float64; `max_steps`: None or a positive number of steps.
    - `until`: values of joints' coordinates (rad or m), by joint, at the first of which a run ends; a mapping is kept
      as its pairs.

    Raises `ModelError` with paths below `simulation`.
    """

    t1: float | None = None
    save_every: float | None = None
    formulation: str | None = None
    method: str = "tsit5"
    dt: float | None = None
    rtol: float | None = None
    atol: float | None = None
    constraints: str = "project"
    precision: str = "float64"
    t0: float = 0.0
    max_steps: int | None = None
    cut_joints: tuple[str, ...] = ()
    until: Mapping[str, float] | tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        values: dict[str, Any] = self._times()
        if self.formulation is not None:
            checks.choice("simulation/formulation", self.formulation, FORMULATIONS)
        checks.choice("simulation/method", self.method, METHODS)
        checks.choice("simulation/constraints", self.constraints, CONSTRAINT_TREATMENTS, ABSENT_CONSTRAINT_TREATMENTS)
        checks.choice("simulation/precision", self.precision, DEFAULT_TOLERANCE)
        values |= self._step_size()
        if self.max_steps is not None:
            count("simulation/max_steps", self.max_steps)
        if "t1" in values:
            span = values["t1"] - values["t0"]
            refuse_times("simulation/save_every", values["t0"], values["t1"], values["save_every"])
            if "dt" in values:
                refuse_steps("simulation/dt", span, values["dt"])
        values["cut_joints"] = tuple(self.cut_joints)
        values["until"] = self._until()
        for key, value in values.items():
            object.__setattr__(self, key, value)

    def _until(self) -> tuple[tuple[str, float], ...]:
        given = self.until if isinstance(self.until, Mapping | tuple) else None
        if given is None:
            raise ModelError("simulation/until", checks.show(self.until), "a mapping of joints to values")
        return tuple((name, checks.number(f"simulation/until/{name}", value)) for name, value in dict(given).items())

    def _times(self) -> dict[str, float]:
        t0 = checks.number("simulation/t0", self.t0, unit="s")
        values = {"t0": t0}
        if self.t1 is not None:
            t1 = values["t1"] = checks.number("simulation/t1", self.t1, unit="s")
            if t1 <= t0:
                raise ModelError("simulation/t1", checks.show(self.t1), f"a time after t0 = {t0:g} s")
            values["save_every"] = (t1 - t0) / DEFAULT_SAMPLES
        if self.save_every is not None:
            values["save_every"] = checks.number("simulation/save_every", self.save_every, positive=True, unit="s")
        return values

    def _step_size(self) -> dict[str, float]:
        has_tolerance = self.rtol is not None or self.atol is not None
        if self.dt is not None:
            if has_tolerance:
                wanted = "only one of dt and tolerance (null takes the other away)"
                raise ModelError("simulation", "both dt and tolerance", wanted)
            return {"dt": checks.number("simulation/dt", self.dt, positive=True, unit="s")}
        if self.method in METHODS_WITHOUT_ERROR_ESTIMATE:
            wanted = f"a fixed step dt, since {self.method} has no error estimate"
            raise ModelError("simulation/dt", "a tolerance" if has_tolerance else "nothing", wanted)
        default = DEFAULT_TOLERANCE[self.precision]
        values = {}
        for key in ("rtol", "atol"):
            given = getattr(self, key)
            value = default if given is None else given
            values[key] = checks.number(f"simulation/tolerance/{key}", value, non_negative=True)
        if math.isclose(values["rtol"], 0) and math.isclose(values["atol"], 0):
            raise ModelError("simulation/tolerance", "rtol and atol both zero", "at least one positive")
        return values
