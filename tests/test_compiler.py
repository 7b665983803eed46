"""`kernels_apart` is the identity in every mode; derivatives show it, where loops are one kernel each."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jmbs.compiler import EXTRA, FLAGS, compiles_whole_loops, kernels_apart


@pytest.mark.parametrize("whole", [False, True])
def test_kernels_are_kept_apart_in_derivatives(monkeypatch, whole):
    monkeypatch.setenv("XLA_FLAGS", FLAGS[EXTRA] if whole else "")  # XLA itself has read its flags already
    assert compiles_whole_loops() == whole

    def cubes(x):
        return jnp.sum(kernels_apart(x) ** 3)

    def text(function):
        return jax.jit(lambda x: function(x)).lower(x).as_text()

    x = jnp.array([1.0, 2.0, 3.0])
    rows = jnp.stack([x, -x])
    for derivative in (jax.grad(cubes), jax.jacfwd(cubes)):
        np.testing.assert_array_equal(derivative(x), 3 * x**2)
        np.testing.assert_array_equal(jax.vmap(derivative)(rows), 3 * rows**2)
        assert ("scatter" in text(derivative)) == whole
    np.testing.assert_array_equal(jax.hessian(cubes)(x), jnp.diag(6 * x))
    assert "scatter" not in text(cubes)
    one = jnp.ones(1)
    np.testing.assert_array_equal(jax.vmap(jax.grad(cubes), -1, -1)(one[:, None]), 3 * one[:, None])
