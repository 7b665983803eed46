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
KEYS = jax.random.split(jax.random.key(7), 8)
GROUPS = [SE3, SO3xR3]
INERTIA = jnp.array([[0.4, 0.03, -0.02], [0.03, 0.5, 0.01], [-0.02, 0.01, 0.3]])
AXIS, AXIS2 = jnp.array([0.3, -0.4, 1.2]), jnp.array([1.0, 0.5, 0.1])
MOTIONS = every_motion(AXIS, AXIS2)

by_name = pytest.mark.parametrize("motion", MOTIONS, ids=lambda motion: motion.name)
by_group = pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)


def normal(key, *shape):
    return jax.random.normal(key, shape)


def element(key, space):
    return space.exp(0.7 * normal(key, space.dim))


def states(component, key):
    """A random state at every port."""
    keys = jax.random.split(key, max(len(component.ports), 1))
    return {n: element(k, p.quantity.space) for k, (n, p) in zip(keys, component.ports.items(), strict=False)}


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
