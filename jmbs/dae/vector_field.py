"""The vector field of a DAE with its account, as solvers take it."""

from __future__ import annotations

import functools
from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp

from jmbs.dae.manifold import ACCOUNT


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
        # Beyond a singularity of the coordinates the equations mean nothing: the run must not step over it.
        velocity = jnp.where(dae.regularity(x) > 0, rates.velocity, jnp.nan)
        if not audit:
            return velocity
        power = rates.power
        return jnp.concatenate([velocity, jnp.stack(power[: len(ACCOUNT)]), power.production])

    return field
