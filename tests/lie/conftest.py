"""The groups under test and samples of their tangents: at zero, next to it, moderate, and next to pi."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jmbs.lie import SE2, SE3, SO3, AbstractGroup, Product, Rn, SO3xR3

GROUPS = (SO3, SE3, SO3xR3, SE2, Rn(3), Product((SO3, Rn(2), SE2)))
ANGLES = (0.0, 0.0, 1e-9, 1e-9, 1e-4, 1e-4, 0.05, 0.4, 1.0, 1.7, 2.5, 3.0, np.pi - 1e-3, np.pi - 1e-6, np.pi - 1e-9)


def angular_slices(group: AbstractGroup) -> list[slice]:
    """Where the rotational parts of a tangent lie."""
    if isinstance(group, Product):
        slices, start = [], 0
        for factor in group.groups:
            slices += [slice(s.start + start, s.stop + start) for s in angular_slices(factor)]
            start += factor.dim
        return slices
    if group == SE2:
        return [slice(2, 3)]
    return [slice(0, 3)] if group in (SO3, SE3, SO3xR3) else []


def draw_tangents(group: AbstractGroup, angles=ANGLES, seed: int = 0, dtype=np.float64) -> jax.Array:
    """One tangent per entry of `angles`, with rotational parts of exactly that length; the first is zero throughout."""
    rng = np.random.default_rng(seed)
    xi = rng.normal(size=(len(angles), group.dim))
    for s in angular_slices(group):
        direction = xi[:, s] / np.linalg.norm(xi[:, s], axis=1, keepdims=True)
        xi[:, s] = direction * np.asarray(angles)[:, None]
    if angles[0] == 0.0:
        xi[0] = 0.0
    return jnp.asarray(xi.astype(dtype))


@pytest.fixture(params=GROUPS, ids=lambda g: g.name)
def group(request) -> AbstractGroup:
    return request.param


@pytest.fixture(scope="session")
def draw():
    return draw_tangents


@pytest.fixture(scope="session")
def over():
    """`over(f, *batches)`: `f` compiled and mapped over samples."""

    def call(function, *batches):
        return jax.jit(jax.vmap(function))(*batches)

    return call
