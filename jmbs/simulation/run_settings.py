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
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jmbs.arrays import is_traced
from jmbs.errors import ModelError
from jmbs.library.mechanics import count, show
from jmbs.simulation.arguments import known_number, scalar
from jmbs.simulation.formulation import resolved_formulation
from jmbs.simulation.run_times import refuse_memory, run_times, step_counts, traced_step_counts
from jmbs.simulation.state import Ending
from jmbs.simulation.until import Until, until_of
from jmbs.solvers import FIXED_STEP_ONLY, base_method

DEFAULT_MAX_STEPS = 100_000
BAUMGARTE_STEPS = 20.0
"""Baumgarte's rate is `1 / (BAUMGARTE_STEPS dt)`, or `1 / (BAUMGARTE_STEPS * 1 ms)` for adaptive steps."""
FLOAT32_STAGES = 1e-5
"""Tolerance of an implicit method's stages in float32, where nothing says it."""
ADJOINTS = ("auto", "direct", "checkpoint", "forward")
DIRECT_STEPS = 1000
"""Up to so many fixed steps reverse mode keeps what it needs of all of them."""


@dataclasses.dataclass(frozen=True)
class Program:
    """What of a run decides its program; equal ones share one.

    **Arguments:** `method`: its name; `formulation`, `constraints`, see `simulate`; `adaptive`: whether steps are;
    `adjoint`: what derivatives go through, a name, or diffrax's; `audit`; `lead`: how many times at the start were not
    asked for; `steps`: the number of fixed steps, the most of adaptive ones, where derivatives need to know it;
    `traced`: whether times or the step are, so that fixed steps are counted in the run, up to `steps`, and the second
    of the times may be the first once more; `until`: what the run ends at, or None.
    """

    method: str
    formulation: str
    constraints: str
    adaptive: bool
    adjoint: str | diffrax.AbstractAdjoint
    audit: bool
    lead: int
    steps: int | None
    traced: bool = False
    until: Until | None = None


class Values(eqx.Module):
    """The numbers of a run, as arrays, None where there are none: `times` (n,) s to stop at; `counts` (n - 1,) of fixed
    steps between them, or tolerances; the most steps, where the program does not know them; Baumgarte's rate, 1/s; a
    diffrax solver, where it is not known by its name; whether traced times and steps are `valid`; `goals` (roots,),
    values of what the run ends at; `before`: the end of a run that this one goes on from."""

    times: Array
    counts: Any
    rtol: Any
    atol: Any
    max_steps: Any
    baumgarte: Any
    solver: diffrax.AbstractSolver | None
    valid: Any = None
    goals: Any = None
    before: Ending | None = None

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
        until=None,
    ):
        settings = model.settings
        self.ts, self.lead, self.valid = run_times(settings, t0, t1, save_every, ts, model.dtype)
        refuse_memory(model, len(self.ts))
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
            step = 1e-3 if self.dt is None else self.dt
            self.baumgarte = 1.0 / (BAUMGARTE_STEPS * step)
            if baumgarte is not None:
                self.baumgarte = known_number("baumgarte", baumgarte, "1/s", positive=True)
        given = settings.max_steps if max_steps is None else max_steps
        most = DEFAULT_MAX_STEPS if given is None else given
        self.max_steps = most
        if not (is_traced(most) and adjoint == "forward" and self.dt is not None):
            self.max_steps = count("max_steps", known_number("max_steps", most, positive=True, whole=True))
        self.traced, self.dtype, self.audit = is_traced((self.ts, self.dt)), model.dtype, audit
        self.until, self.goals = until_of(model, until)
        beside = "traced times or dt" if self.traced else "until" if self.until else ""
        if beside and isinstance(adjoint, diffrax.AbstractAdjoint):
            raise ModelError("adjoint", f"a {type(adjoint).__name__} beside {beside}", f"one of {', '.join(ADJOINTS)}")
        self.counts, self.most = None, self.max_steps
        if self.dt is not None:
            self.counts, self.most = self._counted(self.dt, given is not None)
        self.adjoint = _adjoint(adjoint, self.counts is not None, self.most)
        # Forward derivatives go through a loop of any number of steps.
        self.loops = self.traced and self.counts is not None and self.adjoint == "forward"

    def _counted(self, dt: Any, bounded: bool) -> tuple[Any, Any]:
        """Fixed steps in each saving interval, and in the run, or the most of them where that cannot be known."""
        if not self.traced:
            counts = step_counts(self.ts, dt)
            return counts, int(counts.sum())
        if not bounded:
            wanted = "the most steps, which are all computed, since steps of dt cannot be counted beside traced times"
            raise ModelError("max_steps", "nothing", f"{wanted} or with a traced dt; or tolerance= in place of dt")
        if is_traced(dt):
            allowed = jnp.isfinite(dt) & (dt > 0)
            self.valid = allowed if self.valid is None else self.valid & allowed
        return traced_step_counts(self.ts, dt, self.max_steps, self.dtype), self.max_steps

    def program(self, derivatives: bool) -> Program:
        """**Arguments:** `derivatives`: whether the run may be differentiated, so that steps are counted first."""
        counted = derivatives or not isinstance(self.adjoint, str)
        steps = self.most if counted and not self.loops else None
        adjoint = self.adjoint if derivatives or not isinstance(self.adjoint, str) else "none"
        settings = self.method, self.formulation, self.constraints, self.counts is None
        return Program(*settings, adjoint, self.audit, self.lead, steps, self.traced, self.until)

    def values(self) -> Values:
        """See `Values`."""

        # JAX would compile a program that makes an array for each number of times; numpy does not.
        def array(x, dtype) -> Any:
            if x is None or is_traced(x):
                return x if x is None else jnp.asarray(x, dtype)
            return jax.device_put(np.asarray(x, dtype))

        number = functools.partial(array, dtype=self.dtype)
        times, counts = number(self.ts), array(self.counts, int)
        rtol = self.rtol or (FLOAT32_STAGES if self.dtype == np.float32 else None)
        max_steps = array(self.max_steps, int) if self.counts is None or self.loops else None
        rate = number(self.baumgarte)
        goals = self.goals if is_traced(self.goals) else number(self.goals)
        return Values(times, counts, number(rtol), number(self.atol), max_steps, rate, self.solver, self.valid, goals)


