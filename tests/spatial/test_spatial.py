"""The algebra in components against matrices: inverse and successive motions, inertias seen from other points."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from quick import quick_jit

from jmbs.lie import SO3, hat
from jmbs.spatial import (
    Inertia,
    Motion,
    RelativeMotion,
    add,
    apparent_inertia,
    cross,
    following,
    inverse,
    matrix,
    momentum,
    moved,
    scale,
    shifted,
    symmetric,
    transposed_times,
    turned,
    vector,
    with_body,
)

CLOSE = 1e-13


def entries(motion: Motion | RelativeMotion) -> np.ndarray:
    return np.array(jax.tree.leaves(motion))


def test_inverse_is_what_differentiating_the_inverse_pose_gives():
    """Velocities and accelerations of `R^T` and `-R^T r`, with the motion a function of time."""
    pose = moving_pose(0)

    def inverse_pose(t):
        R, r = pose(t)
        return R.T, -R.T @ r

    there, back = relative_motion_of(pose), relative_motion_of(inverse_pose)
    np.testing.assert_allclose(entries(inverse(there)), entries(back), atol=1e-11)
    np.testing.assert_allclose(entries(inverse(back)), entries(there), atol=1e-11)


def test_motions_that_follow_each_other_are_what_differentiating_the_product_of_poses_gives():
    first, second = moving_pose(1), moving_pose(2)

    def product(t):
        (R1, r1), (R2, r2) = first(t), second(t)
        return R1 @ R2, r1 + R1 @ r2

    np.testing.assert_allclose(
        entries(following(motion_of(first), relative_motion_of(second))), entries(motion_of(product)), atol=1e-10
    )


def moving_pose(seed: int):
    """A pose as a function of time."""
    turns, shifts = jnp.asarray(np.random.default_rng(seed).normal(size=(2, 3, 3)))

    def pose(t):
        powers = jnp.stack([jnp.ones_like(t), t, t**2])
        return SO3.exp(powers @ turns), powers @ shifts

    return pose


def motion_of(pose) -> Motion:
    """The motion that a pose as a function of time is at one time."""

    def spin(t):
        R, dR = jax.jvp(lambda s: pose(s)[0], (t,), (1.0,))
        W = dR @ R.T
        return jnp.stack([W[2, 1], W[0, 2], W[1, 0]])

    velocity = jax.jacfwd(lambda t: pose(t)[1])

    @quick_jit
    def pose_and_rates(t):
        return *pose(t), spin(t), velocity(t), jax.jacfwd(spin)(t), jax.jacfwd(velocity)(t)

    R, r, *rates = pose_and_rates(jnp.asarray(0.3))
    return Motion(matrix(R), vector(r), *(vector(x) for x in rates))


def relative_motion_of(pose) -> RelativeMotion:
    """The same as the body sees it: in its axes, with rates of the components there."""
    m = motion_of(pose)
    acceleration = add(m.acceleration, scale(-1.0, cross(m.spin, m.velocity)))
    own = lambda x: transposed_times(m.rotation, x)  # noqa: E731
    return RelativeMotion(*m[:2], own(m.spin), own(m.velocity), (own(m.spin_rate), own(acceleration)))


def as_matrix(inertia: Inertia) -> np.ndarray:
    xx, xy, xz, yy, yz, zz = (float(x) for x in inertia.angular)
    J = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    xx, xy, xz, yy, yz, zz = (float(x) for x in inertia.linear)
    M = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    H = np.array([float(x) for x in inertia.coupling]).reshape(3, 3)
    return np.block([[J, H], [H.T, M]])


def test_articulated_inertias_are_symmetric_matrices():
    rng = np.random.default_rng(1)
    tensor = rng.normal(size=(3, 3))
    tensor, mass, d = tensor @ tensor.T, 1.7, rng.normal(size=3)
    zero = jnp.zeros(())
    none = Inertia((zero,) * 6, (zero,) * 9, (zero,) * 6)
    body = with_body(none, jnp.asarray(mass), symmetric(jnp.asarray(tensor)))
    whole = np.block([[tensor, np.zeros((3, 3))], [np.zeros((3, 3)), mass * np.eye(3)]])
    np.testing.assert_allclose(as_matrix(body), whole, atol=CLOSE)

    away = shifted(body, vector(jnp.asarray(d)))
    to_body = np.block([[np.eye(3), np.zeros((3, 3))], [-np.asarray(hat(jnp.asarray(d))), np.eye(3)]])
    np.testing.assert_allclose(as_matrix(away), to_body.T @ whole @ to_body, atol=10 * CLOSE)

    s = rng.normal(size=6)
    U = momentum(away, vector(jnp.asarray(s[:3])), vector(jnp.asarray(s[3:])))
    u = as_matrix(away) @ s
    np.testing.assert_allclose(np.array([*U[0], *U[1]]), u, atol=10 * CLOSE)
    yielded = apparent_inertia(away, U, jnp.asarray(1 / (s @ u)))
    np.testing.assert_allclose(as_matrix(yielded), as_matrix(away) - np.outer(u, u) / (s @ u), atol=10 * CLOSE)
    np.testing.assert_allclose(as_matrix(yielded) @ s, 0, atol=20 * CLOSE)


def test_wrenches_move_and_tensors_turn():
    rng = np.random.default_rng(2)
    R, d = SO3.exp(jnp.asarray(rng.normal(size=3))), jnp.asarray(rng.normal(size=3))
    tensor = rng.normal(size=(3, 3))
    tensor = jnp.asarray(tensor @ tensor.T)
    np.testing.assert_allclose(
        np.array(turned(matrix(R), symmetric(tensor))), np.array(symmetric(R @ tensor @ R.T)), atol=10 * CLOSE
    )
    torque, force = jnp.asarray(rng.normal(size=3)), jnp.asarray(rng.normal(size=3))
    np.testing.assert_allclose(
        np.array(moved(vector(torque), vector(force), vector(d))), torque + jnp.cross(d, force), atol=CLOSE
    )
