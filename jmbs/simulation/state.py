"""The state as users hold it: configurations and velocities; momenta are derived, so a new mass keeps the motion."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from jmbs.ephs import Plan, ReferenceDAE
from jmbs.errors import ModelError
from jmbs.jaxext import entries_across, with_entries
from jmbs.lie import AbstractGroup
from jmbs.simulation.named_values import NamedValues
from jmbs.simulation.user_functions import real_array


class State(eqx.Module):
    """Configurations, velocities, entropies, charges, ... of a system; a pytree.

    **Arguments:** `blocks`: one array `(n, *shape)` per block of the plan, in its order; blocks of momenta hold the
    velocities. Read single entries with `state["link1/q"]`, by junction name, and coordinates of joints with
    `state.q["elbow"]`; `Model.view` looks at everything else, as at `model.view(state).v["elbow"]`, for which it takes
    the joints' frames, parameters of the model. `joints`: static, of those with coordinates name, junction and group.
    """

    blocks: tuple[Array, ...]
    names: tuple[tuple[str, ...], ...] = eqx.field(static=True)
    joints: tuple[tuple[str, str, AbstractGroup], ...] = eqx.field(static=True, default=())

    @property
    def q(self) -> Mapping[str, Array]:
        """Coordinates by joint name, as `Trajectory.q` gives them; of many states with their axes in front."""
        entries = {name: (junction, group) for name, junction, group in self.joints}
        return NamedValues("state", "joint", entries, lambda entry: self._coordinates(*entry))

    @property
    def v(self) -> Mapping[str, Array]:
        """Refused with the way to them: velocities of joints follow from the joints' frames, which the model has.

        Raises `ModelError`.
        """
        raise ModelError("state.v", "a state without its model", "model.view(state).v, which knows the joints' frames")

    def _coordinates(self, junction: str, group: AbstractGroup) -> Array:
        block, names = next((b, n) for b, n in zip(self.blocks, self.names, strict=True) if junction in n)
        lead = block.shape[: block.ndim - 1 - len(group.shape)]
        elements = block.reshape(-1, len(names), *group.shape)[:, names.index(junction)]
        return jax.vmap(group.to_coordinates)(elements).reshape(*lead, group.coordinate_size)

    def __getitem__(self, name: str) -> Array:
        for block, names in zip(self.blocks, self.names, strict=True):
            if name in names:
                return block[names.index(name)]
        known = ", ".join(n for names in self.names for n in names)
        raise ModelError("state", repr(name), f"one of {known}")

    def replace(self, name: str, value: Any) -> State:
        """The same state with one entry replaced; under `jax.vmap`, of many states. Raises `ModelError`."""
        own = self[name]
        value = real_array(f"state/{name}", value, f"numbers of shape {own.shape}").astype(own.dtype)
        if value.shape != own.shape and not (value.ndim == 0 and own.size == 1):
            raise ModelError(f"state/{name}", f"shape {value.shape}", f"shape {own.shape}")
        blocks = tuple(
            block.at[names.index(name)].set(value) if name in names else block
            for block, names in zip(self.blocks, self.names, strict=True)
        )
        return State(blocks, self.names, self.joints)


class InnerState(eqx.Module):
    """A state as the equations of one model move it: coordinates and rates of joints where they are a tree, poses and
    momenta of bodies else; a pytree. `Model.inner_state` makes it, `Model.outer_state` turns it back.

    **Arguments:** `blocks`: arrays in the formulation's own order.
    """

    blocks: tuple[Array, ...]


class Ending(eqx.Module):
    """Where a run ended, exactly as it was moved, for another that goes on from there.

    **Arguments:** `state`; the `account` there, see `jmbs.dae.ACCOUNT`, (0,) without audit; the `residual` of the first
    law, J, None without audit.
    """

    state: InnerState
    account: Array
    residual: Array | None


def from_internal(dae: ReferenceDAE, x: tuple[Array, ...]) -> State:
    """The state with momenta turned into velocities."""
    return State(with_velocities(dae.plan, x, (dae.stored_efforts(x),)), tuple(b.junctions for b in dae.plan.blocks))


def with_velocities(plan: Plan, x: tuple[Array, ...], efforts: Sequence[Array]) -> tuple[Array, ...]:
    """The blocks of a state for users: velocities, which are efforts, where the reference semantics has momenta.

    **Arguments:** `x`: that of the reference semantics; `efforts`: those of the storages first, in parts.
    """
    blocks = []
    for block, value in zip(plan.blocks, x, strict=True):
        if block.from_effort:
            value = entries_across(efforts, np.arange(block.slots.start, block.slots.stop))
            value = value.reshape(len(block.junctions), block.space.dim)
        blocks.append(value)
    return tuple(blocks)


def to_internal(dae: ReferenceDAE, state: State, which: Collection[int] | None = None) -> tuple[Array, ...]:
    """The states that are integrated: velocities turned into momenta with the model's own masses.

    With `which`, in these blocks only; others are as in `state`.
    """
    x = list(state.blocks)
    for batch, component in zip(dae.plan.batches, dae.components, strict=True):
        wanted = which is None or any(block in which for block, _ in batch.held.values())
        if hasattr(component, "state_from_effort") and wanted:
            values = eqx.filter_vmap(lambda c, e: c.state_from_effort(e))(component, batch.states(state.blocks))
            for port, (block, rows) in batch.held.items():
                x[block] = with_entries(x[block], rows, values[port])
    return tuple(x)


def identity_state(dae: ReferenceDAE) -> State:
    """All states at the neutral element of their group (zero, identity pose)."""
    dtype = dae.reference_temperature.dtype
    blocks = tuple(jax.numpy.stack([b.space.identity(dtype)] * len(b.junctions)).astype(dtype) for b in dae.plan.blocks)
    return State(blocks, tuple(b.junctions for b in dae.plan.blocks))
