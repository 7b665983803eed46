"""Whether a system whose rows do not fix its free efforts can be continued from a state; see `jmbs.ephs.general`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.ephs.general import freedom
from jmbs.ephs.rates import State
from jmbs.ephs.semantics import ReferenceDAE

UNDETERMINED = 1e-4
"""Share of an effort that may lie in the null space of the equations, by rounding, before it counts as undetermined."""


def imbalance(dae: ReferenceDAE, t, x: State) -> Float[Array, ""]:
    """How far a state is from one that can be continued: what balances and rows leave, relative to the flows."""
    t = jnp.asarray(t, dae.reference_temperature.dtype)
    z = dae.general_unknowns(t, x)
    residual, (_, given, e, *_) = dae.general_equations(t, x, z)
    size = jnp.max(jnp.abs(jnp.concatenate([given, e, z])), initial=0.0)
    return jnp.max(jnp.abs(residual), initial=0.0) / jnp.where(size > 0, size, jnp.ones_like(size))


def undetermined(dae: ReferenceDAE, t, x: State) -> str | None:
    """Name of a free junction whose effort nothing determines at a state, or None; concrete only."""
    plan, (residual, rate) = dae.plan, dae.general_residual_and_rate()

    @jax.jit
    def freedoms(t, x):
        return freedom(residual, rate, t, x, dae.general_unknowns(t, x))

    loose = np.asarray(freedoms(jnp.asarray(t, dae.reference_temperature.dtype), x))
    for name in plan.free_junctions:
        if np.any(loose[plan.slots[name] - plan.n_stored] > UNDETERMINED):
            return name
    return None
