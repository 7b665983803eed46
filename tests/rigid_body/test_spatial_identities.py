"""The identities of spatial vectors that the derivations start from."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jmbs.rigid_body import crossed, crossed_twists
from jmbs.spatial import power

KEYS = jax.random.split(jax.random.key(3), 3)


@pytest.fixture
def three():
    """Three spatial vectors in components."""
    return [(tuple(x[:3]), tuple(x[3:])) for x in (jax.random.normal(key, (6, 5)) for key in KEYS)]


def flat(column) -> np.ndarray:
    return np.asarray(jnp.stack([*column[0], *column[1]]))


def test_power_moves_a_cross_product_to_the_wrench(three):
    """(N1) of `docs/derivations/README.md`."""
    a, b, f = three
    np.testing.assert_allclose(power(crossed_twists(a, b), f), -power(b, crossed(a, f)), rtol=1e-12, atol=1e-12)


def test_cross_products_are_a_lie_algebra(three):
    """(N2) of `docs/derivations/README.md`."""
    a, b, f = three
    left = flat(crossed(a, crossed(b, f))) - flat(crossed(b, crossed(a, f)))
    np.testing.assert_allclose(left, flat(crossed(crossed_twists(a, b), f)), rtol=1e-12, atol=1e-12)
