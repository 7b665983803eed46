"""Quaternions and rotation matrices correspond, with finite derivatives everywhere."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jmbs.lie import SO3, hat, quaternion_to_rotation, rotation_to_quaternion, vee, wxyz_to_xyzw, xyzw_to_wxyz


def unit_quaternions():
    q = np.random.default_rng(0).normal(size=(40, 4))
    q[:4] = np.eye(4)
    q[4:8] = [[1, 1, 0, 0], [0, 1, 1, 0], [1, 1, 1, 1], [0, 0, 1, 1]]
    q[8:12] = [[1, 1e-9, 0, 0], [1e-9, 1, 0, 0], [1e-9, 0, 1, 1e-9], [-1e-9, 0, 0, 1]]
    return jnp.asarray(q / np.linalg.norm(q, axis=1, keepdims=True))


def test_round_trip_and_canonical_sign(over):
    q = unit_quaternions()
    back = over(lambda p: rotation_to_quaternion(quaternion_to_rotation(p)), q)
    np.testing.assert_allclose(np.abs(np.sum(back * q, axis=1)), 1, rtol=0, atol=1e-15)
    np.testing.assert_allclose(np.linalg.norm(back, axis=1), 1, rtol=0, atol=1e-15)
    assert np.all(back[:, 0] >= 0)
    same = np.where(np.sum(back * q, axis=1, keepdims=True) < 0, -q, q)
    np.testing.assert_allclose(back, same, rtol=0, atol=1e-15)


def test_rotation_is_quaternion_conjugation(over):
    q, v = np.array(unit_quaternions()[20]), np.array([0.3, -1.0, 2.0])
    w, u = q[0], q[1:]
    expected = v + 2 * np.cross(u, np.cross(u, v) + w * v)
    np.testing.assert_allclose(quaternion_to_rotation(jnp.asarray(q)) @ v, expected, rtol=1e-14)


def test_derivatives_are_finite_and_right(over):
    q = unit_quaternions()
    R = over(quaternion_to_rotation, q)
    assert np.all(np.isfinite(over(jax.jacrev(rotation_to_quaternion), R)))
    assert np.all(np.isfinite(over(jax.jacfwd(jax.jacrev(rotation_to_quaternion)), R)))

    def residual(p, xi):
        # qdot = q * (0, omega) / 2
        value, rate = jax.jvp(rotation_to_quaternion, (p,), (SO3.lift(p, xi),))
        w, u = value[0], value[1:]
        return rate - 0.5 * jnp.concatenate([-jnp.sum(u * xi)[None], w * xi + jnp.cross(u, xi)])

    xi = jnp.asarray(np.random.default_rng(1).normal(size=(len(q), 3)))
    np.testing.assert_allclose(over(residual, R, xi), 0, rtol=0, atol=1e-14)


def test_orders():
    q = jnp.arange(4.0)
    np.testing.assert_array_equal(wxyz_to_xyzw(q), [1, 2, 3, 0])
    np.testing.assert_array_equal(xyzw_to_wxyz(wxyz_to_xyzw(q)), q)


@pytest.mark.parametrize("seed", range(3))
def test_hat_and_vee(seed):
    v, w = jnp.asarray(np.random.default_rng(seed).normal(size=(2, 3)))
    np.testing.assert_allclose(hat(v) @ w, np.cross(v, w), rtol=1e-14)
    np.testing.assert_array_equal(vee(hat(v)), v)
