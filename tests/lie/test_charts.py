"""Tangents of exp and cay against automatic differentiation, their inverses, and their derivatives at zero."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

from jmbs.lie import SE3, SO3, hat

CHARTS = ("exp", "cay")
# Also beyond pi, on both sides of the switch of the series at 4, and close to the singularity at 2 pi.
ANGLES = (0.0, 0.0, 1e-9, 1e-4, 0.3, 1.5, 3.0, np.pi, 3.99, 4.01, 5.5)


@pytest.mark.parametrize("chart", CHARTS)
@pytest.mark.parametrize(("dtype", "atol"), [(np.float64, 5e-14), (np.float32, 2e-5)], ids=["float64", "float32"])
def test_tangent_left_right_and_inverse(group, chart, dtype, atol, draw, over):
    retract = getattr(group, chart)
    tangent = getattr(group, "d" + chart)
    inverse = getattr(group, f"d{chart}_inv")

    def residuals(xi, eta):
        q, dq = jax.jvp(retract, (xi,), (eta,))
        left = group.lower(q, dq)
        return (
            left - tangent(-xi, eta),
            group.Ad(q, left) - tangent(xi, eta),
            inverse(xi, tangent(xi, eta)) - eta,
            tangent(xi, inverse(xi, eta)) - eta,
        )

    xi, eta = draw(group, ANGLES, seed=1, dtype=dtype), draw(group, ANGLES, seed=2, dtype=dtype)
    for residual in over(residuals, xi, eta):
        assert residual.dtype == dtype
        np.testing.assert_allclose(residual, 0, rtol=0, atol=atol)


def two_derivatives(curve, w):
    """Value, first and second derivative of `curve(s w)` at `s = 0`."""
    zero, one = jnp.zeros((), w.dtype), jnp.ones((), w.dtype)
    first = lambda s: jax.jvp(lambda r: curve(r * w), (s,), (one,))  # noqa: E731
    (value, rate), (_, acceleration) = jax.jvp(first, (zero,), (one,))
    return value, rate, acceleration


@pytest.mark.parametrize("name", CHARTS)
def test_charts_at_zero(group, name, draw, over):
    """Both charts run along `exp(s w)` to second order; reverse mode agrees with forward mode."""
    chart = getattr(group, name)
    e = group.identity()

    def residuals(w, k):
        value, rate, acceleration = two_derivatives(chart, w)
        velocity = group.lift(e, w)
        curvature = jax.jvp(lambda q: group.lift(q, w), (e,), (velocity,))[1]
        weights = group.lift(e, k)
        reverse = jax.grad(lambda u: jnp.sum(weights * chart(u)))(0.0 * w)
        return value - e, rate - velocity, acceleration - curvature, jnp.sum(reverse * w) - jnp.sum(weights * velocity)

    for residual in over(residuals, draw(group, (1.0, 0.5, 2.0), seed=1), draw(group, (1.0, 0.5, 2.0), seed=2)):
        np.testing.assert_allclose(residual, 0, rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", ["dexp", "dexp_inv", "dcay", "dcay_inv"])
def test_tangents_at_zero(group, name, draw, over):
    """`dexp = I + ad/2 + ad^2/6 + ...`, `dexp^-1 = I - ad/2 + ad^2/12 - ...`; those of cay agree to first order."""
    sign = 0.5 if name in ("dexp", "dcay") else -0.5
    factor = {"dexp": 1 / 6, "dexp_inv": 1 / 12}.get(name)

    def residuals(w, eta):
        f = lambda xi: getattr(group, name)(xi, eta)  # noqa: E731
        value, rate, acceleration = two_derivatives(f, w)
        bracket = group.ad(w, eta)
        reverse = jax.grad(lambda xi: jnp.sum(eta * f(xi)))(0.0 * w)
        # Only exp's second derivative is universal; cay's has to be finite.
        second = 0.0 * acceleration if factor is None else acceleration - 2 * factor * group.ad(w, bracket)
        return value - eta, rate - sign * bracket, second, jnp.sum(reverse * w) - sign * jnp.sum(eta * bracket)

    for residual in over(residuals, draw(group, (1.0, 0.5, 2.0), seed=1), draw(group, (1.0, 0.5, 2.0), seed=2)):
        np.testing.assert_allclose(residual, 0, rtol=0, atol=1e-14)


def test_derivative_of_dexp_inv_matches_finite_differences(group, draw):
    xi, eta, w = (draw(group, (2.2,), seed=s)[0] for s in (1, 2, 3))
    f = jax.jit(lambda u: group.dexp_inv(u, eta))
    exact = jax.jit(lambda u: jax.jvp(f, (u,), (w,))[1])(xi)
    h = 1e-5
    difference = (f(xi + h * w) - f(xi - h * w)) / (2 * h)
    np.testing.assert_allclose(exact, difference, rtol=0, atol=1e-8)


def test_exp_is_a_one_parameter_group(group, draw, over):
    def residuals(xi):
        half = group.exp(0.5 * xi)
        return group.compose(half, half) - group.exp(xi), group.compose(
            group.exp(xi), group.exp(-xi)
        ) - group.identity()

    for residual in over(residuals, draw(group, ANGLES)):
        np.testing.assert_allclose(residual, 0, rtol=0, atol=2e-14)


@pytest.mark.parametrize("group", [SO3, SE3], ids=lambda g: g.name)
def test_cay_is_the_matrix_cayley_map(group, draw):
    for xi in draw(group):
        X = np.zeros((4, 4))
        X[:3, :3] = hat(xi[:3])
        if group == SE3:
            X[:3, 3] = xi[3:]
        expected = np.linalg.solve(np.eye(4) - X / 2, np.eye(4) + X / 2)
        np.testing.assert_allclose(group.cay(xi), expected[:3, : group.shape[1]], rtol=0, atol=1e-14)


@pytest.mark.parametrize("angle", [1e-3, 0.3, 1.5, 3.0, 5.5])
def test_tangents_of_se3_in_closed_form(angle):
    """The exponential's tangent and its inverse as polynomials of the bracket, with coefficients as the literature
    prints them, in 40-digit arithmetic."""
    rng = np.random.default_rng(0)
    xi, eta = rng.normal(size=(2, 6))
    xi[:3] *= angle / np.linalg.norm(xi[:3])
    with mpmath.workdps(40):
        omega, v = (mpmath.matrix(np.asarray(hat(jnp.asarray(part))).tolist()) for part in (xi[:3], xi[3:]))
        ad = mpmath.zeros(6)
        for i in range(3):
            for j in range(3):
                ad[i, j] = ad[i + 3, j + 3] = omega[i, j]
                ad[i + 3, j] = v[i, j]
        t = mpmath.sqrt(sum(mpmath.mpf(x) ** 2 for x in xi[:3]))
        sin, cos = mpmath.sin(t), mpmath.cos(t)
        forward = (
            (4 - t * sin - 4 * cos) / (2 * t**2),
            (4 * t - 5 * sin + t * cos) / (2 * t**3),
            (2 - t * sin - 2 * cos) / (2 * t**4),
            (2 * t - 3 * sin + t * cos) / (2 * t**5),
        )
        b2 = 2 / t**2 + (t + 3 * sin) / (4 * t * (cos - 1))
        b4 = 1 / t**4 + (t + sin) / (4 * t**3 * (cos - 1))
        for ours, coefficients in ((SE3.dexp, forward), (SE3.dexp_inv, (-mpmath.mpf(1) / 2, b2, 0, b4))):
            power, expected = mpmath.matrix(eta.tolist()), mpmath.matrix(eta.tolist())
            for c in coefficients:
                power = ad * power
                expected += c * power
            wanted = np.array([float(x) for x in expected])
            np.testing.assert_allclose(ours(xi, eta), wanted, rtol=0, atol=2e-15 * (1 + np.abs(wanted).max()))
