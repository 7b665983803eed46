"""Symmetric positive definite band matrices, many at a time, row by row.

The batch axis goes last. That is one loop, whatever the number of rows: inside of a kernel it takes a fraction of
what calls of a library take.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.arrays import total


def band_factorised(columns: Float[Array, "m h+1 b"]) -> Callable[[Float[Array, "m b"]], Float[Array, "m b"]]:
    """A function that applies the inverse of a matrix A, with one factorisation `A = L D L^T`.

    **Arguments:** the upper band's `columns`, `columns[i, k] = A[i - h + k, i]`; zero above the first row; h > 0.
    """
    h = columns.shape[1] - 1
    # As many rows of the unit matrix go before and after, so that each has h neighbours.
    unit = jnp.zeros((h, *columns.shape[1:]), columns.dtype).at[:, h].set(1.0)
    start = jnp.broadcast_to(jnp.eye(h, dtype=columns.dtype)[..., None], (h, h, columns.shape[2]))

    def eliminate(left: Array, column: Array) -> tuple[Array, tuple[Array, Array]]:
        """The first of h rows goes; what is left of the others, and one more."""
        whole = jnp.concatenate([left, column[None, :h]])
        whole = jnp.concatenate([whole, column[:, None]], axis=1)
        pivot, row = whole[0, 0], whole[0, 1:]
        factors = row / pivot
        return whole[1:, 1:] - factors[:, None] * row[None], (pivot, factors)

    pivots, factors = (x[h:] for x in jax.lax.scan(eliminate, start, jnp.concatenate([columns, unit]))[1])
    zero = jnp.zeros((h, columns.shape[2]), columns.dtype)

    def forward(taken: Array, row: tuple[Array, Array]) -> tuple[Array, Array]:
        """`taken`: what the rows before take from this and the following ones."""
        factors, b = row
        own = b - taken[0]
        return jnp.concatenate([taken[1:], zero[:1]]) + factors * own, own

    def backward(after: Array, row: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        """`after`: the solutions of the following rows."""
        factors, pivot, y = row
        own = y / pivot - total(factors * after)
        return jnp.concatenate([own[None], after[:-1]]), own

    def solve(b: Array) -> Array:
        y = jax.lax.scan(forward, zero, (factors, b))[1]
        return jax.lax.scan(backward, zero, (factors, pivots, y), reverse=True)[1]

    return solve
