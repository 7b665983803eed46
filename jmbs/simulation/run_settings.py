"""What one run is to do: times, method, step control and treatment of constraints, resolved and checked.

A `Program` is what decides which program is compiled; `Values` are numbers that a compiled program takes.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import diffrax
import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from jmbs.errors import ModelError
from jmbs.library.mechanics import show
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
        t0 = settings.t0 if t0 is None else t0
        self.ts, self.lead = _times(settings, t0, t1, save_every, ts)
        method = settings.method if solver is None else solver
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
            self.baumgarte = baumgarte or 1.0 / (BAUMGARTE_STEPS * (self.dt or 1e-3))
        self.max_steps = max_steps or settings.max_steps or DEFAULT_MAX_STEPS
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
        if t1 is not None and float(np.asarray(ts)[-1]) > t1 + 1e-12:
            raise ModelError("ts", f"a last time {float(np.asarray(ts)[-1]):g} s", f"times up to t1 = {t1:g} s")
        ts = np.asarray(ts, dtype=np.float64)
        if ts.ndim != 1 or ts.size == 0 or not np.all(np.isfinite(ts)) or np.any(np.diff(ts) <= 0) or ts[0] < t0:
            raise ModelError("ts", show(ts), f"increasing finite times from t0 = {t0:g} s on")
        return (np.concatenate([[t0], ts]), 1) if ts[0] > t0 else (ts, 0)
    t1 = settings.t1 if t1 is None else t1
    if t1 is None:
        raise ModelError("t1", "nothing", "the end of the simulation, s; in a config simulation.t1")
    if not np.isfinite(t1) or t1 <= t0:
        raise ModelError("t1", show(t1), f"a time after t0 = {t0:g} s")
    save_every = (settings.save_every or (t1 - t0) / 100) if save_every is None else save_every
    if not save_every > 0:
        raise ModelError("save_every", show(save_every), "a positive number of seconds")
    count = int(np.floor((t1 - t0) / save_every * (1 + 1e-12) + 1e-9))
    times = t0 + save_every * np.arange(count + 1)
    if t1 - times[-1] > 1e-9 * (t1 - t0):
        times = np.append(times, t1)
    times[-1] = t1
    return times, 0


def _step_control(settings, dt, tolerance, method, dtype):
    if dt is not None and tolerance is not None:
        raise ModelError("simulate", "both dt and tolerance", "one of them")
    if dt is None and tolerance is None:
        dt, rtol, atol = settings.dt, settings.rtol, settings.atol
    elif tolerance is not None:
        pair = tolerance if isinstance(tolerance, Mapping) else {"rtol": tolerance, "atol": tolerance}
        rtol, atol = float(pair["rtol"]), float(pair["atol"])
    else:
        rtol = atol = None
    if dt is not None and not dt > 0:
        raise ModelError("dt", show(dt), "a positive number of seconds")
    if dt is None and method in (*FIXED_STEP_ONLY, "RK4", "Euler", "ImplicitMidpoint"):
        raise ModelError("dt", "nothing", f"a fixed step, since {method} has no error estimate")
    return dt, rtol, atol


def _counts(ts: np.ndarray, dt: float) -> np.ndarray:
    """How many equal steps of at most `dt` lie between neighbouring saved times."""
    return np.maximum(1, np.ceil(np.diff(ts) / dt * (1 - 1e-9))).astype(int)


def _adjoint(adjoint: Any, counts: np.ndarray | None) -> str | diffrax.AbstractAdjoint:
    """What differentiation goes through: direct, checkpoint or forward, or a diffrax adjoint."""
    if not isinstance(adjoint, str):
        return adjoint
    if adjoint not in ADJOINTS:
        raise ModelError("adjoint", show(adjoint), f"one of {', '.join(ADJOINTS)}, or a diffrax adjoint")
    if counts is None:
        return "checkpoint" if adjoint == "auto" else adjoint
    return "checkpoint" if adjoint == "checkpoint" or (adjoint == "auto" and counts.sum() > DIRECT_STEPS) else "direct"
