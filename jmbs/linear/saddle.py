"""Saddle systems that stay finite, in value and derivative, where constraints are redundant."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jmbs.arrays import largest
from jmbs.linear.band import band_factorised
from jmbs.linear.lapack import lu, lu_solve
from jmbs.linear.small import definite_inverse, products
from jmbs.linear.tridiagonal import BlockTridiagonal, factorised

REFINEMENTS = 2
REGULARISATION_EXPONENT = 0.6
"""Regularisation is `eps ** 0.6` of the unit-scaled matrix (4e-10 in float64, 7e-5 in float32): far above rounding, far
below the smallest singular value of a sound mechanism, so that two refinements reach rounding; and above the square of
the position drift, below which the near-null directions of redundant constraints would be amplified."""


ROUNDING = 256
"""Times `eps` the size up to which entries of a row of unit scale, in rad and m, may be nothing but rounding."""
VANISHING_EXPONENT = 0.375
"""`eps ** 0.375` of the size are entries, at most, that may be nothing but drift: 1e-6 in float64, 3e-3 in float32."""
LEAST_ENTRY = 16
"""Times `eps` the largest entry is one that may be nothing but rounding, where units may differ."""
NOTHING = 1e-30
"""Of the largest diagonal entry: one that is no more is zero."""


def without_rounding(rows: Float[Array, "m n *b"], size: Float[Array, "*b"]) -> Float[Array, "m n *b"]:
    """Rows, those zero that are nothing but rounding; derivatives are those of the rows.

    **Arguments:** `size` of the terms that entries are sums of.

    A joint that binds only what others bind already, as the second hinge of a door does, has such rows. Where there are
    no others a scale of their own would make constraints of them.
    """
    if rows.size == 0:
        return rows
    least = ROUNDING * float(jnp.finfo(rows.dtype).eps) * jax.lax.stop_gradient(size)
    nothing = (jax.lax.stop_gradient(largest(jnp.swapaxes(jnp.abs(rows), 0, 1))) <= least)[:, None]
    return rows - jax.lax.stop_gradient(jnp.where(nothing, rows, jnp.zeros_like(rows)))


def nearly_vanish(rows: Float[Array, "m n *b"], size: Float[Array, "*b"]) -> Bool[Array, "m *b"]:
    """Which rows may be nothing but drift, where others say the same; `size` as in `without_rounding`."""
    if rows.size == 0:
        return jnp.zeros((rows.shape[0], *rows.shape[2:]), bool)
    least = float(jnp.finfo(rows.dtype).eps) ** VANISHING_EXPONENT * size
    return jax.lax.stop_gradient(largest(jnp.swapaxes(jnp.abs(rows), 0, 1)) <= least)


def saddle_solver(
    A: Float[Array, "m m"], B: Float[Array, "m n"], vanishing: Bool[Array, " m"] | None = None
) -> Callable[[Array, Array], tuple[Array, Array]]:
    """A function of `b1 (n,)` and `b2 (m,)` for `(y, z)` with `B^T z = b1`, `B y - A z = b2`; redundant rows allowed.

    `A` is symmetric and non-negative. The quasi-definite matrix `[[eps, B^T], [B, -(A + eps)]]` is factorised once and
    refined against the unregularised equations. `y` and `A z`, `B^T z` are unique; for consistent right-hand sides `z`
    is of least norm to rounding, entries counted by the sizes of their rows. Derivatives are those of the
    equations, by one more solve with the factorisation at hand.

    **Arguments:** `vanishing`: which rows are to be as small as they are beside the largest, see `nearly_vanish`.
    """
    m, n = B.shape
    if m + n == 0:
        return lambda b1, b2: (b1, b2)
    if n == 0:
        inverse = definite_solver(
            BlockTridiagonal(A[None], jnp.zeros((0, m, m), A.dtype)), None if vanishing is None else vanishing[None]
        )
        return lambda b1, b2: (b1, -inverse(b2[None])[0])
    sizes = _sizes_by_columns(B, jnp.diagonal(A), _sizes(jnp.diagonal(A), vanishing), vanishing)
    rows = B / sizes[:, None]
    columns = jax.lax.stop_gradient(jnp.max(jnp.abs(rows), axis=0, initial=0.0))
    columns = jnp.where(columns > 0, columns, jnp.ones_like(columns))
    matrix = _saddle_matrix(A / (sizes[:, None] * sizes), rows / columns)
    frozen = jax.lax.stop_gradient(matrix)
    signs = jnp.concatenate([jnp.ones(n, A.dtype), -jnp.ones(m, A.dtype)])
    factors, order = lu(frozen + jnp.diag(_regularisation(A.dtype) * signs))
    refined = _refined(lambda x: frozen @ x, lambda b: lu_solve(factors, order, b))

    def solve(b1: Array, b2: Array) -> tuple[Array, Array]:
        rhs = jnp.concatenate([b1 / columns, b2 / sizes])
        solution = jax.lax.custom_linear_solve(lambda z: matrix @ z, rhs, refined, symmetric=True)
        return solution[:n] / columns, solution[n:] / sizes

    return solve


def definite_solver(
    A: BlockTridiagonal, vanishing: Bool[Array, "n s"] | None = None
) -> Callable[[Float[Array, "n s"]], Float[Array, "n s"]]:
    """A function of `b` for `z` with `A z = b`, for symmetric non-negative `A`, as in `saddle_solver`."""
    if A.diagonal.size == 0:
        return lambda b: b
    flat = None if vanishing is None else vanishing.ravel()
    sizes = _sizes(jnp.diagonal(A.diagonal, axis1=1, axis2=2).ravel(), flat).reshape(A.diagonal.shape[:2])
    across, along = sizes[:, :, None], sizes[:, None]
    matrix = BlockTridiagonal(A.diagonal / (across * along), A.upper / (across[:-1] * along[1:]))
    frozen = jax.lax.stop_gradient(matrix)
    eps = _regularisation(A.diagonal.dtype) * jnp.eye(A.diagonal.shape[-1], dtype=A.diagonal.dtype)
    refined = _refined(frozen.times, factorised(frozen._replace(diagonal=frozen.diagonal + eps)))
    return lambda b: jax.lax.custom_linear_solve(matrix.times, b / sizes, refined, symmetric=True) / sizes


def definite_solver_of_many(
    A: Float[Array, "m m b"], vanishing: Bool[Array, "m b"] | None = None
) -> Callable[[Float[Array, "m b"]], Float[Array, "m b"]]:
    """`definite_solver` of small dense matrices; it is not to be differentiated."""
    sizes = _sizes(jnp.stack([A[i, i] for i in range(A.shape[0])]), vanishing)
    matrix, eps = A / (sizes[:, None] * sizes), _regularisation(A.dtype) * jnp.eye(A.shape[0], dtype=A.dtype)
    inverse = definite_inverse(matrix + eps[..., None])
    return lambda rhs: _refined_of_many(partial(products, matrix), partial(products, inverse), rhs / sizes) / sizes


def band_solver_of_many(
    columns: Float[Array, "m h+1 b"],
    multiply: Callable[[Float[Array, "m b"]], Float[Array, "m b"]],
    vanishing: Bool[Array, "m b"] | None = None,
) -> Callable[[Float[Array, "m b"]], Float[Array, "m b"]]:
    """The same for band matrices, given as `columns`, see `band_factorised`, and by how they `multiply`."""
    m, width, _ = columns.shape
    sizes = _sizes(columns[:, -1], vanishing)
    above = np.maximum(np.arange(m)[:, None] + np.arange(1 - width, 1), 0)
    eps = _regularisation(columns.dtype) * jnp.eye(width, dtype=columns.dtype)[-1]
    inverse = band_factorised(columns / (sizes[:, None] * sizes[above]) + eps[:, None])
    return lambda rhs: _refined_of_many(lambda x: multiply(x / sizes) / sizes, inverse, rhs / sizes) / sizes


def _refined_of_many(multiply: Callable[[Array], Array], inverse: Callable[[Array], Array], rhs: Array) -> Array:
    # A loop: compilers would put all of it into one expression, which has hundreds of terms for every entry.
    refine = lambda x, _: (x + inverse(rhs - multiply(x)), None)  # noqa: E731
    return jax.lax.scan(refine, jnp.zeros_like(rhs), length=1 + REFINEMENTS)[0]


def _regularisation(dtype) -> Array:
    return jnp.asarray(jnp.finfo(dtype).eps ** REGULARISATION_EXPONENT, dtype)


def _refined(multiply: Callable[[Array], Array], inverse: Callable[[Array], Array]) -> Callable[[Any, Array], Array]:
    """What `custom_linear_solve` calls: the approximate `inverse`, refined against the product with the matrix."""

    def solve(_, rhs: Array) -> Array:
        solution = inverse(rhs)
        for _ in range(REFINEMENTS):
            solution = solution + inverse(rhs - multiply(solution))
        return solution

    return solve


def _saddle_matrix(A: Float[Array, "m m"], B: Float[Array, "m n"]) -> Float[Array, "mn mn"]:
    n = B.shape[1]
    return jnp.block([[jnp.zeros((n, n), A.dtype), B.T], [B, -A]])


def _sizes_by_columns(
    B: Float[Array, "m n"], diagonal: Float[Array, " m"], sizes: Float[Array, " m"], vanishing: Bool[Array, " m"] | None
) -> Float[Array, " m"]:
    """The `sizes` of rows; those of rows without a diagonal make their entries one beside what other rows have in the
    same columns: a gear of small coefficients, which binds rates of joints alone, would drown in the regularisation.
    Rows and columns that vanish, or are nothing but rounding, have no say."""
    B, diagonal = jax.lax.stop_gradient((jnp.abs(B), jnp.abs(diagonal)))
    least = LEAST_ENTRY * float(jnp.finfo(B.dtype).eps)
    alone = (diagonal <= NOTHING * largest(diagonal))[:, None]
    columns = jnp.max(jnp.where(alone, jnp.zeros_like(B), B / sizes[:, None]), axis=0)
    shared = columns > least * jnp.max(columns)
    own = jnp.max(jnp.where(shared, B, jnp.zeros_like(B)) / jnp.where(shared, columns, jnp.ones_like(columns)), axis=1)
    sound = alone[:, 0] & (own > 0) & (jnp.max(B, axis=1) > least * jnp.max(B))
    return jnp.where(sound if vanishing is None else sound & ~vanishing, own, sizes)


def _sizes(diagonal: Float[Array, "m *b"], vanishing: Bool[Array, "m *b"] | None) -> Float[Array, "m *b"]:
    """What to divide rows and columns by, so that their diagonal is one: then units of rows do not matter, nor how
    light a body is that they hold. No derivative runs through it.

    Rows that vanish are as small as before beside the largest: a scale of their own would make constraints of drift.
    """
    if diagonal.shape[0] == 0:
        return diagonal
    diagonal = jax.lax.stop_gradient(jnp.abs(diagonal))
    most = largest(diagonal)
    small = diagonal <= NOTHING * most
    small = small if vanishing is None else small | vanishing
    return jnp.sqrt(jnp.where(small, jnp.where(most > 0, most, jnp.ones_like(most)), diagonal))
