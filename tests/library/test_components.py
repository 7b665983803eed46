"""Laws of every component of the library on random states: power conservation, second law, and closed forms."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jmbs.ephs import ConstantFlow, Efforts, Quantity, Role, role
from jmbs.library.mechanics.body import Gravity, KineticEnergy, LiePoisson, PotentialKineticCoupling, momentum_quantity
from jmbs.library.mechanics.elements import LineOfAction, LineSpring, PointLoad, ThermalStore, UserForce
from jmbs.library.mechanics.friction import Friction, viscous_friction
from jmbs.library.mechanics.joint import (
    Ground,
    HolonomicConstraint,
    JointPotential,
    NoPotential,
    Offset,
    relative_momentum,
)
from jmbs.library.oscillator import Mass, Spring
from jmbs.lie import (
    SE2,
    SE3,
    SO3,
    Cylindrical,
    Fixed,
    Free,
    Planar,
    Prismatic,
    Revolute,
    Rn,
    Screw,
    SO3xR3,
    Spherical,
    Universal,
)

THETA0 = 290.0
KEYS = jax.random.split(jax.random.key(7), 8)
GROUPS = [SE3, SO3xR3]
INERTIA = jnp.array([[0.4, 0.03, -0.02], [0.03, 0.5, 0.01], [-0.02, 0.01, 0.3]])
AXIS, AXIS2 = jnp.array([0.3, -0.4, 1.2]), jnp.array([1.0, 0.5, 0.1])
MOTIONS = [
    Fixed(),
    Revolute(AXIS),
    Prismatic(AXIS),
    Screw(AXIS, 0.3),
    Cylindrical(AXIS),
    Planar(AXIS),
    Spherical(),
    Universal(AXIS, AXIS2),
    Free(),
]

by_name = pytest.mark.parametrize("motion", MOTIONS, ids=lambda motion: motion.name)
by_group = pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)


def normal(key, *shape):
    return jax.random.normal(key, shape)


def element(key, space):
    return space.exp(0.7 * normal(key, space.dim))


def states(component, key):
    """A random state at every port."""
    keys = jax.random.split(key, max(len(component.ports), 1))
    return {n: element(k, p.quantity.space) for k, (n, p) in zip(keys, component.ports.items(), strict=False)}


def sampled(function):
    """`function(key)` on all samples, compiled once."""
    return jax.jit(jax.vmap(function))(KEYS)


def gradient(component, x):
    """Efforts of a storage, left-trivialised."""

    def energy(steps):
        return component.energy({n: x[n] + component.ports[n].quantity.space.lift(x[n], s) for n, s in steps.items()})

    return jax.grad(energy)({n: jnp.zeros(p.dim) for n, p in component.ports.items()})


def assert_close(found, wanted, tolerance=1e-11):
    scale = 1.0 + float(np.max(np.abs(wanted), initial=0.0))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance * scale)


# -- reversible components --------------------------------------------------------------------------------------------

REVERSIBLE = {
    **{f"coupling {g.name}": PotentialKineticCoupling(Quantity(g, "pose"), momentum_quantity(g)) for g in GROUPS},
    "coupling SO3": PotentialKineticCoupling(Quantity(SO3, "relative_pose"), relative_momentum(SO3), ("q_r", "p_r")),
    **{f"Lie-Poisson {g.name}": LiePoisson(g) for g in GROUPS},
    **{f"constraint {m.name}": HolonomicConstraint(m) for m in MOTIONS},
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
        a, b = jax.random.split(key)
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
    """Frames that move as `q_2 = q_1 I(q_r)` meet the rows, whatever the velocities of the first frame and the joint."""
    group, component = motion.group, HolonomicConstraint(motion)

    def sample(key):
        k1, k2, k3, k4 = jax.random.split(key, 4)
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
        q, u = element(key, group), normal(jax.random.fold_in(key, 1), 6)
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


ENDS = [(a, b) for a in (SE3, SO3xR3, None) for b in (SE3, SO3xR3, None) if (a, b) != (None, None)]


@pytest.mark.parametrize("groups", ENDS, ids=lambda ends: "-".join("ground" if g is None else g.name for g in ends))
def test_the_line_of_action_against_finite_differences(groups):
    line = LineOfAction(jnp.array([0.3, 0.1, -0.2]), jnp.array([2.0, 1.5, 0.4]), groups)
    ends = [(f"q_{end}", group) for end, group in zip("ab", groups, strict=True) if group is not None]
    n = 6 * len(ends)
    assert role(line) is Role.TRANSFORMER
    assert [name for name, port in line.ports.items() if port.power] == [f"p_{q[-1]}" for q, _ in ends] + ["p_l"]

    def sample(key):
        x = {q: element(jax.random.fold_in(key, i), group) for i, (q, group) in enumerate(ends)}

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


# -- irreversible components ------------------------------------------------------------------------------------------

PARTS = {"coulomb": 2.0, "static": 3.5, "stribeck_velocity": 0.4, "regularisation_velocity": 0.05}


def friction(viscous, groups, space):
    dry = {name: jnp.full(len(groups), value) for name, value in PARTS.items()}
    return Friction(jnp.asarray(viscous), **dry, momentum=Quantity(space, "momentum"), groups=groups)


MATRIX = jnp.array([[0.5, 0.1, 0.0], [0.1, 0.4, -0.2], [0.0, -0.2, 0.3]])
IRREVERSIBLE = {
    "one": friction([0.7], ((0,),), Rn(1)),
    "two apart": friction([0.7, 0.0], ((0,), (1,)), Rn(2)),
    "three together": friction([0.7, 0.2, 0.1], ((0, 1, 2),), Rn(3)),
    "matrix": friction(MATRIX, ((0, 1), (2,)), Rn(3)),
    "viscous": viscous_friction([0.7, 0.2], Quantity(Rn(2), "momentum")),
    "viscous matrix": viscous_friction(MATRIX, Quantity(Rn(3), "momentum")),
    "none": viscous_friction([0.0], Quantity(Rn(1), "momentum")),
}


def force(component, u, theta):
    """Flows `(mu, heat port)` at a velocity and an absolute temperature."""
    e = Efforts({"p_r": u, "s": jnp.reshape(theta - THETA0, (1,))}, jnp.asarray(THETA0))
    M = component.onsager({}, e)
    flows = M @ jnp.concatenate([u, e["s"]]) / THETA0
    return flows[:-1], flows[-1], M


@pytest.mark.parametrize("name", IRREVERSIBLE)
def test_an_onsager_structure_obeys_both_laws(name):
    component = IRREVERSIBLE[name]
    assert role(component) is Role.IRREVERSIBLE
    k = component.momentum.space.dim

    def sample(key):
        u, theta = 0.5 * normal(key, k), THETA0 + 80.0 * jax.random.uniform(key) - 20.0
        mu, heat_flow, M = force(component, u, theta)
        conserved = M @ jnp.concatenate([u, theta[None]])
        return M - M.T, jnp.linalg.eigvalsh(M), conserved, mu @ u + theta * heat_flow, -heat_flow, mu @ u / theta

    asymmetry, eigenvalues, conserved, power, entropy, wanted = sampled(sample)
    assert_close(asymmetry, 0.0, 1e-13)
    assert np.all(eigenvalues >= -1e-12 * (1 + eigenvalues.max()))
    assert_close(conserved, 0.0, 1e-10)
    assert_close(power, 0.0)
    assert_close(entropy, wanted)
    assert np.all(entropy >= 0)


def config_formula(u, viscous, coulomb, static, stribeck_velocity, regularisation_velocity):
    level = coulomb + (static - coulomb) * np.exp(-((u / stribeck_velocity) ** 2))
    return viscous * u + np.tanh(u / regularisation_velocity) * level


def test_friction_is_the_formula_of_the_config():
    u = jnp.concatenate([jnp.array([0.0]), *(s * jnp.logspace(-9, 2, 60) for s in (1, -1))])
    component = IRREVERSIBLE["one"]
    mu = jax.jit(jax.vmap(lambda u: force(component, u[None], jnp.asarray(300.0))[0][0]))(u)
    np.testing.assert_allclose(mu, config_formula(np.asarray(u), 0.7, **PARTS), rtol=1e-13, atol=0)


def test_dry_friction_of_a_group_opposes_its_velocity():
    component = IRREVERSIBLE["three together"]

    def sample(key):
        u = 0.3 * normal(key, 3)
        return u, force(component, u, jnp.asarray(300.0))[0]

    u, mu = sampled(sample)
    size = np.linalg.norm(u, axis=1, keepdims=True)
    wanted = config_formula(size, 0.0, **PARTS) * u / size + np.array([0.7, 0.2, 0.1]) * u
    np.testing.assert_allclose(mu, wanted, rtol=1e-12)


@pytest.mark.parametrize("name", IRREVERSIBLE)
def test_friction_at_rest_has_finite_derivatives(name):
    component = IRREVERSIBLE[name]
    k = component.momentum.space.dim
    mu = lambda u: force(component, u, jnp.asarray(300.0))[0]  # noqa: E731
    zero = jnp.zeros(k)
    slope, curvature = jax.jit(lambda u: (jax.jacrev(mu)(u), jax.jacfwd(jax.jacrev(mu))(u)))(zero)
    assert_close(mu(zero), np.zeros(k))
    # An odd function: symmetric slope, no curvature.
    assert_close(slope, slope.T)
    assert_close(curvature, np.zeros((k, k, k)))
    dry = PARTS["static"] / PARTS["regularisation_velocity"] if isinstance(component, Friction) else 0.0
    viscous = component.viscous if component.viscous.ndim == 2 else jnp.diag(component.viscous)
    assert_close(slope, viscous + dry * jnp.eye(k))


# -- storages ---------------------------------------------------------------------------------------------------------


@by_group
def test_kinetic_energy_gives_the_velocity(group):
    component = KineticEnergy(jnp.asarray(2.5), INERTIA, group)
    assert role(component) is Role.STORAGE

    def sample(key):
        p = normal(key, 6)
        u = gradient(component, {"p": p})["p"]
        wanted = jnp.concatenate([jnp.linalg.solve(INERTIA, p[:3]), p[3:] / 2.5])
        back = component.state_from_effort({"p": u})["p"]
        return u - wanted, back - p, component.energy({"p": p}) - 0.5 * u @ p

    for difference in sampled(sample):
        assert_close(difference, 0.0)


@by_group
def test_gravity_pulls_with_the_weight(group):
    g = jnp.array([0.5, -1.0, -9.0])
    component = Gravity(jnp.asarray(2.5), g, group)

    def sample(key):
        q = element(key, group)
        weight = q[:, :3].T @ g if group == SE3 else g
        energy = component.energy({"q": q})
        return gradient(component, {"q": q})["q"] + 2.5 * jnp.concatenate([jnp.zeros(3), weight]), energy + 2.5 * g @ q[
            :, 3
        ]

    for difference in sampled(sample):
        assert_close(difference, 0.0)


@pytest.mark.parametrize("k", [1, 2])
def test_a_joint_spring_on_coordinates_is_linear(k):
    stiffness, rest = jnp.array([3.0, 5.0][:k]), jnp.array([0.4, -1.0][:k])
    component = JointPotential(stiffness, rest, Rn(k))

    def sample(key):
        q = normal(key, k)
        return gradient(component, {"q_r": q})["q_r"] - stiffness * (q - rest)

    assert_close(sampled(sample), 0.0)


def test_an_isotropic_spherical_spring_turns_back_along_the_rotation_vector():
    rest = element(KEYS[0], SO3)
    component = JointPotential(4.0 * jnp.eye(3), SO3.to_coordinates(rest), SO3)

    def sample(key):
        d = normal(key, 3)
        q = SO3.compose(rest, SO3.exp(d))
        return gradient(component, {"q_r": q})["q_r"] - 4.0 * d, component.energy({"q_r": q}) - 2.0 * d @ d

    for difference in sampled(sample):
        assert_close(difference, 0.0)


@pytest.mark.parametrize("group", [SE2, SO3, SE3], ids=lambda group: group.name)
def test_a_joint_spring_on_a_group_is_the_dual_of_the_logarithm(group):
    """`<e | u> = <K d | dexp^-1 u>` with `d = log(rest^-1 q)`: against finite differences of the logarithm."""
    half = normal(KEYS[0], group.dim, group.dim)
    stiffness, rest = half @ half.T, element(KEYS[1], group)
    component = JointPotential(stiffness, group.to_coordinates(rest), group)

    def sample(key):
        q = group.compose(rest, element(key, group))
        log = lambda step: group.log(group.compose(group.inverse(rest), group.compose(q, group.exp(step))))  # noqa: E731
        h = 1e-5
        slopes = jax.vmap(lambda s: (log(h * s) - log(-h * s)) / (2 * h), out_axes=1)(jnp.eye(group.dim))
        d = log(jnp.zeros(group.dim))
        return gradient(component, {"q_r": q})["q_r"], slopes.T @ (stiffness @ d)

    assert_close(*sampled(sample), 1e-8)


@by_name
def test_a_joint_without_spring_stores_nothing(motion):
    component = NoPotential(motion.group)
    x = states(component, KEYS[0])
    assert role(component) is Role.STORAGE
    assert component.energy(x) == 0
    assert_close(gradient(component, x)["q_r"], np.zeros(motion.group.dim))


def test_springs_and_masses_on_a_line():
    cases = [
        (Spring(jnp.asarray(3.0)), "q", lambda q: 3.0 * q),
        (Mass(jnp.asarray(4.0)), "p", lambda p: p / 4.0),
        (LineSpring(jnp.asarray(3.0), jnp.asarray(0.5)), "l", lambda length: 3.0 * (length - 0.5)),
    ]
    x = normal(KEYS[0], 1)
    for component, port, effort in cases:
        assert_close(gradient(component, {port: x})[port], effort(x))
    assert_close(Mass(jnp.asarray(4.0)).state_from_effort({"p": x})["p"], 4.0 * x)


def test_a_thermal_store_warms_up():
    store = ThermalStore(jnp.asarray(12.0), jnp.asarray(310.0))

    def sample(key):
        s = 5.0 * normal(key, 1)
        theta = gradient(store, {"s": s})["s"][0]
        heat_capacity = theta / jax.hessian(lambda s: store.energy({"s": s}))(s)[0, 0]
        return theta / (310.0 * jnp.exp(s[0] / 12.0)) - 1.0, heat_capacity - 12.0

    for difference in sampled(sample):
        assert_close(difference, 0.0)
    assert_close(gradient(store, {"s": jnp.zeros(1)})["s"], np.array([310.0]))


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
        q, u = element(key, group), normal(jax.random.fold_in(key, 1), 6)
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
        q, u = element(key, group), normal(jax.random.fold_in(key, 1), 6)
        velocity, angular = motion_of_a_point(group, q, u, jnp.zeros(3))
        twist = jnp.concatenate([q[:, :3].T @ angular, q[:, :3].T @ velocity])
        return drive.flow(0.5, View(q, u)) @ u, wrench(0.5, q, twist) @ twist

    assert_close(*sampled(sample))
