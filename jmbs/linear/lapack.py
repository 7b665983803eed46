"""Factorisations by LAPACK, of one matrix and, under `jax.vmap`, of many: a few at a time.

jaxlib 0.10.0 to 0.11.0 shares the matrices of one call among the threads of a pool, in which the caller waits. Two such
calls at a time can block each other for good (seen with 0.10.2 on 2 cores); a call of little work is not shared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir
from jaxtyping import Array, Float, Int

from jmbs.arrays import batch_size, types_of_values
from jmbs.jaxext import is_off, kept_rule

UNSHARED = 200_000
"""Calls of fewer floating-point operations are not shared."""


def cholesky(matrix: Float[Array, "... n n"]) -> Float[Array, "... n n"]:
    """The lower factor of a symmetric positive definite matrix, of which only the lower triangle is looked at.

    Not to be differentiated.
    """
    return _call(_cholesky, matrix)[0]


def cholesky_solve(lower: Float[Array, "... n n"], rhs: Float[Array, "... n r"]) -> Float[Array, "... n r"]:
    """The solution, from the lower factor."""
    return _call(_cholesky_solve, lower, rhs)[0]


def lu(matrix: Float[Array, "... n n"]) -> tuple[Float[Array, "... n n"], Int[Array, "... n"]]:
    """Both triangular factors in one matrix, and `order`: row i of their product is row `order[i]` of the matrix.

    Not to be differentiated.
    """
    factors, _, order = _call(_lu, matrix)
    return factors, order


def lu_solve(factors: Float[Array, "... n n"], order: Int[Array, "... n"], rhs: Float[Array, "... n"]) -> Array:
    """The solution, from the two that `lu` gives."""
    ordered = jnp.take_along_axis(rhs, order, axis=-1)[..., None]
    return _call(_lu_solve, factors, ordered)[0][..., 0]


def svd(matrix: Float[Array, "... m n"]) -> tuple[Array, Array, Array]:
    """`U (..., m, k)`, singular values `(..., k)`, descending, and `V^T (..., k, n)`; k is the lesser of m and n.

    Differentiable; vectors of a value that repeats, or vanishes, are taken not to change among themselves.
    """
    u, s, vt = kept_rule(_svd_of, _svd_rule, _svd_shapes(matrix))(matrix)
    return u, s, vt


def _svd_of(matrix: Array) -> tuple[Array, ...]:
    return tuple(_call(_svd, matrix))


def _svd_shapes(matrix: Array) -> tuple[jax.ShapeDtypeStruct, ...]:
    *batch, m, n = matrix.shape
    k = min(m, n)
    return tuple(jax.ShapeDtypeStruct((*batch, *shape), matrix.dtype) for shape in ((m, k), (k,), (k, n)))


def _svd_rule(primals: tuple, tangents: tuple):
    """J. Townsend, "Differentiating the singular value decomposition" (2016)."""
    (dA,) = tangents
    u, s, vt = svd(*primals)
    ut, v, dAt = (jnp.swapaxes(x, -1, -2) for x in (u, vt, dA))
    inner = ut @ dA @ v
    row, column = s[..., None, :], s[..., :, None]
    share = _inverse_or_zero((row - column) * (row + column))
    turned = jnp.swapaxes(inner, -1, -2)
    du = u @ (share * (inner * row + column * turned)) + (dA @ v - u @ inner) * _inverse_or_zero(row)
    dv = v @ (share * (column * inner + turned * row)) + (dAt @ u - v @ turned) * _inverse_or_zero(row)
    return (u, s, vt), (du, jnp.diagonal(inner, axis1=-2, axis2=-1), jnp.swapaxes(dv, -1, -2))


def _inverse_or_zero(x: Array) -> Array:
    return jnp.where(x == 0, x, 1 / jnp.where(x == 0, jnp.ones_like(x), x))


def singular_values(matrix: Float[Array, "... m n"]) -> Float[Array, "... k"]:
    """In descending order; differentiable."""
    (values,) = kept_rule(_singular_values_of, _singular_values_rule, _svd_shapes(matrix)[1:2])(matrix)
    return values


def _singular_values_of(matrix: Array) -> tuple[Array]:
    return (svd(matrix)[1],)


def _singular_values_rule(primals: tuple, tangents: tuple):
    u, s, vt = svd(*primals)
    return (s,), (jnp.sum(u * (tangents[0] @ jnp.swapaxes(vt, -1, -2)), axis=-2),)


def orthogonal_basis(matrix: Float[Array, "... m n"]) -> Float[Array, "... m m"]:
    """An orthonormal basis of the whole space, the columns' own space first; not to be differentiated."""
    return _call(_orthogonal_basis, matrix)[0]


