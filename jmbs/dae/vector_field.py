"""The vector field of a DAE with its account, as solvers take it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.dae.manifold import ACCOUNT


class Field(NamedTuple):
    """What a vector field needs beside time and state.

    **Arguments:** `dae`; `baumgarte`: rate `alpha` (1/s) of Baumgarte's stabilisation `r' + 2 alpha r + alpha^2 g = 0`
    of rows `r` with closures `g` (critically damped), or None.
    """

    dae: Any
    baumgarte: Float[Array, ""] | None = None


@functools.cache
def velocity_field(audit: bool) -> Callable:
    """A function `(t, y, field)` that gives the flat velocity of `y = (x, account)`; see `Field`.

    **Arguments:** `audit`: whether the account's integrals are carried; without it the account is empty.
    """

    # Solvers trace the field several times; as a jitted function it is traced once.
    @eqx.filter_jit
    def velocity_of(t, y, field: Field):
        (x, _), (dae, baumgarte) = y, field
        stabilisation = None
        if baumgarte is not None:
            violation, opening = dae.residuals(t, x)
            stabilisation = 2 * baumgarte * violation + baumgarte**2 * opening
        rates = dae.rates(t, x, stabilisation)
        velocity = rates.velocity
        if dae.has_domain:
            # Beyond a singularity of the coordinates the equations mean nothing: the run must not step over it.
            velocity = jnp.where(dae.regularity(x) > 0, velocity, jnp.nan)
        if not audit:
            return velocity
        power = rates.power
        return jnp.concatenate([velocity, jnp.stack(power[: len(ACCOUNT)]), power.production])

    return velocity_of
