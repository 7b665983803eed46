"""What one run is to do: times, method, step control and treatment of constraints, resolved and checked.

A `Program` is what decides which program is compiled; `Values` are numbers that a compiled program takes.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import os
from collections.abc import Mapping
from typing import Any

import diffrax
import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from jmbs.arrays import is_traced
from jmbs.errors import ModelError
from jmbs.library.mechanics import count, refuse_steps, refuse_times, show
from jmbs.simulation.arguments import known_number
from jmbs.simulation.formulation import resolved_formulation
from jmbs.solvers import FIXED_STEP_ONLY, base_method

DEFAULT_MAX_STEPS = 100_000
BAUMGARTE_STEPS = 20.0
"""Baumgarte's rate is `1 / (BAUMGARTE_STEPS dt)`, or `1 / (BAUMGARTE_STEPS * 1 ms)` for adaptive steps."""
ADJOINTS = ("auto", "direct", "checkpoint", "forward")
DIRECT_STEPS = 1000
"""Up to so many fixed steps reverse mode keeps what it needs of all of them."""


@dataclasses.dataclass(frozen=True)
class Program:
    """What of a run decides its program; equal ones share one.

    **Arguments:** `method`: its name; `formulation`, `constraints`, see `simulate`; `adaptive`: whether steps are;
    `adjoint`: what derivatives go through, a name, or diffrax's; `audit`; `lead`: how many times at the start were not
    asked for; `steps`: the number of fixed steps, the most of adaptive ones, where derivatives need to know it.
    """

    method: str
    formulation: str
    constraints: str
    adaptive: bool
    adjoint: str | diffrax.AbstractAdjoint
    audit: bool
    lead: int
    steps: int | None


class Values(eqx.Module):
    """The numbers of a run, as arrays, None where there are none: `times` (n,) s to stop at; `counts` (n - 1,) of fixed
    steps between them, or tolerances and the most steps; Baumgarte's rate, 1/s; a diffrax solver, where it is not known
    by its name."""

    times: Array
    counts: Any
    rtol: Any
    atol: Any
    max_steps: Any
    baumgarte: Any
    solver: diffrax.AbstractSolver | None

    def base_solver(self, program: Program) -> diffrax.AbstractSolver:
        """The method on vectors."""
        if self.solver is not None:
            return self.solver
        exact = not program.adaptive and self.times.dtype == np.float64
        return base_method(program.method, None if exact else self.rtol)


class RunSettings:
    """The settings of one run, resolved from what is given and the model's own, and checked."""

    def __init__(
        self,
        model,
        t0,
        t1,
        save_every,
        ts,
        solver,
        dt,
        tolerance,
        constraints,
        max_steps,
        adjoint,
        baumgarte,
        formulation=None,
        audit=True,
    ):
        settings = model.settings
        t0 = known_number("t0", settings.t0 if t0 is None else t0, "s")
        self.ts, self.lead = _times(settings, t0, t1, save_every, ts)
        _refuse_memory(model, len(self.ts))
        method = settings.method if solver is None else solver
        if not isinstance(method, str | diffrax.AbstractSolver):
            raise ModelError("solver", show(method), "the name of a method, or a diffrax Runge-Kutta solver")
        self.method = method if isinstance(method, str) else type(method).__name__
        self.solver = None if isinstance(method, str) else method
        if self.solver is None:
            base_method(self.method)
        self.dt, self.rtol, self.atol = _step_control(settings, dt, tolerance, self.method, model.dtype)
        self.constraints = settings.constraints if constraints is None else constraints
        if self.constraints not in ("none", "baumgarte", "project"):
            raise ModelError("constraints", show(self.constraints), "none, baumgarte or project")
        self.formulation = resolved_formulation(model, settings.formulation if formulation is None else formulation)
        if not model.dae.kinematic:
            self.constraints = "none"
        self.baumgarte = None
        if self.constraints == "baumgarte":
            rate = 1.0 / (BAUMGARTE_STEPS * (self.dt or 1e-3)) if baumgarte is None else baumgarte
            self.baumgarte = known_number("baumgarte", rate, "1/s", positive=True)
        most = settings.max_steps or DEFAULT_MAX_STEPS if max_steps is None else max_steps
        self.max_steps = count("max_steps", known_number("max_steps", most, positive=True, whole=True))
        self.counts = None if self.dt is None else _counts(self.ts, self.dt)
        self.adjoint, self.audit, self.dtype = _adjoint(adjoint, self.counts), audit, model.dtype

    def program(self, derivatives: bool) -> Program:
        """**Arguments:** `derivatives`: whether the run may be differentiated, so that steps are counted first."""
        steps = None
        if derivatives or not isinstance(self.adjoint, str):
            steps = self.max_steps if self.counts is None else int(self.counts.sum())
        adjoint = self.adjoint if derivatives or not isinstance(self.adjoint, str) else "none"
        settings = self.method, self.formulation, self.constraints, self.counts is None
        return Program(*settings, adjoint, self.audit, self.lead, steps)

    def values(self) -> Values:
        """See `Values`."""

        # JAX would compile a program that makes an array for each number of times; numpy does not.
        def array(x, dtype) -> Any:
            return None if x is None else jax.device_put(np.asarray(x, dtype))

        number = functools.partial(array, dtype=self.dtype)
        times, counts = number(self.ts), array(self.counts, int)
        rtol = self.rtol or (1e-5 if self.dtype == np.float32 else None)
        max_steps = array(self.max_steps, int) if self.counts is None else None
        return Values(times, counts, number(rtol), number(self.atol), max_steps, number(self.baumgarte), self.solver)