def _step_control(settings, dt, tolerance, method, dtype):
    if dt is not None and tolerance is not None:
        raise ModelError("simulate", "both dt and tolerance", "one of them")
    if dt is None and tolerance is None:
        dt, rtol, atol = settings.dt, settings.rtol, settings.atol
    elif tolerance is not None:
        rtol, atol = _tolerances(tolerance)
    else:
        rtol = atol = None
    if rtol is not None:
        rtol = max(rtol, least_rtol(dtype))
    if dt is not None:
        dt = scalar("dt", dt, dtype) if is_traced(dt) else known_number("dt", dt, "s", positive=True)
    if dt is None and method in (*FIXED_STEP_ONLY, "RK4", "Euler", "ImplicitMidpoint"):
        raise ModelError("dt", "nothing", f"a fixed step, since {method} has no error estimate")
    return dt, rtol, atol


def least_rtol(dtype: Any) -> float:
    """The least relative tolerance that steps are chosen with: below it, what a step is judged by is rounding."""
    return 8 * float(np.finfo(dtype).eps)


def _tolerances(given: Any) -> list[float]:
    """Relative and absolute tolerance, not negative and not both zero, from one number or a mapping."""
    pair = given if isinstance(given, Mapping) else {"rtol": given, "atol": given}
    if set(pair) != {"rtol", "atol"}:
        raise ModelError("tolerance", f"the keys {', '.join(map(str, pair))}", "rtol and atol, or one number")
    found = [known_number(f"tolerance/{key}", pair[key]) for key in ("rtol", "atol")]
    if min(found) < 0 or max(found) == 0:
        raise ModelError("tolerance", show(given), "positive numbers, of which one may be zero")
    return found


def _adjoint(adjoint: Any, fixed: bool, steps: Any) -> str | diffrax.AbstractAdjoint:
    """What differentiation goes through: direct, checkpoint or forward, or a diffrax adjoint."""
    if isinstance(adjoint, diffrax.AbstractAdjoint):
        return adjoint
    if adjoint not in ADJOINTS:
        raise ModelError("adjoint", show(adjoint), f"one of {', '.join(ADJOINTS)}, or a diffrax adjoint")
    if not fixed:
        return "checkpoint" if adjoint == "auto" else adjoint
    if adjoint == "forward":
        return adjoint
    return "checkpoint" if adjoint == "checkpoint" or (adjoint == "auto" and steps > DIRECT_STEPS) else "direct"
