"""The Moore-Penrose inverse, with derivatives that stay finite where singular values repeat or vanish; ranks."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.jaxext import kept_rule
from jmbs.linear.lapack import singular_values, svd


def pseudo_inverse(matrix: Float[Array, "m n"]) -> Float[Array, "n m"]:
    """The Moore-Penrose inverse: applied to a vector, the least-squares solution of least norm.

    Singular values below `rank_tolerance(dtype)` of the largest count as zero. The derivative is the one at constant
    rank (Golub and Pereyra 1973), finite also where singular values repeat or vanish; it is written with this same
    function, so that higher derivatives follow.
    """
    value = jax.ShapeDtypeStruct(matrix.shape[::-1], matrix.dtype)
    (inverse,) = kept_rule(_inverse, _rule, (value,))(matrix)
    return inverse


def _inverse(matrix: Float[Array, "m n"]) -> tuple[Float[Array, "n m"]]:
    u, s, vt = svd(matrix)
    keep = s > rank_tolerance(s.dtype) * jnp.max(s, initial=0.0)
    inverse = jnp.where(keep, 1.0 / jnp.where(keep, s, jnp.ones_like(s)), jnp.zeros_like(s))
    return ((vt.T * inverse) @ u.T,)


def damped_inverse(
    matrix: Float[Array, "m n"], damping: Float[Array, ""]
) -> tuple[Float[Array, "n m"], Float[Array, "n n"]]:
    """The inverse whose product `x` with a vector `b` makes `|matrix x - b|^2 + damping^2 |x|^2` least (Levenberg); and
    the projector onto vectors of which the matrix makes nothing.

    Singular values that count as zero for `pseudo_inverse` do so here. No derivative: for iterations.
    """
    u, s, vt = svd(matrix)
    keep = s > rank_tolerance(s.dtype) * jnp.max(s, initial=0.0)
    inverse = jnp.where(keep, s, jnp.zeros_like(s)) / jnp.where(keep, s**2 + damping**2, jnp.ones_like(s))
    rows = jnp.where(keep[:, None], vt, jnp.zeros_like(vt))
    return (vt.T * inverse) @ u.T, jnp.eye(matrix.shape[1], dtype=matrix.dtype) - rows.T @ rows


def rank_tolerance(dtype) -> float:
    """Relative size below which a singular value of a unit-scaled matrix counts as zero."""
    return float(jnp.finfo(dtype).eps ** 0.65)


def _rule(primals, tangents):
    (matrix,), (dot,) = primals, tangents
    P = pseudo_inverse(matrix)
    m, n = matrix.shape
    left = jnp.eye(m, dtype=P.dtype) - matrix @ P
    right = jnp.eye(n, dtype=P.dtype) - P @ matrix
    return (P,), (-P @ dot @ P + P @ P.T @ dot.T @ left + right @ dot.T @ P.T @ P,)


def row_lengths(rows: Float[Array, "m n"]) -> Float[Array, " m"]:
    """The Euclidean length of each row."""
    return jnp.sqrt(jnp.sum(rows**2, axis=1))


def singular_values_of_directions(rows: Float[Array, "m n"]) -> Float[Array, " k"]:
    """Those of the rows scaled to unit length; rows that are zero but for rounding stay."""
    length = row_lengths(rows)[:, None]
    scaled = length > rank_tolerance(length.dtype) * jnp.max(length, initial=0.0)
    return singular_values(rows / jnp.where(scaled, length, jnp.ones_like(length)))