def _times(settings, t0, t1, save_every, ts) -> tuple[np.ndarray, int]:
    """Times that the run stops at, from `t0` on, and how many of them at the start were not asked for."""
    if ts is not None:
        return _given_times(ts, t0, t1)
    t1 = settings.t1 if t1 is None else t1
    if t1 is None:
        raise ModelError("t1", "nothing", "the end of the simulation, s; in a config simulation.t1")
    t1 = known_number("t1", t1, "s")
    if t1 <= t0:
        raise ModelError("t1", show(t1), f"a time after t0 = {t0:g} s")
    save_every = (settings.save_every or (t1 - t0) / 100) if save_every is None else save_every
    save_every = known_number("save_every", save_every, "s", positive=True)
    refuse_times("save_every", t0, t1, save_every)
    last = int(np.floor((t1 - t0) / save_every * (1 + 1e-12) + 1e-9))
    times = t0 + save_every * np.arange(last + 1)
    if t1 - times[-1] > 1e-9 * (t1 - t0):
        times = np.append(times, t1)
    times[-1] = t1
    return times, 0


def _refuse_memory(model, times: int) -> None:
    """Refuses more saved times than fit the memory of this machine. Raises `ModelError`."""
    # By body a pose and a velocity, by joint a reaction, residuals and about two coordinates with rates; the account.
    numbers = 13 * len(model.layout.bodies) + 12 * len(model.layout.joints) + 12
    needed, there = numbers * times * model.dtype.itemsize, _memory()
    if needed > there:
        found = f"{times} saved times, about {needed / 1e9:.3g} GB"
        raise ModelError("save_every", found, f"what fits this machine's memory of {there / 1e9:.3g} GB")


def _memory() -> float:
    """Bytes of this machine's memory, infinite where that cannot be told."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return math.inf


def _given_times(ts, t0: float, t1) -> tuple[np.ndarray, int]:
    """See `_times`."""
    wanted = f"increasing finite times from t0 = {t0:g} s on"
    if is_traced(ts):
        raise ModelError("ts", "traced values", f"{wanted}, that are known before tracing")
    try:
        times = np.asarray(ts, dtype=np.float64)
    except (TypeError, ValueError):
        raise ModelError("ts", show(ts), wanted) from None
    if times.ndim != 1 or times.size == 0 or not np.all(np.isfinite(times)) or np.any(np.diff(times) <= 0):
        raise ModelError("ts", show(ts), wanted)
    if times[0] < t0:
        raise ModelError("ts", show(ts), wanted)
    if t1 is not None and times[-1] > known_number("t1", t1, "s") + 1e-12:
        raise ModelError("ts", f"a last time {times[-1]:g} s", f"times up to t1 = {t1:g} s")
    return (np.concatenate([[t0], times]), 1) if times[0] > t0 else (times, 0)


def _step_control(settings, dt, tolerance, method, dtype):
    if dt is not None and tolerance is not None:
        raise ModelError("simulate", "both dt and tolerance", "one of them")
    if dt is None and tolerance is None:
        dt, rtol, atol = settings.dt, settings.rtol, settings.atol
    elif tolerance is not None:
        rtol, atol = _tolerances(tolerance)
    else:
        rtol = atol = None
    dt = None if dt is None else known_number("dt", dt, "s", positive=True)
    if dt is None and method in (*FIXED_STEP_ONLY, "RK4", "Euler", "ImplicitMidpoint"):
        raise ModelError("dt", "nothing", f"a fixed step, since {method} has no error estimate")
    return dt, rtol, atol


def _tolerances(given: Any) -> list[float]:
    """Relative and absolute tolerance, not negative and not both zero, from one number or a mapping."""
    pair = given if isinstance(given, Mapping) else {"rtol": given, "atol": given}
    if set(pair) != {"rtol", "atol"}:
        raise ModelError("tolerance", f"the keys {', '.join(map(str, pair))}", "rtol and atol, or one number")
    found = [known_number(f"tolerance/{key}", pair[key]) for key in ("rtol", "atol")]
    if min(found) < 0 or max(found) == 0:
        raise ModelError("tolerance", show(given), "positive numbers, of which one may be zero")
    return found


def _counts(ts: np.ndarray, dt: float) -> np.ndarray:
    """How many equal steps of at most `dt` lie between neighbouring saved times."""
    refuse_steps("dt", ts[-1] - ts[0], dt)
    return np.maximum(1, np.ceil(np.diff(ts) / dt * (1 - 1e-9))).astype(int)


def _adjoint(adjoint: Any, counts: np.ndarray | None) -> str | diffrax.AbstractAdjoint:
    """What differentiation goes through: direct, checkpoint or forward, or a diffrax adjoint."""
    if isinstance(adjoint, diffrax.AbstractAdjoint):
        return adjoint
    if adjoint not in ADJOINTS:
        raise ModelError("adjoint", show(adjoint), f"one of {', '.join(ADJOINTS)}, or a diffrax adjoint")
    if counts is None:
        return "checkpoint" if adjoint == "auto" else adjoint
    return "checkpoint" if adjoint == "checkpoint" or (adjoint == "auto" and counts.sum() > DIRECT_STEPS) else "direct"
