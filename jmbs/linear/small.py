"""Small symmetric systems, many at a time: the batch axis goes last, so that every operation runs along it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.arrays import total

LONG = 8
"""Beyond so many terms sums are loops, so that neither their compile time nor what is evaluated twice grows."""


def definite_inverse(A: Float[Array, "m m b"]) -> Float[Array, "m m b"]:
    """The inverses of symmetric positive definite matrices with diagonals of one or less, by m sweeps.

    J. Goodnight, "A tutorial on the SWEEP operator", The American Statistician 33 (1979).
    """
    m = A.shape[0]

    def sweep(A: Array, k) -> tuple[Array, None]:
        at, unit = k
        row = jax.lax.dynamic_index_in_dim(A, at, keepdims=False)
        pivot = jax.lax.dynamic_index_in_dim(row, at, keepdims=False)
        # With its own entry less by one, the outer product also turns the pivot's row and column into what they become.
        row = row - unit
        return A - row[:, None] * (row / pivot)[None, :] - 2 * unit[:, None] * unit[None, :], None

    units = jnp.asarray(np.eye(m)[..., None], A.dtype)
    return -jax.lax.scan(sweep, A, (np.arange(m), units))[0]


def products(A: Float[Array, "m n b"], x: Float[Array, "n *c b"]) -> Float[Array, "m *c b"]:
    """Products of matrices with vectors or matrices, member by member."""
    own = jnp.swapaxes(A, 0, 1).reshape(A.shape[1], A.shape[0], *(1,) * (x.ndim - 2), *A.shape[2:])
    # Not as a reduction: compilers hand those over short axes to libraries that are slow with them.
    if len(x) <= LONG:
        return total(own * x[:, None])
    add = lambda so_far, pair: (so_far + pair[0] * pair[1], None)  # noqa: E731
    shape = A.shape[0], *jnp.broadcast_shapes(own.shape[2:], x.shape[1:])
    return jax.lax.scan(add, jnp.zeros(shape, x.dtype), (own, x))[0]
