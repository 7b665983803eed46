"""A motion and the feedback about it, by Gauss and Newton along the motion (iterative LQR), with derivatives of steps.

Around the motion `z_t` under `w_t` the cost is replaced by its quadratic model and the steps by their linear one, which
a Riccati recursion minimises: `w_t + alpha k_t + K_t (z - z_t)`. The best of several `alpha` is the next motion.

Tassa, Mansard, Todorov: Control-limited differential dynamic programming, ICRA 2014 (with the regularisation there).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from cart import DT, FORCE
from jaxtyping import Array, Float

Step = Callable[[Array, Array], Array]
"""Coordinates (6,) after a step from coordinates with an action `w`, of which the force is `FORCE tanh(w)`."""
ALPHAS = 0.5 ** np.arange(8.0)
EFFORT, END = 1e-3, 100.0
"""Weights of the squared force (1/N^2) and of the squared distance from the goal at the end."""
MOST = 3.0
"""The largest `w`."""


class Plan(NamedTuple):
    """Coordinates (H + 1, 6), actions (H,), their cost, and the regularisation of the next round."""

    z: Float[Array, "H+1 6"]
    w: Float[Array, " H"]
    cost: Float[Array, ""]
    damping: Float[Array, ""]


def running(z: Float[Array, "6"]) -> Float[Array, "6"]:
    """What is squared and integrated: distance from the goal, in which an angle and a full turn more are the same."""
    x, a, b, *rates = z[0], z[1], z[1] + z[2], z[3], z[4], z[4] + z[5]
    return jnp.stack([0.3 * x, 2 * jnp.sin(a / 2), 2 * jnp.sin(b / 2), *(0.1 * rate for rate in rates)])


def final(z: Float[Array, "6"]) -> Float[Array, "6"]:
    """The same for the end."""
    return END**0.5 * jnp.array([1.7, 1.0, 1.0, 3.0, 3.0, 3.0]) * running(z)


def cost_of(z: Float[Array, "H+1 6"], w: Float[Array, " H"]) -> Float[Array, ""]:
    """The cost of a motion."""
    along = jnp.sum(jax.vmap(running)(z[:-1]) ** 2) + EFFORT * FORCE**2 * jnp.sum(w**2)
    return 0.5 * (DT * along + jnp.sum(final(z[-1]) ** 2))


def feedback(step: Step, plan: Plan) -> tuple[Float[Array, " H"], Float[Array, "H 6"]]:
    """Changes `k` of the actions and gains `K`, by a Riccati recursion from the end."""
    A, B = jax.vmap(jax.jacfwd(step, (0, 1)))(plan.z[:-1], plan.w)
    r, J = jax.vmap(running)(plan.z[:-1]), jax.vmap(jax.jacfwd(running))(plan.z[:-1])
    r1, J1 = final(plan.z[-1]), jax.jacfwd(final)(plan.z[-1])
    weight = DT * EFFORT * FORCE**2

    def back(value, along):
        V1, V2 = value
        A, B, r, J, w = along
        q1, q2, u1 = DT * J.T @ r + A.T @ V1, DT * J.T @ J + A.T @ V2 @ A, weight * w + B @ V1
        u2, cross = weight + B @ V2 @ B, B @ V2 @ A
        damped = u2 + plan.damping * B @ B
        k, K = -u1 / damped, -(cross + plan.damping * B @ A) / damped
        V1 = q1 + K * (u2 * k + u1) + cross * k
        V2 = q2 + u2 * jnp.outer(K, K) + jnp.outer(K, cross) + jnp.outer(cross, K)
        # Rounding makes it unsymmetric, which grows as the square of an open loop's instability.
        return (V1, 0.5 * (V2 + V2.T)), (k, K)

    return jax.lax.scan(back, (J1.T @ r1, J1.T @ J1), (A, B, r, J, plan.w), reverse=True)[1]


def improved(step: Step, plan: Plan) -> tuple[Plan, Float[Array, "H 6"]]:
    """The plan after one round, the same one with more regularisation where no `alpha` lowers the cost; and the gains
    about the plan before."""
    k, K = feedback(step, plan)

    def moved(alpha: Array) -> tuple[Array, Array]:
        def forward(z, along):
            z0, w0, k, K = along
            w = jnp.clip(w0 + alpha * k + K @ (z - z0), -MOST, MOST)
            after = step(z, w)
            return after, (after, w)

        z, w = jax.lax.scan(forward, plan.z[0], (plan.z[:-1], plan.w, k, K))[1]
        return jnp.concatenate([plan.z[:1], z]), w

    zs, ws = jax.vmap(moved)(ALPHAS)
    costs = jax.vmap(cost_of)(zs, ws)
    best = jnp.argmin(jnp.where(jnp.isfinite(costs), costs, jnp.inf))
    better = costs[best] < plan.cost
    z, w, cost = jax.tree.map(lambda new, old: jnp.where(better, new[best], old), (zs, ws, costs), plan[:3])
    damping = jnp.where(better, jnp.maximum(plan.damping / 3, 1e-6), jnp.minimum(plan.damping * 5, 1e6))
    return Plan(z, w, cost, damping), K


def rounds(step: Step, plan: Plan, count: Array) -> tuple[Plan, Float[Array, "H 6"]]:
    """The plan after so many rounds, and the gains about the last but one."""
    nothing = jnp.zeros((len(plan.w), plan.z.shape[1]), plan.z.dtype)
    return jax.lax.fori_loop(0, count, lambda _, both: improved(step, both[0]), (plan, nothing))


def first_plan(step: Step, z0: Float[Array, "6"], key: Array, horizon: int, size: float = 0.5) -> Plan:
    """Random actions that change every fifth step, and the motion that they make."""
    knots = size * jax.random.normal(key, (horizon // 5 + 1,), z0.dtype)
    w = jnp.interp(np.arange(horizon) / 5.0, np.arange(float(len(knots))), knots)
    z = jax.lax.scan(lambda z, w: (step(z, w),) * 2, z0, w)[1]
    z = jnp.concatenate([z0[None], z])
    return Plan(z, w, cost_of(z, w), jnp.ones((), z0.dtype))
