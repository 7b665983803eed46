"""SO(3) and SE(3) agree with jaxlie, whose tangents are ordered (v, omega)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import jaxlie
import numpy as np
import pytest

from jmbs.lie import SE3, SO3

PAIRS = {"SO3": (SO3, jaxlie.SO3), "SE3": (SE3, jaxlie.SE3)}


@pytest.fixture(autouse=True)
def standard_promotion():
    """jaxlie mixes dtypes."""
    with jax.numpy_dtype_promotion("standard"):
        yield


ANGLES = (0.3, 2.9)


def swap(xi):
    """Between (omega, v) and (v, omega)."""
    return jnp.roll(xi, 3) if xi.shape == (6,) else xi


@pytest.mark.parametrize("name", PAIRS)
def test_exp_log_adjoint_and_jacobians(name, draw):
    group, theirs = PAIRS[name]
    rows = slice(0, 3)
    for xi, eta in zip(draw(group, ANGLES, seed=1), draw(group, ANGLES, seed=2), strict=True):
        q, their_q = group.exp(xi), theirs.exp(swap(xi))
        np.testing.assert_allclose(q, their_q.as_matrix()[rows], rtol=0, atol=1e-14)
        np.testing.assert_allclose(group.log(q), swap(their_q.log()), rtol=0, atol=1e-13)
        np.testing.assert_allclose(group.inverse(q), their_q.inverse().as_matrix()[rows], rtol=0, atol=1e-14)
        np.testing.assert_allclose(group.Ad(q, eta), swap(their_q.adjoint() @ swap(eta)), rtol=0, atol=1e-14)
        # jaxlie's left Jacobian is our right-trivialised tangent, and its jlog is the inverse of the left-trivialised.
        left_jacobian = swap(jnp.linalg.solve(theirs.jlog(their_q.inverse()), swap(eta)))
        np.testing.assert_allclose(group.dexp(xi, eta), left_jacobian, rtol=0, atol=1e-12)
        np.testing.assert_allclose(group.dexp_inv(-xi, eta), swap(theirs.jlog(their_q) @ swap(eta)), rtol=0, atol=1e-12)
        coordinates = their_q.wxyz if name == "SO3" else jnp.roll(their_q.wxyz_xyz, 3)
        rebuilt = group.from_coordinates(coordinates)
        np.testing.assert_allclose(rebuilt, q, rtol=0, atol=1e-14)


def test_products_agree(draw):
    xi, eta = draw(SE3, ANGLES, seed=3)[:2]
    product = SE3.compose(SE3.exp(xi), SE3.exp(eta))
    theirs = jaxlie.SE3.exp(swap(xi)) @ jaxlie.SE3.exp(swap(eta))
    np.testing.assert_allclose(product, theirs.as_matrix()[:3], rtol=0, atol=1e-14)
