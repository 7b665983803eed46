"""Laws of distributed forces: resultants, centres of force, inertial forces, and fields as forces on bodies."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quick import quick_jit

import jmbs
from jmbs.errors import ModelError
from jmbs.library.mechanics.distributed_force import (
    ForceDistribution,
    central_wrench,
    centre_of_force,
    field_forces,
    field_on,
    gravitational_forces,
    inertial_forces,
    resultant_force,
    resultant_torque,
)
from jmbs.library.mechanics.mass_distribution import density_over, point_masses
from jmbs.lie import SE3

RANDOM = np.random.default_rng(2)
GRAVITY = np.array([0.4, -0.6, -9.0])
BODY = density_over({"capsule": [0.2, 0.5]}, lambda x: 3.0 + x[0] + 2 * x[2], degree=1).placed([0.3, 0.0, -0.1])
ROD = point_masses(np.outer([-0.5, 0.1, 0.7], [1.0, 2.0, -2.0]) / 3, [1.0, 0.4, 0.7])
POSE = SE3.exp(jnp.asarray(RANDOM.normal(size=6)))
TWIST, TWIST_RATE = jnp.asarray(RANDOM.normal(size=(2, 6)))


def random_forces(n: int = 5) -> ForceDistribution:
    return ForceDistribution(jnp.asarray(RANDOM.normal(size=(n, 3))), jnp.asarray(RANDOM.normal(size=(n, 3))))


def test_torque_moves_with_its_point():
    """`tau(x1) = tau(x0) + (x0 - x1) x f`, and all resultants are linear."""
    one, other = random_forces(), random_forces(3)
    x0, x1 = jnp.asarray(RANDOM.normal(size=(2, 3)))
    expected = resultant_torque(one, x0) + jnp.cross(x0 - x1, resultant_force(one))
    np.testing.assert_allclose(resultant_torque(one, x1), expected, rtol=1e-12)
    both = central_wrench(one, x0) + central_wrench(other, x0)
    np.testing.assert_allclose(central_wrench(one + other, x0), both, rtol=1e-12)


# -- centres of force -------------------------------------------------------------------------------------------------


def test_parallel_forces_have_a_line_of_centres():
    f = jnp.array([1.0, -2.0, 0.5])
    forces = ForceDistribution(random_forces().points, jnp.asarray(RANDOM.uniform(0.5, 2, 5))[:, None] * f)
    found = centre_of_force(forces)
    assert found.kind == "line"
    np.testing.assert_allclose(found.direction, f / jnp.linalg.norm(f), rtol=1e-12)
    for a in (-3.0, 0.0, 2.0):
        np.testing.assert_allclose(resultant_torque(forces, found.point + a * found.direction), 0, atol=1e-12)
    beside = found.point + np.cross(found.direction, [0.0, 0.0, 1.0])
    assert np.linalg.norm(resultant_torque(forces, beside)) > 0.1


def test_a_point_force_acts_along_its_line():
    forces = ForceDistribution(jnp.array([[1.0, 2.0, 3.0]]), jnp.array([[0.0, 0.0, -4.0]]))
    found = centre_of_force(forces)
    assert found.kind == "line"
    np.testing.assert_allclose(found.point, [1, 2, 3])


def test_a_couple_has_no_centre_and_no_point():
    forces = ForceDistribution(jnp.array([[1.0, 0, 0], [-1.0, 0, 0]]), jnp.array([[0, 2.0, 0], [0, -2.0, 0]]))
    found = centre_of_force(forces)
    assert found.kind == "couple"
    np.testing.assert_allclose(found.torque, [0, 0, 4])
    for point in RANDOM.normal(size=(3, 3)):
        np.testing.assert_allclose(resultant_torque(forces, point), found.torque, atol=1e-14)


def test_in_equilibrium_every_point_is_a_centre():
    """Three forces at the corners of a triangle that all point to its centroid."""
    points = jnp.asarray(RANDOM.normal(size=(3, 3)))
    forces = ForceDistribution(points, jnp.mean(points, axis=0) - points)
    assert centre_of_force(forces).kind == "everywhere"
    assert centre_of_force(ForceDistribution(points, jnp.zeros((3, 3)))).kind == "everywhere"
    for point in RANDOM.normal(size=(3, 3)):
        np.testing.assert_allclose(resultant_torque(forces, point), 0, atol=1e-14)


def test_forces_in_space_can_be_a_wrench():
    """Two skew forces: a resultant that is not zero and yet no centre, against the wording of 004, theorem 6.6."""
    forces = ForceDistribution(jnp.array([[0, 0, 0.0], [0, 0, 1.0]]), jnp.array([[1.0, 0, 0], [0, 1.0, 0]]))
    found = centre_of_force(forces)
    assert found.kind == "wrench"
    np.testing.assert_allclose(found.point, [0, 0, 0.5], atol=1e-15)
    np.testing.assert_allclose(found.torque, [-0.5, -0.5, 0], atol=1e-15)
    np.testing.assert_allclose(resultant_torque(forces, found.point), found.torque, atol=1e-15)
    # The part along the force is the same about all points, so none is a centre and that line's torques are least.
    for point in RANDOM.normal(size=(5, 3)):
        torque = np.asarray(resultant_torque(forces, point))
        np.testing.assert_allclose(torque @ found.direction, found.torque @ found.direction, rtol=1e-12)
        assert np.linalg.norm(torque) > np.linalg.norm(found.torque)


# -- gravity and inertia ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [BODY, ROD], ids=["body", "rod"])
def test_the_centre_of_mass_is_a_centre_of_gravity(body):
    """004, examples 6.8: the weight acts on the vertical through the centre of mass."""
    forces = gravitational_forces(body, POSE, jnp.asarray(GRAVITY))
    wrench = central_wrench(forces, POSE[:, 3])
    np.testing.assert_allclose(wrench, [0, 0, 0, *(body.mass * GRAVITY)], atol=1e-12)
    found = centre_of_force(forces)
    assert found.kind == "line"
    np.testing.assert_allclose(np.cross(found.point - POSE[:, 3], GRAVITY), 0, atol=1e-12)


@pytest.mark.parametrize("body", [BODY, ROD], ids=["body", "rod"])
def test_inertial_forces_are_rates_of_momenta(body):
    """Resultant `m dv/dt` and `d/dt (R J R^T omega)` (004, lemma 7.1), by differentiating a motion of the body."""
    J = jnp.asarray(body.inertia)

    def motion(t):
        """A pose whose twist at zero is TWIST with the rate TWIST_RATE: `dexp` differs from one at order t^2 only."""
        return SE3.compose(POSE, SE3.exp(t * TWIST + t**2 / 2 * TWIST_RATE))

    def momenta(t):
        pose, rate = jax.jvp(motion, (t,), (1.0,))
        omega = SE3.lower(pose, rate)[:3]
        return jnp.concatenate([pose[:, :3] @ J @ omega, body.mass * rate[:, 3]])

    found = quick_jit(lambda: central_wrench(inertial_forces(body, POSE, TWIST, TWIST_RATE), POSE[:, 3]))()
    rates = quick_jit(lambda: jax.jvp(momenta, (0.0,), (1.0,))[1])()
    np.testing.assert_allclose(found, rates, rtol=1e-11, atol=1e-12)


def test_inertial_forces_of_a_turning_body_have_a_torque_about_its_centre():
    """So that the centre of mass is a centre of force only where `d/dt (R J R^T omega)` vanishes."""
    forces = inertial_forces(BODY, POSE, TWIST, TWIST_RATE)
    assert np.linalg.norm(resultant_torque(forces, POSE[:, 3])) > 1e-2
    still = inertial_forces(BODY, POSE, jnp.zeros(6), TWIST_RATE.at[:3].set(0))
    np.testing.assert_allclose(resultant_torque(still, POSE[:, 3]), 0, atol=1e-14)


def test_forces_on_degenerate_bodies_do_no_work_on_inertialess_motions():
    """Central torques of a rod are across its axis, a particle has none (004, lemma 6.10)."""
    forces = random_forces(3).forces
    spread = field_forces(ROD, lambda t, x, v: jnp.sin(3 * x) + v, 0.0, POSE, TWIST, per="point")
    for distribution in (spread, ForceDistribution(spread.points, forces)):
        torque = resultant_torque(distribution, POSE[:, 3])
        assert np.linalg.norm(torque) > 1e-2
        np.testing.assert_allclose(torque @ (POSE[:, :3] @ ROD.axis), 0, atol=1e-14)
    particle = ForceDistribution(jnp.tile(POSE[:, 3], (3, 1)), forces)
    np.testing.assert_array_equal(resultant_torque(particle, POSE[:, 3]), 0)


# -- fields as forces on bodies ---------------------------------------------------------------------------------------


def in_body_axes(R, wrench):
    return jnp.concatenate([R.T @ wrench[:3], R.T @ wrench[3:]])


def test_uniform_gravity_as_a_field_is_the_built_in_gravity():
    """One road is the mechanism's gravity, the other a field on the points of the same body."""

    def mechanism(gravity, field):
        m = jmbs.Mechanism("falling", gravity=gravity)
        m.add_body("b", mass=BODY.mass, inertia=BODY.inertia)
        m.add_force("field", "b", wrench=field_on(BODY, lambda t, x, v: jnp.asarray(field)))
        m.set_initial(bodies={"b": {"quaternion": [0.8, 0.0, 0.6, 0.0], "angular_velocity": [0.5, 1.0, -2.0]}})
        return m

    built_in, as_field = (jmbs.compile(mechanism(*pair)) for pair in ((GRAVITY, np.zeros(3)), (np.zeros(3), GRAVITY)))
    state = built_in.initial_state()
    rates = quick_jit(lambda model, state: model.dynamics(0.0, state))
    one, other = rates(built_in, state), rates(as_field, state)
    np.testing.assert_allclose(one.velocity, other.velocity, rtol=1e-11, atol=1e-11)


