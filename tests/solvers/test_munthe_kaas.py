"""Munthe-Kaas: what holds to rounding, whatever the step, and its derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from solvers.tumbling import DURATION, INERTIA, PoseAndMomentum, field, integrate, start

from jmbs.jaxext import kept_rule
from jmbs.lie import SE3, SO3
from jmbs.solvers import RK4, LieTerm, MuntheKaas, base_method
from jmbs.solvers.munthe_kaas import explicit_step


@pytest.mark.parametrize("method", ("rk4", "kvaerno5"))
def test_a_thousand_steps_stay_on_the_group(method: str, request):
    count = 1000
    q, _ = jax.jit(lambda dt: integrate(SO3, base_method(method), dt=dt).ys)(DURATION / count)
    miss = np.max(np.abs(np.asarray(q[0].T @ q[0]) - np.eye(3)))
    request.node.user_properties.append(("R^T R - 1", f"{miss:.1e}"))
    assert miss <= 1e-14


@pytest.mark.parametrize("method", ("euler", "rk4", "tsit5", "implicit_euler"))
def test_a_steady_screw_motion_is_exact(method: str):
    """A constant velocity is the exponential of one step, of any size, for a method of any order."""
    u = jnp.array([2.0, -1.0, 1.5, 0.3, 0.4, -0.2])
    term = LieTerm(lambda t, y, args: jnp.concatenate([u, jnp.zeros(6)]))
    y0 = SE3.exp(jnp.array([0.3, 0.5, -0.7, 1.0, 2.0, 3.0])), jnp.zeros(6)
    solver = MuntheKaas(base_method(method), PoseAndMomentum(SE3))
    q1 = diffrax.diffeqsolve(term, solver, 0.0, 1.0, 1.0, y0).ys[0][-1]
    np.testing.assert_allclose(q1, SE3.compose(y0[0], SE3.exp(u)), rtol=0, atol=1e-14)


class _EulerInDisguise(diffrax.AbstractERK):
    """Two stages that do not count, then one whose coefficients are all zero: Euler's method, if those move nothing."""

    tableau: ClassVar[diffrax.ButcherTableau] = diffrax.ButcherTableau(
        a_lower=(np.array([1.0]), np.array([0.0, 0.0])),
        b_sol=np.array([0.0, 0.0, 1.0]),
        b_error=np.zeros(3),
        c=np.array([1.0, 0.0]),
    )
    interpolation_cls: ClassVar[Callable] = diffrax.ThirdOrderHermitePolynomialInterpolation.from_k

    def order(self, terms):
        del terms
        return 1


def test_a_stage_with_zero_coefficients_moves_nothing():
    run = lambda solver: jax.jit(lambda dt: integrate(SE3, solver, dt=dt).ys)(0.125)  # noqa: E731
    for got, wanted in zip(run(_EulerInDisguise()), run(base_method("euler")), strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_a_field_of_zero_moves_nothing():
    y0 = SE3.exp(jnp.array([0.3, 0.5, -0.7, 1.0, 2.0, 3.0])), jnp.arange(6.0)
    solver = MuntheKaas(RK4(), PoseAndMomentum(SE3))
    y1 = diffrax.diffeqsolve(LieTerm(lambda t, y, args: jnp.zeros(12)), solver, 0.0, 1.0, 0.01, y0).ys
    for got, wanted in zip(y1, y0, strict=True):
        np.testing.assert_array_equal(got[0], wanted)


def test_implicit_euler_solves_its_stage():
    """`phi = h dexp^-1_{-phi}(F(y0 exp(phi)))` at the end of the step: the stage's equation, evaluated afresh."""
    h, tolerance, manifold = 0.05, 1e-12, PoseAndMomentum(SE3)
    y0, inertia = start(SE3), jnp.array(INERTIA[SE3])
    solver = MuntheKaas(base_method("implicit_euler", tolerance), manifold)
    y1, *_, result = solver.step(LieTerm(field(SE3)), 0.0, h, y0, inertia, None, False)
    assert result == diffrax.RESULTS.successful
    phi = jnp.concatenate([SE3.log(SE3.compose(SE3.inverse(y0[0]), y1[0])), y1[1] - y0[1]])
    stage = h * manifold.dexp_inv(-phi, field(SE3)(h, y1, inertia))
    np.testing.assert_allclose(phi, stage, rtol=0, atol=100 * tolerance)
    assert np.linalg.norm(phi[:3]) > 0.2


FIXED = {"controller": None, "dt": 0.02, "adjoint": diffrax.DirectAdjoint(), "max_steps": 50}
ADAPTIVE = {"controller": diffrax.PIDController(rtol=1e-11, atol=1e-11), "dt": 0.01, "max_steps": 500}


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("rk4", FIXED),
        pytest.param("kvaerno5", FIXED, marks=pytest.mark.slow),
        pytest.param("dopri8", ADAPTIVE, marks=pytest.mark.slow),
    ],
    ids=("fixed", "fixed, implicit", "adaptive"),
)
def test_reverse_gradient_equals_finite_differences(method: str, options: dict):
    """Of a function of the end state, by inertia and initial momentum."""
    weights = np.random.default_rng(0).normal(size=(3, 3))
    y0, inertia = start(SO3), jnp.array(INERTIA[SO3])

    def loss(theta):
        end = integrate(SO3, base_method(method, 1e-12), y0=(y0[0], theta[1]), inertia=theta[0], **options).ys
        return jnp.sum(weights * end[0][-1]) + jnp.sum(end[1][-1] ** 2)

    both = jax.jit(jax.value_and_grad(loss))
    gradient = both((inertia, y0[1]))[1]
    eps = 1e-5
    for part in range(2):
        for i in range(3):
            moved = [[inertia, y0[1]], [inertia, y0[1]]]
            for sign, theta in zip((1, -1), moved, strict=True):
                theta[part] = theta[part].at[i].add(sign * eps)
            difference = (both(tuple(moved[0]))[0] - both(tuple(moved[1]))[0]) / (2 * eps)
            np.testing.assert_allclose(gradient[part][i], difference, rtol=1e-6, atol=1e-5)


def test_stages_are_differentiated_once():
    """Their loop starts from zeros; if these did not change, JAX would differentiate it a second time."""
    calls = []

    def rule(arguments, tangents):
        calls.append(arguments)
        return slope(*arguments), (jnp.cos(arguments[0]) * tangents[0],)

    slope = kept_rule(lambda x: (jnp.sin(x),), rule, (jax.ShapeDtypeStruct((2,), jnp.float64),))

    def step(parameter):
        term = diffrax.ODETerm(lambda t, y, args: slope(y + args)[0])
        return explicit_step(RK4.tableau, term, 0.0, 0.1, jnp.zeros(2), parameter).y

    at = jnp.array([1.0, 2.0])
    value, along = jax.linearize(step, at)
    assert len(calls) == 1
    np.testing.assert_array_equal(value, step(at))
    np.testing.assert_allclose(along(jnp.ones(2)), jax.jacfwd(step)(at).sum(axis=1), rtol=1e-12)
