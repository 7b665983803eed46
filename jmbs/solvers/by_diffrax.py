"""Runs by diffrax's own loop, for derivatives by a diffrax adjoint."""

from __future__ import annotations

from typing import Any

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from jmbs.solvers.adaptive_steps import FIRST_STEP, LEAST_STEP
from jmbs.solvers.stepping import Problem, Run, as_row, finite_start


def by_diffrax(
    problem: Problem,
    y0: PyTree,
    counts: Int[Array, " intervals"] | None,
    tolerance: tuple[Any, Any],
    steps: int | None,
    adjoint: diffrax.AbstractAdjoint,
) -> Run:
    """**Arguments:** `counts` of fixed steps between saved times, else `tolerance`, `rtol` and `atol`; `steps`: their
    number, or the most of them."""
    times, span = problem.times, problem.times[-1] - problem.times[0]
    if len(times) == 1:
        saved, slopes = jax.tree.map(lambda leaf: leaf[None], (y0, problem.velocity(times[0], y0)))
        return Run(saved, slopes, (times[0], y0), diffrax.RESULTS.successful, jnp.asarray(0), jnp.asarray(0))
    if counts is not None:
        assert steps is not None
        controller, dt0 = diffrax.StepTo(ts=_grid(times, counts, steps)), None
    else:
        rtol, atol = tolerance
        pid = diffrax.PIDController(rtol=rtol, atol=atol, dtmin=LEAST_STEP * span)
        controller = diffrax.ClipStepSizeController(pid, step_ts=times)
        dt0 = jnp.minimum(FIRST_STEP, 0.1 * (times[1] - times[0]))
    solution = diffrax.diffeqsolve(
        problem.term,
        problem.solver,
        t0=times[0],
        t1=times[-1],
        dt0=dt0,
        y0=y0,
        args=problem.args,
        saveat=diffrax.SaveAt(
            subs=(diffrax.SubSaveAt(ts=times), diffrax.SubSaveAt(t1=True, fn=lambda t, y, args: (t, y)))
        ),
        stepsize_controller=controller,
        adjoint=adjoint,
        max_steps=steps,
        throw=False,
    )
    ys: Any = solution.ys
    saved, end = ys
    slopes = jax.vmap(problem.velocity)(times, saved)
    end = jax.tree.map(lambda leaf: leaf[-1], end)
    stats, results = solution.stats, diffrax.RESULTS
    first = finite_start(as_row(y0))
    begun = first == results.successful
    end = jnp.where(begun, end[0], times[0]), end[1]
    result = results.where(begun, solution.result, first)
    return Run(saved, slopes, end, result, stats["num_accepted_steps"], stats["num_rejected_steps"])


def _grid(times: Float[Array, " n"], counts: Int[Array, " intervals"], steps: int) -> Float[Array, " steps+1"]:
    """The times of all fixed steps."""
    interval = jnp.repeat(jnp.arange(len(counts)), counts, total_repeat_length=steps)
    number = jnp.arange(steps) - (jnp.cumsum(counts) - counts)[interval]
    start, end, count = times[interval], times[interval + 1], counts[interval]
    inside = start + (end - start) * (number + 1).astype(times.dtype) / count.astype(times.dtype)
    return jnp.concatenate([times[:1], jnp.where(number + 1 == count, end, inside)])
