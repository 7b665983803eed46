"""The Moore-Penrose inverse, with derivatives that stay finite where singular values repeat or vanish; ranks."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.jaxext import any_member, kept_rule
from jmbs.linear.lapack import singular_values, svd

ROUNDING = 16.0
"""Times `eps` the largest row or column is one that may be nothing but rounding."""


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


def least_multipliers(rows: Float[Array, "m n"], wanted: Float[Array, " n"]) -> Float[Array, " m"]:
    """Of all `z` for which `rows.T @ z` is `wanted` the one of least norm.

    Rows and columns are scaled first, so that it does not matter how large the entries of one row are beside those of
    another; rows that are nothing but rounding are as small as they are.
    """
    if rows.size == 0:
        return jnp.zeros(len(rows), rows.dtype)
    sizes = _sizes(row_lengths(rows))[:, None]
    scaled = rows / sizes
    columns = _sizes(jnp.max(jnp.abs(scaled), axis=0))
    scaled = scaled / columns
    inverse = pseudo_inverse(scaled)
    found = inverse.T @ (wanted / columns) / sizes[:, 0]

    def least() -> Float[Array, " m"]:
        free = without_effect(scaled, inverse) / sizes
        return found - free @ (pseudo_inverse(free) @ found)

    redundant = len(rows) - jnp.trace(scaled @ inverse) > 0.5
    return jax.lax.cond(any_member(redundant), least, lambda: found)


def _sizes(largest: Float[Array, " n"]) -> Float[Array, " n"]:
    """What to divide by so that the largest entries are one, without derivative: that of all for mere rounding."""
    largest = jax.lax.stop_gradient(largest)
    most = jnp.max(largest)
    nothing = largest <= ROUNDING * float(jnp.finfo(largest.dtype).eps) * most
    return jnp.where(nothing, jnp.where(most > 0, most, jnp.ones_like(most)), largest)


def without_effect(rows: Float[Array, "m n"], inverse: Float[Array, "n m"]) -> Float[Array, "m m"]:
    """A basis of those `z` for which `rows.T @ z` is zero, orthonormal, in columns, of which those beyond it are zero.

    So are entries of rows that have no part in it, and are not rounding, which would count where rows are scaled back.
    **Arguments:** `inverse`: the rows' pseudo-inverse, for the derivative, which is that at constant rank.
    """
    m, n = rows.shape
    left, values, _ = svd(jnp.pad(jax.lax.stop_gradient(rows), ((0, 0), (0, max(m - n, 0)))))
    free = values <= rank_tolerance(values.dtype) * jnp.max(values, initial=0.0)
    basis = jnp.where(free, left, jnp.zeros_like(left))
    part = jnp.max(jnp.abs(basis), axis=1, initial=0.0)[:, None] > rank_tolerance(basis.dtype)
    basis = jnp.where(part, basis, jnp.zeros_like(basis))
    torn = inverse.T @ (rows.T @ basis)
    return basis - (torn - jax.lax.stop_gradient(torn))


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
    """The Euclidean length of each row; the derivative of a row that is zero is zero."""
    squares = jnp.sum(rows**2, axis=1)
    zero = squares == 0
    return jnp.where(zero, 0.0, jnp.sqrt(jnp.where(zero, 1.0, squares)))


def singular_values_of_directions(rows: Float[Array, "m n"]) -> Float[Array, " k"]:
    """Those of the rows scaled to unit length; rows that are zero but for rounding stay."""
    length = row_lengths(rows)[:, None]
    scaled = length > rank_tolerance(length.dtype) * jnp.max(length, initial=0.0)
    return singular_values(rows / jnp.where(scaled, length, jnp.ones_like(length)))
