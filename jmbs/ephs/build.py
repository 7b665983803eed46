"""From a flattened system to its equations: planned once, components stacked."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array

from jmbs.ephs.flatten import FlatSystem
from jmbs.ephs.plan import make_plan
from jmbs.ephs.semantics import ReferenceDAE


def reference_dae(
    flat: FlatSystem,
    reference_temperature: float,
    dtype,
    eliminate: bool = True,
    kinematic: bool = True,
    apart: Collection[str] = (),
    reference_pressure: float | None = None,
) -> ReferenceDAE:
    """Plans a flattened system and stacks its components; float fields become arrays of `dtype`.

    **Arguments:** `eliminate`, `apart`: see `make_plan`; `reference_temperature` K; `reference_pressure` Pa.
    """
    cast = lambda tree: jax.tree.map(lambda leaf: _as_array(leaf, dtype), tree)  # noqa: E731
    components = {path: cast(component) for path, component in flat.components.items()}
    flat = dataclasses.replace(flat, components=components)
    plan = make_plan(flat, eliminate, apart)
    stacked = tuple(stack([components[path] for path in batch.paths]) for batch in plan.batches)
    temperature = jnp.asarray(reference_temperature, dtype)
    pressure = None if reference_pressure is None else jnp.asarray(reference_pressure, dtype)
    return ReferenceDAE(stacked, cast(dict(flat.drives)), temperature, plan, kinematic, pressure)


def stack(components: list[Any]) -> Any:
    """One pytree whose arrays have a leading axis over components of equal structure."""
    arrays, static = zip(*(eqx.partition(c, eqx.is_array) for c in components), strict=True)
    return eqx.combine(jax.tree.map(_stacked, *arrays), static[0])


def _stacked(*leaves) -> Array:
    # JAX would compile a program for each number and shape of arrays, numpy does not.
    return jnp.stack(leaves) if any(isinstance(x, Tracer) for x in leaves) else jax.device_put(np.stack(leaves))


def _as_array(leaf, dtype):
    if isinstance(leaf, float) or (hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.floating)):
        return jnp.asarray(leaf, dtype)
    return leaf
