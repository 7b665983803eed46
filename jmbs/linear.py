"""Linear solves that stay finite, in value and derivative, where constraints are redundant."""

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
    """`(y, z)` with `B^T z = b1` and `B y - A z = b2`, for symmetric non-negative `A`, redundant rows allowed.

    The quasi-definite matrix `[[eps, B^T], [B, -(A + eps)]]` is factorised once and refined against the unregularised
    equations. `y` and `A z`, `B^T z` are unique; for consistent right-hand sides `z` is of least norm to rounding
    (see `minimum_norm_saddle` where self-stress must be removed exactly). Derivatives are those of the equations, by
    one more solve with the factorisation at hand.
    """
    m, n = B.shape
    if m + n == 0:
        return b1, b2
    scale = _scale(A)
    matrix = _saddle_matrix(A / scale, B)
    eps = jnp.asarray(jnp.finfo(A.dtype).eps ** REGULARISATION_EXPONENT, A.dtype)
    signs = jnp.concatenate([jnp.ones(n, A.dtype), -jnp.ones(m, A.dtype)])
    frozen = jax.lax.stop_gradient(matrix)
    factor = jsl.lu_factor(frozen + jnp.diag(eps * signs))

    def refined(_, rhs):
        solution = jsl.lu_solve(factor, rhs)
        for _ in range(REFINEMENTS):
            solution = solution + jsl.lu_solve(factor, rhs - frozen @ solution)
        return solution

    rhs = jnp.concatenate([b1 * scale, b2])
    solution = jax.lax.custom_linear_solve(lambda z: matrix @ z, rhs, refined, symmetric=True)
    return solution[:n], solution[n:] / scale


def minimum_norm_saddle(A, B, b1, b2):
    """As `solve_saddle`, by singular values: `z` of least Euclidean norm, whatever the rank. Slower."""
    m, n = B.shape
    if m + n == 0:
        return b1, b2
    scale = _scale(A)
    solution = pseudo_inverse(_saddle_matrix(A / scale, B)) @ jnp.concatenate([b1 * scale, b2])
    return solution[:n], solution[n:] / scale


def _saddle_matrix(A: Float[Array, "m m"], B: Float[Array, "m n"]) -> Float[Array, "mn mn"]:
    n = B.shape[1]
    return jnp.block([[jnp.zeros((n, n), A.dtype), B.T], [B, -A]])


def _scale(A: Float[Array, "m m"]) -> Float[Array, ""]:
    """A common size of A, so that both block rows are of order one; no derivative runs through it."""
    size = jax.lax.stop_gradient(jnp.max(jnp.abs(jnp.diagonal(A)), initial=0.0))
    return jnp.where(size > 0, size, jnp.ones_like(size))


@jax.custom_jvp
def pseudo_inverse(matrix: Float[Array, "m n"]) -> Float[Array, "n m"]:
    """The Moore-Penrose inverse: applied to a vector, the least-squares solution of least norm.

    Singular values below `rank_tolerance(dtype)` of the largest count as zero. The derivative is the one at constant
    rank (Golub and Pereyra 1973), finite also where singular values repeat or vanish; it is written with this same
    function, so that higher derivatives follow.
    """
    u, s, vt = jnp.linalg.svd(matrix, full_matrices=False)
    keep = s > rank_tolerance(s.dtype) * jnp.max(s, initial=0.0)
    inverse = jnp.where(keep, 1.0 / jnp.where(keep, s, jnp.ones_like(s)), jnp.zeros_like(s))
    return (vt.T * inverse) @ u.T


def not_before(matrix: Float[Array, "m n"], earlier: Array) -> Float[Array, "m n"]:
    """The matrix as it is, to be used only when `earlier` has been computed.

    Two batched singular value decompositions at a time can block each other for good in the thread pool of JAX on CPU
    (seen with jaxlib 0.10.2 on 2 cores), so of two independent ones the second waits for what the first gave.
    """
    return matrix + 0.0 * jnp.sum(jax.lax.stop_gradient(earlier))


def rank_tolerance(dtype) -> float:
    """Relative size below which a singular value of a unit-scaled matrix counts as zero."""
    return float(jnp.finfo(dtype).eps ** 0.65)


@pseudo_inverse.defjvp
def _pseudo_inverse_jvp(primals, tangents):
    (matrix,), (dot,) = primals, tangents
    P = pseudo_inverse(matrix)
    m, n = matrix.shape
    left = jnp.eye(m, dtype=P.dtype) - matrix @ P
    right = jnp.eye(n, dtype=P.dtype) - P @ matrix
    return P, -P @ dot @ P + P @ P.T @ dot.T @ left + right @ dot.T @ P.T @ P
