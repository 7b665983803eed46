"""Measures how fast a model runs: compile time, throughput, and what the audit and the gradient cost."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jmbs.errors import ModelError, SimulationError
from jmbs.library.mechanics import count, is_number, show
from jmbs.simulation.batch import map_batch
from jmbs.simulation.integrate import simulate
from jmbs.simulation.model import Model
from jmbs.simulation.run_settings import RunSettings
from jmbs.simulation.speed_report import SpeedCase, SpeedReport, Timing, this_machine
from jmbs.simulation.spread import spread_states
from jmbs.simulation.state import State
from jmbs.simulation.status import is_successful, members, message
from jmbs.simulation.trajectory import Trajectory

DEFAULT_DT, DEFAULT_METHOD = 1e-3, "rk4"
"""Where the model's own settings are adaptive: the fixed step, s, and the method."""


def measure_speed(
    model: Model,
    batch: int = 256,
    steps: int = 100,
    dt: float | None = None,
    method: str | None = None,
    repeats: int = 5,
    gradient: bool = True,
    formulation: str | None = None,
    seed: int = 0,
) -> SpeedReport:
    """Compiles and times a batch of runs of `steps` fixed steps: without audit, with it, and with a reverse gradient.

    **Arguments:** what is not given comes from the model's settings.

    - `batch`: members, which start from the assembled state with small random velocities added (`spread_states`).
    - `dt`: the step, s; 1 ms if the model's steps are adaptive. `method`: its name; rk4 if they are.
    - `repeats`: of each timing. The programs are timed in turns, after one run of each that does not count.
    - `gradient`: also time the squared final motion with its gradient with respect to the initial velocities.
    - `formulation`: tree or absolute. `seed`: of the random velocities.

    Raises `ModelError` for wrong arguments, `AssemblyError` where there is no consistent state, and `SimulationError`
    if a member fails, since a run that stops early has no speed.
    """
    for name, value in (("batch", batch), ("steps", steps), ("repeats", repeats)):
        count(name, value, "a whole number from 1 on")
    case = _case(model, batch, steps, dt, method, formulation, seed)
    machine = this_machine()
    programs, timings = {}, {}
    functions, arguments = _functions(model, case, gradient)
    for name, function in functions.items():
        programs[name], timings[name] = _compiled(function, arguments)
        _refuse_failure(name, programs[name]())
    for _ in range(repeats):
        for name, program in programs.items():
            timings[name] = timings[name].with_run(_seconds(program))
    return SpeedReport(case, machine, timings)


def _case(model: Model, batch: int, steps: int, dt, method, formulation, seed: int) -> SpeedCase:
    own = model.settings
    method = method or (own.method if own.dt is not None else DEFAULT_METHOD)
    dt = (own.dt or DEFAULT_DT) if dt is None else dt
    if not is_number(dt) or not dt > 0:
        raise ModelError("dt", show(dt), "a positive number of seconds")
    run = RunSettings(
        model,
        t0=own.t0,
        t1=None,
        save_every=None,
        ts=[own.t0, own.t0 + steps * dt],
        solver=method,
        dt=dt,
        tolerance=None,
        constraints=None,
        max_steps=None,
        adjoint="auto",
        baumgarte=None,
        formulation=formulation,
    )
    return SpeedCase(
        name=model.name,
        bodies=len(model.layout.bodies),
        batch=batch,
        steps=steps,
        dt_s=float(dt),
        method=run.method,
        formulation=run.formulation,
        constraints=run.constraints,
        precision=model.dtype.name,
        seed=seed,
    )


def _functions(
    model: Model, case: SpeedCase, gradient: bool
) -> tuple[dict[str, Callable[..., Any]], tuple[Any, State]]:
    """What is timed, one function over the whole batch each, and their arguments: parameters and states."""
    t0 = model.settings.t0
    ts = np.array([t0, t0 + case.steps * case.dt_s])
    # Parameters are arguments, as in a fit: XLA would fold constants.
    parameters, static = eqx.partition(model, eqx.is_array)

    def run(parameters: Any, state: State, audit: bool) -> Trajectory:
        one = eqx.combine(parameters, static)
        options = {"solver": case.method, "dt": case.dt_s, "formulation": case.formulation}
        return simulate(one, state, t0=t0, ts=ts, audit=audit, throw=False, until={}, **options)

    def loss(velocities: State, others: State, parameters: Any) -> Array:
        return _squared_final_motion(run(parameters, eqx.combine(velocities, others), False))

    def whole(f: Callable[[Any, State], Any]) -> Callable[[Any, State], Any]:
        return lambda parameters, states: map_batch(functools.partial(f, parameters), states)

    states = spread_states(model, model.initial_state(), case.batch, case.seed)
    functions = {
        "audit_off": whole(lambda p, s: run(p, s, False)),
        "audit_on": whole(lambda p, s: run(p, s, True)),
    }
    if gradient:
        which = _are_velocities(model, states)
        functions["gradient"] = whole(lambda p, s: jax.value_and_grad(loss)(*eqx.partition(s, which), p))
    return functions, (parameters, states)


def _are_velocities(model: Model, state: State) -> Any:
    """Which blocks are velocities, as a tree like `state`; all, for a system that has none."""
    flags = [block.from_effort for block in model.dae.plan.blocks]
    return jax.tree.unflatten(jax.tree.structure(state), flags if any(flags) else [True] * len(flags))


def _squared_final_motion(trajectory: Trajectory) -> Array:
    t = trajectory
    parts = (t.position, t.quaternion, t.velocity, t.angular_velocity, t.q, t.v, t.temperature, t.states)
    return jnp.sum(jnp.square(jnp.concatenate([part.array[-1] for part in parts])))


def _compiled(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Callable[[], Any], Timing]:
    """The compiled function as a program without arguments, and what compiling took."""
    start = time.perf_counter()
    lowered = jax.jit(function).lower(*arguments)
    traced = time.perf_counter()
    program = lowered.compile()
    compiled = time.perf_counter()
    memory = program.memory_analysis()
    size = None if memory is None else memory.temp_size_in_bytes
    return lambda: program(*arguments), Timing(traced - start, compiled - traced, size)


def _seconds(program: Callable[[], Any]) -> float:
    start = time.perf_counter()
    jax.block_until_ready(program())
    return time.perf_counter() - start


def _refuse_failure(name: str, outcome: Any) -> None:
    if name == "gradient":
        if not all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves(outcome)):
            raise SimulationError("gradient: found values that are not finite; a smaller dt or fewer steps may help")
        return
    failed = np.flatnonzero(~np.asarray(is_successful(outcome.status)))
    if failed.size:
        first = failed[0]
        when, why = float(outcome.failure_time[first]), message(members(outcome.status)[first])
        raise SimulationError(f"{failed.size} of {outcome.ts.shape[0]} members failed, one at t = {when:g} s: {why}")
