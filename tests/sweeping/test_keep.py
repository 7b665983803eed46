"""Reductions over the saved times that a run came to."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from jmbs.sweeping.keep import REDUCTIONS

TIMES = np.linspace(0.0, 1.0, 8)
VALUES = np.random.default_rng(0).normal(size=(8, 3))
EXPECTED = {
    "min": lambda x: x.min(axis=0),
    "max": lambda x: x.max(axis=0),
    "mean": lambda x: x.mean(axis=0),
    "range": lambda x: np.ptp(x, axis=0),
    "rms": lambda x: np.sqrt((x**2).mean(axis=0)),
    "last": lambda x: x[-1],
    "argmax": lambda x: TIMES[x.argmax(axis=0)],
}


def test_every_reduction_has_its_law():
    assert set(EXPECTED) == set(REDUCTIONS)


@pytest.mark.parametrize("by", REDUCTIONS)
@pytest.mark.parametrize("saved", [1, 5, 8])
def test_reductions_end_where_the_run_did(by, saved):
    """After an event samples and times are NaN."""
    there = np.arange(8) < saved
    values = jnp.where(there[:, None], VALUES, jnp.nan)
    found = REDUCTIONS[by](values, jnp.asarray(there), jnp.where(there, TIMES, jnp.nan))
    np.testing.assert_allclose(found, EXPECTED[by](VALUES[:saved]), rtol=1e-14)
