"""Saddle systems that stay finite, in value and derivative, where constraints are redundant."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

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


def solve_saddle(
    A: Float[Array, "m m"], B: Float[Array, "m n"], b1: Float[Array, " n"], b2: Float[Array, " m"]
) -> tuple[Float[Array, " n"], Float[Array, " m"]]:
    """See `saddle_solver`."""
    return saddle_solver(A, B)(b1, b2)


def saddle_solver(A: Float[Array, "m m"], B: Float[Array, "m n"]) -> Callable[[Array, Array], tuple[Array, Array]]:
    """A function of `b1 (n,)` and `b2 (m,)` for `(y, z)` with `B^T z = b1`, `B y - A z = b2`; redundant rows allowed.

    `A` is symmetric and non-negative. The quasi-definite matrix `[[eps, B^T], [B, -(A + eps)]]` is factorised once and
    refined against the unregularised equations. `y` and `A z`, `B^T z` are unique; for consistent right-hand sides `z`
    is of least norm to rounding. Derivatives are
    those of the equations, by one more solve with the factorisation at hand.
    """
    m, n = B.shape
    if m + n == 0:
        return lambda b1, b2: (b1, b2)
    if n == 0:
        inverse = definite_solver(BlockTridiagonal(A[None], jnp.zeros((0, m, m), A.dtype)))
        return lambda b1, b2: (b1, -inverse(b2[None])[0])
    scale = _scale(A)
    matrix = _saddle_matrix(A / scale, B)
    frozen = jax.lax.stop_gradient(matrix)
    signs = jnp.concatenate([jnp.ones(n, A.dtype), -jnp.ones(m, A.dtype)])
    factors, order = lu(frozen + jnp.diag(_regularisation(A.dtype) * signs))
    refined = _refined(lambda x: frozen @ x, lambda b: lu_solve(factors, order, b))

    def solve(b1: Array, b2: Array) -> tuple[Array, Array]:
        rhs = jnp.concatenate([b1 * scale, b2])
        solution = jax.lax.custom_linear_solve(lambda z: matrix @ z, rhs, refined, symmetric=True)
        return solution[:n], solution[n:] / scale

    return solve


def definite_solver(A: BlockTridiagonal) -> Callable[[Float[Array, "n s"]], Float[Array, "n s"]]:
    """A function of `b` for `z` with `A z = b`, for symmetric non-negative `A`, as in `saddle_solver`."""
    if A.diagonal.size == 0:
        return lambda b: b
    scale = _scale(A.diagonal)
    matrix = BlockTridiagonal(A.diagonal / scale, A.upper / scale)
    frozen = jax.lax.stop_gradient(matrix)
    eps = _regularisation(A.diagonal.dtype) * jnp.eye(A.diagonal.shape[-1], dtype=A.diagonal.dtype)
    refined = _refined(frozen.times, factorised(frozen._replace(diagonal=frozen.diagonal + eps)))
    return lambda b: jax.lax.custom_linear_solve(matrix.times, b, refined, symmetric=True) / scale


def definite_solver_of_many(A: Float[Array, "m m b"]) -> Callable[[Float[Array, "m b"]], Float[Array, "m b"]]:
    """`definite_solver` of small dense matrices, each with its own scale; it is not to be differentiated."""
    scale = _scale_of_each(jnp.stack([A[i, i] for i in range(A.shape[0])]))
    matrix, eps = A / scale, _regularisation(A.dtype) * jnp.eye(A.shape[0], dtype=A.dtype)
    inverse = definite_inverse(matrix + eps[..., None])
    return lambda rhs: _refined_of_many(partial(products, matrix), partial(products, inverse), rhs) / scale


def band_solver_of_many(
    columns: Float[Array, "m h+1 b"], multiply: Callable[[Float[Array, "m b"]], Float[Array, "m b"]]
) -> Callable[[Float[Array, "m b"]], Float[Array, "m b"]]:
    """The same for band matrices, given as `columns`, see `band_factorised`, and by how they `multiply`."""
    scale = _scale_of_each(columns[:, -1])
    eps = _regularisation(columns.dtype) * jnp.eye(columns.shape[1], dtype=columns.dtype)[-1]
    inverse = band_factorised(columns / scale + eps[:, None])
    return lambda rhs: _refined_of_many(lambda x: multiply(x) / scale, inverse, rhs) / scale


def _scale_of_each(diagonal: Float[Array, "m b"]) -> Float[Array, " b"]:
    size = largest(jnp.abs(diagonal))
    return jnp.where(size > 0, size, jnp.ones_like(size))


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


def _scale(A: Float[Array, "... m m"]) -> Float[Array, ""]:
    """A common size of A, so that both block rows are of order one; no derivative runs through it."""
    diagonal = jnp.diagonal(A, axis1=-2, axis2=-1)
    size = jax.lax.stop_gradient(jnp.max(jnp.abs(diagonal), initial=0.0))
    return jnp.where(size > 0, size, jnp.ones_like(size))
