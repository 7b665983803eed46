"""Adaptive steps: one loop, whose steps end on the saved times."""

from __future__ import annotations

import functools
from typing import Any, Literal, NamedTuple

import diffrax
import equinox as eqx
import equinox.internal as eqxi
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from jmbs.fusing import as_one_kernel, fused
from jmbs.jaxext import forward_only, reverse_only
from jmbs.solvers.events import Watch, watch_from, watched
from jmbs.solvers.munthe_kaas import Advanced, MuntheKaas
from jmbs.solvers.stepping import Problem, Run, as_row, as_states, entry, finite_start

Kind = Literal["lax", "bounded", "checkpointed"]
"""Loops with derivatives forwards; in both modes, slow; backwards, with few states kept."""
FIRST_STEP = 1e-3
"""First step, s, or a tenth of the first saving interval if that is less. Always given: diffrax's own guess adds a
tangent to the state, which on a group is meaningless; a step too large is simply rejected."""
LEAST_STEP = 1e-13
"""The least step, relative to the whole run."""


class AdaptiveCarry(NamedTuple):
    """Between the saved times `row` and `row + 1`, at `t`, about to try a step that ends at `tried`, the first one from
    there if `fresh`; the controller's memory; what was kept; the watch for an event, before which the rest stays."""

    row: Int[Array, ""]
    t: Any
    tried: Any
    fresh: Bool[Array, ""]
    y: PyTree
    memory: PyTree
    result: Any
    accepted: Int[Array, ""]
    rejected: Int[Array, ""]
    saved: Any
    slopes: Any
    watch: Watch | tuple[()] = ()


