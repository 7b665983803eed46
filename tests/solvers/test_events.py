"""Roots that end a run of an oscillator, `q = cos(w t)`: their times and derivatives are known."""

from __future__ import annotations

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jmbs.solvers import AdaptiveSteps, FixedSteps, LieTerm, MuntheKaas, Problem, base_method, with_event

TIMES = np.array([0.0, 0.5, 1.0, 1.5])
RATE, GOAL = 1.7, 0.3
GOALS = np.array([0.3, -0.2, 2.0])


class Line:
    """Vectors as a manifold."""

    zero = staticmethod(jnp.zeros_like)
    retract = staticmethod(lambda y, step: y + step)
    lift = staticmethod(lambda y, step: step)
    dexp_inv = staticmethod(lambda step, velocity: velocity)


def fixed(total: int | None):
    return "rk4", FixedSteps(jnp.full(3, 25), total)


def adaptive(kind: str):
    return "tsit5", AdaptiveSteps(jnp.asarray(1e-10), jnp.asarray(1e-10), 200, kind)


WAYS = {
    "known number": lambda: fixed(75),
    "any number": lambda: fixed(None),
    "adaptive": lambda: adaptive("lax"),
    "adaptive backwards": lambda: adaptive("checkpointed"),
}


def run(way: str, event, rate=RATE, start=(1.0, 0.0)):
    """A run of the oscillator until a root of `event` `(t, y, rate) -> (roots,)`."""
    method, steps = WAYS[way]()
    term = LieTerm(lambda t, y, rate: jnp.stack([y[1], -(rate**2) * y[0]]))
    problem = Problem(term, MuntheKaas(base_method(method), Line()), rate, jnp.asarray(TIMES), False, event)
    carry = steps.advance(problem, steps.start(problem, jnp.stack([jnp.asarray(x) for x in start])))
    return with_event(problem, steps.run(carry), carry)


def time_of(way: str):
    def time(rate, goal):
        return run(way, lambda t, y, rate: y[:1] - goal, rate).event.time

    return time


def exact(rate, goal):
    return jnp.arccos(goal) / rate


def slow_but(*fast: str):
    return [pytest.param(way, marks=[pytest.mark.slow] * (way not in fast)) for way in WAYS]


@pytest.mark.parametrize("way", slow_but("known number", "adaptive"))
def test_each_member_of_a_batch_ends_at_its_own_event(way: str):
    found = jax.jit(jax.vmap(lambda goal: run(way, lambda t, y, rate: y[:1] - goal)))(GOALS)
    times = exact(RATE, GOALS)
    np.testing.assert_allclose(found.event.time, times, rtol=1e-7)
    assert found.event.found.tolist() == [True, True, False] and found.event.row[:2].tolist() == [2, 3]
    np.testing.assert_allclose(found.saved[0, 2], [GOAL, -RATE * np.sin(RATE * times[0])], atol=1e-7)
    np.testing.assert_allclose(found.saved[:2, 1, 0], np.cos(RATE * 0.5), atol=1e-7)
    assert np.isnan(found.saved[:, :, 0]).tolist() == [[False] * 3 + [True], [False] * 4, [False] * 4]


AT = (jnp.asarray(RATE), jnp.asarray(GOAL))
MODES = {"known number": (jax.jacfwd, jax.jacrev), "adaptive backwards": (jax.jacrev,)}


@pytest.mark.parametrize("way", slow_but("known number", "adaptive backwards"))
def test_derivatives_are_those_of_the_implicit_function_theorem(way: str):
    for mode in MODES.get(way, (jax.jacfwd,)):
        found = jax.jit(mode(time_of(way), (0, 1)))(*AT)
        np.testing.assert_allclose(found, jax.jacfwd(exact, (0, 1))(*AT), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["known number", "any number", "adaptive"])
def test_second_derivatives_are_too(way: str):
    inner = MODES.get(way, (jax.jacfwd,))[-1]
    found = jax.jit(jax.jacfwd(inner(time_of(way), (0, 1)), (0, 1)))(*AT)
    np.testing.assert_allclose(found, jax.hessian(exact, (0, 1))(*AT), rtol=1e-5)


def test_the_first_of_several_roots_ends_the_run():
    """Two that are crossed in one step, and one that is never; the state is on the first."""
    found = jax.jit(lambda goals: run("known number", lambda t, y, rate: y[0] - goals))(jnp.array([0.299, 5.0, 0.3]))
    assert int(found.event.which) == 2
    np.testing.assert_allclose(found.event.time, exact(RATE, 0.3), rtol=1e-7)


def test_a_start_at_the_root_is_no_event():
    """The next time there is: half a turn later."""
    found = jax.jit(lambda rate: run("known number", lambda t, y, rate: y[:1] - 1e-10, rate, (0.0, 1.0)))(2.5)
    np.testing.assert_allclose(found.event.time, np.pi / 2.5, rtol=1e-7)


def test_a_function_without_value_fails_the_run():
    found = jax.jit(lambda rate: run("known number", lambda t, y, rate: jnp.log(y[:1]) + 100, rate))(RATE)
    assert not bool(found.event.found) and bool(found.result == diffrax.RESULTS.nonfinite)
    assert np.isnan(found.saved[-1]).all()
