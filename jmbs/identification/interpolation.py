"""Values between equally spaced knots by polynomials through the six nearest, and rates at the knots.

A run's steps may be longer than the spacing of the samples: between them the error is that of sixth order, below that
of the usual methods. Derivatives by the times, so by a sensor's delay, are exact for the interpolant.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

ORDER = 6
"""Knots that a polynomial goes through."""


def _basis() -> np.ndarray:
    """Coefficients (power, knot) of the Lagrange polynomials through knots 0 to ORDER - 1."""
    return np.linalg.inv(np.vander(np.arange(ORDER), increasing=True).astype(float))


_BASIS = _basis()
_SLOPES = (np.arange(ORDER)[:, None] ** np.arange(ORDER)[None, :-1] * np.arange(1, ORDER)) @ _BASIS[1:]
"""Derivative of the polynomials (at knot, of knot)."""


def at_times(
    start: Array, step: Array, values: Float[Array, " knots"], times: Float[Array, " n"]
) -> Float[Array, " n"]:
    """Values at `times`, s, of a signal known at `start + i step`; ahead of the start its first value.

    **Arguments:** `values`: at ORDER knots or more.
    """
    places = jnp.maximum((times - start) / step, 0.0)
    first = jnp.clip(jnp.floor(places).astype(int) - ORDER // 2 + 1, 0, values.shape[0] - ORDER)
    within = places - first.astype(places.dtype)
    weights = jnp.stack([within**i for i in range(ORDER)], axis=1) @ jnp.asarray(_BASIS, values.dtype)
    return jnp.sum(weights * values[first[:, None] + jnp.arange(ORDER)], axis=1)


def rate(step: Array, values: Float[Array, "knots *k"]) -> Float[Array, "knots *k"]:
    """Time derivative at the knots of values that are `step` (s) apart."""
    knots = values.shape[0]
    first = np.clip(np.arange(knots) - ORDER // 2 + 1, 0, knots - ORDER)
    weights = jnp.asarray(_SLOPES[np.arange(knots) - first], values.dtype)
    near = values[first[:, None] + np.arange(ORDER)]
    return jnp.einsum("tk,tk...->t...", weights, near) / step
