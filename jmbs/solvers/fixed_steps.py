"""Fixed steps: one scan over all of them, which both modes of differentiation go through at little cost."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from jmbs.arrays import changing_zero
from jmbs.compiler import one_kernel
from jmbs.solvers.munthe_kaas import MuntheKaas


class FixedRun(NamedTuple):
    """**Arguments:** states at saved times, `(times, ...)`, NaN after a failure; time (s) and state at the end, or at
    the failure; the result; the number of steps."""

    saved: PyTree
    end: tuple[Float[Array, ""], PyTree]
    result: Any
    steps: Int[Array, ""]


def fixed_steps(
    term: diffrax.AbstractTerm,
    solver: MuntheKaas,
    y0: PyTree,
    args: PyTree,
    grid: np.ndarray,
    times: np.ndarray,
    checkpoint: bool,
    meter: diffrax.AbstractProgressMeter,
) -> FixedRun:
    """Integrates along `grid` (s), which contains the `times` to save and starts with the first of them.

    **Arguments:** `checkpoint`: reverse mode keeps only about as many states as the root of the number of steps and
    computes the others anew.
    """
    arrays, others = eqx.partition((term, solver, y0, args), eqx.is_array)

    def run(arrays: PyTree) -> FixedRun:
        term, solver, y0, args = eqx.combine(arrays, others)
        return _run(term, solver, y0, args, grid, times, checkpoint, meter)

    return one_kernel(run, arrays)


def _run(
    term: diffrax.AbstractTerm,
    solver: MuntheKaas,
    y0: PyTree,
    args: PyTree,
    grid: np.ndarray,
    times: np.ndarray,
    checkpoint: bool,
    meter: diffrax.AbstractProgressMeter,
) -> FixedRun:
    if hasattr(solver.solver, "scan_kind"):
        # An implicit method's loop over stages in a form that both modes of differentiation go through.
        solver = eqx.tree_at(lambda s: s.solver.scan_kind, solver, "bounded", is_leaf=lambda leaf: leaf is None)
    successful, start, span = diffrax.RESULTS.successful, float(grid[0]), float(grid[-1] - grid[0])
    total, dtype = len(grid) - 1, jnp.result_type(*jax.tree.leaves(y0))

    def step(carry, x):
        (t, y, result, count), saved, metered = carry
        before, after, row, wanted = x
        going = wanted & (result == successful)
        new, outcome = solver.advance(term, before, after, y, args)
        t, y = jax.tree.map(lambda a, b: jnp.where(going, a, b), (after, new), (t, y))
        result = diffrax.RESULTS.where(going, outcome, result)  # pyright: ignore[reportArgumentType]
        state = t, y, result, count + going.astype(count.dtype)
        good = result == successful
        kept = jax.tree.map(lambda leaf: jnp.where(good, leaf, jnp.nan), y)
        put = lambda rows, leaf: jax.lax.dynamic_update_index_in_dim(rows, leaf, row, 0)  # noqa: E731
        saved = jax.tree.map(put, saved, kept)
        metered = meter.step(metered, (after - start) / span)
        return (state, saved, metered), None

    # Whatever makes later states change, makes the first one.
    zero = changing_zero((y0, args), dtype)
    y0 = jax.tree.map(lambda leaf: leaf + zero.astype(leaf.dtype), y0)
    # The last row takes what is not asked for.
    empty = jax.tree.map(lambda leaf: jnp.zeros((len(times), *leaf.shape), leaf.dtype), y0)
    saved = jax.tree.map(lambda leaf, rows: jnp.concatenate([leaf[None], rows]), y0, empty)
    chunk = math.isqrt(total - 1) + 1 if checkpoint else total
    xs = _schedule(grid, times, chunk, dtype)
    carry = (xs[0][0], y0, successful, jnp.asarray(0)), saved, meter.init()
    if checkpoint:
        inner = jax.checkpoint(lambda carry, xs: jax.lax.scan(step, carry, xs), prevent_cse=False)
        pieces = jax.tree.map(lambda x: x.reshape(-1, chunk), xs)
        carry, _ = jax.lax.scan(inner, carry, pieces)
    else:
        carry, _ = jax.lax.scan(step, carry, xs)
    (t, y, result, count), saved, metered = carry
    meter.close(metered)
    return FixedRun(jax.tree.map(lambda rows: rows[:-1], saved), (t, y), result, count)


def _schedule(grid: np.ndarray, times: np.ndarray, chunk: int, dtype) -> tuple[Array, Array, Array, Array]:
    """By step: start, end, the row of its end in what is saved, and whether it is a step at all and not there to fill
    the last chunk."""
    rows = np.searchsorted(times, grid[1:])
    rows = np.where(times[np.minimum(rows, len(times) - 1)] == grid[1:], rows, len(times))
    fill = -(len(grid) - 1) % chunk
    pad = lambda x, value: np.concatenate([x, np.full(fill, value, x.dtype)])  # noqa: E731
    before, after = (jnp.asarray(pad(t, grid[-1]), dtype) for t in (grid[:-1], grid[1:]))
    steps = np.ones(len(rows), dtype=bool)
    return before, after, jnp.asarray(pad(rows, len(times))), jnp.asarray(pad(steps, False))
