"""Events: a run ends at a root of a function of its state, on a shortened step of its own method.

With `y(t)` the state that one step from `(t_a, y_a)` to `t` gives, the time `t_e` of the event solves
`g(t_e, y(t_e)) = 0`. Its derivative is that of the implicit function theorem, `dt_e = -dg / (dg/dt)`: after the search,
which has none, come steps of Newton's method with a fixed slope, and after the second of them second derivatives are
right too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from jmbs.solvers.stepping import Event, Problem, Run, as_row, as_states, with_differentiable_stages

MOST_TRIES = 64
"""Of the search: every fourth halves the interval, so these are more than the digits of a number need."""


class Watch(NamedTuple):
    """What a loop over steps knows of the functions whose roots end the run: their first signs that are not zero,
    `sides`; which of them a step `crossed`; and the `end` of that step, s, whose start is the loop's time and state."""

    sides: Float[Array, " roots"]
    crossed: Bool[Array, " roots"]
    end: Float[Array, ""]

    @property
    def found(self) -> Bool[Array, ""]:
        """Whether the run has come to an event."""
        return jnp.any(self.crossed)


def watch_from(problem: Problem, y0: PyTree) -> Watch | tuple[()]:
    """The watch of a run that starts; nothing where no event is waited for. A start at a root is no event."""
    if problem.event is None:
        return ()
    values = _unchanging(problem, problem.times[0], y0)
    near = jnp.sqrt(jnp.asarray(jnp.finfo(values.dtype).eps, values.dtype))
    sides = jnp.where(jnp.abs(values) > near, jnp.sign(values), jnp.zeros_like(values))
    return Watch(sides, jnp.zeros(values.shape, bool), problem.times[0])


def watched(problem: Problem, watch: Watch, t: Any, y: PyTree, moves: Bool[Array, ""]) -> tuple[Watch, Bool[Array, ""]]:
    """The watch after a step to `(t, y)`, if the run moves there; and whether functions have values there."""
    values = _unchanging(problem, t, y)
    sides = jnp.sign(values)
    crossed = moves & (watch.sides * sides <= 0) & (watch.sides != 0)
    begun = jnp.where(moves & (watch.sides == 0), sides, watch.sides)
    new = Watch(begun, watch.crossed | crossed, jnp.where(jnp.any(crossed), t, watch.end))
    return new, ~jnp.any(jnp.isnan(values))


def _unchanging(problem: Problem, t: Any, y: PyTree) -> Float[Array, " roots"]:
    """Values of the functions, without derivatives: only their signs count."""
    frozen = _frozen(problem)
    assert frozen.event is not None
    return jax.lax.stop_gradient(frozen.event(*_frozen((t, y)), frozen.args))


def _frozen(tree: Any) -> Any:
    return jax.tree.map(lambda x: jax.lax.stop_gradient(x) if eqx.is_inexact_array(x) else x, tree)


def with_event(problem: Problem, run: Run, carry: Any) -> Run:
    """The run with the event that ended it, if one did: its state stands at the next saved time, and nothing after it.

    **Arguments:** `carry`: of the loop over steps, with `row`, `t`, `y` and `watch`.
    """
    found = carry.watch.found
    time, y, which = _located(problem, carry.t, carry.y, carry.watch)
    slope = problem.velocity(time, y)
    rows = jnp.arange(len(problem.times))[:, None] - carry.row
    at, before = found & (rows == 1), ~found | (rows <= 0)

    def ended(values: Array, new: Array) -> Array:
        return jnp.where(at, new, jnp.where(before, values, jnp.nan))

    saved = ended(jax.vmap(as_row)(run.saved), as_row(y))
    slopes = ended(run.slopes, slope) if problem.slopes else run.slopes
    event = Event(found, carry.row + 1, jnp.where(found, time, jnp.nan), which)
    return run._replace(
        saved=as_states(saved, y), slopes=slopes, accepted=run.accepted + found.astype(run.accepted.dtype), event=event
    )


def _located(problem: Problem, t: Any, y: PyTree, watch: Watch) -> tuple[Float[Array, ""], PyTree, Int[Array, ""]]:
    """Time and state of the first of the roots that were crossed, and which it is; the start where none was."""
    problem = with_differentiable_stages(problem)
    end = jnp.where(watch.found, watch.end, jax.lax.stop_gradient(t))
    frozen, start = _frozen(problem), _frozen((t, y))

    def value(i: Int[Array, ""]) -> Callable[[Array], Array]:
        return lambda time: _value(frozen, start[0], start[1], time, i)[0]

    def search(i: Int[Array, ""]) -> tuple[Array, Array]:
        return _root(value(i), start[0], end, watch.sides[i])

    numbers = jnp.arange(len(watch.sides))
    if len(numbers) == 1:
        times, rates = (x[None] for x in search(numbers[0]))
    else:
        times, rates = jax.vmap(search)(numbers)
    which = jnp.argmin(jnp.where(watch.crossed, times, jnp.inf))
    rate = jax.lax.stop_gradient(jnp.where(watch.found, rates[which], jnp.ones_like(rates[which])))

    def improved(time: Array, _) -> tuple[Array, tuple[Array, PyTree]]:
        wrong, new = _value(problem, t, y, time, which)
        return time - jnp.where(watch.found, wrong, jnp.zeros_like(wrong)) / rate, (time, new)

    _, seen = jax.lax.scan(improved, jax.lax.stop_gradient(times[which]), length=3)
    time, state = jax.tree.map(lambda x: x[-1], seen)
    return time, state, which


def _value(problem: Problem, t: Any, y: PyTree, time: Any, i: Int[Array, ""]) -> tuple[Float[Array, ""], PyTree]:
    """A function at the end of one step from `(t, y)` to `time`, and the state there."""
    assert problem.event is not None
    new = problem.solver.advance(problem.term, t, time, y, problem.args).y
    return problem.event(time, new, problem.args)[i], new


def _root(function: Callable[[Array], Array], low: Any, high: Any, side: Any) -> tuple[Float[Array, ""], Array]:
    """The root between `low`, where the sign is `side`, and `high`; and the slope there: Newton's method, guarded."""
    tolerance = 2 * jnp.finfo(high.dtype).eps * jnp.maximum(jnp.abs(low), jnp.abs(high))

    def going(carry: tuple) -> Bool[Array, ""]:
        _, _, _, _, change, tries = carry
        return (jnp.abs(change) > tolerance) & (tries < MOST_TRIES)

    def step(carry: tuple) -> tuple:
        low, high, time, _, _, tries = carry
        value, rate = jax.jvp(function, (time,), (jnp.ones_like(time),))
        before = value * side > 0
        low, high = jnp.where(before, time, low), jnp.where(before, high, time)
        newton = time - value / rate
        halved = low + (high - low) / 2
        small = jnp.abs(newton - time) <= tolerance
        taken = ((newton > low) & (newton < high) & (tries % 4 != 3)) | small
        new = jnp.where(taken, jnp.clip(newton, low, high), halved)
        return low, high, new, rate, new - time, tries + 1

    start = low, high, high, jnp.ones_like(high), jnp.full_like(high, jnp.inf), jnp.zeros((), int)
    _, _, time, rate, _, _ = jax.lax.while_loop(going, step, start)
    return time, rate
