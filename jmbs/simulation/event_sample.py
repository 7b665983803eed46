"""The sample at the event that ended a run: where it stands among the saved ones, and what it says by itself."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jmbs.programs import quick_to_compile
from jmbs.simulation.status import Status
from jmbs.solvers import Event

if TYPE_CHECKING:
    from jmbs.simulation.trajectory import Trajectory


def times_with(event: Event, times: Float[Array, " T"]) -> Float[Array, " T"]:
    """Saved times, with that of the event for its row."""
    return jnp.where(event.found & (jnp.arange(len(times)) == event.row), event.time, times)


def entries_of_event(event: Event, status: Status, lead: int) -> dict[str, Array]:
    """What a trajectory says of an event, see `Trajectory`; `lead`: samples at the start that nobody asked for."""
    ended, none = status == Status.ended_at_event, jnp.full((), -1, event.row.dtype)
    return {
        "event_time": jnp.where(ended, event.time, jnp.nan),
        "event_row": jnp.where(ended, event.row - lead, none),
        "event_which": jnp.where(ended, event.which.astype(none.dtype), none),
    }


@quick_to_compile
def sample(trajectory: Trajectory, row: Int[Array, "*batch"]) -> Trajectory:
    """One sample of a trajectory or of each in a batch, without the axis of time; NaN where `row` is negative."""
    shape = trajectory.ts.shape
    axis, row = len(shape) - 1, jnp.asarray(row)

    def read(leaf: Any) -> Any:
        if not eqx.is_array_like(leaf) or jnp.shape(leaf)[: axis + 1] != shape:
            return leaf
        leaf = jnp.asarray(leaf)
        place = jnp.maximum(row, 0).reshape(row.shape + (1,) * (leaf.ndim - axis))
        picked = jnp.take_along_axis(leaf, place, axis=axis).squeeze(axis)
        there = (row >= 0).reshape(row.shape + (1,) * (picked.ndim - axis))
        return jnp.where(there, picked, jnp.nan)

    return jax.tree.map(read, dataclasses.replace(trajectory, ending=None))
