"""Fixed steps: one loop over all of them.

Where their number is known when the program is made, the loop is a scan, which both modes of differentiation go
through. Where it is not, the program serves any number of steps, without derivatives backwards: it takes no longer than
the steps that are wanted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from jmbs.arrays import changing_zero
from jmbs.fusing import as_one_kernel
from jmbs.jaxext import forward_kernel, forward_only
from jmbs.solvers.events import Watch, watch_from, watched
from jmbs.solvers.stepping import (
    Problem,
    Run,
    as_row,
    as_states,
    entry,
    finite_start,
    with_differentiable_stages,
)


class FixedCarry(NamedTuple):
    """`step` of those between the saved times `row` and `row + 1`; time and state that were reached, which a failure
    keeps; how many steps that took; what was kept, with a row more for what is not asked for; the watch for an event,
    before which the rest stays."""

    row: Int[Array, ""]
    step: Int[Array, ""]
    t: Float[Array, ""]
    y: PyTree
    result: Any
    steps: Int[Array, ""]
    saved: Float[Array, "rows size"]
    slopes: Float[Array, "times n"]
    watch: Watch | tuple[()] = ()


class FixedSteps(eqx.Module):
    """Equal steps from each saved time to the next.

    **Arguments:** `counts` (times - 1,) of them; `total`, static: their sum, if it is known; `checkpoint`, static:
    reverse mode keeps only about as many states as the root of it and computes the others anew; `bounded`, static:
    whether `total` is the most that the sum may be, beyond which a run ends; `forward`, static: derivatives are forward
    ones only, see `jmbs.jaxext.forward_run`; `most`: an array in place of a bounded `total`, with forward derivatives.
    """

    counts: Int[Array, " intervals"]
    total: int | None = eqx.field(static=True, default=None)
    checkpoint: bool = eqx.field(static=True, default=False)
    bounded: bool = eqx.field(static=True, default=False)
    forward: bool = eqx.field(static=True, default=False)
    most: Int[Array, ""] | None = None

    def start(self, problem: Problem, y0: PyTree) -> FixedCarry:
        """See `Steps`."""
        times = problem.times
        # Whatever makes later states change, makes the first one.
        zero = changing_zero((y0, problem.args), times.dtype)
        y0 = jax.tree.map(lambda leaf: leaf + zero.astype(leaf.dtype), y0)
        first = as_row(y0)
        saved = jnp.concatenate([first[None], jnp.zeros((len(times), first.size), first.dtype)])
        width = problem.solver.manifold.zero(y0).size
        slopes = jnp.zeros((len(times) + 1 if problem.slopes else 0, width), times.dtype)
        nothing = jnp.zeros((), int)
        watch = watch_from(problem, y0)
        return FixedCarry(nothing, nothing, times[0], y0, finite_start(first), nothing, saved, slopes, watch)

    def advance(self, problem: Problem, carry: FixedCarry, stop: Int[Array, ""] | None = None) -> FixedCarry:
        """See `Steps`; `stop` only where the number of steps is not known ahead."""
        args = problem, self.counts, carry, stop, self.most
        if self.forward:
            arrays, others = eqx.partition(args, eqx.is_array)
            return forward_kernel(lambda arrays: self._advance(*eqx.combine(arrays, others)), arrays)
        carry = as_one_kernel(self._advance, *args)
        return carry if self.most is None else forward_only(carry)

    def _advance(
        self, problem: Problem, counts: Array, carry: FixedCarry, stop: Array | None, most: Array | None
    ) -> FixedCarry:
        # The slope of the last state is that of the first stage of a step that leads nowhere.
        last = len(problem.times) - 1 + problem.slopes
        step = _step(with_differentiable_stages(problem), jnp.append(counts, 1))
        if most is not None:
            return jax.lax.while_loop(lambda carry: _is_going(carry, last, most), step, carry)
        if self.total is None:
            end = last if stop is None else jnp.where(stop == len(problem.times) - 1, last, stop)
            return jax.lax.while_loop(lambda carry: _with_no_event(carry, carry.row < end), step, carry)
        return _repeated(step, carry, self.total + problem.slopes, self.checkpoint)

    def run(self, carry: FixedCarry) -> Run:
        """See `Steps`."""
        rows, result = carry.saved[:-1], carry.result
        if self.bounded:
            results, short = diffrax.RESULTS, _with_no_event(carry, carry.row < len(rows) - 1)
            short = short & (result == results.successful)
            result = results.where(short, results.max_steps_reached, result)  # pyright: ignore[reportArgumentType]
            rows = jnp.where((jnp.arange(len(rows)) <= carry.row)[:, None], rows, jnp.nan)
        saved, rejected = as_states(rows, carry.y), jnp.zeros_like(carry.steps)
        return Run(saved, carry.slopes[:-1], (carry.t, carry.y), result, carry.steps, rejected)


def _step(problem: Problem, counts: Int[Array, " times"]) -> Callable[[FixedCarry], FixedCarry]:
    term, solver, args, times, with_slopes, _ = problem
    ends, dtype, last, successful = problem.ends, times.dtype, len(times) - 1, diffrax.RESULTS.successful

    def step(carry: FixedCarry) -> FixedCarry:
        row, number, t, y, result, steps, saved, slopes, watch = carry
        start, end, count = entry(times, row), entry(ends, row), entry(counts, row)
        at = lambda number: start + (end - start) * number.astype(dtype) / count.astype(dtype)  # noqa: E731
        arrived = number + 1 == count
        after = jnp.where(arrived, end, at(number + 1))
        new, _, slope, outcome = solver.advance(term, at(number), after, y, args, slope=with_slopes)
        going = (row < last) & (result == successful)
        if isinstance(watch, Watch):
            going = going & ~watch.found
            watch, known = watched(problem, watch, after, new, going & (outcome == successful))
            outcome = diffrax.RESULTS.where(known, outcome, diffrax.RESULTS.nonfinite)  # pyright: ignore[reportArgumentType]
            going = going & ~watch.found
        t, y = jax.tree.map(lambda a, b: jnp.where(going, a, b), (after, new), (t, y))
        result = diffrax.RESULTS.where(going, outcome, result)  # pyright: ignore[reportArgumentType]
        kept = jnp.where(result == successful, as_row(y), jnp.nan)
        saved = _put(saved, kept, jnp.where(arrived & (row < last), row + 1, last + 1))
        if slope is not None:
            slopes = _put(slopes, slope, jnp.where(number == 0, row, last + 1))
        after_row, after_number = row + arrived.astype(row.dtype), jnp.where(arrived, 0, number + 1)
        if isinstance(watch, Watch):
            after_row = jnp.where(watch.found, row, after_row)
            after_number = jnp.where(watch.found, number, after_number)
        steps = steps + going.astype(steps.dtype)
        return FixedCarry(after_row, after_number, t, y, result, steps, saved, slopes, watch)

    return step


def _is_going(carry: FixedCarry, last: int, most: Int[Array, ""]) -> Bool[Array, ""]:
    going = (carry.row < last) & (carry.steps < most) & (carry.result == diffrax.RESULTS.successful)
    return _with_no_event(carry, going)


def _with_no_event(carry: FixedCarry, also: Bool[Array, ""]) -> Bool[Array, ""]:
    return also & ~carry.watch.found if isinstance(carry.watch, Watch) else also


def _put(rows: Array, values: Array, row: Int[Array, ""]) -> Array:
    return jax.lax.dynamic_update_index_in_dim(rows, values, row, 0, allow_negative_indices=False)


def _repeated(step: Callable[[FixedCarry], FixedCarry], carry: FixedCarry, total: int, checkpoint: bool) -> FixedCarry:
    """The carry after so many steps. What is beyond the last saved time moves nothing."""

    def scan(carry: FixedCarry, length: int) -> FixedCarry:
        return jax.lax.scan(lambda carry, _: (step(carry), None), carry, length=length)[0]

    if not checkpoint or total < 2:
        return scan(carry, total)
    chunk = math.isqrt(total - 1) + 1
    inner = jax.checkpoint(lambda carry: scan(carry, chunk), prevent_cse=False)
    return jax.lax.scan(lambda carry, _: (inner(carry), None), carry, length=-(-total // chunk))[0]
