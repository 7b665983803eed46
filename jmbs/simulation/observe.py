"""From integrated states to what users read: motion, reactions, energies, residuals at the saved times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from jmbs.ephs import ENTROPY, Rates, ReferenceDAE, Role, StateView
from jmbs.library.mechanics import closure_gap
from jmbs.lie import SE3

if TYPE_CHECKING:
    from jmbs.simulation.model import Model


def observe(model: Model, t, x, audit: bool) -> dict[str, Any]:
    """Everything that a trajectory shows of one saved state, without the account's integrals."""
    dae = model.dae
    rates = dae.rates(t, x, None, minimum_norm=True) if audit else None
    efforts = rates.efforts if rates is not None else dae.efforts(t, x)
    view = StateView(dae.plan, x, efforts)
    result = {**_motion(model, x, view), "states": _other_states(model, x)}
    result["temperature"] = {
        name: dae.reference_temperature + view.effort(name, "s")[0] for name in model.layout.stores
    }
    if rates is not None:
        result |= _energies(dae, x) | _joints(model, x, rates)
    return result


def _motion(model: Model, x, view: StateView) -> dict[str, Any]:
    layout, plan = model.layout, model.dae.plan
    result: dict[str, Any] = {key: {} for key in ("position", "quaternion", "angular_velocity", "velocity", "q", "v")}
    coordinates = {}
    for block, value in zip(plan.blocks, x, strict=True):
        values = jax.vmap(block.space.to_coordinates)(value)
        coordinates.update({name: values[i] for i, name in enumerate(block.junctions)})
    for name, group in zip(layout.bodies, layout.groups, strict=True):
        junction = plan.junction_of[f"{name}/pe", "q"]
        pose, u = view.state(f"{name}/pe", "q"), view.effort(f"{name}/ke", "p")
        result["position"][name] = pose[:, 3]
        result["quaternion"][name] = coordinates[junction][3:]
        result["angular_velocity"][name] = u[:3]
        result["velocity"][name] = pose[:, :3] @ u[3:] if group == SE3 else u[3:]
    for entry in layout.coordinates:
        result["q"][entry.joint] = coordinates[plan.junction_of[f"{entry.joint}/pe", "q_r"]]
        result["v"][entry.joint] = view.effort(f"{entry.joint}/hc", "p_r")
    return result


def _energies(dae: ReferenceDAE, x) -> dict[str, Array]:
    """Kinetic, potential (all other mechanical or electrical storage) and thermal energy."""
    zero = jnp.zeros((), dae.reference_temperature.dtype)
    sums = {"kinetic": zero, "potential": zero, "thermal": zero}
    energies = dae.energies(x)
    for batch, comp in zip(dae.plan.batches, dae.components, strict=True):
        if batch.role is Role.STORAGE:
            thermal = any(p.quantity == ENTROPY for p in batch.ports)
            kind = "thermal" if thermal else "kinetic" if hasattr(comp, "state_from_effort") else "potential"
            sums[kind] = sums[kind] + sum(energies[path] for path in batch.paths)
    heat = zero
    for block, value in zip(dae.plan.blocks, x, strict=True):
        if block.environment:
            heat = heat + dae.reference_temperature * jnp.sum(value)
    return {**sums, "heat": heat}


def _joints(model: Model, x, rates: Rates) -> dict[str, Any]:
    dae, layout = model.dae, model.layout
    gaps = dae.closures(x, closure_gap)
    largest = lambda entries: jnp.max(jnp.abs(entries))  # noqa: E731
    result: dict[str, Any] = {"reaction": {}, "constraint_position": {}, "constraint_velocity": {}}
    for name in layout.joints:
        batch, member = dae.plan.member_of[f"{name}/hc"]
        rows = dae.plan.batches[batch].multipliers[member]
        result["reaction"][name] = rates.multipliers[rows]
        result["constraint_position"][name] = largest(gaps[rows])
        result["constraint_velocity"][name] = largest(rates.violation[rows])
    return result


def _other_states(model: Model, x) -> dict[str, Array]:
    """States that no other output shows: elements' lengths, charges, ... by junction name."""
    shown = set()
    plan, layout = model.dae.plan, model.layout
    for name in layout.bodies:
        shown |= {plan.junction_of[f"{name}/pe", "q"], plan.junction_of[f"{name}/ke", "p"]}
    shown |= {plan.junction_of[f"{name}/pe", "q_r"] for name in layout.joints}
    shown |= {plan.junction_of[name, "s"] for name in layout.stores}
    result = {}
    for block, value in zip(plan.blocks, x, strict=True):
        for i, junction in enumerate(block.junctions):
            hidden = junction in shown or (block.environment and layout.bodies) or value[i].size == 0
            if not hidden:
                result[junction] = value[i]
    return result
