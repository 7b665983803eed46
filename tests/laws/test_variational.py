"""Trajectories obey Lagrange-d'Alembert's principle, in its discrete and in its instantaneous form."""

from __future__ import annotations

import functools
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quick import quick_jit

import jmbs
from jmbs.errors import ModelError
from jmbs.library.mechanics import place_along_joints
from jmbs.lie import SE3
from jmbs.simulation import is_successful
from jmbs.simulation.mechanics import component
from jmbs.simulation.variational import RULES, applied_forces, variational_residual

SPACING = 0.004
CENTRE = 8
STRIDES = (1, 2, 4)
"""Every so many saved times, around the middle one: three spacings from one trajectory."""
ORDERS = {"midpoint": 2, "simpson": 4}
slow = pytest.mark.slow


def free_body(group: str) -> jmbs.Mechanism:
    """Three different principal moments, turning about none of the axes."""
    m = jmbs.Mechanism("free body")
    m.add_body("b", mass=2.0, inertia=[0.4, 0.5, 0.2], group=group)
    m.set_initial(bodies={"b": {"angular_velocity": [1.0, 2.0, -1.5], "velocity": [0.5, -1.0, 2.0]}})
    return m


def heavy_top(group: str) -> jmbs.Mechanism:
    m = jmbs.Mechanism("heavy top")
    m.add_body("b", mass=2.0, inertia=[0.03, 0.03, 0.01], group=group)
    m.add_joint("pivot", "spherical", "ground", "b", child_frame=[0.0, 0.0, -0.2])
    m.set_initial(joints={"pivot": {"q": [0.96, 0.28, 0.0, 0.0], "v": [0.3, 1.0, 9.0]}})
    return m


def double_pendulum(group_a: str, group_b: str) -> jmbs.Mechanism:
    """Two bodies, a joint to the ground and one between them, all kinds of applied forces."""
    m = jmbs.Mechanism("double pendulum")
    m.add_body("a", mass=1.2, inertia=[0.10, 0.11, 0.02], group=group_a)
    m.add_body("b", mass=0.8, inertia=[0.05, 0.06, 0.02], group=group_b)
    m.add_joint("ball", "spherical", "ground", "a", child_frame=[0.0, 0.0, 0.5], friction={"viscous": 0.3})
    m.add_joint(
        "hinge",
        "revolute",
        "a",
        "b",
        parent_frame=[0.0, 0.0, -0.5],
        child_frame=[0.1, 0.0, 0.4],
        axis=[0.2, 1.0, 0.0],
        friction={"viscous": 0.2, "coulomb": 0.3, "regularisation_velocity": 0.5},
        spring={"stiffness": 2.0},
        actuation=0.4,
    )
    m.add_load("push", "b", point=[0.1, 0.0, 0.0], force=[1.0, 0.0, 0.5])
    m.add_spring_damper("tendon", "ground", "b", [1.0, 0.0, 0.0], [0.0, 0.2, 0.0], stiffness=3.0, damping=0.4)
    turn = np.array([0.9, 0.3, 0.3, 0.1]) / np.linalg.norm([0.9, 0.3, 0.3, 0.1])
    m.set_initial(joints={"ball": {"q": turn, "v": [0.5, 1.0, 2.0]}, "hinge": {"q": 0.4, "v": -1.0}})
    return m


def slider_crank(group: str) -> jmbs.Mechanism:
    """A loop in the x-z plane whose redundant reactions are those of least norm."""
    m = jmbs.Mechanism("slider crank")
    for name, length, mass in (("crank", 0.3, 1.0), ("rod", 0.8, 0.5), ("slider", 0.1, 0.8)):
        m.add_body(name, shape={"box": [length, 0.03, 0.03]}, density=mass / (length * 0.03**2), group=group)
    y = [0.0, -1.0, 0.0]
    m.add_joint("bearing", "revolute", "ground", "crank", None, [-0.15, 0, 0], axis=y, friction={"viscous": 0.02})
    m.add_joint("crank_pin", "revolute", "crank", "rod", [0.15, 0, 0], [-0.4, 0, 0], axis=y)
    m.add_joint("slider_pin", "revolute", "rod", "slider", [0.4, 0, 0], axis=y, friction={"viscous": 0.05})
    friction = {"viscous": 0.5, "coulomb": 0.3, "regularisation_velocity": 0.5}
    m.add_joint("guide", "prismatic", "ground", "slider", axis=[1, 0, 0], friction=friction, spring={"stiffness": 9.0})
    m.set_initial(joints={"bearing": {"q": 1.0, "v": 4.0}})
    return m


def rod_pendulum(group: str) -> jmbs.Mechanism:
    """A thin rod, which has no inertia about its axis, hung from its end."""
    m = jmbs.Mechanism("rod pendulum")
    m.add_body("b", distribution={"points": [[0, 0, 0.4], [0, 0, 0], [0, 0, -0.5]], "masses": [1, 1, 2]}, group=group)
    m.add_joint("pivot", "spherical", "ground", "b", child_frame=[0.0, 0.0, 0.5])
    m.set_initial(joints={"pivot": {"q": [0.8, 0.6, 0.0, 0.0], "v": [0.3, 2.0, 0.0]}})
    return m


