"""Laws of the reversible components and of loads on random states: power conservation and kinematics."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from library.random_states import (
    AXIS,
    AXIS2,
    GROUPS,
    KEYS,
    assert_close,
    by_group,
    by_name,
    element,
    normal,
    other,
    sampled,
    states,
)

from jmbs.ephs import ConstantFlow, Quantity, Role, role
from jmbs.library.mechanics.body import LiePoisson, PotentialKineticCoupling, momentum_quantity
from jmbs.library.mechanics.elements import LineOfAction, PointLoad, UserForce
from jmbs.library.mechanics.joint import (
    Ground,
    HolonomicConstraint,
    Offset,
    relative_momentum,
)
from jmbs.lie import SE3, SO3, Screw, SO3xR3, Universal

REVERSIBLE = {
    **{f"coupling {g.name}": PotentialKineticCoupling(Quantity(g, "pose"), momentum_quantity(g)) for g in GROUPS},
    "coupling SO3": PotentialKineticCoupling(Quantity(SO3, "relative_pose"), relative_momentum(SO3), ("q_r", "p_r")),
    **{f"Lie-Poisson {g.name}": LiePoisson(g) for g in GROUPS},
    **{f"constraint {m.name}": HolonomicConstraint(m) for m in (Screw(AXIS, 0.3), Universal(AXIS, AXIS2))},
}


@pytest.mark.parametrize("name", REVERSIBLE)
def test_a_dirac_structure_conserves_power(name):
    component = REVERSIBLE[name]
    assert role(component) is Role.REVERSIBLE
    n = sum(p.dim for p in component.ports.values() if p.power)

    def sample(key):
        J, C = component.structure(states(component, key))
        e, multipliers = normal(key, n), jnp.zeros(0)
        if C is not None:
            e = e - jnp.linalg.pinv(C) @ (C @ e)
            multipliers = normal(key, C.shape[0])
        J = jnp.zeros((n, n)) if J is None else J
        C = jnp.zeros((0, n)) if C is None else C
        flow = J @ e + C.T @ multipliers
        return J + J.T, e @ flow, C @ e, jnp.linalg.norm(flow)

    symmetric, power, violation, size = sampled(sample)
    assert_close(symmetric, 0.0, 1e-15)
    assert_close(violation, 0.0)
    assert_close(power, 0.0)
    assert np.all(size > 0)


def test_the_coupling_hands_efforts_across():
    component = PotentialKineticCoupling(Quantity(SE3, "pose"), momentum_quantity(SE3))
    J, _ = component.structure(states(component, KEYS[0]))
    e_q, e_p = normal(KEYS[1], 6), normal(KEYS[2], 6)
    assert_close(J @ jnp.concatenate([e_q, e_p]), jnp.concatenate([-e_p, e_q]))


@by_group
def test_lie_poisson_is_the_coadjoint_action(group):
    def sample(key):
        a, b = (other(key, i) for i in range(2))
        u, p = normal(a, 6), normal(b, 6)
        J, _ = LiePoisson(group).structure({"p": p})
        w_p, v_p, w, v = p[:3], p[3:], u[:3], u[3:]
        if group == SE3:
            wanted = jnp.concatenate([jnp.cross(w_p, w) + jnp.cross(v_p, v), jnp.cross(v_p, w)])
        else:
            wanted = jnp.concatenate([jnp.cross(w_p, w), jnp.zeros(3)])
        return J @ u + wanted, J @ u + group.ad_dual(u, p)

    for difference in sampled(sample):
        assert_close(difference, 0.0)


@by_name
def test_the_constraint_is_the_rate_of_the_joint_kinematics(motion):
    """Frames that move as `q_2 = q_1 I(q_r)` meet the rows, whatever the velocities of frame 1 and of the joint."""
    group, component = motion.group, HolonomicConstraint(motion)

    def sample(key):
        k1, k2, k3, k4 = (other(key, i) for i in range(4))
        q1, q_r, u1, u_r = element(k1, SE3), element(k2, group), normal(k3, 6), normal(k4, group.dim)
        moved = lambda q1, q_r: SE3.compose(q1, motion.inclusion(q_r))  # noqa: E731
        q2, rate = jax.jvp(moved, (q1, q_r), (SE3.lift(q1, u1), group.lift(q_r, u_r)))
        _, C = component.structure({"q_r": q_r})
        return C @ jnp.concatenate([u_r, u1, SE3.lower(q2, rate)])

    assert_close(sampled(sample), 0.0)


@by_group
def test_an_offset_gives_the_twist_of_the_joint_frame(group):
    quaternion = jnp.array([0.5, -0.5, 0.1, 0.7]) / jnp.sqrt(1.0)
    offset = Offset(jnp.array([0.3, -0.2, 0.5]), quaternion, group)
    assert role(offset) is Role.TRANSFORMER

    def sample(key):
        q, u = element(key, group), normal(other(key, 1), 6)
        # The joint frame's pose is composed in SE(3), whatever the group of the body.
        frame = lambda q: SE3.compose(q, offset.frame)  # noqa: E731
        joint_frame, rate = jax.jvp(frame, (q,), (group.lift(q, u),))
        return offset.ratio({"q": q}) @ u - SE3.lower(joint_frame, rate)

    assert_close(sampled(sample), 0.0)


def test_offset_needs_the_pose_only_where_it_converts():
    assert [set(Offset(jnp.zeros(3), jnp.array([1.0, 0, 0, 0]), g).ports) for g in GROUPS] == [
        {"p", "pj"},
        {"p", "pj", "q"},
    ]


def test_ground_does_not_move():
    assert_close(Ground().ratio({}) @ jnp.zeros(0), np.zeros(6))


ENDS = [(SE3, SO3xR3), (SO3xR3, None), (None, SE3)]


@pytest.mark.parametrize("groups", ENDS, ids=lambda ends: "-".join("ground" if g is None else g.name for g in ends))
def test_the_line_of_action_against_finite_differences(groups):
    line = LineOfAction(jnp.array([0.3, 0.1, -0.2]), jnp.array([2.0, 1.5, 0.4]), groups)
    ends = [(f"q_{end}", group) for end, group in zip("ab", groups, strict=True) if group is not None]
    n = 6 * len(ends)
    assert role(line) is Role.TRANSFORMER
    assert [name for name, port in line.ports.items() if port.power] == [f"p_{q[-1]}" for q, _ in ends] + ["p_l"]

    def sample(key):
        x = {q: element(other(key, i), group) for i, (q, group) in enumerate(ends)}

        def length(step):
            parts = jnp.split(step, len(ends))
            moved = {q: g.compose(x[q], g.exp(s)) for (q, g), s in zip(ends, parts, strict=True)}
            return line.length(moved)

        h = 1e-5
        differences = jax.vmap(lambda step: (length(h * step) - length(-h * step)) / (2 * h))(jnp.eye(n))
        return line.ratio(x)[0] - differences

    assert_close(sampled(sample), 0.0, 1e-9)


def test_a_line_between_points_given_in_the_world():
    line = LineOfAction(jnp.array([1.0, 2.0, 3.0]), jnp.array([0.0, 0.0, 0.5]), (None, SE3))
    q = element(KEYS[0], SE3)
    point = q[:, :3] @ line.point_b + q[:, 3]
    assert_close(line.length({"q_b": q}), np.linalg.norm(point - line.point_a))


# -- loads ------------------------------------------------------------------------------------------------------------


class View:
    """What a drive sees of a single body `b`."""

    def __init__(self, q, u):
        self.q, self.u = q, u

    def state(self, path, port):
        assert (path, port) == ("b/pe", "q")
        return self.q

    def effort(self, path, port):
        assert (path, port) == ("b/ke", "p")
        return self.u


def motion_of_a_point(group, q, u, point):
    """World velocity of a body point and world angular velocity, from the motion of the pose itself."""
    place = lambda q: q[:, :3] @ point + q[:, 3]  # noqa: E731
    _, velocity = jax.jvp(place, (q,), (group.lift(q, u),))
    return velocity, q[:, :3] @ u[:3]


@by_group
@pytest.mark.parametrize("frame", ["world", "body"])
def test_the_power_of_a_load_is_force_times_velocity_of_its_point(group, frame):
    point, force, torque = (jnp.array(v) for v in ([0.2, -0.5, 0.3], [1.0, 2.0, -3.0], [0.4, -0.6, 0.5]))
    load = PointLoad(point, ConstantFlow(force), ConstantFlow(torque), "b", frame, group)

    def sample(key):
        q, u = element(key, group), normal(other(key, 1), 6)
        velocity, angular = motion_of_a_point(group, q, u, point)
        axes = q[:, :3] if frame == "body" else jnp.eye(3)
        return load.flow(0.0, View(q, u)) @ u, (axes @ force) @ velocity + (axes @ torque) @ angular

    assert_close(*sampled(sample))


@by_group
def test_the_power_of_a_users_force(group):
    """The wrench is given in body axes about the centre of mass and sees the twist in body axes, on either group."""

    def wrench(t, q, twist):
        return t * jnp.arange(1.0, 7.0) + q[0, 3] * twist

    drive = UserForce(wrench, "b", group)

    def sample(key):
        q, u = element(key, group), normal(other(key, 1), 6)
        velocity, angular = motion_of_a_point(group, q, u, jnp.zeros(3))
        twist = jnp.concatenate([q[:, :3].T @ angular, q[:, :3].T @ velocity])
        return drive.flow(0.5, View(q, u)) @ u, wrench(0.5, q, twist) @ twist

    assert_close(*sampled(sample))
