"""Efforts and multipliers of a system whose constraint rows alone do not fix them.

Dampers in series with springs, resistor networks, inductors meeting at a node: all unknowns `z = (e_A, lambda)` and
their rates solve `F(x, z, t) = 0` together with its total derivative along the flow,
`dF/dz zdot + dF/dx xdot(x, z) + dF/dt = 0`, in the least-squares sense. The second equation determines whatever the
first leaves open: rows, or combinations of rows, that bind stored efforts alone.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.linear import pseudo_inverse

MAX_NEWTON_STEPS = 50
SMOOTH_STEPS = 2
"""Newton steps taken once more at the converged point with derivatives on: each doubles the order to which derivatives
are exact, so two give first, second and third derivatives without unrolling the iteration."""


def solve_general(residual: Callable, rate: Callable, t, x, size: int) -> Float[Array, " size"]:
    """`z` with `residual(t, x, z) = 0` and `d/dt residual = 0` along `rate(t, x, z)` (ambient tangent of `x`)."""
    if size == 0:
        return jnp.zeros(0, jnp.asarray(t).dtype)
    t = jnp.asarray(t)
    doubled = _doubled(residual, rate, size)

    def iterate(carry):
        y, _, count = carry
        new = _newton(doubled, y, frozen_t, frozen_x)
        return new, jnp.max(jnp.abs(new - y)) / (1.0 + jnp.max(jnp.abs(new))), count + 1

    frozen_t, frozen_x = jax.tree.map(jax.lax.stop_gradient, (t, x))
    tolerance = 100 * float(jnp.finfo(t.dtype).eps)
    start = (jnp.zeros(2 * size, t.dtype), jnp.asarray(jnp.inf, t.dtype), jnp.asarray(0))
    y, _, _ = jax.lax.while_loop(lambda c: (c[1] > tolerance) & (c[2] < MAX_NEWTON_STEPS), iterate, start)
    y = jax.lax.stop_gradient(y)
    for _ in range(SMOOTH_STEPS):
        y = _newton(doubled, y, t, x)
    return y[:size]


def freedom(residual: Callable, rate: Callable, t, x, z: Float[Array, " size"]) -> Float[Array, " size"]:
    """How far each entry of a solution `z` could move without changing the equations; zero where they determine it."""
    size = z.shape[0]
    doubled = _doubled(residual, rate, size)
    matrix = jax.jacfwd(doubled)(jnp.concatenate([z, jnp.zeros_like(z)]), t, x)
    scaled = matrix / _row_scale(matrix)[:, None]
    null = jnp.eye(2 * size, dtype=z.dtype) - pseudo_inverse(scaled) @ scaled
    return jnp.sqrt(jnp.sum(null[:size] ** 2, axis=1))


def _doubled(residual: Callable, rate: Callable, size: int) -> Callable:
    """The residual and its total derivative, as a function of `y = (z, zdot)`."""

    def equations(y, t, x):
        z, z_rate = y[:size], y[size:]
        value, total = jax.jvp(residual, (t, x, z), (jnp.ones_like(t), rate(t, x, z), z_rate))
        return jnp.concatenate([value, total])

    return equations


def _newton(equations: Callable, y, t, x):
    value, matrix = equations(y, t, x), jax.jacfwd(equations)(y, t, x)
    scale = _row_scale(matrix)
    return y - pseudo_inverse(matrix / scale[:, None]) @ (value / scale)


def _row_scale(matrix: Float[Array, "m n"]) -> Float[Array, " m"]:
    """Largest entry of each row, one for empty rows: rows in unlike units are compared on one scale."""
    size = jax.lax.stop_gradient(jnp.max(jnp.abs(matrix), axis=1))
    return jnp.where(size > 0, size, jnp.ones_like(size))
