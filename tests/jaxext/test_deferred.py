"""A deferred linear function is what it is without that, in every mode and order; and costs nothing where unused."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jmbs.jaxext import deferred

rng = np.random.default_rng(0)
A, B = (jnp.asarray(rng.normal(size=shape) + 3 * np.eye(3)) for shape in ((3, 3), (2, 3, 3)))
X, Y = (jnp.asarray(rng.normal(size=shape)) for shape in ((2, 3), (2,)))


def plain(known, arguments):
    (matrix,), (x, y) = known, arguments
    return jnp.sin(matrix) @ x + y * matrix[0], jnp.sum(matrix**2) * x


def function(matrix, x, y, lazy):
    if not lazy:
        return plain((matrix,), (x, y))
    return deferred(plain, (matrix,), (x, y), (jax.ShapeDtypeStruct(x.shape, x.dtype),) * 2)


def total(matrix, x, y, lazy):
    a, b = function(matrix, x, y, lazy)
    return jnp.sum(a * jnp.cos(b))


def transposed(matrix, x, lazy):
    of = lambda x, y: function(matrix, x, y, lazy)  # noqa: E731
    return jax.linear_transpose(of, x, x[0])((x, 2 * x))


WAYS = {
    "value": lambda lazy: function(A, X[0], Y[0], lazy),
    "batch": lambda lazy: jax.vmap(functools.partial(function, lazy=lazy))(B, X, Y),
    "known in common": lambda lazy: jax.vmap(functools.partial(function, lazy=lazy), (None, 0, None))(A, X, Y[0]),
    "transposed": lambda lazy: transposed(A, X[0], lazy),
    "transposed batch": lambda lazy: jax.vmap(functools.partial(transposed, lazy=lazy), (0, None))(B, X[0]),
    "transposed by known": lambda lazy: jax.jacfwd(transposed)(A, X[0], lazy),
    "forwards": lambda lazy: jax.jacfwd(function, argnums=(0, 1))(A, X[0], Y[0], lazy),
    "gradient": lambda lazy: jax.grad(total, argnums=(0, 1, 2))(A, X[0], Y[0], lazy),
    "second": lambda lazy: jax.hessian(total, argnums=(0, 1))(A, X[0], Y[0], lazy),
    "reverse over reverse": lambda lazy: jax.jacrev(jax.grad(total))(A, X[0], Y[0], lazy),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_same_as_not_deferred(way):
    compiled = jax.jit(way, static_argnums=0)
    for found, wanted in zip(jax.tree.leaves(compiled(True)), jax.tree.leaves(compiled(False)), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


def test_not_traced_by_the_gradient_of_a_solution():
    """The gradient solves the transposed system, and has no need of the system itself."""
    traced = []

    def product(known, arguments):
        traced.append(1)
        return (known[0] @ arguments[0],)

    def solution(matrix, b):
        system = lambda x: deferred(product, (matrix,), (x,), (jax.ShapeDtypeStruct(b.shape, b.dtype),))[0]  # noqa: E731
        solve = lambda _, b: jnp.linalg.solve(matrix, b)  # noqa: E731
        solve_transposed = lambda _, b: jnp.linalg.solve(matrix.T, b)  # noqa: E731
        return jax.lax.custom_linear_solve(system, b, solve, solve_transposed)

    gradient = jax.jit(jax.grad(lambda b: jnp.sum(solution(A, b) ** 2)))(X[0])
    inverse = jnp.linalg.inv(A)
    np.testing.assert_allclose(gradient, 2 * inverse.T @ (inverse @ X[0]), rtol=1e-12)
    assert not traced
    slope = jax.jacfwd(solution)(A, X[0])
    np.testing.assert_allclose(slope, -jnp.einsum("ij,k->ijk", inverse, inverse @ X[0]), rtol=1e-11)
    assert traced
