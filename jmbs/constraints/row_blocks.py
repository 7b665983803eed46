"""What multipliers do to the condensed rows: the matrix `J M^-1 J^T`, in the blocks of the `RowPlan`."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jmbs.constraints.row_plan import RowPlan
from jmbs.jaxext import entries_at
from jmbs.linear import BlockTridiagonal, band_solver_of_many, definite_solver, seeds


def by_colour(plan: RowPlan, J: Float[Array, "m n_v"]) -> Float[Array, "colours n_v"]:
    """The sums of the rows of each colour."""
    if len(plan.blocks) == 1:
        return J
    return jnp.tensordot(seeds(plan.colours, J.dtype), J, axes=1, precision="highest")


def in_blocks(plan: RowPlan, compressed: Float[Array, "m colours"]) -> BlockTridiagonal:
    """The matrix of which the columns of each colour are given as their sum."""
    n, s = plan.blocks.shape
    if n == 1:
        return BlockTridiagonal(compressed[None], jnp.zeros((0, s, s), compressed.dtype))

    def blocks(rows: np.ndarray, columns: np.ndarray) -> Array:
        rows, columns = rows[:, :, None], columns[:, None, :]
        entries = (rows >= 0) & (columns >= 0) & plan.pattern[rows, columns]
        return jnp.where(entries, compressed[np.maximum(rows, 0), plan.colours[columns]], 0.0)

    return BlockTridiagonal(blocks(plan.blocks, plan.blocks), blocks(plan.blocks[:-1], plan.blocks[1:]))


def block_solver(
    plan: RowPlan, A: BlockTridiagonal, vanishing: Bool[Array, " m"] | None = None
) -> Callable[[Float[Array, " m"]], Float[Array, " m"]]:
    """A function of `b` for `z` with `A z = b`, where rows may be redundant: see `jmbs.linear.definite_solver`."""
    blocks = plan.blocks
    inverse = definite_solver(A, None if vanishing is None else vanishing[blocks] | (blocks < 0))
    place = np.argsort(blocks.ravel())[-len(plan.pattern) :]

    def solve(b: Array) -> Array:
        return inverse(jnp.where(blocks >= 0, b[blocks], 0.0)).ravel()[place]

    return solve


def band_solver(
    plan: RowPlan, entries: Float[Array, "m colours b"], vanishing: Bool[Array, "m b"] | None = None
) -> Callable[[Float[Array, "m b"]], Array]:
    """The same for the compressed matrices of many mechanisms, row by row."""
    A, order, back = plan.compressed, plan.order, np.argsort(plan.order)

    def multiply(x: Array) -> Array:
        return entries_at(A.times(entries, entries_at(x, back)), order)

    small = None if vanishing is None else entries_at(vanishing, order)
    inverse = band_solver_of_many(A.at(entries, plan.band), multiply, small)
    return lambda b: entries_at(inverse(entries_at(b, order)), back)
