"""From integrated states to what users read: motion, reactions, energies, residuals at the saved times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jmbs.ephs import ENTROPY, Rates, ReferenceDAE, Role, StateView
from jmbs.library.mechanics import closure_gap
from jmbs.lie import SE3
from jmbs.linear import not_before

if TYPE_CHECKING:
    from jmbs.simulation.model import Model


def observe(model: Model, t, x, audit: bool) -> dict[str, Any]:
    """Everything that a trajectory shows of one saved state, without the account's integrals."""
    dae = model.dae
    rates = dae.rates(t, x, None, minimum_norm=True) if audit else None
    efforts = rates.efforts if rates is not None else dae.efforts(t, x)
    view = StateView(dae.plan, x, efforts)
    result = {**_motion(model, x, view), "states": _other_states(model, x, efforts)}
    result["temperature"] = {
        name: dae.reference_temperature + view.effort(name, "s")[0] for name in model.layout.stores
    }
    result["regularity"] = dae.regularity(x)
    if rates is not None:
        energies = dae.energies(x)
        result |= _energies(dae, x, energies) | _constraints(model, x, rates) | _exergy(dae, x, rates, energies)
        result["singular_values"] = _constraint_singular_values(dae, t, x, rates)
    return result


def _exergy(dae: ReferenceDAE, x, rates: Rates, energies: dict[str, Array]) -> dict[str, Any]:
    """Entropy production of every irreversible component, exergy of every storage that can hold some."""
    stored = {}
    for batch, comp in zip(dae.plan.batches, dae.components, strict=True):
        if batch.role is Role.STORAGE and not getattr(comp, "stores_nothing", False):
            for i, path in enumerate(batch.paths):
                stored[path] = [p for p in batch.ports if p.quantity == ENTROPY], i
    exergy = {}
    for path, (thermal, i) in stored.items():
        entropy = sum((jnp.sum(x[p.block][p.rows[i]]) for p in thermal), jnp.zeros_like(energies[path]))
        exergy[path] = energies[path] - dae.reference_temperature * entropy
    production = {path: rates.power.production[i] for i, path in enumerate(dae.plan.irreversible)}
    return {"production": production, "stored": exergy}


def _constraint_singular_values(dae: ReferenceDAE, t, x, rates: Rates) -> Array:
    """Singular values of the constraint rows at a state, each row scaled to unit length; empty without constraints.

    The rows act on all velocities that the constraints relate, so their rank is the number of independent constraints.
    """
    C = dae.constraint_matrix(t, dae.structures(x))
    if C.size == 0:
        return jnp.zeros(0, C.dtype)
    C = not_before(C, rates.multipliers)
    length = jnp.sqrt(jnp.sum(C**2, axis=1, keepdims=True))
    return jnp.linalg.svd(C / jnp.where(length > 0, length, jnp.ones_like(length)), compute_uv=False)


def _motion(model: Model, x, view: StateView) -> dict[str, Any]:
    layout, plan = model.layout, model.dae.plan
    result: dict[str, Any] = {key: {} for key in ("position", "quaternion", "angular_velocity", "velocity", "q", "v")}
    coordinates = {}
    for block, value in zip(plan.blocks, x, strict=True):
        values = jax.vmap(block.space.to_coordinates)(value)
        coordinates.update({name: values[i] for i, name in enumerate(block.junctions)})
    for name, group, box in zip(layout.bodies, layout.groups, layout.velocity_boxes, strict=True):
        junction = plan.junction_of[f"{name}/pe", "q"]
        pose, u = view.state(f"{name}/pe", "q"), view.effort(box, "p")
        result["position"][name] = pose[:, 3]
        result["quaternion"][name] = coordinates[junction][3:]
        result["angular_velocity"][name] = u[:3]
        result["velocity"][name] = pose[:, :3] @ u[3:] if group == SE3 else u[3:]
    for entry in layout.coordinates:
        result["q"][entry.joint] = coordinates[plan.junction_of[f"{entry.joint}/pe", "q_r"]]
        result["v"][entry.joint] = view.effort(f"{entry.joint}/hc", "p_r")
    return result


def _energies(dae: ReferenceDAE, x, energies: dict[str, Array]) -> dict[str, Array]:
    """Kinetic, potential (all other mechanical or electrical storage) and thermal energy."""
    zero = jnp.zeros((), dae.reference_temperature.dtype)
    sums = {"kinetic": zero, "potential": zero, "thermal": zero}
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


KINDS = {ENTROPY: "thermal", "charge": "electric", "flux_linkage": "magnetic"}
"""Quantities whose storages hold neither kinetic nor potential energy, and what they hold."""


def storage_kinds(dae: ReferenceDAE) -> tuple[tuple[str, str], ...]:
    """Path and kind of every storage: thermal, electric, magnetic, kinetic or potential."""
    kinds = []
    for batch, comp in zip(dae.plan.batches, dae.components, strict=True):
        if batch.role is Role.STORAGE:
            mechanical = "kinetic" if hasattr(comp, "state_from_effort") else "potential"
            kind = next((KINDS[p.quantity] for p in batch.ports if p.quantity in KINDS), mechanical)
            kinds += [(path, kind) for path in batch.paths]
    return tuple(kinds)


def _constraints(model: Model, x, rates: Rates) -> dict[str, Any]:
    plan, layout = model.dae.plan, model.layout
    gaps = model.dae.closures(x, closure_gap)

    def rows(paths: tuple[str, ...]) -> np.ndarray:
        places = [plan.member_of[path] for path in paths]
        return np.concatenate([plan.batches[batch].multipliers[member] for batch, member in places])

    joints = {name: rows((f"{name}/hc",)) for name in layout.joints}
    constraints = {name: rows(paths) for name, paths, _ in layout.constraints}
    largest = lambda entries: {n: jnp.max(jnp.abs(entries[r])) for n, r in (joints | constraints).items()}  # noqa: E731
    return {
        "reaction": {name: rates.multipliers[r] for name, r in joints.items()},
        "multipliers": {name: rates.multipliers[r] for name, r in constraints.items()},
        "constraint_position": largest(gaps),
        "constraint_velocity": largest(rates.violation),
    }


def _other_states(model: Model, x, efforts: Array) -> dict[str, Array]:
    """States that no other output shows, by junction name: elements' lengths, charges, entropies, ...

    As in `State`, velocities and currents stand where storages have momenta and flux linkages.
    """
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
                result[junction] = efforts[plan.slots[junction]] if block.from_effort else value[i]
    return result
