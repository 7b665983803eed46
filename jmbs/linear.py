"""Linear solves that stay finite where constraints are redundant."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
from jaxtyping import Array, Float

REFINEMENTS = 2
REGULARISATION_EXPONENT = 0.6
"""Regularisation is `eps ** 0.6` of the unit-scaled matrix (4e-10 in float64, 7e-5 in float32): far above rounding, far
below the smallest singular value of a sound mechanism, so that two refinements reach rounding; and above the square of
the position drift, below which the near-null directions of redundant constraints would be amplified."""


def solve_saddle(
    A: Float[Array, "m m"], B: Float[Array, "m n"], b1: Float[Array, " n"], b2: Float[Array, " m"]
) -> tuple[Float[Array, " n"], Float[Array, " m"]]:
    """`(y, z)` with `B^T z = b1` and `B y - A z = b2`, for non-negative `A`, redundant rows allowed.

    The quasi-definite matrix `[[eps, B^T], [B, -(A + eps)]]` is factorised once and refined against the unregularised
    equations. `y` and `A z`, `B^T z` are unique; for consistent right-hand sides `z` is of least norm to rounding
    (see `minimum_norm_saddle` where self-stress must be removed exactly). Smooth, so all derivatives exist.
    """
    m, n = B.shape
    if m + n == 0:
        return b1, b2
    scale = _scale(A)
    matrix = jnp.block([[jnp.zeros((n, n), A.dtype), B.T], [B, -A / scale]])
    rhs = jnp.concatenate([b1 * scale, b2])
    eps = jnp.finfo(A.dtype).eps ** REGULARISATION_EXPONENT
    signs = jnp.concatenate([jnp.ones(n, A.dtype), -jnp.ones(m, A.dtype)])
    factor = jsl.lu_factor(matrix + jnp.diag(jnp.asarray(eps, A.dtype) * signs))
    solution = jsl.lu_solve(factor, rhs)
    for _ in range(REFINEMENTS):
        solution = solution + jsl.lu_solve(factor, rhs - matrix @ solution)
    return solution[:n], solution[n:] / scale


def minimum_norm_saddle(A, B, b1, b2):
    """As `solve_saddle`, by singular values: `z` of least Euclidean norm, whatever the rank. Slower."""
    m, n = B.shape
    if m + n == 0:
        return b1, b2
    scale = _scale(A)
    matrix = jnp.block([[jnp.zeros((n, n), A.dtype), B.T], [B, -A / scale]])
    solution = minimum_norm_solve(matrix, jnp.concatenate([b1 * scale, b2]))
    return solution[:n], solution[n:] / scale


def _scale(A: Float[Array, "m m"]) -> Float[Array, ""]:
    """A common size of A, so that both block rows are of order one; no derivative runs through it."""
    size = jax.lax.stop_gradient(jnp.max(jnp.abs(jnp.diagonal(A)), initial=0.0))
    return jnp.where(size > 0, size, jnp.ones_like(size))


@jax.custom_jvp
def minimum_norm_solve(matrix: Float[Array, "m n"], rhs: Float[Array, " m"]) -> Float[Array, " n"]:
    """The least-squares solution of least norm, by singular values.

    Singular values below `RANK_TOLERANCE(dtype)` of the largest count as zero. The derivative is that of the
    pseudo-inverse at constant rank (Golub and Pereyra 1973), finite also where singular values repeat or vanish;
    it is built from this same function, so that higher derivatives follow.
    """
    u, s, vt = jnp.linalg.svd(matrix, full_matrices=False)
    keep = s > rank_tolerance(s.dtype) * jnp.max(s, initial=0.0)
    inverse = jnp.where(keep, 1.0 / jnp.where(keep, s, jnp.ones_like(s)), jnp.zeros_like(s))
    return vt.T @ (inverse * (u.T @ rhs))


def rank_tolerance(dtype) -> float:
    """Relative size below which a singular value of a unit-scaled matrix counts as zero."""
    return float(jnp.finfo(dtype).eps ** 0.65)


@minimum_norm_solve.defjvp
def _minimum_norm_solve_jvp(primals, tangents):
    matrix, rhs = primals
    matrix_dot, rhs_dot = tangents
    x = minimum_norm_solve(matrix, rhs)
    residual = rhs - matrix @ x
    left = minimum_norm_solve(matrix.T, x)
    range_part = minimum_norm_solve(matrix, rhs_dot - matrix_dot @ x)
    residual_part = minimum_norm_solve(matrix, minimum_norm_solve(matrix.T, matrix_dot.T @ residual))
    null = matrix_dot.T @ left
    null_part = null - minimum_norm_solve(matrix, matrix @ null)
    return x, range_part + residual_part + null_part
