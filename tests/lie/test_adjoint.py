"""Adjoint actions are derivatives of conjugation, brackets are derivatives of adjoint actions, duals are dual."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jmbs.lie import SE2, SE3, Planar, hat

close = dict(rtol=0, atol=5e-14)


def along(curve, like):
    """The derivative of `curve(s)` at `s = 0`."""
    zero = jnp.zeros((), like.dtype)
    return jax.jvp(curve, (zero,), (jnp.ones_like(zero),))[1]


def test_Ad_is_the_derivative_of_conjugation(group, draw, over):
    def residual(a, xi):
        q = group.exp(a)
        curve = lambda s: group.compose(group.compose(q, group.exp(s * xi)), group.inverse(q))  # noqa: E731
        return group.lower(group.identity(xi.dtype), along(curve, xi)) - group.Ad(q, xi)

    np.testing.assert_allclose(over(residual, draw(group, seed=1), draw(group, seed=2)), 0, **close)


def test_ad_is_the_derivative_of_Ad(group, draw, over):
    def residual(xi, eta):
        return along(lambda s: group.Ad(group.exp(s * xi), eta), xi) - group.ad(xi, eta)

    np.testing.assert_allclose(over(residual, draw(group, seed=1), draw(group, seed=2)), 0, **close)


def test_Ad_is_a_representation(group, draw, over):
    def residuals(a, b, xi):
        p, q = group.exp(a), group.exp(b)
        product = group.Ad(group.compose(p, q), xi) - group.Ad(p, group.Ad(q, xi))
        inverse = group.Ad(group.inverse(p), group.Ad(p, xi)) - xi
        return product, inverse

    for residual in over(residuals, draw(group, seed=1), draw(group, seed=2), draw(group, seed=3)):
        np.testing.assert_allclose(residual, 0, **close)


def test_duals(group, draw, over):
    def residuals(a, u, f):
        q = group.exp(a)
        big = jnp.sum(group.Ad_dual(q, f) * u) - jnp.sum(f * group.Ad(q, u))
        small = jnp.sum(group.ad_dual(a, f) * u) - jnp.sum(f * group.ad(a, u))
        return big, small

    for residual in over(residuals, draw(group, seed=1), draw(group, seed=2), draw(group, seed=3)):
        np.testing.assert_allclose(residual, 0, **close)


def test_jacobi_identity(group, draw, over):
    def residual(a, b, c):
        ad = group.ad
        return ad(a, ad(b, c)) + ad(b, ad(c, a)) + ad(c, ad(a, b))

    np.testing.assert_allclose(
        over(residual, draw(group, seed=1), draw(group, seed=2), draw(group, seed=3)), 0, **close
    )


def test_se3_bracket_is_the_commutator_of_matrices(draw, over):
    def matrix(xi):
        return jnp.zeros((4, 4), xi.dtype).at[:3, :3].set(hat(xi[:3])).at[:3, 3].set(xi[3:])

    def residual(xi, eta):
        X, Y = matrix(xi), matrix(eta)
        return X @ Y - Y @ X - matrix(SE3.ad(xi, eta))

    np.testing.assert_allclose(over(residual, draw(SE3, seed=1), draw(SE3, seed=2)), 0, **close)


def test_se2_is_the_plane_of_se3(draw, over):
    planar = Planar([0.0, 0.0, 1.0])
    embed = lambda u: jnp.stack([0 * u[2], 0 * u[2], u[2], u[0], u[1], 0 * u[2]])  # noqa: E731

    def residuals(xi, eta):
        return (
            planar.inclusion(SE2.exp(xi)) - SE3.exp(embed(xi)),
            embed(SE2.ad(xi, eta)) - SE3.ad(embed(xi), embed(eta)),
            embed(SE2.Ad(SE2.exp(xi), eta)) - SE3.Ad(SE3.exp(embed(xi)), embed(eta)),
            embed(SE2.dexp(xi, eta)) - SE3.dexp(embed(xi), embed(eta)),
        )

    for residual in over(residuals, draw(SE2, seed=1), draw(SE2, seed=2)):
        np.testing.assert_allclose(residual, 0, **close)
