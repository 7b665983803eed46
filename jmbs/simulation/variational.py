"""Lagrange-d'Alembert's principle along a computed trajectory: what is left of the virtual work of all forces.

For every virtual displacement `eta` of a body that vanishes at the ends of an interval (004, sections 7.4 and 8),

    0 = int (<dl/du | etadot + ad_u eta> - <dV | eta> + <f | eta>) dt,     l = 1/2 <u | M u> - V,

with left-trivialised `eta` and `f` all forces that are not in the Lagrangian: reactions, springs, friction, loads. Here
the motion is interpolated through saved poses alone and the integral taken by a quadrature rule, which makes it the
forced discrete Euler-Lagrange equation `D2 L_d(q_0, q_1) + D1 L_d(q_1, q_2) + F = 0`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from jmbs.ephs import Role
from jmbs.errors import ModelError
from jmbs.library.mechanics import FoundBody, Gear, JointRelation, PrescribedMotion, body_wrench, show
from jmbs.lie import SE3, AbstractGroup, pose, quaternion_to_rotation, tangent
from jmbs.linear import solve_definite
from jmbs.simulation.mechanics import component
from jmbs.simulation.model import Model
from jmbs.simulation.state import State, identity_state, to_internal
from jmbs.simulation.trajectory import Trajectory

SPACING_TOLERANCE = 1e-6
"""How far saved times may be from equal spacing, relative to it."""


class ActionRule(NamedTuple):
    """How one interval's action is approximated; times are fractions of the interval.

    The motion is the polynomial through the poses at `nodes`, in the exponential chart of the node before the middle;
    the Lagrangian is summed at `points` with `weights`, forces at the nodes with `node_weights`.
    """

    nodes: np.ndarray
    points: np.ndarray
    weights: np.ndarray
    node_weights: np.ndarray

    @property
    def steps(self) -> int:
        """Steps between saved times in one interval."""
        return len(self.nodes) - 1


RULES = {
    "midpoint": ActionRule(np.array([0, 1]), np.array([0.5]), np.array([1.0]), np.array([0.5, 0.5])),
    "simpson": ActionRule(*2 * (np.array([0, 0.5, 1]),), *2 * (np.array([1, 4, 1]) / 6,)),
}
"""By name; the residual's order in the spacing of saved times is 2 and 4."""


class AppliedForces(NamedTuple):
    """Forces other than gravity and those of constraints.

    `bodies`: by name (6,), torque about the centre of mass (N m) before force (N), dual to the velocity of the body's
    group: torque in body axes, force in body axes on SE(3) and in world axes on SO(3)xR3. `joints`: by name (k,),
    generalised forces on the joint's velocity `v`.
    """

    bodies: dict[str, Float[Array, "6"]]
    joints: dict[str, Float[Array, " k"]]


def applied_forces(model: Model, t: Any, state: State) -> AppliedForces:
    """Springs, friction, actuation, loads and other components' forces at a state of a mechanism; pure."""
    dae, slots = model.dae, model.dae.plan.slots
    x = to_internal(dae, state)
    e, s = dae.efforts(t, x), dae.structures(x)
    # Gravity and gyroscopic effects follow from the Lagrangian: their components are given no effort.
    others = e
    for body in model.layout.parts.bodies:
        others = others.at[jnp.concatenate([slots[body.pose], slots[body.momentum]])].set(0.0)
    outer, _ = dae.outer_flows(t, x, e)
    force = dae.reduce(s, outer - dae.irreversible_flows(x, e)[0] - dae.reversible_flows(s, others))
    return AppliedForces(
        {body.name: force[slots[body.velocity]] for body in model.layout.parts.bodies},
        {joint.name: force[slots[joint.rates]] for joint in model.layout.parts.joints},
    )


