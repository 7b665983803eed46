"""From a model and a state to an audited trajectory, through diffrax."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jax.core import Tracer

from jmbs.dae import ACCOUNT, velocity_field
from jmbs.errors import SimulationError
from jmbs.simulation.formulation import formulation_of, projection
from jmbs.simulation.inputs import with_inputs
from jmbs.simulation.model import ASSEMBLY_TOLERANCE, Model, assembled
from jmbs.simulation.outcome import trajectory_of
from jmbs.simulation.progress import progress_meter
from jmbs.simulation.run_settings import RunSettings
from jmbs.simulation.state import State, to_internal
from jmbs.simulation.status import Status, message
from jmbs.simulation.trajectory import Trajectory
from jmbs.solvers import LieTerm, MuntheKaas, fixed_steps

FIRST_STEP = 1e-3
"""First step of adaptive runs, s, or a tenth of the first saving interval if that is less. Always given: diffrax's own
guess adds a tangent to the state, which on a group is meaningless; a step too large is simply rejected."""


def simulate(
    model: Model,
    state: State | None = None,
    *,
    t1: float | None = None,
    t0: float | None = None,
    save_every: float | None = None,
    ts: Any = None,
    solver: str | diffrax.AbstractSolver | None = None,
    dt: float | None = None,
    tolerance: float | Mapping[str, float] | None = None,
    constraints: str | None = None,
    formulation: str | None = None,
    inputs: Mapping[str, Any] | None = None,
    max_steps: int | None = None,
    adjoint: str | diffrax.AbstractAdjoint = "auto",
    audit: bool = True,
    throw: bool = True,
    progress: bool = False,
    baumgarte: float | None = None,
) -> Trajectory:
    """Integrates a model; pure, so `jit`, `vmap`, `grad` and `jvp` apply.

    **Arguments:** what is not given comes from the model's settings.

    - `state`: a consistent state; None assembles the model's own, with gradients.
    - `t0`, `t1`, `save_every`, s; or `ts` (n,): the times to save. Steps end exactly on saved times.
    - `solver`: a method's name or a diffrax Runge-Kutta solver.
    - `dt`: fixed step, s, shortened so that it divides each saving interval; or `tolerance`: one number, or `rtol`
      and `atol`.
    - `constraints`: none, baumgarte or project; `baumgarte`: its rate, 1/s.
    - `formulation`: tree or absolute; the default is the tree where there is one.
    - `inputs`: port path to constant, table or function, see `jmbs.simulation.with_inputs`.
    - `max_steps`: of an adaptive run.
    - `adjoint`: how to differentiate. Fixed steps allow both modes: direct keeps what reverse mode needs of every step,
      checkpoint about the root of that and computes the rest anew; auto is direct up to DIRECT_STEPS steps. Adaptive
      steps: direct (both modes, slow), checkpoint (reverse mode; auto), forward. Or a diffrax adjoint.
    - `audit`: carry the account and compute energies, residuals and reactions.
    - `throw`: raise `SimulationError` for a failed run (where it can be seen: not under a transformation). With False
      the trajectory has a status, and NaN after the failure.
    - `progress`: draw a progress bar.

    Raises `ModelError` for wrong arguments.
    """
    plan = RunSettings(
        *(model, t0, t1, save_every, ts, solver, dt, tolerance, constraints, max_steps, adjoint, baumgarte),
        formulation=formulation,
    )
    traced = _is_traced((model, state, ts))
    model = with_inputs(model, inputs or {})
    if state is None:
        if not traced:
            state = model.initial_state()
        else:
            state, _ = assembled(model)
    run = _integrate_jit if not traced else _integrate
    trajectory = run(model, state, plan, audit, progress)
    if throw and not _is_traced(trajectory):
        _raise_failure(trajectory)
    return trajectory


def _integrate(model: Model, state: State, run: RunSettings, audit: bool, progress: bool) -> Trajectory:
    dtype, ts = model.dtype, run.ts
    formulation = formulation_of(model, run.formulation)
    dae: Any = formulation.dae
    x0 = to_internal(model.dae, state)
    y0 = formulation.start(x0)
    account = jnp.zeros(len(ACCOUNT) + len(model.dae.plan.irreversible) if audit else 0, dtype)
    treat = projection(type(formulation), audit) if run.constraints == "project" else None
    solver = MuntheKaas(run.solver, formulation.manifold, treat)
    term = LieTerm(velocity_field(audit, run.baumgarte))
    times = jnp.asarray(ts, dtype)
    if len(ts) == 1:
        saved, result = jax.tree.map(lambda leaf: leaf[None], (y0, account)), diffrax.RESULTS.successful
        end = times[0], dae.regularity(y0)
        stats = {"steps": jnp.asarray(0), "accepted": jnp.asarray(0), "rejected": jnp.asarray(0)}
    elif run.grid is not None and isinstance(run.adjoint, str):
        checkpoint = run.adjoint == "checkpoint"
        meter = progress_meter(progress)
        moved = fixed_steps(term, solver, (y0, account), dae, run.grid, run.ts, checkpoint, meter)
        saved, result, (t, (y, _)) = moved.saved, moved.result, moved.end
        end = t, dae.regularity(y)
        stats = {"steps": moved.steps, "accepted": moved.steps, "rejected": jnp.asarray(0)}
    else:
        assert not isinstance(run.adjoint, str)
        saved, end, result, stats = _by_diffrax(term, solver, run, run.adjoint, (y0, account), dae, progress)
    # A verdict has no derivative, and tracing one takes time.
    frozen, first = jax.tree.map(lambda x: jax.lax.stop_gradient(x) if eqx.is_array(x) else x, (formulation, x0))
    consistent = frozen.inconsistency(times[0], first) <= 10 * ASSEMBLY_TOLERANCE[dtype.name]
    return trajectory_of(model, run, formulation, times, saved, result, end, stats, audit, consistent)


def _by_diffrax(term, solver, run: RunSettings, adjoint: diffrax.AbstractAdjoint, y0, dae: Any, progress: bool):
    """States at saved times, where the run ended, its result and statistics, by diffrax's own loop."""
    dtype, ts = y0[1].dtype, run.ts
    times = jnp.asarray(ts, dtype)
    if run.grid is not None:
        controller, dt0 = diffrax.StepTo(ts=jnp.asarray(run.grid, dtype)), None
    else:
        assert run.rtol is not None and run.atol is not None
        pid = diffrax.PIDController(rtol=run.rtol, atol=run.atol, dtmin=1e-13 * float(ts[-1] - ts[0]))
        controller = diffrax.ClipStepSizeController(pid, step_ts=times)
        dt0 = jnp.asarray(min(FIRST_STEP, 0.1 * float(ts[1] - ts[0])), dtype)
    solution = diffrax.diffeqsolve(
        term,
        solver,
        t0=times[0],
        t1=times[-1],
        dt0=dt0,
        y0=y0,
        args=dae,
        saveat=diffrax.SaveAt(subs=(diffrax.SubSaveAt(ts=times), diffrax.SubSaveAt(t1=True, fn=_end))),
        stepsize_controller=controller,
        adjoint=adjoint,
        max_steps=run.max_steps,
        throw=False,
        progress_meter=progress_meter(progress),
    )
    ys: Any = solution.ys
    saved, end = ys
    stats = {
        "steps": solution.stats["num_steps"],
        "accepted": solution.stats["num_accepted_steps"],
        "rejected": solution.stats["num_rejected_steps"],
    }
    return saved, jax.tree.map(lambda leaf: leaf[-1], end), solution.result, stats


def _end(t, y, dae):
    """Where an integration ended: its time, and how far the coordinates are from a singularity of theirs."""
    return t, dae.regularity(y[0])


_integrate_jit = eqx.filter_jit(_integrate)


def _raise_failure(trajectory: Trajectory) -> None:
    if trajectory.ts.ndim == 1 and not bool(trajectory.status == Status.successful):
        raise SimulationError(f"t = {float(trajectory.failure_time):g} s: {message(trajectory.status)}")


def _is_traced(tree) -> bool:
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(tree))
