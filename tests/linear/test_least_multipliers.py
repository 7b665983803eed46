"""Multipliers of least norm: those of the pseudo-inverse, and right where rows are of very different size."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jmbs.linear import least_multipliers, pseudo_inverse, row_lengths

RNG = np.random.default_rng(3)


@pytest.mark.parametrize("redundant", [False, True])
def test_they_are_those_of_the_pseudo_inverse(redundant):
    """With derivatives, also where some rows say what others do."""
    rows, change = (jnp.asarray(RNG.normal(size=(4, 6))) for _ in range(2))
    mix = jnp.eye(4).at[3].set(jnp.array([1.0, -2.0, 0.5, 0.0])) if redundant else jnp.eye(4)
    z = jnp.asarray(RNG.normal(size=4))

    def found(function):
        of = lambda s: function(mix @ (rows + s * change), (mix @ (rows + s * change)).T @ z)  # noqa: E731
        return jax.jvp(of, (0.0,), (1.0,))

    by_inverse = found(lambda rows, wanted: pseudo_inverse(rows).T @ wanted)
    for one, other in zip(found(least_multipliers), by_inverse, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-10)


def test_batches_of_both_kinds_keep_each_its_own():
    mixes = jnp.stack([jnp.eye(3), jnp.eye(3).at[2].set(jnp.array([1.0, 1.0, 0.0]))])
    rows = mixes @ jnp.asarray(RNG.normal(size=(3, 5)))
    wanted = jnp.einsum("bmn,m->bn", rows, jnp.array([0.3, -1.0, 0.7]))
    alone = [least_multipliers(*one) for one in zip(rows, wanted, strict=True)]
    np.testing.assert_allclose(jax.vmap(least_multipliers)(rows, wanted), alone, atol=1e-12)


@pytest.mark.parametrize("size", [1e-4, 1.0, 1e4])
def test_units_of_lengths_do_not_matter(size):
    """Weight and drive of a long leaf on a hinge, in single precision: its weight was lost beside its length."""
    rows = np.array([[1.0, 0.0, 0.0], [size, 1.0, 0.0], [0.0, size, 1.0]])
    z = np.array([-31.0 * size, 78.0, -7.0])
    found = least_multipliers(jnp.asarray(rows, "float32"), jnp.asarray(rows.T @ z, "float32"))
    np.testing.assert_allclose(found, z, rtol=1e-3, atol=2e-5)


def test_rows_that_are_rounding_stay_small():
    rows = jnp.array([[1.0, 0.0, 2.0], [1e-17, 0.0, -1e-17]])
    found = least_multipliers(rows, rows.T @ jnp.array([2.0, 0.0]) + 1e-12)
    assert np.max(np.abs(found - jnp.array([2.0, 0.0]))) < 1e-3


@pytest.mark.parametrize(("dtype", "size"), [("float64", 1e-6), ("float64", 1e-9), ("float32", 1e-3)])
def test_a_small_row_keeps_its_own_beside_redundant_ones(dtype, size):
    """A belt on pulleys of a millimetre, and a door on two hinges."""
    rng = np.random.default_rng(5)
    door, belt = rng.normal(size=(3, 4)), size * rng.normal(size=(1, 3))
    rows = np.block([[np.vstack([door, door[:2] + door[1:]]), np.zeros((5, 3))], [np.zeros((1, 4)), belt]])
    shares = np.linalg.pinv(rows[:5]).T @ rows[:5].T @ rng.normal(size=5)
    z = np.append(shares, 280e-3 / size)
    found = least_multipliers(jnp.asarray(rows, dtype), jnp.asarray(rows.T @ z, dtype))
    np.testing.assert_allclose(found, z, rtol=1e-8 if dtype == "float64" else 1e-3)


@pytest.mark.parametrize("arm", [1.0, 1e-4, 1e-6, 1e-7])
def test_forces_and_moments_of_tiny_mechanisms(arm):
    """Of forces, whose arms are as small as the mechanism, two are told apart by moments alone, which are that small
    beside forces; one of all is undetermined."""
    rng = np.random.default_rng(5)
    forces, moments = rng.normal(size=(6, 7)), np.concatenate([np.zeros((2, 4)), rng.normal(size=(2, 3))], axis=1)
    in_own_units = np.concatenate([forces, moments])
    units = np.array([1.0] * 6 + [arm] * 2)
    rows = in_own_units / units[:, None] * np.array([1.0] * 4 + [arm] * 3)
    free = np.linalg.svd(in_own_units)[0][:, 7] * units
    given = rng.normal(size=8) * units
    expected = given - free * (free @ given) / (free @ free)
    found = least_multipliers(jnp.asarray(rows), jnp.asarray(rows.T @ given))
    np.testing.assert_allclose(found / units, expected / units, atol=1e-6)
    np.testing.assert_allclose(rows.T @ found, rows.T @ given, rtol=1e-7)


def test_columns_that_are_rounding_stay_small():
    rows = RNG.normal(size=(4, 6))
    z = np.array([1.0, 2.0, 3.0, 4.0])
    with_noise = np.column_stack([rows, 1e-17 * RNG.normal(size=4)])
    found = least_multipliers(jnp.asarray(with_noise), jnp.asarray(np.append(rows.T @ z, 1e-15)))
    np.testing.assert_allclose(found, z, rtol=1e-9)


def test_derivatives_where_a_row_has_no_part_here():
    """The third row and the others say no more of each other only at this configuration."""
    rows = lambda s: jnp.array([[1.0, 0.0], [2.0, 2.0 * s], [0.0, 1.0]])  # noqa: E731
    found = lambda s: least_multipliers(rows(s), jnp.array([1.0, 2.0]))  # noqa: E731
    np.testing.assert_allclose(found(0.0), [0.2, 0.4, 2.0], rtol=1e-12)
    for mode in (jax.jacfwd, jax.jacrev):
        np.testing.assert_allclose(mode(found)(0.0), [-1.6, 0.8, -0.8], rtol=1e-12)


def test_lengths_of_rows_that_vanish_have_derivatives():
    """As rows of planar loops across their plane do: a margin of constraints had none."""
    rows = jnp.asarray([[3.0, 4.0], [0.0, 0.0]])
    np.testing.assert_array_equal(row_lengths(rows), [5.0, 0.0])
    np.testing.assert_allclose(jax.grad(lambda rows: jnp.sum(row_lengths(rows)))(rows), [[0.6, 0.8], [0.0, 0.0]])
