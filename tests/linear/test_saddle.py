"""Solvers of constraints whose rows are of very different size: solutions are those of the equations in plain numpy."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from jmbs.linear import (
    BlockTridiagonal,
    band_solver_of_many,
    definite_solver,
    definite_solver_of_many,
    nearly_vanish,
    saddle_solver,
)

SIZES = 10.0 ** np.array([0, -4, 3, -5, 2, 0])


def matrix(rng: np.random.Generator) -> np.ndarray:
    """Positive definite and of half bandwidth one, its rows in units of their own."""
    lower = np.eye(6) + 0.4 * np.diag(rng.normal(size=5), -1)
    return SIZES[:, None] * (lower @ lower.T) * SIZES


def dense(A, vanishing=None):
    solve = definite_solver_of_many(jnp.asarray(A)[..., None], None if vanishing is None else vanishing[:, None])
    return lambda b: solve(b[:, None])[:, 0]


def band(A, vanishing=None):
    columns = np.stack([np.append(0.0, np.diag(A, 1)), np.diag(A)], axis=1)
    multiply = lambda x: jnp.asarray(A) @ x  # noqa: E731
    small = None if vanishing is None else vanishing[:, None]
    solve = band_solver_of_many(jnp.asarray(columns)[..., None], multiply, small)
    return lambda b: solve(b[:, None])[:, 0]


def blocks(A, vanishing=None):
    diagonal, upper = np.stack([A[:3, :3], A[3:, 3:]]), A[None, :3, 3:]
    small = None if vanishing is None else vanishing.reshape(2, 3)
    solve = definite_solver(BlockTridiagonal(jnp.asarray(diagonal), jnp.asarray(upper)), small)
    return lambda b: solve(b.reshape(2, 3)).ravel()


def saddle(A, vanishing=None):
    solve = saddle_solver(jnp.asarray(A), jnp.zeros((6, 0)), vanishing)
    return lambda b: -solve(jnp.zeros(0), b)[1]


@pytest.mark.parametrize("solver", [dense, band, blocks, saddle])
def test_rows_in_units_of_their_own(solver):
    rng = np.random.default_rng(3)
    A, b = matrix(rng), SIZES * rng.normal(size=6)
    np.testing.assert_allclose(solver(A)(jnp.asarray(b)) * SIZES, np.linalg.solve(A, b) * SIZES, rtol=1e-9)


def test_free_efforts_in_units_of_their_own():
    rng = np.random.default_rng(4)
    A, B = matrix(rng), SIZES[:, None] * rng.normal(size=(6, 2)) * np.array([1e-4, 1e3])
    b1, b2 = np.array([1e-4, 1e3]) * rng.normal(size=2), SIZES * rng.normal(size=6)
    y, z = saddle_solver(jnp.asarray(A), jnp.asarray(B))(jnp.asarray(b1), jnp.asarray(b2))
    np.testing.assert_allclose(B.T @ z, b1, rtol=1e-7)
    np.testing.assert_allclose((B @ y - A @ z) / SIZES, b2 / SIZES, rtol=1e-7)


@pytest.mark.parametrize("solver", [dense, band, blocks, saddle])
def test_a_row_that_vanishes_binds_nothing(solver):
    """What is left of it is drift, which a scale of its own would make a constraint of."""
    A, drift, which = matrix(np.random.default_rng(3)), 1e-8, np.arange(6) == 2
    A[2], A[:, 2] = 0.0, 0.0
    A[2, 2] = drift**2
    z = solver(A, jnp.asarray(which))(jnp.asarray(np.where(which, drift, SIZES)))
    assert abs(z[2]) < 1.0
    np.testing.assert_allclose(A[~which][:, ~which] @ z[~which], SIZES[~which], rtol=1e-9)


def test_rows_nearly_vanish_beside_the_size_of_their_terms():
    rows = jnp.asarray([[1e-8, 0.0], [1e-3, 0.0], [0.0, 0.0], [0.0, -1.0]])
    assert nearly_vanish(rows, jnp.asarray(1.0)).tolist() == [True, False, True, False]


@pytest.mark.parametrize("size", [1.0, 1e-3, 1e-6])
def test_rows_that_bind_free_unknowns_alone_hold_whatever_their_size(size):
    """A gear of small coefficients between joint rates: the second row has nothing in `A`, and its unit is its own."""
    A, B = np.diag([5.0, 3.0, 0.0]), np.array([[1.0, 0.0], [0.0, 1.0], [size, -2 * size]])
    b1, b2 = np.array([2.0, 0.3]), np.array([0.1, -0.4, 0.5 * size])
    y, z = saddle_solver(*(jnp.asarray(x, "float32") for x in (A, B)))(*(jnp.asarray(x, "float32") for x in (b1, b2)))
    exact = np.linalg.solve(np.block([[np.zeros((2, 2)), B.T], [B, -A]]), np.concatenate([b1, b2]))
    np.testing.assert_allclose(np.concatenate([y, z]), exact, rtol=2e-5)


@pytest.mark.parametrize("vanishing", [None, np.array([False, False, False, True])])
def test_rounding_gives_no_row_a_size(vanishing):
    """Neither what a row has in columns of others, nor a whole row, nor what a column has of rows with a diagonal."""
    A = np.diag([5.0, 3.0, 0.0, 0.0])
    for last, third in (([1.0, 1e-17, 1.0], [0.0, 0.0, 1.0]), ([1e-17, 0.0, 0.0], [1.0, -2.0, 1.0])):
        B = np.array([[1.0, 0.0, 1e-17], [0.0, 1.0, 0.0], third, last])
        z = np.array([0.3, -0.2, 0.7, 0.0 if third[0] else 0.5])
        y = np.array([0.1, 0.2, -0.4])
        small = None if vanishing is None else jnp.asarray(vanishing)
        found = saddle_solver(jnp.asarray(A), jnp.asarray(B), small)(jnp.asarray(B.T @ z), jnp.asarray(B @ y - A @ z))
        np.testing.assert_allclose(found[0], y, atol=1e-8)
        np.testing.assert_allclose(found[1], z, atol=1e-8)
