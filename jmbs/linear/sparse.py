"""Matrices of linear functions, by few products where they are sparse."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.graphs import column_colours


def sparse_matrix(
    product: Callable[[Float[Array, " n"]], Float[Array, " m"]], pattern: np.ndarray, dtype
) -> Float[Array, "m n"]:
    """The matrix of a linear function from as many products as the columns of its `pattern` (m, n) have colours."""
    if not pattern.any():
        return jnp.zeros(pattern.shape, dtype)
    colours = column_colours(pattern)
    products = jax.vmap(product, out_axes=1)(seeds(colours, dtype))
    return jnp.where(pattern, products[:, colours], jnp.zeros((), dtype))


def seeds(colours: np.ndarray, dtype) -> Float[Array, "colours n"]:
    """For each colour the sum of the unit vectors of its columns."""
    return jnp.asarray(np.arange(colours.max() + 1)[:, None] == colours, dtype)
