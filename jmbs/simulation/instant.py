"""What the equations say at a saved state beyond the state itself: efforts, and for the audit rates and rank."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.ephs import Rates, ReferenceDAE
from jmbs.linear import singular_values_of_directions


class Instant(NamedTuple):
    """One instant of a motion, in the numbering of the reference plan; whoever solves the equations gives it.

    - `efforts`: all of them, in parts one after the other: what nobody reads needs not be computed.
    - `rates`: with multipliers of least Euclidean norm over all rows; None without audit.
    - `singular_values`: of the constraint rows, descending, each row scaled to unit length; None without audit.
    """

    efforts: tuple[Float[Array, " some"], ...]
    rates: Rates | None
    singular_values: Float[Array, " k"] | None


def instant(dae: ReferenceDAE, t: Any, x: tuple[Array, ...], audit: bool) -> Instant:
    """The instant `(t, x)` by the reference equations, dense in the number of constraint rows."""
    if not audit:
        return Instant((dae.efforts(t, x),), None, None)
    rates = dae.rates(t, x, None, minimum_norm=True)
    return Instant((rates.efforts,), rates, _constraint_singular_values(dae, t, x))


def _constraint_singular_values(dae: ReferenceDAE, t, x) -> Float[Array, " k"]:
    """Singular values of the constraint rows at a state, each row scaled to unit length; empty without constraints.

    The rows act on all velocities that the constraints relate, so their rank is the number of independent constraints.
    """
    C = dae.constraint_matrix(t, dae.structures(x))
    return singular_values_of_directions(C) if C.size else jnp.zeros(0, C.dtype)
