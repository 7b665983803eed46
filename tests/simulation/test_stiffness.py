"""A run that ends for the number of its steps says whether its equations are stiff."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from quick import quick_jit

import jmbs
from jmbs import Status
from jmbs.simulation.stiffness import fastest_rate, stability_limit
from jmbs.solvers import LieTerm, MuntheKaas, Problem, base_method

LIMITS = {"heun": 2.0, "ralston": 2.0, "bosh3": 2.513, "dopri5": 3.307}
"""Of real stability, from the literature."""


class Line:
    """Vectors as a manifold."""

    zero = staticmethod(jnp.zeros_like)
    retract = staticmethod(lambda y, step: y + step)


@pytest.mark.parametrize("method", LIMITS)
def test_stability_limits_are_known_ones(method):
    assert stability_limit(base_method(method)) == pytest.approx(LIMITS[method], abs=2e-3)


def test_implicit_methods_have_no_limit():
    assert stability_limit(base_method("kvaerno5")) is None


@pytest.mark.parametrize(
    ("matrix", "rate"),
    [
        (np.diag([-3e5, -1.0, 2.0]), 3e5),
        ([[0.0, 1.0], [-1e8, -1e4]], 1e4),
        ([[0.0, 1.0], [-1e6, 0.0]], 1e3),
        (np.zeros((2, 2)), 0.0),
    ],
)
def test_the_fastest_rate_is_that_of_the_jacobian(matrix, rate):
    """Decays, complex pairs with coordinates and velocities of unlike size, and nothing."""
    matrix = jnp.asarray(matrix)
    term = LieTerm(lambda t, y, args: matrix @ y)
    problem = Problem(term, MuntheKaas(base_method("tsit5"), Line()), None, jnp.array([0.0, 1.0]), False)
    found = quick_jit(lambda y: fastest_rate(problem, jnp.zeros(()), y))(jnp.ones(len(matrix)))
    np.testing.assert_allclose(found, rate, rtol=0.05)


def test_a_stiff_run_names_an_implicit_method(model, state):
    """A hinge in tar; and a run of few steps that is not stiff."""
    run = {"ts": np.array([0.25, 0.5]), "tolerance": 1e-5, "throw": False}
    tar = model.with_parameters({"hinge/friction/viscous": 1e6})
    assert bool(jmbs.simulate(tar, state, max_steps=2000, **run).status == Status.stiff)
    with pytest.raises(jmbs.SimulationError, match="stiff; choose an implicit method, such as kvaerno5"):
        jmbs.simulate(tar, state, max_steps=2000, **{**run, "throw": True})
    few = jmbs.simulate(model, state, max_steps=5, **run)
    assert bool(few.status == Status.max_steps_reached) and 0.25 < float(few.failure_time) < 0.5
    assert np.isnan(few.total).tolist() == np.isnan(few.q["hinge"][:, 0]).tolist() == [False, True]