def test_linear_drag_on_two_points():
    """`F = -c sum v_k`, and the torque about the middle of a dumbbell is `-c sum x_k x v_k`."""
    c, half = 0.7, np.array([0.3, 0.0, 0.1])
    dumbbell = point_masses([half, -half], [2.0, 2.0])
    wrench = field_on(dumbbell, lambda t, x, v: -c * v, per="point")(0.0, POSE, TWIST)
    omega, velocity = TWIST[:3], TWIST[3:]
    torque = -2 * c * jnp.cross(half, jnp.cross(omega, half))
    np.testing.assert_allclose(wrench, jnp.concatenate([torque, -2 * c * velocity]), rtol=1e-12)


def test_a_field_per_mass_weighs_its_points_and_sees_time_and_place():
    field = lambda t, x, v: t * x + jnp.cross(v, jnp.array([0.0, 0.0, 1.0]))  # noqa: E731
    wrench = quick_jit(field_on(BODY, field))(2.0, POSE, TWIST)
    R, r = POSE[:, :3], POSE[:, 3]
    expected = jnp.zeros(6)
    for mass, X in zip(BODY.masses, BODY.body_points, strict=True):
        force = mass * field(2.0, R @ X + r, R @ (jnp.cross(TWIST[:3], X) + TWIST[3:]))
        expected = expected + jnp.concatenate([jnp.cross(R @ X, force), force])
    np.testing.assert_allclose(wrench, in_body_axes(R, expected), rtol=1e-11, atol=1e-12)


def test_wrenches_keep_the_precision_of_the_pose_and_have_gradients():
    wrench = field_on(BODY, lambda t, x, v: -v * jnp.linalg.norm(v))
    single = jax.eval_shape(wrench, 0.0, POSE.astype(jnp.float32), TWIST.astype(jnp.float32))
    assert single.dtype == jnp.float32
    assert np.all(np.isfinite(quick_jit(jax.jacobian(lambda u: wrench(0.0, POSE, u)))(TWIST)))


def test_field_on_refuses():
    with pytest.raises(ModelError, match="per: found .?volume"):
        field_on(BODY, lambda t, x, v: v, per="volume")
    with pytest.raises(ModelError, match="wanted a function"):
        field_on(BODY, GRAVITY)