class AdaptiveSteps(eqx.Module):
    """Steps that diffrax's `PIDController` chooses.

    **Arguments:** `rtol`, `atol`: the tolerances; `max_steps` of the whole run, a Python integer unless `kind` is lax;
    `repeated`, static: whether the second of the times may be the first once more; `in_kernels`, static: whether a step
    is one kernel, which pays where few operations on few numbers make it.
    """

    rtol: Float[Array, ""]
    atol: Float[Array, ""]
    max_steps: Any
    kind: Kind = eqx.field(static=True, default="lax")
    repeated: bool = eqx.field(static=True, default=False)
    in_kernels: bool = eqx.field(static=True, default=False)

    def start(self, problem: Problem, y0: PyTree) -> AdaptiveCarry:
        """See `Steps`."""
        term, solver, args, times, slopes, _ = problem
        first = jnp.minimum(FIRST_STEP, 0.1 * self._first_interval(problem))
        order = solver.error_order(term)
        controller = self._controller(problem)
        tried, memory = controller.init(term, times[0], times[-1], y0, first, args, solver.func, order)
        if self.repeated:
            tried = jnp.minimum(tried, problem.ends[0])
        memory = jax.tree.map(jnp.asarray, memory)  # as it is after a step: else the next part of a run compiles anew
        first_row, width = as_row(y0), solver.manifold.zero(y0).size
        saved = jnp.full((len(times), first_row.size), jnp.nan, first_row.dtype).at[0].set(first_row)
        kept = jnp.full((len(times) if slopes else 0, width), jnp.nan, times.dtype)
        nothing, yes = jnp.zeros((), int), jnp.ones((), bool)
        result = finite_start(first_row)
        watch = watch_from(problem, y0)
        return AdaptiveCarry(nothing, times[0], tried, yes, y0, memory, result, nothing, nothing, saved, kept, watch)

    def advance(self, problem: Problem, carry: AdaptiveCarry, stop: Int[Array, ""] | None = None) -> AdaptiveCarry:
        """See `Steps`."""
        if self.kind == "checkpointed":
            problem, carry = reverse_only((problem, carry))
        after = fused(self._advance, problem, carry, stop)
        return forward_only(after) if self.kind == "lax" else after

    def _advance(self, problem: Problem, carry: AdaptiveCarry, stop: Int[Array, ""] | None) -> AdaptiveCarry:
        slopes, last = problem.slopes, len(problem.times) - 1
        end = last if stop is None else stop

        def going(carry: AdaptiveCarry) -> Bool[Array, ""]:
            return self.is_going(problem, carry, end)

        def rows(carry: AdaptiveCarry) -> tuple:
            return (carry.saved, carry.slopes) if slopes else (carry.saved,)

        most = None if self.kind == "lax" else self.max_steps + slopes
        step = self._step(problem)
        return eqxi.while_loop(going, step, carry, max_steps=most, buffers=rows, kind=self.kind)

    def is_going(self, problem: Problem, carry: AdaptiveCarry, end: Int[Array, ""] | int) -> Bool[Array, ""]:
        """Whether a step is to be tried before the saved time of number `end`."""
        within = (carry.row < end) & (carry.accepted + carry.rejected < self.max_steps)
        # The slope of the last state is that of the first stage of a step that leads nowhere.
        within = within | (carry.fresh & (carry.row == len(problem.times) - 1)) if problem.slopes else within
        within = within & (carry.result == diffrax.RESULTS.successful)
        return within & ~carry.watch.found if isinstance(carry.watch, Watch) else within

    def run(self, carry: AdaptiveCarry) -> Run:
        """See `Steps`."""
        results = diffrax.RESULTS
        ended = (carry.row == len(carry.saved) - 1) | (carry.result != results.successful)
        if isinstance(carry.watch, Watch):
            ended = ended | carry.watch.found
        result = results.where(ended, carry.result, results.max_steps_reached)
        saved = as_states(carry.saved, carry.y)
        return Run(saved, carry.slopes, (carry.t, carry.y), result, carry.accepted, carry.rejected)

    def _first_interval(self, problem: Problem) -> Float[Array, ""]:
        """That of which a run's first steps are a share; the second, where there is one, if the first is no time."""
        first = problem.ends[0] - problem.times[0]
        if not self.repeated or len(problem.times) < 3:
            return first
        return jnp.where(first == 0, problem.ends[1] - problem.times[1], first)

    def _controller(self, problem: Problem) -> diffrax.PIDController:
        span = problem.times[-1] - problem.times[0]
        return diffrax.PIDController(rtol=self.rtol, atol=self.atol, dtmin=LEAST_STEP * span)

    def _step(self, problem: Problem):
        term, solver, args, times, with_slopes, _ = problem
        if hasattr(solver.solver, "scan_kind"):
            solver = eqx.tree_at(lambda s: s.solver.scan_kind, solver, self.kind, is_leaf=lambda leaf: leaf is None)
        ends, last, results = problem.ends, len(times) - 1, diffrax.RESULTS
        controller, order = self._controller(problem), solver.error_order(term)
        assert order is not None

        def advance(solver: MuntheKaas, *given: Any) -> Advanced:
            return solver.advance(*given, error=True, slope=with_slopes)

        advanced = functools.partial(as_one_kernel, advance) if self.in_kernels else advance

        def step(carry: AdaptiveCarry) -> AdaptiveCarry:
            row, t, tried, fresh, y, memory, result, accepted, rejected, saved, slopes, watch = carry
            still = tried == t if self.repeated else None
            new, error, slope, outcome = advanced(solver, term, t, tried, y, args)
            error = jax.tree.map(lambda x: jnp.where(jnp.isnan(x), jnp.inf, x), error)
            decided = controller.adapt_step_size(t, tried, y, new, args, error, order, memory)
            if still is not None:  # a step of no time tells nothing of the next one
                first = jnp.minimum(FIRST_STEP, 0.1 * self._first_interval(problem))
                begun = still | decided[0], decided[1], t + first, False, memory, results.successful
                decided = _chosen(still, begun, decided)
            keep, after, following, _, memory, verdict = decided
            going = row < last
            moves = going & keep
            if isinstance(watch, Watch):
                watch, known = watched(problem, watch, after, new, moves & (outcome == results.successful))
                outcome = results.where(known, outcome, results.nonfinite)  # pyright: ignore[reportArgumentType]
                moves = moves & ~watch.found
                after = jnp.where(watch.found, t, after)
            t = after
            y = jax.tree.map(lambda a, b: jnp.where(moves, a, b), new, y)
            result = results.where(moves, outcome, result)
            result = results.where(going & (result == results.successful), verdict, result)
            arrived = moves & (t == entry(ends, row))
            good = arrived & (result == results.successful)
            saved = saved.at[row + 1].set(as_row(y), pred=good)
            if with_slopes:
                slopes = slopes.at[row].set(slope, pred=fresh)
            row = row + arrived.astype(row.dtype)
            tried = jnp.minimum(following, entry(ends, row))
            accepted, rejected = (n + x.astype(n.dtype) for n, x in ((accepted, moves), (rejected, going & ~keep)))
            return AdaptiveCarry(row, t, tried, arrived, y, memory, result, accepted, rejected, saved, slopes, watch)

        return step


def _chosen(first: Bool[Array, ""], a: PyTree, b: PyTree) -> PyTree:
    return jax.tree.map(lambda a, b: jnp.where(first, a, b), a, b)
