"""The vector field of a DAE with its account, as solvers take it."""

from __future__ import annotations

import functools
from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp


@functools.cache
def velocity_field(audit: bool, baumgarte: float | None) -> Callable:
    """A function `(t, y, dae)` that gives the flat velocity of `y = (x, account)`.

    **Arguments:**

    - `audit`: whether the account's integrals are carried; without it the account is empty.
    - `baumgarte`: rate `alpha` (1/s) of Baumgarte's stabilisation `r' + 2 alpha r + alpha^2 g = 0` of rows `r` with
      closures `g` (critically damped), or None.
    """

    # Solvers trace the field several times; as a jitted function it is traced once.
    @eqx.filter_jit
    def field(t, y, dae):
        x, _ = y
        stabilisation = None
        if baumgarte is not None:
            stabilisation = 2 * baumgarte * dae.violation(t, x) + baumgarte**2 * dae.closures(x)
        rates = dae.rates(t, x, stabilisation)
        if not audit:
            return rates.velocity
        return jnp.concatenate([rates.velocity, jnp.stack(rates.power)])

    return field