def knife_edge(group: str) -> jmbs.Mechanism:
    """A plate on an incline whose edge does not slide sideways: a constraint that no position gives."""
    m = jmbs.Mechanism("knife edge", gravity=(2.0, 0.0, -9.0))
    m.add_body("b", mass=1.5, inertia=[0.1, 0.2, 0.3], group=group)
    m.add_joint("floor", "planar", "ground", "b", axis=[0, 0, 1], friction={"viscous": 0.1})
    m.add_constraint("edge", type="no_slide", body="b", point=[0.2, 0, 0], direction=[0, 1, 0], frame="body")
    m.set_initial(joints={"floor": {"q": [0, 0, 0.5], "v": [1.0, -0.4, 2.0]}})
    return m


MECHANISMS = {
    "free body": lambda: free_body("SE3"),
    "free body direct": lambda: free_body("SO3xR3"),
    "heavy top": lambda: heavy_top("SE3"),
    "heavy top direct": lambda: heavy_top("SO3xR3"),
    "double pendulum": lambda: double_pendulum("SO3xR3", "SE3"),
    "double pendulum direct": lambda: double_pendulum("SE3", "SO3xR3"),
    "slider crank": lambda: slider_crank("SE3"),
    "slider crank direct": lambda: slider_crank("SO3xR3"),
    "rod pendulum": lambda: rod_pendulum("SE3"),
    "rod pendulum direct": lambda: rod_pendulum("SO3xR3"),
    "knife edge": lambda: knife_edge("SE3"),
    "knife edge direct": lambda: knife_edge("SO3xR3"),
}
every_mechanism = pytest.mark.parametrize("name", MECHANISMS)


@functools.cache
def compiled(name):
    return jmbs.compile(MECHANISMS[name]())


@quick_jit
def _run(model, state):
    times = SPACING * np.arange(2 * CENTRE + 1)
    return jmbs.simulate(model, state, t0=0.0, ts=times, solver="dopri8", dt=SPACING, constraints="none")


@functools.cache
def start(name):
    return compiled(name).initial_state()


@functools.cache
def run(name):
    trajectory = _run(compiled(name), start(name))
    assert is_successful(trajectory.status)
    return trajectory


def thinned(trajectory, stride):
    """Five saved times around the middle one, `stride` apart."""
    chosen = CENTRE + stride * np.arange(-2, 3)
    series = lambda leaf: eqx.is_array(leaf) and leaf.ndim > 0 and len(leaf) == 2 * CENTRE + 1  # noqa: E731
    return jax.tree.map(lambda leaf: leaf[chosen] if series(leaf) else leaf, trajectory)


_residuals = quick_jit(
    lambda model, trajectory: {rule: variational_residual(model, trajectory, rule) for rule in RULES}
)


