"""Whether stability and not accuracy decided the steps of a run; asked where it ends for their number."""

from __future__ import annotations

from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.solvers import Problem

ITERATIONS, COUNTED = 250, 200
"""Power iterations, and how many of the last count: sizes swing where coordinates and velocities take turns."""
NEAR = 0.6
"""The share of the longest stable step that steps have on average where stability decides them."""


def fastest_rate(problem: Problem, t: Float[Array, ""], y: Any) -> Float[Array, ""]:
    """The largest magnitude of the eigenvalues of the velocities' Jacobian at a state, 1/s, by power iteration."""
    manifold = problem.solver.manifold
    still = manifold.zero(y)

    def velocity(step: Float[Array, " n"]) -> Float[Array, " n"]:
        return problem.term.vf(t, manifold.retract(y, step), problem.args)

    def iterate(along: Float[Array, " n"], _) -> tuple[Array, Array]:
        change = jax.jvp(velocity, (still,), (along,))[1]
        size = jnp.sqrt(jnp.sum(change**2))
        return change / jnp.where(size > 0, size, 1.0), size

    start = jnp.cos(1 + jnp.arange(still.size)).astype(still.dtype)
    _, sizes = jax.lax.scan(iterate, start, length=ITERATIONS)
    # The geometric mean of all, for single ones swing.
    return jnp.exp(jnp.mean(jnp.log(sizes[-COUNTED:])))


def stability_limit(method: diffrax.AbstractSolver) -> float | None:
    """The longest step, times the rate, with which an explicit method lets a decay decay; None for other methods.

    `|R(-z)| <= 1` up to it, `R(z) = 1 + z sum_k z^k b . A^k 1` (E. Hairer, G. Wanner, "Solving Ordinary Differential
    Equations II", IV.2).
    """
    tableau = getattr(method, "tableau", None)
    if not isinstance(method, diffrax.AbstractERK) or not isinstance(tableau, diffrax.ButcherTableau):
        return None
    stages = len(tableau.b_sol)
    matrix = np.zeros((stages, stages))
    for row, lower in enumerate(tableau.a_lower, 1):
        matrix[row, : len(lower)] = lower
    terms, powers = [1.0], np.ones(stages)
    for _ in range(stages):
        terms.append(float(tableau.b_sol @ powers))
        powers = matrix @ powers
    z = np.arange(0.0, 50.0, 1e-3)
    unstable = np.abs(np.polynomial.polynomial.polyval(-z, terms)) > 1 + 1e-9
    return float(z[np.argmax(unstable)]) if unstable.any() else None
