"""Coefficient functions and their first two derivatives against 40-digit arithmetic, in both precisions."""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

from jmbs.lie import series


def stumpff(n, x):
    """`S_n(x)` alone."""
    return series.stumpffs(n, n, x)[0]


def closed_forms():
    """The functions of `x = t^2` as the literature prints them; all are even in `t`."""
    sin, cos, sqrt = mpmath.sin, mpmath.cos, mpmath.sqrt
    forms = {
        "sinc": lambda t: sin(t) / t,
        "versine": lambda t: (1 - cos(t)) / t**2,
        "c_so3": lambda t: (t - sin(t)) / t**3,
        "d_so3": lambda t: (1 - t / 2 * mpmath.cot(t / 2)) / t**2,
    }
    return {name: (lambda x, f=f: f(sqrt(x))) for name, f in forms.items()}


OURS = {
    "sinc": lambda x: stumpff(1, x),
    "versine": lambda x: stumpff(2, x),
    "c_so3": lambda x: series.dexp_coefficients_3(x)[1],
    "d_so3": series.dexp_inv_coefficient_3,
}
# Both sides of the switch at 16; 36 is t = 6, near the singularity at 2 pi of the inverse ones.
POINTS = (0.0, 1e-18, 1e-8, 1e-3, 0.1, 1.0, 4.0, 9.0, 9.8696044, 15.875, 16.0, 16.125, 25.0, 36.0)


@cache
def reference(name: str) -> np.ndarray:
    """Value, first and second derivative by `x`, shape (3, points)."""
    with mpmath.workdps(40):
        f = closed_forms()[name]

        # The circle of Cauchy's integral stays clear of zero, where the printed forms are 0/0, and of (2 pi)^2.
        n = 32
        circle = [mpmath.expjpi(mpmath.mpf(2 * k + 1) / n) for k in range(n)]

        def taylor(x):
            values = [f(x + w) for w in circle]
            sums = [mpmath.fsum(v / w**order for v, w in zip(values, circle, strict=True)) for order in range(3)]
            return [float(mpmath.re(total) / n * mpmath.factorial(order)) for order, total in enumerate(sums)]

        return np.array([taylor(mpmath.mpf(x)) for x in POINTS]).T


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
def test_value_and_two_derivatives(name, dtype):
    f = OURS[name]
    points = jnp.asarray(POINTS, dtype)
    expected = reference(name)
    # Points that float32 rounds are moved by up to eps/2 of themselves: allow what the slopes make of that.
    slack = np.abs(np.asarray(points, np.float64) - POINTS) * np.abs(np.vstack([expected[1:], 30 * expected[2:]]))
    # Rounding is relative to the function's size on the range of log (t <= pi), and to the value where that is larger:
    # some derivatives vanish at zero.
    ordinary = np.array(POINTS) < 9.9
    scale = np.maximum(np.abs(expected), np.max(np.abs(expected[:, ordinary]), axis=1, keepdims=True))
    derivatives = (f, jax.grad(f), jax.grad(jax.grad(f)))
    for order, (derivative, bound) in enumerate(zip(derivatives, (16, 64, 256), strict=True)):
        value = jax.jit(jax.vmap(derivative))(points)
        assert value.dtype == dtype
        error = np.abs(np.asarray(value, np.float64) - expected[order])
        allowed = bound * np.finfo(dtype).eps * scale[order] + slack[order]
        assert np.all(error <= allowed), (order, POINTS[np.argmax(error / allowed)], np.max(error / allowed) * bound)


def test_stumpffs_together_and_alone():
    """Several orders together give what each gives alone."""
    x = jnp.asarray(POINTS)
    together = jax.vmap(lambda x: series.stumpffs(0, 8, x))(x)
    for n, value in enumerate(together):
        alone = jax.vmap(lambda x, n=n: stumpff(n, x))(x)
        np.testing.assert_allclose(value, alone, rtol=0, atol=16 * np.finfo(float).eps / float(mpmath.factorial(n)))


@pytest.mark.parametrize("n", range(8))
def test_stumpff_recursion_and_modes(n):
    """`S_n = 1/n! - x S_{n+2}`; forward and reverse derivatives agree; every order is finite at zero."""
    x = jnp.asarray(POINTS)
    many = jax.vmap(stumpff, in_axes=(None, 0))
    remainder = many(n, x) + x * many(n + 2, x) - 1 / float(mpmath.factorial(n))
    np.testing.assert_allclose(remainder, 0, rtol=0, atol=2e-15)
    f = lambda y: stumpff(n, y)  # noqa: E731
    np.testing.assert_allclose(jax.jit(jax.vmap(jax.grad(f)))(x), jax.jit(jax.vmap(jax.jacfwd(f)))(x), rtol=1e-14)
    k3 = jax.jit(jax.grad(jax.grad(jax.grad(f))))(jnp.zeros(()))
    np.testing.assert_allclose(k3, -6 / float(mpmath.factorial(n + 6)), rtol=1e-13)


@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
def test_angle_over_sine(dtype):
    """`atan2(n, w) / n` on the unit circle, and its derivative by the angle, over the whole quadrant."""
    phi = np.array([0.0, 1e-12, 1e-6, 1e-2, 0.5, 1.0, np.pi / 4, 1.5, np.pi / 2])
    eps = np.finfo(dtype).eps

    def f(p):
        return series.angle_over_sine(jnp.cos(p), jnp.sin(p) ** 2)

    exact, slope = np.ones_like(phi), np.zeros_like(phi)
    with mpmath.workdps(40):
        for i, p in enumerate(mpmath.mpf(p) for p in phi[1:]):
            exact[i + 1] = p / mpmath.sin(p)
            slope[i + 1] = (mpmath.sin(p) - p * mpmath.cos(p)) / mpmath.sin(p) ** 2
    points = jnp.asarray(phi, dtype)
    np.testing.assert_allclose(jax.jit(jax.vmap(f))(points), exact, rtol=8 * eps)
    np.testing.assert_allclose(jax.jit(jax.vmap(jax.grad(f)))(points), slope, rtol=32 * eps, atol=4 * eps)
    assert np.all(np.isfinite(jax.jit(jax.vmap(jax.grad(jax.grad(f))))(points)))