def solve_definite(matrix: Float[Array, "... n n"], rhs: Float[Array, "... n r"]) -> Float[Array, "... n r"]:
    """The solution with a symmetric positive definite matrix; differentiable as the solution of its equations."""
    lower = cholesky(jax.lax.stop_gradient(matrix))
    solve = lambda _, b: cholesky_solve(lower, b)  # noqa: E731
    return jax.lax.custom_linear_solve(lambda x: matrix @ x, rhs, solve, symmetric=True)


def least_squares(matrix: Float[Array, "m n"], rhs: Float[Array, " m"]) -> Float[Array, " n"]:
    """The least-squares solution, from its normal equations; columns are independent."""
    return solve_definite(matrix.T @ matrix, (matrix.T @ rhs)[:, None])[:, 0]


def _cholesky(matrix: Array) -> tuple[Array]:
    return (jnp.linalg.cholesky(matrix, symmetrize_input=False),)


def _cholesky_solve(lower: Array, rhs: Array) -> tuple[Array]:
    half = jax.lax.linalg.triangular_solve(lower, rhs, left_side=True, lower=True)
    return (jax.lax.linalg.triangular_solve(lower, half, left_side=True, lower=True, transpose_a=True),)


def _lu(matrix: Array) -> tuple[Array, Array, Array]:
    factors, pivots, order = jax.lax.linalg.lu(matrix)
    return factors, pivots, order


def _lu_solve(factors: Array, rhs: Array) -> tuple[Array]:
    half = jax.lax.linalg.triangular_solve(factors, rhs, left_side=True, lower=True, unit_diagonal=True)
    return (jax.lax.linalg.triangular_solve(factors, half, left_side=True),)


def _svd(matrix: Array) -> tuple[Array, Array, Array]:
    u, s, vt = jnp.linalg.svd(matrix, full_matrices=False)
    return u, s, vt


def _orthogonal_basis(matrix: Array) -> tuple[Array]:
    return (jnp.linalg.qr(matrix, mode="complete")[0],)


EFFORT = {_svd: 10, _orthogonal_basis: 4}
"""What jaxlib takes a function for, in operations for each entry and row or column; else 1."""


def _work(function: Callable, shape: tuple[int, ...]) -> int:
    """A bound of jaxlib's estimate for one matrix."""
    return EFFORT.get(function, 1) * shape[-2] * shape[-1] * max(shape[-2:])


_lapack = Primitive("lapack")
_lapack.multiple_results = True


def _call(function: Callable[..., tuple[Array, ...]], *matrices: Array) -> list[Array]:
    return list(function(*matrices)) if is_off("lapack") else _lapack.bind(*matrices, function=function)


def _few_at_a_time(*matrices: Array, function: Callable) -> Sequence[Array]:
    batch = matrices[0].shape[:-2]
    count, work = math.prod(batch), max(_work(function, matrix.shape) for matrix in matrices)
    if count == 1 or count * work < UNSHARED:
        return function(*matrices)
    flat = tuple(matrix.reshape(count, *matrix.shape[-2:]) for matrix in matrices)
    values = jax.lax.map(lambda few: function(*few), flat, batch_size=max(1, (UNSHARED - 1) // work))
    return [value.reshape(*batch, *value.shape[1:]) for value in values]


def _types(*matrices: ShapedArray, function: Callable) -> list[ShapedArray]:
    return types_of_values(function, matrices)


def _batch(matrices: Sequence, axes: Sequence, *, function: Callable):
    size = batch_size(matrices, axes)
    whole = (
        jnp.broadcast_to(matrix, (size, *matrix.shape)) if axis is None else jnp.moveaxis(matrix, axis, 0)
        for matrix, axis in zip(matrices, axes, strict=True)
    )
    values = _call(function, *whole)
    return values, [0] * len(values)


_lapack.def_impl(_few_at_a_time)
_lapack.def_abstract_eval(_types)
batching.primitive_batchers[_lapack] = _batch
mlir.register_lowering(_lapack, mlir.lower_fun(lambda *xs, function: function(*xs), multiple_results=True))
mlir.register_lowering(_lapack, mlir.lower_fun(_few_at_a_time, multiple_results=True), platform="cpu")
