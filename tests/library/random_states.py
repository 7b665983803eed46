"""Random states of components, and their laws evaluated on samples."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from motions import every_motion
from quick import quick_jit

from jmbs.lie import (
    SE3,
    SO3xR3,
)

THETA0 = 290.0
KEYS = jnp.arange(1.0, 9.0)
"""What samples follow from; those of `jax.random` take longer to compile than most components do."""
GROUPS = [SE3, SO3xR3]
INERTIA = jnp.array([[0.4, 0.03, -0.02], [0.03, 0.5, 0.01], [-0.02, 0.01, 0.3]])
AXIS, AXIS2 = jnp.array([0.3, -0.4, 1.2]), jnp.array([1.0, 0.5, 0.1])
MOTIONS = every_motion(AXIS, AXIS2)

by_name = pytest.mark.parametrize("motion", MOTIONS, ids=lambda motion: motion.name)
by_group = pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)


def other(key, i: int):
    """Another key, by number."""
    return key + 10.0 * (i + 1)


def normal(key, *shape):
    """Numbers without order of mean 0 and variance 1, at most 1.4 in size."""
    place = np.arange(1.0, np.prod(shape, dtype=int) + 1.0).reshape(shape)
    return np.sqrt(2.0) * jnp.sin(1e3 * key * np.sqrt(place + 0.5))


def uniform(key, *shape):
    """Between 0 and 1, without order."""
    return 0.5 + jnp.arcsin(normal(key, *shape) / np.sqrt(2.0)) / np.pi


def element(key, space):
    return space.exp(0.7 * normal(key, space.dim))


def states(component, key):
    """A random state at every port."""
    return {n: element(other(key, i), p.quantity.space) for i, (n, p) in enumerate(component.ports.items())}


def sampled(function):
    """`function(key)` on all samples, compiled once."""
    return quick_jit(jax.vmap(function))(KEYS)


def gradient(component, x):
    """Efforts of a storage, left-trivialised."""

    def energy(steps):
        return component.energy({n: x[n] + component.ports[n].quantity.space.lift(x[n], s) for n, s in steps.items()})

    return jax.grad(energy)({n: jnp.zeros(p.dim) for n, p in component.ports.items()})


def assert_close(found, wanted, tolerance=1e-11):
    scale = 1.0 + float(np.max(np.abs(wanted), initial=0.0))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance * scale)
