"""Beliefs about values, as rows beside those of samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.identification.unknowns import Unknown, values_of


def prior_distances(blocks: Sequence[Any], x: Float[Array, " p"]) -> Float[Array, " m"]:
    """Of each value with a prior its distance from the mean in standard deviations; pure.

    **Arguments:** `blocks`: unknowns, or what has their `transform`, `prior` and `size`.
    """
    rows = [jnp.zeros(0, x.dtype)]
    values = values_of([block.transform for block in blocks], blocks, x)
    for block, value in zip(blocks, values, strict=True):
        if block.prior is not None:
            mean = math.log(block.prior.mean) if block.prior.log else block.prior.mean
            rows.append(((jnp.log(value) if block.prior.log else value) - mean) / block.prior.std)
    return jnp.concatenate(rows)


def prior_rows(blocks: Sequence[Unknown], x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """These distances (m,) and their derivative (m, p)."""
    if all(block.prior is None for block in blocks):
        return np.zeros(0), np.zeros((0, len(x)))
    at = jnp.asarray(x)
    distances, derivative = prior_distances(blocks, at), jax.jacfwd(prior_distances, argnums=1)(blocks, at)
    return np.asarray(distances, float), np.asarray(derivative, float)
