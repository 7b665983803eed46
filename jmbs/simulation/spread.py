"""A batch of consistent states that differ a little in their velocities."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.linear import pseudo_inverse
from jmbs.simulation.model import Model
from jmbs.simulation.state import State, to_internal

SPREAD = 0.01
"""Standard deviation of the random velocities, rad/s and m/s, before constraints take their part away."""


def spread_states(model: Model, state: State, batch: int, seed: int) -> State:
    """`batch` copies of a consistent state, leading axis of every block, with small random velocities added.

    What is added lies in the null space of the constraint rows, so joints, loops and rolling bodies stay consistent.
    Where the rows do not fix all efforts (`dae.kinematic` is false) there is no such rule, and members are equal.
    """
    blocks, plan = state.blocks, model.dae.plan
    directions = np.asarray(_free_velocities(model, state))
    drawn = np.random.default_rng(seed).standard_normal((batch, directions.shape[0]))
    added = jnp.asarray(SPREAD * drawn @ directions if model.dae.kinematic else 0.0 * drawn, model.dtype)
    spread, start = [], 0
    for block, value in zip(plan.blocks, blocks, strict=True):
        value = jnp.broadcast_to(value, (batch, *value.shape))
        if block.from_effort:
            size = value[0].size
            value = value + added[:, start : start + size].reshape(value.shape)
            start += size
        spread.append(value)
    return State(tuple(spread), state.names, state.joints)


@eqx.filter_jit
def _free_velocities(model: Model, state: State) -> Float[Array, "stored stored"]:
    """Maps velocities onto those that the constraint rows allow, for some value of the free efforts beside them."""
    dae, plan = model.dae, model.dae.plan
    stored = [np.arange(b.slots.start, b.slots.stop) for b in plan.blocks if b.from_effort]
    slots = np.concatenate([*stored, np.arange(plan.n_stored, plan.n_stored + plan.n_free)]).astype(int)
    rows = dae.constraint_matrix(jnp.asarray(model.settings.t0, model.dtype), dae.structures(to_internal(dae, state)))
    rows = rows[:, slots]
    count = len(slots) - plan.n_free
    if rows.shape[0] == 0:
        return jnp.eye(count, dtype=model.dtype)
    null = jnp.eye(len(slots), dtype=model.dtype) - pseudo_inverse(rows) @ rows
    return null[:count, :count]
