"""Events: a run ends at a root of a function of its state, on a shortened step of its own method.

With `y(t)` the state that one step from `(t_a, y_a)` to `t` gives, the time `t_e` of the event solves
`g(t_e, y(t_e)) = 0`. Its derivative is that of the implicit function theorem, `dt_e = -dg / (dg/dt)`: steps of the
secant method whose slope has none, `t - g / slope`, come to it as they come to the root, and to higher ones too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from jmbs.arrays import without_derivatives
from jmbs.solvers.stepping import Event, Problem, Run, as_row, as_states, with_differentiable_stages

TRIES = 32
"""To locate a root: the last of them change nothing but derivatives, which come to be those of the root."""


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
    frozen = without_derivatives(problem)
    assert frozen.event is not None
    return jax.lax.stop_gradient(frozen.event(*without_derivatives((t, y)), frozen.args))


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
    end = jnp.where(watch.found, watch.end, without_derivatives(t))

    def root(i: Int[Array, ""]) -> tuple[Float[Array, ""], PyTree]:
        return _root(problem, t, y, end, watch.sides[i], i)

    numbers = jnp.arange(len(watch.sides))
    if len(numbers) == 1:
        return *root(numbers[0]), numbers[0]
    times, states = jax.lax.map(root, numbers)
    which = jnp.argmin(jnp.where(watch.crossed, times, jnp.inf))
    return times[which], jax.tree.map(lambda x: x[which], states), which


def _root(
    problem: Problem, t: Any, y: PyTree, end: Float[Array, ""], side: Array, i: Int[Array, ""]
) -> tuple[Float[Array, ""], PyTree]:
    """Time and state at the root of a function on one step from `(t, y)`, where its sign is `side`, until `end`.

    The secant method in the interval that is known to hold the root, which is halved where that leads outside of it.
    Values alone have derivatives; slopes that are no longer than a rounding error's are not taken.
    """
    least = jnp.cbrt(jnp.asarray(jnp.finfo(end.dtype).eps, end.dtype)) * (end - without_derivatives(t))
    nothing = jnp.zeros_like(end)

    def attempt(carry: tuple, number: Int[Array, ""]) -> tuple[tuple, None]:
        time, low, high, (last, before), slope, _ = carry
        value, state = _value(problem, t, y, time, i)
        at, wrong = without_derivatives((time, value))
        far = jnp.abs(at - last) > least
        slope = jnp.where(far, (wrong - before) / jnp.where(far, at - last, 1.0), slope)
        early = wrong * side > 0
        low, high = jnp.where(early, at, low), jnp.where(early, high, at)
        sound = slope != 0
        secant = at - wrong / jnp.where(sound, slope, 1.0)
        halving = (number % 6 == 5) & (number < TRIES // 2) & (jnp.abs(secant - at) > least)
        sound = sound & (low <= secant) & (secant <= high) & ~halving
        step = jnp.where(sound, value, nothing) / jnp.where(sound, slope, 1.0)
        following = jnp.where(sound, time - step, low + (high - low) / 2)
        return (following, low, high, (at, wrong), slope, (time, state)), None

    start = end, without_derivatives(t), end, (end, nothing), nothing, (end, y)
    (*_, found), _ = jax.lax.scan(attempt, start, jnp.arange(TRIES))
    return found


def _value(problem: Problem, t: Any, y: PyTree, time: Any, i: Int[Array, ""]) -> tuple[Float[Array, ""], PyTree]:
    """A function at the end of one step from `(t, y)` to `time`, and the state there."""
    assert problem.event is not None
    new = problem.solver.advance(problem.term, t, time, y, problem.args).y
    return problem.event(time, new, problem.args)[i], new