def variational_residual(
    model: Model, trajectory: Trajectory, rule: str = "midpoint"
) -> dict[str, Float[Array, "K 6"]]:
    """What Lagrange-d'Alembert's principle leaves at saved times, per body, as a torque and force (N m, N).

    Virtual displacements are hats around one saved time, one interval wide on each side. The residual is their virtual
    work divided by the hat's integral, dual to the body's velocity as in `AppliedForces`. It vanishes with the spacing
    `h` of saved times as `h^2` ("midpoint", intervals of one step) or `h^4` ("simpson", of two) as far as the
    trajectory is accurate. Of joints' reactions only the part that does no virtual work is taken from the trajectory;
    springs, friction and actuation are the model's.

    **Arguments:**

    - `model`: a mechanism without rotors, constrained by joints and by what its `constraints` hold.
    - `trajectory`: its motion with audit, at T equally spaced times.
    - `rule`: midpoint (K = T - 2, the first for the second saved time) or simpson (K = T - 4, for the third).

    Raises `ModelError`.
    """
    _check(model, trajectory, rule)
    scheme, h = RULES[rule], trajectory.ts[1] - trajectory.ts[0]
    states = jax.vmap(lambda motion: _state(model, motion))(_motion(trajectory))
    reactions = trajectory.reaction, trajectory.multipliers
    forces = jax.vmap(lambda t, s, r: _body_forces(model, t, s, *r))(trajectory.ts, states, reactions)
    windows = np.arange(len(trajectory.ts) - 2 * scheme.steps)[:, None] + np.arange(2 * scheme.steps + 1)
    residuals = {}
    for found in model.layout.parts.bodies:
        name, group = found.name, found.group
        weight = component(model.dae, found.weight or "")
        body = _Lagrangian(component(model.dae, found.kinetic), weight, _iota(model, found))
        poses = jax.vmap(lambda s, found=found: s[found.pose])(states)
        residual = jax.vmap(lambda q, f, group=group, body=body: _hat_residual(group, body, scheme, h, q, f))
        residuals[name] = residual(poses[windows], forces[name][windows])
    return residuals


class _Lagrangian(eqx.Module):
    """`l(q, u) = 1/2 <u | M u> - V(q)` of one body, from its storages."""

    kinetic: Any
    potential: Any
    iota: Float[Array, "6 k"]

    def __call__(self, q: Float[Array, "3 4"], u: Float[Array, "6"]) -> Float[Array, ""]:
        w = self.iota.T @ u
        momentum = self.kinetic.state_from_effort({"p": w})["p"]
        return 0.5 * momentum @ w - self.potential.energy({"q": q})


def _hat_residual(group: AbstractGroup, body: _Lagrangian, rule: ActionRule, h, poses, forces) -> Float[Array, "6"]:
    """The virtual work over two neighbouring intervals of a hat-shaped virtual displacement, by its integral."""
    n = rule.steps
    hat = 1 - np.abs(np.arange(2 * n + 1) - n) / n

    def action(eta: Float[Array, "6"]) -> Float[Array, ""]:
        moved = jax.vmap(lambda q, w: group.compose(q, group.exp(w * eta)))(poses, jnp.asarray(hat, poses.dtype))
        return _action(group, body, rule, n * h, moved[: n + 1]) + _action(group, body, rule, n * h, moved[n:])

    weights = np.concatenate([rule.node_weights, np.zeros(n)]) + np.concatenate([np.zeros(n), rule.node_weights])
    variation = jax.grad(action)(jnp.zeros(6, poses.dtype)) / (n * h)
    residual = variation + jnp.asarray(hat * weights, poses.dtype) @ forces
    # A rotation without inertia (of a thin rod about its axis, of a particle) is no virtual displacement.
    return body.iota @ (body.iota.T @ residual)


