"""Values between equally spaced knots by polynomials through the six nearest, and rates at the knots.

A run's steps may be longer than the spacing of the samples: between them the error is that of sixth order, below that
of the usual methods. Derivatives by the times, so by a sensor's delay, are exact for the interpolant.
"""

from __future__ import annotations

from typing import Any

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


REACH = ORDER // 2
"""Knots from a time on, or from a knot whose rate is wanted, that its polynomial goes through."""


def at_times(
    start: Array, step: Array, values: Float[Array, " knots"], times: Float[Array, " n"], known: Any = None
) -> Float[Array, " n"]:
    """Values at `times`, s, of a signal known at `start + i step`; ahead of the start its first value.

    **Arguments:** `values`: at ORDER knots or more, of which the first `known` count, all if it is None.
    """
    known = values.shape[0] if known is None else known
    places = jnp.maximum((times - start) / step, 0.0)
    first = jnp.clip(jnp.floor(places).astype(int) - REACH + 1, 0, known - ORDER)
    within = places - first.astype(places.dtype)
    weights = jnp.stack([within**i for i in range(ORDER)], axis=1) @ jnp.asarray(_BASIS, values.dtype)
    return jnp.sum(weights * values[first[:, None] + jnp.arange(ORDER)], axis=1)


def rate(step: Array, values: Float[Array, "knots *k"], known: Any = None) -> Float[Array, "knots *k"]:
    """Time derivative at the knots of values that are `step` (s) apart; `known`: see `at_times`."""
    knots = jnp.arange(values.shape[0])
    first = jnp.clip(knots - REACH + 1, 0, (values.shape[0] if known is None else known) - ORDER)
    weights = jnp.asarray(_SLOPES, values.dtype)[jnp.minimum(knots - first, ORDER - 1)]
    near = values[first[:, None] + np.arange(ORDER)]
    return jnp.einsum("tk,tk...->t...", weights, near) / step
