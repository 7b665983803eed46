"""What one run is to do: times, method, step control and treatment of constraints, resolved and checked."""

from __future__ import annotations

from collections.abc import Mapping

import diffrax
import jax
import numpy as np

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


class RunSettings:
    """The resolved settings of one run; hashable by value of what decides the compiled program."""

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
    ):
        settings = model.settings
        t0 = settings.t0 if t0 is None else t0
        self.ts, self.lead = _times(settings, t0, t1, save_every, ts)
        self.grid = None
        method = settings.method if solver is None else solver
        self.method = method if isinstance(method, str) else type(method).__name__
        self.dt, self.rtol, self.atol = _step_control(settings, dt, tolerance, self.method, model.dtype)
        root_tolerance = None if self.dt is not None and model.dtype == np.float64 else (self.rtol or 1e-5)
        self.solver = base_method(method, root_tolerance) if isinstance(method, str) else method
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
        if self.dt is not None:
            self.grid = _grid(self.ts, self.dt)
            self.max_steps = len(self.grid) - 1
        self.adjoint = _adjoint(adjoint, None if self.grid is None else self.max_steps)

    def _key(self):
        grid = None if self.grid is None else self.grid.tobytes()
        names = (self.method, self.dt, self.rtol, self.atol, self.constraints, self.baumgarte, self.max_steps)
        names += (self.formulation,)
        solver = jax.tree_util.tree_structure(self.solver), tuple(map(str, jax.tree.leaves(self.solver)))
        return (self.ts.tobytes(), self.lead, grid, names, solver, str(self.adjoint))

    def __hash__(self):
        return hash(self._key())

    def __eq__(self, other):
        return isinstance(other, RunSettings) and self._key() == other._key()


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


def _grid(ts: np.ndarray, dt: float) -> np.ndarray:
    """Equal steps of at most `dt` between neighbouring saved times."""
    pieces = [np.asarray([ts[0]])]
    for a, b in zip(ts[:-1], ts[1:], strict=True):
        n = max(1, int(np.ceil((b - a) / dt * (1 - 1e-9))))
        piece = a + (b - a) * np.arange(1, n + 1) / n
        piece[-1] = b
        pieces.append(piece)
    return np.concatenate(pieces)


def _adjoint(adjoint, steps: int | None) -> str | diffrax.AbstractAdjoint:
    """What differentiation goes through: the name of a way for fixed `steps`, or diffrax's for adaptive ones (None)."""
    if not isinstance(adjoint, str):
        return adjoint
    if adjoint not in ADJOINTS:
        raise ModelError("adjoint", show(adjoint), f"one of {', '.join(ADJOINTS)}, or a diffrax adjoint")
    if steps is not None:
        return "checkpoint" if adjoint == "checkpoint" or (adjoint == "auto" and steps > DIRECT_STEPS) else "direct"
    match adjoint:
        case "direct":
            return diffrax.DirectAdjoint()
        case "forward":
            return diffrax.ForwardMode()
    return diffrax.RecursiveCheckpointAdjoint()
