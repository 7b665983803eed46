"""Joint motions: lower pairs are subgroups with constant tangents, and all motions are differentiable everywhere."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from motions import every_motion

from jmbs.errors import ModelError
from jmbs.lie import (
    SE3,
    AbstractJointMotion,
    AbstractLowerPair,
    Composite,
    Cylindrical,
    Planar,
    Prismatic,
    Revolute,
    Rn,
    Screw,
    Universal,
    independence,
    pose,
    rotation,
    tangent,
    translation,
)

AXIS = jnp.array([0.4, -1.1, 0.7])
AXIS2 = jnp.array([1.0, 0.2, -0.5])
MOTIONS = every_motion(AXIS, AXIS2)
LOWER_PAIRS = tuple(m for m in MOTIONS if isinstance(m, AbstractLowerPair))
by_name = dict(ids=lambda m: m.name)
ANGLES = (0.0, 1e-9, 1e-4, 0.5, 2.0, 3.1)
close = dict(rtol=0, atol=2e-14)


def elements(motion, draw, seed):
    return jax.jit(jax.vmap(motion.group.exp))(draw(motion.group, ANGLES, seed=seed))


@pytest.mark.parametrize("motion", LOWER_PAIRS, **by_name)
def test_lower_pairs_are_subgroups(motion, draw, over):
    group = motion.group

    def residuals(p, q):
        product = motion.inclusion(group.compose(p, q)) - SE3.compose(motion.inclusion(p), motion.inclusion(q))
        inverse = motion.inclusion(group.inverse(p)) - SE3.inverse(motion.inclusion(p))
        return product, inverse

    for residual in over(residuals, elements(motion, draw, 1), elements(motion, draw, 2)):
        np.testing.assert_allclose(residual, 0, **close)
    np.testing.assert_allclose(motion.inclusion(group.identity()), SE3.identity(), **close)


@pytest.mark.parametrize("motion", MOTIONS, **by_name)
def test_tangent_is_the_velocity_of_the_inclusion(motion, draw, over):
    """By automatic differentiation at each `q` (for lower pairs `tangent` looks at the identity only)."""
    group = motion.group

    def residual(q, xi):
        pose_q, rate = jax.jvp(motion.inclusion, (q,), (group.lift(q, xi),))
        return SE3.lower(pose_q, rate) - tangent(motion, q) @ xi

    q = elements(motion, draw, 1)
    assert tangent(motion, q[0]).shape == (6, group.dim)
    np.testing.assert_allclose(over(residual, q, draw(group, ANGLES, seed=2)), 0, **close)


@pytest.mark.parametrize("motion", MOTIONS, **by_name)
def test_tangent_by_finite_differences(motion, draw):
    group = motion.group
    q, xi = elements(motion, draw, 1)[-2], draw(group, ANGLES, seed=2)[-2]
    h = 1e-5
    before, after = (motion.inclusion(group.compose(q, group.exp(s * xi))) for s in (-h, h))
    twist = SE3.lower(motion.inclusion(q), (after - before) / (2 * h))
    np.testing.assert_allclose(tangent(motion, q) @ xi, twist, rtol=0, atol=1e-9)


@pytest.mark.parametrize("motion", MOTIONS, **by_name)
def test_tangent_has_full_column_rank(motion, draw):
    q = elements(motion, draw, 1)[3]
    assert np.linalg.matrix_rank(np.asarray(tangent(motion, q))) == motion.group.dim


@pytest.mark.parametrize("motion", MOTIONS, **by_name)
def test_finite_derivatives_at_the_identity(motion):
    q = motion.group.identity()
    for f in (motion.inclusion, lambda x: tangent(motion, x)):
        assert np.all(np.isfinite(f(q)))
        assert np.all(np.isfinite(jax.jit(jax.jacrev(f))(q)))
        assert np.all(np.isfinite(jax.jit(jax.jacfwd(jax.jacfwd(f)))(q)))
    for f in (lambda m: jnp.sum(m.inclusion(q) ** 2), lambda m: jnp.sum(tangent(m, q) ** 2)):
        for leaf in jax.tree.leaves(jax.jit(jax.grad(f))(motion)):
            assert np.all(np.isfinite(leaf))


@pytest.mark.parametrize("motion", MOTIONS, **by_name)
def test_description_matches_the_group(motion):
    assert len(motion.coordinate_names) == len(motion.coordinate_units) == motion.group.coordinate_size
    assert len(motion.velocity_names) == len(motion.velocity_units) == motion.group.dim
    assert motion.name == type(motion).__name__.lower()


def test_length_of_the_axis_does_not_matter():
    q = jnp.array([0.8])
    np.testing.assert_allclose(Revolute(3.0 * AXIS).inclusion(q), Revolute(AXIS).inclusion(q), **close)
    np.testing.assert_allclose(Prismatic(3.0 * AXIS).inclusion(q), Prismatic(AXIS).inclusion(q), **close)


def test_screw_travels_along_its_axis():
    unit = AXIS / jnp.linalg.norm(AXIS)
    T = Screw(AXIS, 0.25).inclusion(jnp.array([4 * np.pi]))
    np.testing.assert_allclose(T, pose(jnp.eye(3), unit * np.pi), **close)
    rate = jax.grad(lambda pitch: translation(Screw(AXIS, pitch).inclusion(jnp.array([2.0]))) @ unit)(0.25)
    np.testing.assert_allclose(rate, 2.0, rtol=1e-14)


def test_angles_count_turns():
    turn = jnp.array([2 * np.pi])
    np.testing.assert_allclose(Revolute(AXIS).inclusion(turn), SE3.identity(), **close)


def test_universal_tangent():
    """Columns `Ad_{rot(axis2, -q2)} axis` and `axis2`: it depends on `q2`."""
    motion = Universal(AXIS, AXIS2)
    q = jnp.array([0.7, -1.2])
    second = rotation(Revolute(AXIS2).inclusion(q[1:]))
    expected = jnp.stack([second.T @ AXIS / jnp.linalg.norm(AXIS), AXIS2 / jnp.linalg.norm(AXIS2)], axis=1)
    np.testing.assert_allclose(tangent(motion, q)[:3], expected, **close)
    np.testing.assert_allclose(tangent(motion, q)[3:], 0, **close)


@pytest.mark.parametrize(
    ("axis", "x_axis"),
    [
        ([0, 0, 1], [1, 0, 0]),
        ([0, 0, -1], [1, 0, 0]),
        ([1.2e-16, 0, -1], [1, 0, 0]),
        ([1, 0, 0], [0, 0, -1]),
        ([0, 1, 0], [1, 0, 0]),
        ([1e-3, 0, -1], None),
        ([0.6, 0, -0.8], None),
    ],
)
def test_planar_axes(axis, x_axis, over):
    """The in-plane axes come from the smallest rotation that takes z to the normal."""
    motion = Planar(jnp.asarray(axis, jnp.float64))
    normal = np.asarray(axis) / np.linalg.norm(axis)
    x, y = np.asarray(over(lambda e: translation(motion.inclusion(e)), jnp.eye(3)[:2]))
    np.testing.assert_allclose(np.cross(x, y), normal, rtol=0, atol=1e-13)
    np.testing.assert_allclose([x @ x, y @ y, x @ y], [1, 1, 0], rtol=0, atol=1e-13)
    if x_axis is not None:
        np.testing.assert_allclose(x, x_axis, rtol=0, atol=1e-15)
    else:
        # The smallest rotation leaves the direction z x normal alone.
        fixed = np.cross([0, 0, 1], normal)
        R = np.stack([x, y, normal], axis=1)
        np.testing.assert_allclose(R @ fixed, fixed, rtol=0, atol=1e-13)
    derivative = jax.jit(jax.jacrev(lambda m: m.inclusion(jnp.array([0.3, 0.2, 0.1]))))(motion)
    assert np.all(np.isfinite(derivative.axis))


def test_float32_stays_float32():
    for motion in MOTIONS:
        narrow = jax.tree.map(lambda a: a.astype(jnp.float32), motion)
        q = motion.group.identity(jnp.float32)
        shapes = jax.eval_shape(lambda m, x: (m.inclusion(x), tangent(m, x)), narrow, q)
        assert {s.dtype for s in shapes} == {np.dtype(np.float32)}


def test_motions_batch_over_parameters():
    angles = jnp.linspace(0, 1, 4)
    axes = jnp.eye(3)[jnp.array([0, 1, 2, 0])]
    batch = jax.vmap(lambda a, t: Revolute(a).inclusion(t[None]))(axes, angles)
    for a, t, T in zip(axes, angles, batch, strict=True):
        np.testing.assert_allclose(Revolute(a).inclusion(t[None]), T, **close)


def test_a_motion_of_ones_own(draw, over):
    """A crank that rotates and shakes: only group, inclusion and names are stated."""

    class Crank(AbstractJointMotion):
        radius: jax.Array

        name = "crank"
        group = Rn(1)
        coordinate_names, coordinate_units = ("angle",), ("rad",)
        velocity_names, velocity_units = ("rate",), ("rad/s",)

        def inclusion(self, q):
            turn = Revolute(jnp.array([0.0, 0.0, 1.0])).inclusion(q)
            return pose(rotation(turn), self.radius * jnp.stack([jnp.sin(q[0]), 0 * q[0], 0 * q[0]]))

    q = jnp.array([0.9])
    column = tangent(Crank(jnp.asarray(0.2)), q)[:, 0]
    c, s = np.cos(0.9), np.sin(0.9)
    np.testing.assert_allclose(column, [0, 0, 1, 0.2 * c * c, -0.2 * c * s, 0], **close)


@pytest.mark.parametrize("motion", MOTIONS, **by_name)
def test_inclusions_hold_no_products_of_matrices(motion):
    """Joints that close loops are placed at every step, and a run with such a product in it is not one kernel."""
    q = motion.group.identity(jnp.float64)
    assert "dot_general" not in str(jax.make_jaxpr(lambda m, q: jax.vmap(m.inclusion)(q))(motion, q[None]))


@pytest.mark.parametrize("axis", [[0, 0, 0], [1, 0], 3.0])
def test_bad_axes_are_refused(axis):
    for cls in (Revolute, Prismatic, Cylindrical, Planar):
        with pytest.raises(ModelError, match=f"{cls.name}/axis"):
            cls(axis)
    with pytest.raises(ModelError, match="universal/axis2"):
        Universal([1, 0, 0], axis)
    with pytest.raises(ModelError, match="screw/pitch"):
        Screw([1, 0, 0], [0.1, 0.2])


def test_angles_about_three_axes_lock_at_a_right_angle():
    """The squared cosine of the second angle; two turns never lock, nor do travels."""
    euler = Composite(jnp.eye(3)[::-1], jnp.zeros((3, 3)), (True, True, True))
    assert euler.can_lock
    for second in (0.0, 0.7, -2.0, np.pi / 2):
        found = independence(euler, jnp.array([0.4, second, -0.3]))
        np.testing.assert_allclose(found, np.cos(second) ** 2, **close)
    for turning in ((True, True), (True, False, True), (False, False, True)):
        count = len(turning)
        assert not Composite(jnp.eye(3)[:count], jnp.zeros((count, 3)), turning).can_lock
