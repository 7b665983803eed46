"""LAPACK of many matrices, a few at a time, against JAX's own."""

import math
import re
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jmbs.linear import lapack, pseudo_inverse

MANY = 700
"""More than one call takes of matrices as large as below."""


def _random(*shape):
    return np.random.default_rng(1).standard_normal(shape)


def _definite(n):
    factor = _random(MANY, n, n)
    return factor @ factor.swapaxes(1, 2) + np.eye(n)


def _close(ours, theirs):
    for own, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(own, other, rtol=0, atol=1e-11 * np.max(np.abs(other)))


def _inverse(matrix):
    return lapack.lu_solve(*lapack.lu(matrix), matrix[0])


CASES = {
    "cholesky": (lapack.cholesky, jnp.linalg.cholesky, (_definite(6),)),
    "solve_definite": (lapack.solve_definite, jnp.linalg.solve, (_definite(6), _random(MANY, 6, 2))),
    "lu": (_inverse, lambda matrix: jnp.linalg.solve(matrix, matrix[0]), (_random(MANY, 9, 9),)),
    "least_squares": (
        lapack.least_squares,
        lambda matrix, rhs: jnp.linalg.lstsq(matrix, rhs)[0],
        (_random(MANY, 12, 5), _random(MANY, 12)),
    ),
    "svd": (lapack.svd, partial(jnp.linalg.svd, full_matrices=False), (_random(MANY, 5, 18),)),
    "singular_values": (
        lapack.singular_values,
        partial(jnp.linalg.svd, compute_uv=False),
        (_random(MANY, 18, 5),),
    ),
    "orthogonal_basis": (
        lapack.orthogonal_basis,
        lambda matrix: jnp.linalg.qr(matrix, mode="complete")[0],
        (_random(MANY, 6, 3),),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_batches_are_members(name):
    ours, theirs, arrays = CASES[name]
    _close(jax.jit(jax.vmap(ours))(*arrays), jax.jit(jax.vmap(theirs))(*arrays))
    _close(ours(*(x[0] for x in arrays)), theirs(*(x[0] for x in arrays)))


@pytest.mark.parametrize("name", CASES)
def test_no_call_is_shared_among_threads(name):
    """jaxlib compares the number of matrices times an estimate of the work for each; two such calls can deadlock."""
    ours, _, arrays = CASES[name]
    text = jax.jit(jax.vmap(jax.vmap(ours))).lower(*(x[None] for x in arrays)).compile().as_text()
    assert text is not None
    calls = [line for line in text.splitlines() if "lapack_" in line]
    assert calls
    for call in calls:
        shape = re.search(r"f64\[([\d,]+)\]", call)
        assert shape is not None
        *batch, m, n = (int(size) for size in shape[1].split(","))
        # A square result of a QR is of three reflections only: less than twice the cube.
        work = (10 if "gesdd" in call else 2 if "qr" in call else 1) * m * n * min(m, n)
        assert math.prod(batch) == 1 or math.prod(batch) * work < 200_000


def test_batches_with_one_factor():
    matrix, rhs = jnp.asarray(_definite(6)[0]), jnp.asarray(_random(MANY, 6, 1))
    _close(jax.vmap(partial(lapack.solve_definite, matrix))(rhs), jnp.linalg.solve(matrix, rhs))


@pytest.mark.parametrize("name", ["solve_definite", "least_squares", "singular_values"])
def test_derivatives(name):
    ours, theirs, arrays = CASES[name]
    weights = _random(*np.shape(jax.eval_shape(theirs, *(x[0] for x in arrays))))
    gradients = [
        jax.jit(jax.vmap(jax.grad(lambda *xs, f=f: jnp.sum(weights * f(*xs)), range(len(arrays)))))(*arrays)
        for f in (ours, theirs)
    ]
    _close(*gradients)


def test_second_derivatives():
    matrix, change, weights = _random(5, 8), _random(2, 5, 8), _random(5)
    moved = lambda x: matrix + jnp.tensordot(x, change, 1)  # noqa: E731
    ours = lambda x: weights @ jnp.sin(lapack.singular_values(moved(x)))  # noqa: E731
    theirs = lambda x: weights @ jnp.sin(jnp.sqrt(jnp.linalg.eigvalsh(moved(x) @ moved(x).T)[::-1]))  # noqa: E731
    _close(jax.hessian(ours)(jnp.zeros(2)), jax.hessian(theirs)(jnp.zeros(2)))


@pytest.mark.parametrize("function", [pseudo_inverse, lambda x: lapack.svd(x)[1], lapack.singular_values])
def test_second_derivatives_in_loops(function):
    """JAX would drop the rules there."""
    matrix = _random(3, 4)

    def rolled(scale):
        return jax.lax.scan(
            lambda sum, x: (sum + jnp.sum(function(x * matrix) ** 2), None), 0.0, jnp.stack([scale, scale**2])
        )[0]

    def written_out(scale):
        return sum(jnp.sum(function(x * matrix) ** 2) for x in (scale, scale**2))

    np.testing.assert_allclose(*(jax.hessian(f)(jnp.asarray(1.3)) for f in (rolled, written_out)), rtol=1e-12)


def test_derivatives_of_singular_vectors():
    matrix, weights = _random(2, 5, 8), _random(5, 5)

    def inverse(svd, matrix):
        u, s, vt = svd(matrix)
        return jnp.sum(weights * ((u * jnp.sin(s)) @ u.T)) + jnp.sum((vt.T / s) @ u.T * matrix.T**2)

    for change in (jax.grad, jax.hessian):
        ours, theirs = (
            jax.jit(change(partial(inverse, svd)))(matrix[0])
            for svd in (lapack.svd, partial(jnp.linalg.svd, full_matrices=False))
        )
        _close(ours, theirs)


def test_repeated_singular_values_have_finite_derivatives():
    found = jax.grad(lambda x: jnp.sum(lapack.svd(x * jnp.eye(3, 4))[0]))(2.0)
    assert jnp.isfinite(found)


def test_nothing_to_solve():
    assert lapack.solve_definite(jnp.zeros((0, 0)), jnp.zeros((0, 1))).shape == (0, 1)
    assert jax.vmap(lapack.cholesky)(jnp.zeros((3, 0, 0))).shape == (3, 0, 0)


def test_nothing_else_calls_lapack():
    package = Path(lapack.__file__).parents[1]
    calls = re.compile(r"\b(jnp|lax|jax\.scipy)\.linalg\b")
    assert [path.name for path in package.rglob("*.py") if calls.search(path.read_text())] == ["lapack.py"]
