"""Entries and sums at known places against look-ups and scatters of JAX, in every mode."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quick import quick_jit

from jmbs.jaxext import entries_across, entries_at, sums_at

RANDOM = np.random.default_rng(0)
PLACES = {
    "all": np.arange(5),
    "some that follow each other": np.array([1, 2, 3]),
    "out of order": np.array([4, 0, 2]),
    "more than once": np.array([3, 3, 0, 3, 1, 0]),
    "none": np.zeros(0, int),
    "a table": np.array([[4, 1], [1, 0], [2, 2]]),
}


@pytest.mark.parametrize("at", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("shape", [(5,), (5, 2, 3)], ids=str)
def test_entries_are_looked_up(at, shape):
    x, changes = jnp.asarray(RANDOM.normal(size=shape)), jnp.asarray(RANDOM.normal(size=(2, *shape)))
    weights = RANDOM.normal(size=np.empty(shape)[at].shape)

    def in_every_mode(look):
        along_last = jax.vmap(look, -1, -1)(jnp.moveaxis(changes, 0, -1)).T
        gradient = jax.grad(lambda x: jnp.vdot(look(x), weights))(x)
        cubes = jax.vmap(jax.grad(lambda x: jnp.vdot(look(x) ** 3, weights)))
        second = jax.jvp(cubes, (changes,), (changes[::-1],))[1]
        return look(x), jax.vmap(look)(changes), along_last, *jax.jvp(look, (x,), (changes[0],)), gradient, second

    both = quick_jit(lambda: (in_every_mode(lambda x: entries_at(x, at)), in_every_mode(lambda x: x[at])))
    *same, gradient, second = zip(*both(), strict=True)
    for found, wanted in same:
        np.testing.assert_array_equal(found, wanted)
    np.testing.assert_allclose(*gradient, atol=1e-15)
    np.testing.assert_allclose(*second, atol=1e-14)


SUMS = {
    "some": np.array([2, 0, 2, -1, 1, 2]),
    "nowhere": np.full(6, -1),
    "each once": np.array([3, 1, -1, 0, -1, 2]),
    "many at one place": np.array([1, 1, 3, 1, 1, 1]),
}


@pytest.mark.parametrize("at", SUMS.values(), ids=SUMS)
def test_sums_go_to_their_places(at):
    x, weights = jnp.asarray(RANDOM.normal(size=(6, 2))), RANDOM.normal(size=(4, 2))

    def in_every_mode(sums):
        along_last = jax.vmap(sums, -1, -1)(jnp.stack([x, 2 * x], -1))
        cubes = lambda x: jnp.vdot(sums(x) ** 3, weights)  # noqa: E731
        return sums(x), along_last, jax.grad(cubes)(x), jax.hessian(cubes)(x)

    scattered = lambda x: jnp.zeros((4, 2)).at[at[at >= 0]].add(x[at >= 0])  # noqa: E731
    both = quick_jit(lambda: (in_every_mode(lambda x: sums_at(x, at, 4)), in_every_mode(scattered)))
    for found, wanted in zip(*both(), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-14)


def test_a_derivative_of_a_sum_is_as_long_as_the_sum():
    """However many places are empty, or how many entries one has."""
    at = np.concatenate([np.zeros(40, int), [77, 99]])
    derivative = jax.grad(lambda x: jnp.sum(sums_at(x, at, 100) ** 2))
    assert jax.jit(derivative).lower(jnp.ones(len(at))).as_text().count("stablehlo.") < 60


def test_nothing_scatters():
    at = np.array([3, 3, 0])
    program = jax.jit(jax.grad(lambda x: jnp.sum(entries_at(x, at) ** 2))).lower(jnp.ones(5)).as_text()
    assert "scatter" not in program


@pytest.mark.parametrize("sizes", [(5,), (2, 3), (0, 2, 0, 0, 3, 0)], ids=str)
@pytest.mark.parametrize("at", PLACES.values(), ids=PLACES)
def test_entries_across_vectors(at, sizes):
    parts = jnp.split(jnp.arange(5.0), np.cumsum(sizes)[:-1])
    np.testing.assert_array_equal(entries_across(parts, at), np.arange(5.0)[at])


def test_vectors_that_hold_no_entry_are_not_touched():
    look = lambda *parts: entries_across(parts, np.array([4, 3]))  # noqa: E731
    text = jax.jit(look, keep_unused=True).lower(jnp.ones(2), jnp.ones(3)).as_text()
    assert text.count("%arg0") == 1 < text.count("%arg1")
