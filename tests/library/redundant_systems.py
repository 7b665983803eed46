"""A system in redundant coordinates that has everything, and its equations written out: what the boxes must mean."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jmbs.library.redundant import redundant_system

M = np.array([[2.0, 0.3, 0.0, 0.1], [0.3, 1.5, 0.2, 0.0], [0.0, 0.2, 1.0, 0.4], [0.1, 0.0, 0.4, 2.5]])
D = np.array([[0.4, 0.1, 0.0, 0.0], [0.1, 0.3, 0.0, 0.0], [0.0, 0.0, 0.2, 0.0], [0.0, 0.0, 0.0, 0.0]])


class Twisted(eqx.Module):
    """Kinematics (3, 4) with a parameter."""

    pitch: float

    def __call__(self, zeta):
        one, zero = jnp.ones_like(zeta[0]), jnp.zeros_like(zeta[0])
        rows = [
            [jnp.cos(zeta[2]), -jnp.sin(zeta[2]), zero, zero],
            [jnp.sin(zeta[2]), jnp.cos(zeta[2]), zero, self.pitch * zeta[0]],
            [zero, zero, one, self.pitch * one],
        ]
        return jnp.array(rows)


def G(gamma):
    a, b, c, d = gamma
    zero = jnp.zeros_like(a)
    upper = jnp.array([[zero, a, b, c], [zero, zero, d, a], [zero, zero, zero, b * c], [zero, zero, zero, zero]])
    return upper - upper.T


def A(zeta):
    return jnp.array([jnp.sin(zeta[0]), jnp.ones_like(zeta[0]), zeta[1], jnp.cos(zeta[2])])


def B(zeta):
    return jnp.array([[1.0, zeta[0]], [zeta[1], 0.0], [0.0, 1.0], [0.5, zeta[2] ** 2]])


def c(zeta):
    return jnp.sin(zeta[0]) + zeta[1] * zeta[2] - 0.3


def V(zeta):
    return 3.0 * zeta[1] + 0.5 * jnp.sum(zeta**2) + zeta[0] * zeta[2] ** 3


def tau_d(zeta, w):
    return (1.0 + zeta[0] ** 2) * (jnp.asarray(D) @ w) + 0.2 * jnp.tanh(w)


Z = Twisted(0.4)


def everything(**changes):
    data = {"Z": Z, "G": G, "A": A, "B": B, "c": c, "V": V, "tau_d": tau_d, "n_positions": 3}
    return redundant_system(M, **data | changes)


def accelerations(zeta, w, force):
    """`wdot` and the multipliers `(lambda, mu)` of the equations as they are printed, by one dense solve."""
    rows = lambda zeta: jnp.stack([jax.grad(c)(zeta) @ Z(zeta), A(zeta)])  # noqa: E731
    zeta_rate = Z(zeta) @ w
    R, R_rate = jax.jvp(rows, (zeta,), (zeta_rate,))
    forces = -Z(zeta).T @ jax.grad(V)(zeta) - tau_d(zeta, w) - G(M @ w) @ w + B(zeta) @ force
    matrix = jnp.block([[jnp.asarray(M), R.T], [R, jnp.zeros((2, 2))]])
    solution = jnp.linalg.solve(matrix, jnp.concatenate([forces, -R_rate @ w]))
    return zeta_rate, solution[:4], solution[4:]
