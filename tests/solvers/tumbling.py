"""A body that tumbles fast under a constant wrench, on any group: dynamics, a manifold and a reference for solvers.

    qdot = T_eL_q(u),   pdot = ad*_u(p) + Ad*_q(f),   u = p / inertia

Rotations far from the identity do not commute along this motion, and attitude and momentum depend on each other.
The manifold stands here and not in jmbs: it is what a user writes to integrate on a state space of their own.
"""

from __future__ import annotations

import functools

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import solve_ivp

from jmbs.lie import SE3, SO3, AbstractGroup
from jmbs.solvers import LieTerm, MuntheKaas

DURATION = 1.0
INERTIA = {SO3: (1.0, 2.0, 3.0), SE3: (1.0, 2.0, 3.0, 1.5, 2.5, 4.0)}
MOMENTUM = {SO3: (6.0, -7.0, 9.0), SE3: (6.0, -7.0, 9.0, 2.0, -3.0, 4.0)}
WRENCH = {SO3: (4.0, 8.0, -6.0), SE3: (4.0, 8.0, -6.0, 3.0, -2.0, 5.0)}


class PoseAndMomentum(eqx.Module):
    """Pairs (element, momentum); tangents are the element's left-trivialised velocity and the momentum's rate."""

    group: AbstractGroup = eqx.field(static=True)

    def retract(self, y, step):
        q, p = y
        n = self.group.dim
        return self.group.compose(q, self.group.exp(step[:n])), p + step[n:]

    def lift(self, y, velocity):
        n = self.group.dim
        return self.group.lift(y[0], velocity[:n]), velocity[n:]

    def dexp_inv(self, step, velocity):
        n = self.group.dim
        return jnp.concatenate([self.group.dexp_inv(step[:n], velocity[:n]), velocity[n:]])

    def zero(self, y):
        return jnp.zeros(2 * self.group.dim, y[1].dtype)


def field(group: AbstractGroup):
    """The vector field `(t, y, inertia)`."""

    def velocity(t, y, inertia):
        del t
        q, p = y
        u = p / inertia
        return jnp.concatenate([u, group.ad_dual(u, p) + group.Ad_dual(q, jnp.array(WRENCH[group]))])

    return velocity


def start(group: AbstractGroup):
    """The identity and the initial momentum."""
    return group.identity(jnp.float64), jnp.array(MOMENTUM[group])


def integrate(group, solver, controller=None, dt=None, y0=None, inertia=None, **options):
    """The solution over `DURATION` by Munthe-Kaas on `solver`; states `(1, ...)` at the end unless told otherwise."""
    return diffrax.diffeqsolve(
        LieTerm(field(group)),
        MuntheKaas(solver, PoseAndMomentum(group)),
        t0=0.0,
        t1=DURATION,
        dt0=dt,
        y0=start(group) if y0 is None else y0,
        args=jnp.array(INERTIA[group]) if inertia is None else inertia,
        stepsize_controller=diffrax.ConstantStepSize() if controller is None else controller,
        **{"saveat": diffrax.SaveAt(t1=True), "max_steps": 20_000, **options},
    )


@functools.cache
def exact(group: AbstractGroup, times: tuple[float, ...] = (DURATION,)) -> tuple[np.ndarray, np.ndarray]:
    """Elements and momenta at the given times, by SciPy in the matrices' entries: no chart, no exponential."""
    inertia = jnp.array(INERTIA[group])

    @jax.jit
    def rate(flat):
        q, p = flat[: -group.dim].reshape(group.shape), flat[-group.dim :]
        velocity = field(group)(0.0, (q, p), inertia)
        return jnp.concatenate([group.lift(q, velocity[: group.dim]).ravel(), velocity[group.dim :]])

    y0 = np.concatenate([np.ravel(leaf) for leaf in start(group)])
    options = {"method": "DOP853", "rtol": 3e-14, "atol": 1e-14, "t_eval": times}
    flat = solve_ivp(lambda t, y: np.asarray(rate(y)), (0.0, DURATION), y0, **options).y.T
    return flat[:, : -group.dim].reshape(-1, *group.shape), flat[:, -group.dim :]


def error(y, wanted) -> float:
    """The Euclidean norm of the difference over all entries; `y` has the times of `wanted` in front."""
    return float(np.sqrt(sum(np.sum((np.asarray(a) - b) ** 2) for a, b in zip(y, wanted, strict=True))))


def slope(sizes, errors) -> float:
    """The exponent of the power law through the points."""
    return float(np.polyfit(np.log(sizes), np.log(errors), 1)[0])