def _action(group: AbstractGroup, body: _Lagrangian, rule: ActionRule, duration, poses) -> Float[Array, ""]:
    """The discrete Lagrangian: the quadrature of `l` along the polynomial through the poses, J s."""
    origin = poses[rule.steps // 2]
    chart = jax.vmap(lambda q: group.log(group.compose(group.inverse(origin), q)))(poses)
    values, slopes = (jnp.asarray(m, poses.dtype) for m in _lagrange_polynomials(rule.nodes, rule.points))

    def lagrangian(zeta, rate):
        q = group.compose(origin, group.exp(zeta))
        return body(q, group.dexp(-zeta, rate))

    at_points = jax.vmap(lagrangian)(values @ chart, slopes @ chart / duration)
    return duration * jnp.asarray(rule.weights, poses.dtype) @ at_points


def _lagrange_polynomials(nodes: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values and slopes `(points, nodes)` of the polynomials that are one at one node and zero at the others."""
    powers = np.arange(len(nodes))
    coefficients = np.linalg.inv(nodes[:, None] ** powers)
    slopes = powers * points[:, None] ** np.maximum(powers - 1, 0)
    return points[:, None] ** powers @ coefficients, slopes @ coefficients


def _body_forces(model: Model, t, state: State, reaction, multipliers) -> dict[str, Float[Array, "6"]]:
    """All forces on the bodies but gravity: applied ones, and those of joints and constraints."""
    parts, dae = model.layout.parts, model.dae
    forces, joints = applied_forces(model, t, state)
    bodies = {body.name: body for body in parts.bodies}

    def add(body: str, wrench) -> None:
        if body in bodies:
            R = state[bodies[body].pose][:, :3]
            forces[body] = forces[body] + body_wrench(bodies[body].group, R, wrench[:3], wrench[3:])

    for joint in parts.joints:
        motion, o1, o2 = component(dae, joint.constraint).motion, *(component(dae, path) for path in joint.offsets)
        q_r = state[joint.coordinates]
        wrench = _joint_wrench(tangent(motion, q_r), reaction[joint.name], joints[joint.name])
        add(joint.child, SE3.Ad_dual(SE3.inverse(o2.frame), wrench))
        on_parent = SE3.Ad_dual(SE3.inverse(motion.inclusion(q_r)), wrench)
        add(joint.parent, -SE3.Ad_dual(SE3.inverse(o1.frame), on_parent))
    at_velocity = {body.velocity: body.name for body in parts.bodies}
    for constraint in parts.constraints:
        used = 0
        for path in constraint.components:
            own = component(dae, path)
            poses = {port: state[dae.plan.junction_of[path, port]] for port in ("q", "q_other") if port in own.ports}
            _, rows = own.structure(poses)
            multiplier = multipliers[constraint.name][used : used + len(rows)]
            # Rows act on the body's velocity first, then on that of another body or of a moving surface.
            for i, port in enumerate(port for port in ("p", "p_other") if port in own.ports):
                name = at_velocity[dae.plan.junction_of[path, port]]
                forces[name] = forces[name] - rows[:, 6 * i : 6 * i + 6].T @ multiplier
            used += len(rows)
    return forces


def _joint_wrench(i: Float[Array, "6 k"], reaction: Float[Array, "6"], force: Float[Array, " k"]) -> Float[Array, "6"]:
    """The reaction with its part along the joint's motion replaced: `i^T wrench = force`."""
    return reaction + i @ solve_definite(i.T @ i, (force - i.T @ reaction)[:, None])[:, 0] if i.shape[1] else reaction


def _motion(trajectory: Trajectory) -> dict[str, Any]:
    keys = ("position", "quaternion", "angular_velocity", "velocity", "q", "temperature", "states")
    return {key: getattr(trajectory, key) for key in keys}


def _state(model: Model, motion: dict[str, Any]) -> State:
    """The state at one saved time."""
    dae, parts = model.dae, model.layout.parts
    state = identity_state(dae)
    for body in parts.bodies:
        R = quaternion_to_rotation(motion["quaternion"][body.name])
        v = motion["velocity"][body.name]
        u = jnp.concatenate([motion["angular_velocity"][body.name], R.T @ v if body.group == SE3 else v])
        state = state.replace(body.pose, pose(R, motion["position"][body.name]))
        state = state.replace(body.momentum, _iota(model, body).T @ u)
    for joint in parts.joints:
        if joint.group.dim:
            state = state.replace(joint.coordinates, joint.group.from_coordinates(motion["q"][joint.name]))
    for name, temperature in motion["temperature"].items():
        store = component(dae, name)
        entropy = store.capacity * jnp.log(temperature / store.temperature)
        state = state.replace(dae.plan.junction_of[name, "s"], entropy[None])
    for name, value in motion["states"].items():
        state = state.replace(name, value)
    return state


def _iota(model: Model, body: FoundBody) -> Float[Array, "6 k"]:
    """The velocities that carry inertia, as columns: all of them but for particles and rods."""
    if body.inclusion is None:
        return jnp.eye(6, dtype=model.dtype)
    return component(model.dae, body.inclusion).iota


def _check(model: Model, trajectory: Trajectory, rule: str) -> None:
    if rule not in RULES:
        raise ModelError("rule", show(rule), f"one of {', '.join(RULES)}")
    parts = model.layout.parts
    if not parts.bodies or any(body.weight is None for body in parts.bodies):
        raise ModelError("model", "a system without bodies, or with one that has no weight", "rigid bodies")
    known = {joint.constraint for joint in parts.joints}
    paths = [path for constraint in parts.constraints for path in constraint.components]
    of_joints = (Gear, JointRelation, PrescribedMotion)
    known |= {path for path in paths if not isinstance(component(model.dae, path), of_joints)}
    for batch in model.dae.plan.batches:
        if batch.role is Role.REVERSIBLE and batch.multipliers.shape[1] and not known.issuperset(batch.paths):
            raise ModelError("model", f"the constraint {batch.paths[0]}", "none but joints and constraints on bodies")
    for joint in parts.joints:
        if joint.rotor is not None:
            raise ModelError("model", f"the joint {joint.name} with armature", "joints without rotors")
    if trajectory.reaction is None:
        raise ModelError("trajectory", "no reactions", "a trajectory simulated with audit=True")
    steps = np.diff(trajectory.ts) if not isinstance(trajectory.ts, Tracer) else np.ones(2 * RULES[rule].steps)
    if len(steps) < 2 * RULES[rule].steps or np.ptp(steps) > SPACING_TOLERANCE * np.max(steps):
        wanted = f"at least {2 * RULES[rule].steps + 1} equally spaced ones"
        raise ModelError("trajectory/ts", f"{len(trajectory.ts)} times", wanted)