def sizes(model, trajectory):
    """By rule and body, the residual's largest entry at the middle time for each stride."""
    found = [_residuals(model, thinned(trajectory, stride)) for stride in STRIDES]
    middle = lambda *values: np.array([np.max(np.abs(v[len(v) // 2])) for v in values])  # noqa: E731
    return jax.tree.map(middle, *found)


@pytest.mark.slow
@every_mechanism
@pytest.mark.parametrize("rule", RULES)
def test_the_residual_vanishes_at_the_order_of_the_discrete_lagrangian(name, rule):
    for size in sizes(compiled(name), run(name))[rule].values():
        observed = np.log2(size[1:] / size[:-1])
        # Where residuals are at rounding already there is no order to see.
        assert np.all((observed > ORDERS[rule] - 0.35) | (size[1:] < 1e-9)), (size, observed)
        assert size[0] < {"midpoint": 2e-2, "simpson": 1e-5}[rule]


def without_reaction(trajectory, joint):
    return replace(trajectory, reaction=trajectory.reaction.replace(joint, 0.0))


def lawless(model, path, field, value):
    """With a value that `with_parameters` refuses."""
    batch, member = model.dae.plan.member_of[path]
    where = lambda m: getattr(m.dae.components[batch], field)  # noqa: E731
    return eqx.tree_at(where, model, where(model).at[member].set(value))


WRONG = {
    "friction of the wrong sign": lambda m, t: (lawless(m, "hinge/mf", "viscous", -0.2), t),
    "a joint without spring": lambda m, t: (m.with_parameters({"hinge/spring/stiffness": 0.0}), t),
    "another inertia": lambda m, t: (m.with_parameters({"b/inertia": np.diag([0.05, 0.08, 0.04])}), t),
    "another mass": lambda m, t: (m.with_parameters({"a/mass": 1.3}), t),
    "no gravity": lambda m, t: (m.with_parameters({"gravity": np.zeros(3)}), t),
    "a missing reaction": lambda m, t: (m, without_reaction(t, "ball")),
    "another missing reaction": lambda m, t: (m, without_reaction(t, "hinge")),
    "another load": lambda m, t: (m.with_parameters({"push/force": [1.0, 0.2, 0.5]}), t),
}


@pytest.mark.slow
@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_force_or_inertia_is_seen(wrong):
    """The residual stays, whatever the spacing, and is far above that of the right model."""
    right = sizes(compiled("double pendulum"), run("double pendulum"))["simpson"]
    found = sizes(*WRONG[wrong](compiled("double pendulum"), run("double pendulum")))["simpson"]
    most = max(found, key=lambda body: found[body][0])
    assert found[most][0] > 1e-3 > 1e2 * right[most][0]
    np.testing.assert_allclose(found[most][1], found[most][0], rtol=0.2)


@quick_jit
def _instant(model, other, state, key):
    """Virtual power, at random virtual velocities that the joints allow, and its largest term.

    Of the inertial forces of a model, and of gravity and the applied forces of another.
    """
    plan, layout = model.dae.plan, model.layout
    at = lambda path, port: state[plan.junction_of[path, port]]  # noqa: E731
    rates, forces = model.dynamics(0.0, state), applied_forces(other, 0.0, state)
    parts = [tuple(component(model.dae, f"{joint}/{box}") for box in ("hc", "o1", "o2")) for joint in layout.joints]
    motions, offsets1, offsets2 = zip(*parts, strict=True)
    q = [at(f"{joint}/pe", "q_r") for joint in layout.joints]
    w = [
        jax.random.normal(k, (m.motion.group.dim,)) for k, m in zip(jax.random.split(key, len(q)), motions, strict=True)
    ]
    groups = [m.motion.group for m in motions]

    def poses(q):
        frames = [o.frame for o in offsets1], [o.frame for o in offsets2]
        return place_along_joints(layout.placement, [m.motion for m in motions], *frames, q, {}, model.dtype)

    found, moving = jax.jvp(poses, (q,), ([g.lift(a, b) for g, a, b in zip(groups, q, w, strict=True)],))
    powers = [-forces.joints[joint] @ v for joint, v in zip(layout.joints, w, strict=True)]
    for i, found_body in enumerate(layout.parts.bodies):
        body, group = found_body.name, found_body.group
        u, mass = at(f"{body}/ke", "p"), component(model.dae, f"{body}/ke")
        gravity = component(model.dae, f"{body}/pe").gravity
        p = mass.state_from_effort({"p": u})["p"]
        inertial = rates.velocity[plan.slots[plan.junction_of[f"{body}/ke", "p"]]] - group.ad_dual(u, p)
        weight = mass.mass * (found[i][:, :3].T @ gravity if group == SE3 else gravity)
        virtual = group.lower(found[i], moving[i])
        powers += [inertial @ virtual, -weight @ virtual[3:], -forces.bodies[body] @ virtual]
    return sum(powers), jnp.max(jnp.abs(jnp.stack(powers)))


def test_accelerations_make_the_virtual_power_vanish():
    """The instantaneous principle (004, proposition 7.6): reactions do no work on what joints allow."""
    model, state = compiled("double pendulum"), start("double pendulum")
    for key in jax.random.split(jax.random.key(5), 4):
        power, largest = _instant(model, model, state, key)
        assert abs(power) < 1e-10 * largest
    other = lawless(model, "hinge/mf", "coulomb", -0.3)
    power, largest = _instant(model, other, state, jax.random.key(5))
    assert abs(power) > 1e-3 * largest


@pytest.mark.slow
def test_refuses_what_it_cannot_judge():
    model, trajectory = compiled("double pendulum"), run("double pendulum")
    with pytest.raises(ModelError, match="rule: found .?gauss"):
        variational_residual(model, trajectory, "gauss")
    short = jax.tree.map(lambda leaf: leaf[:4] if eqx.is_array(leaf) and leaf.ndim else leaf, trajectory)
    with pytest.raises(ModelError, match="trajectory/ts: found 4 times"):
        variational_residual(model, short, "simpson")
    uneven = eqx.tree_at(lambda t: t.ts, trajectory, trajectory.ts**2)
    with pytest.raises(ModelError, match="equally spaced"):
        variational_residual(model, uneven)
    unaudited = eqx.tree_at(lambda t: t.reaction, trajectory, None)
    with pytest.raises(ModelError, match="audit"):
        variational_residual(model, unaudited)
    with pytest.raises(ModelError, match="model: found the joint hinge with armature"):
        variational_residual(with_rotor(), trajectory)


def with_rotor() -> jmbs.Model:
    mechanism = jmbs.Mechanism("door")
    mechanism.add_body("leaf", mass=1.0, inertia=[0.1, 0.1, 0.1])
    mechanism.add_joint("hinge", "revolute", "ground", "leaf", armature=0.1)
    return jmbs.compile(mechanism)
