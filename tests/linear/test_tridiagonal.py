"""Block tridiagonal matrices, and matrices found by few products, against dense linear algebra."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quick import quick_jit

from jmbs.linear import BlockTridiagonal, SparseRows, definite_solver, factorised, saddle_solver, sparse_matrix
from jmbs.linear.band import band_factorised

SIZES = [(1, 3), (2, 2), (3, 1), (4, 2), (7, 3), (8, 2)]


def random_matrix(n: int, s: int, rank: int | None = None) -> tuple[BlockTridiagonal, np.ndarray]:
    """A sum of non-negative matrices on neighbouring blocks, of full rank or of `rank` each; and the same, dense."""
    rng = np.random.default_rng(n)
    dense = np.zeros((n * s, n * s))
    for k in range(max(n - 1, 1)):
        near = slice(k * s, (k + 2) * s)
        size = len(dense[near])
        root = rng.normal(size=(size, size if rank is None else rank))
        dense[near, near] += root @ root.T
    at = dense.reshape(n, s, n, s)
    diagonal = np.stack([at[k, :, k] for k in range(n)])
    upper = np.stack([np.zeros((s, s)), *(at[k, :, k + 1] for k in range(n - 1))])[1:]
    return BlockTridiagonal(jnp.asarray(diagonal), jnp.asarray(upper)), dense


@pytest.mark.parametrize(("n", "s"), SIZES)
def test_products_and_solutions_are_those_of_the_dense_matrix(n, s):
    matrix, dense = random_matrix(n, s)
    x = np.random.default_rng(0).normal(size=(n, s))
    product, solution = quick_jit(lambda A, x: (A.times(x).ravel(), factorised(A)(x).ravel()))(matrix, jnp.asarray(x))
    np.testing.assert_allclose(product, dense @ x.ravel(), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(solution, np.linalg.solve(dense, x.ravel()), rtol=0, atol=1e-9 * abs(solution).max())


def test_without_full_rank_it_agrees_with_the_dense_solver():
    matrix, dense = random_matrix(6, 3, rank=2)
    assert np.linalg.matrix_rank(dense) < len(dense)
    b = dense @ np.random.default_rng(0).normal(size=len(dense))
    free, none = jnp.zeros((len(dense), 0)), jnp.zeros(0)
    _, wanted = quick_jit(lambda A, b: saddle_solver(A, free)(none, b))(jnp.asarray(dense), jnp.asarray(-b))
    found = quick_jit(lambda A, b: definite_solver(A)(b).ravel())(matrix, jnp.asarray(b.reshape(6, 3)))
    np.testing.assert_allclose(dense @ found, b, atol=1e-12)
    np.testing.assert_allclose(found, wanted, atol=1e-4)  # the part without effect is of least norm by regularisation


def test_derivatives_are_those_of_the_dense_equation():
    matrix, _ = random_matrix(4, 2)
    b = jnp.asarray(np.random.default_rng(0).normal(size=(4, 2)))

    def dense(matrix: BlockTridiagonal, b):
        whole = jax.vmap(lambda e: matrix.times(e.reshape(4, 2)).ravel(), out_axes=1)(jnp.eye(8))
        return jnp.sum(jnp.sin(jnp.linalg.solve(whole, b.ravel())))

    solved = lambda m, b: jnp.sum(jnp.sin(definite_solver(m)(b)))  # noqa: E731
    gradients = (quick_jit(jax.grad(f, argnums=(0, 1)))(matrix, b) for f in (solved, dense))
    for mine, wanted in zip(*map(jax.tree.leaves, gradients), strict=True):
        np.testing.assert_allclose(mine, wanted, atol=1e-9 * float(jnp.max(jnp.abs(wanted))))


def test_a_sparse_matrix_from_products():
    rng = np.random.default_rng(0)
    pattern = rng.random((7, 9)) < 0.3
    dense = np.where(pattern, rng.normal(size=pattern.shape), 0.0)
    found = quick_jit(lambda A: sparse_matrix(lambda x: A @ x, pattern, jnp.float64))(jnp.asarray(dense))
    np.testing.assert_allclose(found, dense, atol=1e-14)


@pytest.mark.parametrize(("m", "h"), [(1, 1), (4, 3), (9, 2)])
def test_band_matrices_row_by_row(m, h):
    rng = np.random.default_rng(m)
    near = np.abs(np.arange(m)[:, None] - np.arange(m)) <= h
    A = np.where(near, rng.normal(size=(m, m)), 0.0)
    A, b = A + A.T + 4 * (h + 1) * np.eye(m), rng.normal(size=(m, 2))
    columns = np.array([[A[i - h + k, i] if i >= h - k else 0.0 for k in range(h + 1)] for i in range(m)])
    solve = quick_jit(lambda columns, b: band_factorised(columns)(b))
    found = solve(jnp.asarray(columns[..., None] * [1.0, 2.0]), jnp.asarray(b))
    np.testing.assert_allclose(found, np.linalg.solve(A, b) / [1.0, 2.0], atol=1e-13)


@pytest.mark.parametrize("width", [2, 12])
def test_rows_with_few_entries(width):
    """Up to eight terms are written out; beyond, sums are loops."""
    rng = np.random.default_rng(width)
    pattern = rng.permuted(np.arange(15) < np.array([width, *[1] * 4])[:, None], axis=1)
    rows, dense = SparseRows.of(pattern), np.where(pattern, rng.normal(size=pattern.shape), 0.0)[..., None]
    entries = np.take_along_axis(dense, np.maximum(rows.columns, 0)[..., None], axis=1) * (rows.columns >= 0)[..., None]
    x, y = rng.normal(size=(15, 1)), rng.normal(size=(5, 1))
    np.testing.assert_allclose(rows.at(jnp.asarray(entries), rows.places), dense)
    np.testing.assert_allclose(rows.times(jnp.asarray(entries), jnp.asarray(x)), dense[..., 0] @ x, atol=1e-14)
    found = rows.transposed_times(jnp.asarray(entries), jnp.asarray(y))
    np.testing.assert_allclose(found, dense[..., 0].T @ y, atol=1e-14)
