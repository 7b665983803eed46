"""The composites that are shipped, interpreted as a whole, against the equations that they are meant to have."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from library.random_states import GROUPS, INERTIA, KEYS, assert_close, by_group, element, normal, other
from quick import quick_jit

from jmbs.ephs import ConstantFlow, System, flatten, pattern, reference_dae
from jmbs.library.mechanics.body import rigid_body
from jmbs.library.mechanics.elements import LineOfAction, ThermalStore, spring_damper
from jmbs.library.mechanics.friction import viscous_friction
from jmbs.library.mechanics.joint import Ground, JointPotential, Offset, joint, relative_momentum
from jmbs.library.oscillator import damped_oscillator, oscillator
from jmbs.lie import SE3, Revolute

THETA0, MASS = 290.0, 2.5
GRAVITY = jnp.array([0.5, -1.0, -9.0])


def system(boxes, junctions, outer=(), drives=None):
    return System(pattern({name: box.ports for name, box in boxes.items()}, junctions, outer), boxes, drives or {})


class Evaluated:
    """Rates of a system at states given by `(component path, port)`, one row per sample."""

    def __init__(self, built, values):
        self.dae = reference_dae(flatten(built), THETA0, jnp.float64)
        plan = self.dae.plan
        by_junction = {plan.junction_of[pair]: value for pair, value in values.items()}
        n = len(next(iter(values.values())))

        def block(b):
            start = jnp.broadcast_to(b.space.identity(), (n, *b.space.shape))
            return jnp.stack([by_junction.get(name, start) for name in b.junctions], axis=1)

        x = tuple(block(b) for b in plan.blocks)
        self.rates = quick_jit(jax.vmap(lambda x: self.dae.rates(0.0, x)))(x)

    def velocity(self, path, port):
        return self.rates.velocity[:, self.dae.plan.slots[self.dae.plan.junction_of[path, port]]]


def velocities(momenta):
    """`M^-1 p` of the body of mass `MASS` and inertia `INERTIA`."""
    return jnp.concatenate([jnp.linalg.solve(INERTIA, momenta[:, :3].T).T, momenta[:, 3:] / MASS], axis=1)


def samples(function, salt):
    return jnp.stack([function(other(key, salt)) for key in KEYS[:3]])


@by_group
def test_rigid_body(group):
    """`qdot = T_eL_q(u)`, `pdot = ad*_u(p) - T*_eL_q(dV) + p.f`, in the frames of either group."""
    wrench = jnp.arange(1.0, 7.0)
    body = rigid_body(jnp.asarray(MASS), INERTIA, GRAVITY, group)
    built = system({"b": body}, {"p": "b.p", "q": "b.q"}, ["p"], {"p": ConstantFlow(wrench)})
    q, p = samples(lambda key: element(key, group), 1), samples(lambda key: normal(key, 6), 2)
    found = Evaluated(built, {("b/pe", "q"): q, ("b/ke", "p"): p})
    u = velocities(p)
    R = q[:, :, :3]
    # Newton and Euler: forces in the axes of the momentum, which turn with the body on SE(3) only.
    torque = jnp.cross(p[:, :3], u[:, :3]) + wrench[:3]
    weight = MASS * (jnp.einsum("nij,i->nj", R, GRAVITY) if group == SE3 else GRAVITY)
    turning = jnp.cross(p[:, 3:], u[:, :3]) if group == SE3 else jnp.zeros((3, 3))
    assert_close(found.velocity("b/pe", "q"), u)
    assert_close(found.velocity("b/ke", "p"), jnp.concatenate([torque, weight + turning + wrench[3:]], axis=1))
    assert_close(found.rates.power.supplied, u @ wrench)


def hinge(stiffness, damping, rest, motion, offset1, offset2, environment=True):
    friction = viscous_friction([damping], relative_momentum(motion.group))
    potential = JointPotential(jnp.array([stiffness]), jnp.array([rest]), motion.group)
    return joint(motion, offset1, offset2, potential, friction, environment)


@pytest.mark.parametrize("group, store", [*((group, False) for group in GROUPS), (SE3, True)])
def test_a_pendulum_on_a_skew_hinge(group, store):
    """One degree of freedom: `(a.J a) q'' = a.(r x m g) - k (q - q0) - d q' + tau`, heat where it is sent."""
    k, d, rest, torque = 3.0, 0.7, 0.4, 1.2
    axis, lever = jnp.array([0.3, -0.4, 1.2]) / 1.3, jnp.array([0.5, -0.2, 0.3])
    motion = Revolute(axis)
    turn = jnp.array([0.7, 0.1, -0.5, 0.5])
    o1, o2 = Offset(jnp.array([0.1, 0.2, 0.3]), turn), Offset(-lever, jnp.array([1.0, 0.0, 0.0, 0.0]), group)
    boxes = {
        "body": rigid_body(jnp.asarray(MASS), INERTIA, GRAVITY, group),
        "ground": Ground(),
        "hinge": hinge(k, d, rest, motion, o1, o2, not store),
    }
    junctions = {"g": "ground.p hinge.p1", "p": "body.p hinge.p2", "q": "body.q", "r": "hinge.p_r"}
    if "q2" in boxes["hinge"].ports:
        junctions["q"] += " hinge.q2"
    if store:
        boxes["oil"] = ThermalStore(jnp.asarray(4.0), jnp.asarray(350.0))
        junctions["s"] = "hinge.s oil.s"
    built = system(boxes, junctions, {"tau": "r"}, {"tau": ConstantFlow(jnp.array([torque]))})

    angle, rate = samples(lambda key: normal(key, 1), 3), samples(lambda key: normal(key, 1), 4)
    frame = jax.vmap(lambda angle: SE3.compose(o1.frame, motion.inclusion(angle)))(angle)
    R = frame[:, :, :3]
    q = jnp.concatenate([R, (frame[:, :, 3] + R @ lever)[:, :, None]], axis=2)
    omega = rate * axis
    v = jnp.cross(omega, lever)
    v = v if group == SE3 else jnp.einsum("nij,nj->ni", R, v)
    p = jnp.concatenate([omega @ INERTIA, MASS * v], axis=1)
    found = Evaluated(built, {("body/pe", "q"): q, ("body/ke", "p"): p, ("hinge/pe", "q_r"): angle})

    J = INERTIA + MASS * (lever @ lever * jnp.eye(3) - jnp.outer(lever, lever))
    weight = MASS * jnp.einsum("nij,i->nj", R, GRAVITY)
    drive = jnp.cross(lever[None], weight) @ axis - k * (angle[:, 0] - rest) - d * rate[:, 0] + torque
    acceleration = drive / (axis @ J @ axis)
    # The hinge keeps the body's angular velocity along an axis that is fixed in the body.
    assert_close(found.velocity("body/ke", "p")[:, :3], acceleration[:, None] * (axis @ INERTIA))
    assert_close(found.velocity("hinge/pe", "q_r"), rate)
    theta = 350.0 if store else THETA0
    heated = ("oil", "s") if store else ("hinge/env", "s")
    assert_close(found.velocity(*heated)[:, 0], d * rate[:, 0] ** 2 / theta)
    assert_close(found.rates.power.supplied, torque * rate[:, 0])
    assert_close(found.rates.power.dissipated, d * rate[:, 0] ** 2)


@pytest.mark.parametrize("ends", [(SE3, SE3), (GROUPS[1], SE3), (None, GROUPS[1])], ids=str)
def test_spring_damper(ends):
    """A pair of forces along the line between two points, `k (l - l0) + d ldot`, whatever the bodies' groups."""
    k, d, rest = 4.0, 0.6, 0.5
    points = [jnp.array([0.2, 0.1, -0.3]), jnp.array([-0.4, 0.5, 1.1])]
    boxes = {"link": spring_damper(LineOfAction(*points, ends), jnp.asarray(k), jnp.asarray(rest), d)}
    junctions, values, places, speeds = {}, {}, [], []
    for i, (end, group) in enumerate(zip("ab", ends, strict=True)):
        if group is None:
            places.append(jnp.broadcast_to(points[i], (3, 3)))
            speeds.append(jnp.zeros((3, 3)))
            continue
        boxes[end] = rigid_body(jnp.asarray(MASS), INERTIA, jnp.zeros(3), group)
        junctions |= {f"p_{end}": f"{end}.p link.p_{end}", f"q_{end}": f"{end}.q link.q_{end}"}
        q = samples(lambda key, group=group: element(key, group), 5 + i)
        p = samples(lambda key: normal(key, 6), 7 + i)
        u, R = velocities(p), q[:, :, :3]
        v = jnp.einsum("nij,nj->ni", R, u[:, 3:]) if group == SE3 else u[:, 3:]
        places.append(q[:, :, 3] + R @ points[i])
        speeds.append(v + jnp.einsum("nij,nj->ni", R, jnp.cross(u[:, :3], points[i][None])))
        values |= {(f"{end}/pe", "q"): q, (f"{end}/ke", "p"): p}
    line = places[1] - places[0]
    length = jnp.linalg.norm(line, axis=1, keepdims=True)
    direction = line / length
    rate = jnp.sum((speeds[1] - speeds[0]) * direction, axis=1, keepdims=True)
    found = Evaluated(system(boxes, junctions), {**values, ("link/pe", "l"): length})
    pull = (k * (length - rest) + d * rate) * direction
    assert_close(found.velocity("link/pe", "l"), rate)
    assert_close(found.rates.power.dissipated, d * rate[:, 0] ** 2)
    for i, (end, group, force) in enumerate(zip("ab", ends, (pull, -pull), strict=True)):
        if group is None:
            continue
        q, p = values[f"{end}/pe", "q"], values[f"{end}/ke", "p"]
        u, inward = velocities(p), jnp.einsum("nij,ni->nj", q[:, :, :3], force)
        torque = jnp.cross(points[i][None], inward) + jnp.cross(p[:, :3], u[:, :3])
        linear = inward + jnp.cross(p[:, 3:], u[:, :3]) if group == SE3 else force
        assert_close(found.velocity(f"{end}/ke", "p"), jnp.concatenate([torque, linear], axis=1))


def test_oscillators():
    q, p = jnp.array([[0.7], [0.0], [-2.0]]), jnp.array([[1.0], [2.0], [0.5]])
    alone = Evaluated(system({"o": oscillator(2.0, 3.0)}, {"p": "o.p"}), {("o/pe", "q"): q, ("o/ke", "p"): p})
    assert_close(alone.velocity("o/ke", "p"), -3.0 * q)
    damped = Evaluated(damped_oscillator(2.0, 3.0, 0.5), {("osc/pe", "q"): q, ("osc/ke", "p"): p})
    assert_close(damped.velocity("osc/ke", "p"), -3.0 * q - 0.5 * p / 2.0)
    assert_close(damped.velocity("osc/pe", "q"), p / 2.0)
    assert_close(damped.velocity("env", "s"), 0.5 * (p / 2.0) ** 2 / THETA0)
    np.testing.assert_array_equal(alone.rates.power.dissipated, 0.0)
