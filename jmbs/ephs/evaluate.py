"""Evaluating the components of a batch together, under one `vmap`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.ephs.component import Efforts
from jmbs.ephs.interface import ENTROPY
from jmbs.ephs.plan import Batch


class ReferenceConditions(NamedTuple):
    """Of the environment: temperature, K, and pressure, Pa, None where nothing looks at it."""

    temperature: Float[Array, ""]
    pressure: Float[Array, ""] | None


def energy_gradient(batch: Batch) -> Callable:
    """`dE(x)` of one component, left-trivialised, by power port."""

    def gradient(component, states: Mapping[str, Array]) -> dict[str, Array]:
        spaces = {p.name: p.space for p in batch.ports}

        def energy(steps):
            moved = {name: states[name] + spaces[name].lift(states[name], step) for name, step in steps.items()}
            return component.energy(moved)

        zeros = {p.name: jnp.zeros(p.space.dim, states[p.name].dtype) for p in batch.ports if p.efforts is not None}
        return jax.grad(energy)(zeros)

    return gradient


def each(batch: Batch, function: Callable, *args):
    """`function` of every component of a batch; the counter is there for batches without any array."""
    return eqx.filter_vmap(lambda _, *rest: function(*rest))(jnp.arange(len(batch.paths)), *args)


def onsager(batch: Batch, reference: ReferenceConditions) -> Callable:
    """`M(x, e)` of one component from its stacked efforts."""

    def matrix(component, states, efforts):
        return component.onsager(states, efforts_of(batch, reference, efforts)).astype(efforts.dtype)

    return matrix


def efforts_of(batch: Batch, reference: ReferenceConditions, efforts: Float[Array, " P"]) -> Efforts:
    """The stacked efforts of one component as it receives them."""
    return Efforts(by_port(batch, efforts), *reference)


def by_port(batch: Batch, efforts: Float[Array, " P"]) -> dict[str, Array]:
    """The efforts of one component of a batch, by port."""
    split, start = {}, 0
    for port in batch.ports:
        if port.efforts is not None:
            split[port.name] = efforts[start : start + port.space.dim]
            start += port.space.dim
    return split


def thermal_mask(batch: Batch) -> np.ndarray:
    """Which entries of the stacked power ports are thermal, shape (1, P)."""
    power = [p for p in batch.ports if p.efforts is not None]
    return np.concatenate([np.full(p.space.dim, p.quantity == ENTROPY) for p in power])[None, :]


def transformer_rows(batch: Batch, component, A: Array) -> Array:
    """A transformer kept as a constraint: `0 = A e_in - e_out` over the stacked power ports."""
    parts = []
    start = 0
    for port in batch.ports:
        if port.efforts is None:
            continue
        if port.name == component.output:
            parts.append(-jnp.broadcast_to(jnp.eye(port.space.dim, dtype=A.dtype), (*A.shape[:2], port.space.dim)))
        else:
            parts.append(A[:, :, start : start + port.space.dim])
            start += port.space.dim
    return jnp.concatenate(parts, axis=2)
