"""Every group obeys the group axioms, and exp, log, lift and lower fit together."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jmbs.errors import ModelError
from jmbs.lie import SE2, SE3, SO3, Product, Rn, SO3xR3, rotation

close = dict(rtol=0, atol=2e-14)


def test_axioms(group, draw, over):
    def residuals(a, b, c):
        a, b, c = group.exp(a), group.exp(b), group.exp(c)
        e = group.identity(a.dtype)
        return (
            group.compose(a, e) - a,
            group.compose(e, a) - a,
            group.compose(a, group.inverse(a)) - e,
            group.compose(group.inverse(a), a) - e,
            group.compose(group.compose(a, b), c) - group.compose(a, group.compose(b, c)),
            group.normalise(a) - a,
        )

    for residual in over(residuals, draw(group, seed=1), draw(group, seed=2), draw(group, seed=3)):
        np.testing.assert_allclose(residual, 0, **close)


@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
def test_shapes_and_dtypes(group, dtype):
    q, xi, c = (jax.ShapeDtypeStruct(s, dtype) for s in (group.shape, (group.dim,), (group.coordinate_size,)))
    signatures = {
        q: dict(
            compose=(q, q), inverse=(q,), lift=(q, xi), exp=(xi,), cay=(xi,), normalise=(q,), from_coordinates=(c,)
        ),
        xi: dict(lower=(q, q), log=(q,), Ad=(q, xi), Ad_dual=(q, xi), ad=(xi, xi), ad_dual=(xi, xi))
        | {name: (xi, xi) for name in ("dexp", "dexp_inv", "dcay", "dcay_inv")},
        c: dict(to_coordinates=(q,)),
    }
    for wanted, methods in signatures.items():
        for name, arguments in methods.items():
            value = jax.eval_shape(getattr(group, name), *arguments)
            assert (value.shape, value.dtype) == (wanted.shape, wanted.dtype), name
    identity = group.identity(dtype)
    assert (identity.shape, identity.dtype) == (group.shape, dtype)
    assert group.identity().dtype == jnp.zeros(()).dtype


def test_lift_is_the_derivative_of_right_multiplication(group, draw, over):
    def residuals(a, xi):
        q = group.exp(a)
        curve = lambda s: group.compose(q, group.exp(s * xi))  # noqa: E731
        _, dq = jax.jvp(curve, (0.0 * xi[0],), (1.0 + 0.0 * xi[0],))
        return dq - group.lift(q, xi), group.lower(q, group.lift(q, xi)) - xi

    for residual in over(residuals, draw(group, seed=1), draw(group, seed=2)):
        np.testing.assert_allclose(residual, 0, **close)


def test_unit_tangents_are_orthogonal_and_equally_long_at_every_element(group, draw, over):
    """As changes of entries; gradients by elements rely on it."""

    def products(a):
        units = jax.vmap(lambda e: group.lift(group.exp(a), e).ravel())(jnp.eye(group.dim, dtype=a.dtype))
        return units @ units.T

    found = np.asarray(over(products, draw(group, seed=1)))
    at_identity = np.asarray(over(products, 0.0 * draw(group, seed=1)))
    np.testing.assert_allclose(found, np.eye(group.dim) * at_identity, **close)


def test_exp_of_log_and_log_of_exp(group, draw, over):
    xi = draw(group)
    q = over(group.exp, xi)
    back = over(group.log, q)
    np.testing.assert_allclose(over(group.exp, back), q, **close)
    # The linear part of log is conditioned like the distance to 2 pi, which is harmless here.
    np.testing.assert_allclose(back, xi, rtol=0, atol=5e-14)
    tiny = slice(2, 6)
    np.testing.assert_allclose(back[tiny], xi[tiny], rtol=4e-15, atol=1e-25)


def test_log_of_exp_in_float32(group, draw, over):
    xi = draw(group, (0.0, 1e-9, 1e-4, 0.3, 2.0, 3.1), dtype=np.float32)
    np.testing.assert_allclose(over(lambda u: group.log(group.exp(u)), xi), xi, rtol=0, atol=4e-6)


@pytest.mark.parametrize("group", [SO3, SE3, SO3xR3], ids=lambda g: g.name)
def test_log_at_rotation_angle_pi(group, over):
    axes = np.random.default_rng(0).normal(size=(8, 3))
    axes[:6] = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [0, 1, 1], [-1, 0, 1]]
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    R = jnp.asarray(2 * axes[:, :, None] * axes[:, None, :] - np.eye(3))
    q = R if group == SO3 else jnp.concatenate([R, jnp.asarray(axes[::-1, :, None])], axis=2)
    xi = over(group.log, q)
    np.testing.assert_allclose(np.linalg.norm(xi[:, :3], axis=1), np.pi, rtol=1e-15)
    np.testing.assert_allclose(over(group.exp, xi), q, **close)
    assert np.all(np.isfinite(over(jax.jacrev(group.log), q)))
    assert np.all(np.isfinite(over(jax.jacfwd(jax.jacfwd(group.log)), q)))

    def left_inverse(p, w):
        # d/ds log(p exp(s w)) = dexp^-1_{-log p} w holds at pi too, on the branch taken
        rate = jax.jvp(group.log, (p,), (group.lift(p, w),))[1]
        return rate - group.dexp_inv(-group.log(p), w)

    w = jnp.asarray(np.random.default_rng(1).normal(size=(8, group.dim)))
    np.testing.assert_allclose(over(left_inverse, q, w), 0, rtol=0, atol=1e-13)


def test_derivatives_of_log(group, draw, over):
    """`d/ds log(q exp(s w)) = dexp^-1_{-log q} w`; forward equals reverse; all finite, at the identity too."""

    def residuals(a, w):
        q = group.exp(a)
        dq = group.lift(q, w)
        forward = jax.jvp(group.log, (q,), (dq,))[1]
        reverse = jnp.tensordot(jax.jacrev(group.log)(q), dq, axes=dq.ndim)
        return forward - group.dexp_inv(-group.log(q), w), forward - reverse

    for residual in over(residuals, draw(group, seed=1), draw(group, seed=2)):
        np.testing.assert_allclose(residual, 0, rtol=0, atol=1e-13)


def test_coordinates(group, draw, over):
    q = over(group.exp, draw(group, seed=4))
    c = over(group.to_coordinates, q)
    np.testing.assert_allclose(over(group.from_coordinates, c), q, **close)
    assert np.all(np.isfinite(over(jax.jacrev(group.to_coordinates), q)))
    assert np.all(np.isfinite(over(jax.jacrev(group.from_coordinates), c)))


def test_from_coordinates_normalises():
    c = jnp.array([0.3, -0.2, 0.5, 2.0, 0.4, -0.6, 1.0])
    scaled = c.at[3:].multiply(3.0)
    for g in (SE3, SO3xR3):
        np.testing.assert_allclose(g.from_coordinates(scaled), g.from_coordinates(c), **close)
    R = SO3.from_coordinates(scaled[3:])
    np.testing.assert_allclose(R.T @ R, np.eye(3), **close)


def test_normalise_is_the_nearest_rotation(draw, over):
    rng = np.random.default_rng(0)
    q = over(SO3.exp, draw(SO3))
    perturbed = q + jnp.asarray(0.05 * rng.uniform(-1, 1, size=q.shape))
    nearest = over(SO3.normalise, perturbed)
    u, _, vt = np.linalg.svd(np.asarray(perturbed))
    np.testing.assert_allclose(nearest, u @ vt, **close)
    # On the group the derivative is the projection to the tangent space.
    dq = jnp.asarray(rng.normal(size=q.shape))
    rate = over(lambda p, dp: jax.jvp(SO3.normalise, (p,), (dp,))[1], q, dq)
    projected = over(lambda p, dp: SO3.lift(p, SO3.lower(p, dp)), q, dq)
    np.testing.assert_allclose(rate, projected, rtol=0, atol=1e-13)


def test_group_objects_are_values(group):
    twin = {SO3: SO3, Rn(3): Rn(3), Product((SO3, Rn(2))): Product([SO3, Rn(2)])}
    for key, value in twin.items():
        assert key == value and hash(key) == hash(value)
    assert Rn(2) != Rn(3) and SE3 != SO3xR3 and Product((SO3,)) != Product((SE3,)) and SO3 != SE2
    assert {group: 1}[group] == 1
    assert jax.tree.leaves(group) == []
    assert isinstance(group.name, str) and group.name


def test_product_acts_factorwise(draw):
    group = Product((SE3, Rn(0), SE2))
    xi = draw(group, (0.7,))[0]
    q = group.exp(xi)
    parts = group.split(q)
    np.testing.assert_array_equal(parts[0], SE3.exp(xi[:6]))
    np.testing.assert_array_equal(parts[2], SE2.exp(xi[6:]))
    np.testing.assert_array_equal(group.join(parts), q)
    assert Product(()).exp(jnp.zeros(0)).shape == (0,) == Product(()).shape


def test_planar_angles_count_turns():
    q = SE2.exp(jnp.array([0.1, 0.2, 9.0]))
    assert q[2] == 9.0
    np.testing.assert_allclose(SE2.compose(q, q)[2], 18.0)
    np.testing.assert_allclose(SE2.log(q), [0.1, 0.2, 9.0], **close)


def test_large_rotations(over):
    angles = jnp.array([3.999, 4.001, 2 * np.pi, 50.0, 1e4])
    R = over(lambda t: SO3.exp(jnp.array([0.0, 0.0, 1.0]) * t), angles)
    np.testing.assert_allclose(R[:, 1, 0], np.sin(angles), **close)
    np.testing.assert_allclose(R[:, 0, 0], np.cos(angles), **close)


def test_wrong_groups_are_refused():
    for bad in (-1, True):
        with pytest.raises(ModelError, match="Rn/n"):
            Rn(bad)
    with pytest.raises(ModelError, match="Product/groups/1"):
        Product((SO3, "SE3"))


def test_rotation_of_pose_groups_is_shared(draw):
    xi = draw(SE3, (1.3,))[0]
    np.testing.assert_array_equal(rotation(SE3.exp(xi)), SO3.exp(xi[:3]))
    np.testing.assert_array_equal(rotation(SO3xR3.exp(xi)), SO3.exp(xi[:3]))
