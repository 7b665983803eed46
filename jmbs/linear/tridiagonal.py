"""Symmetric positive definite matrices of blocks on three diagonals, solved by cyclic reduction.

Every second block row is eliminated at a time, all of them at once, so n of them take log(n) rounds (G. Golub and
R. Hockney, 1965). It is a Cholesky factorisation in another order, hence as stable. A dense matrix is a single block.
Inverses of the eliminated blocks would be quicker than their factors, but err where a block is nearly singular.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.linear.lapack import cholesky, cholesky_solve


class BlockTridiagonal(NamedTuple):
    """**Arguments:** blocks `diagonal`, and `upper` right of these; the lower ones are their transposes."""

    diagonal: Float[Array, "n s s"]
    upper: Float[Array, "n-1 s s"]

    def times(self, x: Float[Array, "n s"]) -> Float[Array, "n s"]:
        """The product with a vector."""
        product = _times(self.diagonal, x)
        product = product.at[:-1].add(_times(self.upper, x[1:]))
        return product.at[1:].add(_times(_transposed(self.upper), x[:-1]))


def factorised(matrix: BlockTridiagonal) -> Callable[[Float[Array, "n s"]], Float[Array, "n s"]]:
    """A function that applies the inverse of the matrix, with one factorisation."""
    D, U = matrix
    if len(D) == 1:
        lower = cholesky(D[0])
        return lambda b: cholesky_solve(lower, b.T).T
    # Rows 1, 3, ... go: each is tied to the row before, and to the row after unless it is the last one.
    odd, even = D[1::2], D[0::2]
    kept = len(even) - 1
    before, after = U[0::2], U[1::2]
    lower = cholesky(odd)
    to_before, to_after = cholesky_solve(lower, _transposed(before)), cholesky_solve(lower[:kept], after)
    even = even.at[: len(odd)].add(-before @ to_before).at[1:].add(-_transposed(after) @ to_after)
    rest = factorised(BlockTridiagonal(even, -before[:kept] @ to_after))

    def solve(b: Array) -> Array:
        own = cholesky_solve(lower, b[1::2, :, None])[..., 0]
        given = b[0::2].at[: len(odd)].add(-_times(before, own))
        x = rest(given.at[1:].add(-_times(_transposed(after), own[:kept])))
        gone = own - _times(to_before, x[: len(odd)])
        gone = gone.at[:kept].add(-_times(to_after, x[1:]))
        return jnp.zeros_like(b).at[0::2].set(x).at[1::2].set(gone)

    return solve


def _transposed(blocks: Array) -> Array:
    return jnp.swapaxes(blocks, 1, 2)


def _times(blocks: Float[Array, "n r s"], x: Float[Array, "n s"]) -> Float[Array, "n r"]:
    return jnp.sum(blocks * x[:, None, :], axis=2)
