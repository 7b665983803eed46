"""From integrated states to what users read: motion, reactions, energies, residuals at the saved times.

Values of all bodies, joints and components are gathered at once, by the index arrays of an `ObservationPlan`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.ephs import ENTROPY, VOLUME, ReferenceDAE, Role, made_by_unproven, outputs_at
from jmbs.jaxext import entries_across
from jmbs.library.mechanics import closure_gap
from jmbs.lie import rotate
from jmbs.simulation.by_name import ByName, entries_of
from jmbs.simulation.instant import Forces, Instant
from jmbs.simulation.observation_plan import ObservationPlan

if TYPE_CHECKING:
    from jmbs.simulation.model import Model


def observe(model: Model, plan: ObservationPlan, instant: Instant, t: Any = None) -> dict[str, Any]:
    """What a trajectory shows of one saved state, without the account's integrals and rates.

    **Arguments:** `plan`: the model's; `instant`: what the equations say at the state; `t`: when, s, which closures of
    prescribed motions ask for.
    """
    dae, x, forces = model.dae, instant.x, instant.forces
    result: dict[str, Any] = _motion(dae, plan, x, instant.efforts)
    outputs = outputs_at(dae, x, instant.efforts)
    if outputs is not None:
        result["outputs"] = ByName(outputs.values, entries_of(outputs.shapes))
    if dae.has_domain:
        result["regularity"] = dae.regularity(x)
    if forces is not None:
        result |= _storage(dae, plan, x) | _constraints(dae, plan, x, forces, t)
        result["singular_values"] = forces.singular_values, forces.lengths
        result |= _made(dae, t, instant, forces)
    return result


def _motion(dae: ReferenceDAE, plan: ObservationPlan, x, efforts: tuple[Array, ...]) -> dict[str, ByName]:
    coordinates = [jax.vmap(b.space.to_coordinates)(value) for b, value in zip(dae.plan.blocks, x, strict=True)]
    signals = [part.ravel() for part in (*x, *coordinates, *efforts)]
    v = entries_across(signals, plan.linear_velocity)
    v = jnp.where(plan.in_body_axes[:, None], jax.vmap(rotate)(entries_across(signals, plan.rotation), v), v)
    rise = plan.temperature_rise.take(*signals)
    return {
        "position": plan.position.take(*signals),
        "quaternion": plan.quaternion.take(*signals),
        "angular_velocity": plan.angular_velocity.take(*signals),
        "velocity": ByName(v.ravel(), plan.position.entries),
        "q": plan.q.take(*signals),
        "v": plan.v.take(*signals),
        "temperature": ByName(dae.reference_temperature + rise.array, rise.entries),
        "states": plan.states.take(*signals),
    }


def _storage(dae: ReferenceDAE, plan: ObservationPlan, x) -> dict[str, Any]:
    """Kinetic, thermal and potential energy (that of all other storages); what the environment got; exergy by storage.

    The environment takes heat, and work where it has a pressure and gives way to a volume.
    """
    energies = dae.energies(x)
    exergies = energies - dae.reference_temperature * _held(dae, x, ENTROPY)
    heat = jnp.zeros((), energies.dtype)
    for block, value in zip(dae.plan.blocks, x, strict=True):
        if block.environment:
            heat = heat + dae.reference_temperature * jnp.sum(value)
    if dae.reference_pressure is not None:
        volumes = _held(dae, x, VOLUME)
        heat = heat + dae.reference_pressure * jnp.sum(volumes)
        exergies = exergies + dae.reference_pressure * volumes
    return {
        "kinetic": jnp.sum(energies[plan.kinetic]),
        "potential": jnp.sum(energies[plan.potential]),
        "thermal": jnp.sum(energies[plan.thermal]),
        "heat": heat,
        "stored": plan.stored.take(exergies),
    }


def _held(dae: ReferenceDAE, x, quantity: str) -> Float[Array, " storages"]:
    """What every storage holds of a quantity, entropy (J/K) or volume (m^3), in the order of `Plan.storages`."""
    amounts = [jnp.zeros(0, dae.reference_temperature.dtype)]
    for batch in dae.plan.batches:
        if batch.role is Role.STORAGE:
            amount = jnp.zeros(len(batch.paths), dae.reference_temperature.dtype)
            for port in batch.ports:
                if port.quantity == quantity:
                    amount = amount + jnp.sum(batch.states(x)[port.name], axis=1)
            amounts.append(amount)
    return jnp.concatenate(amounts)


def _constraints(dae: ReferenceDAE, plan: ObservationPlan, x, forces: Forces, t: Any) -> dict[str, ByName]:
    largest = lambda rows: plan.residuals.take(jnp.max(jnp.abs(rows)[plan.residual_rows], axis=1))  # noqa: E731
    return {
        "reaction": plan.reaction.take(forces.multipliers),
        "multipliers": plan.multipliers.take(forces.multipliers),
        "constraint_position": largest(dae.closures(x, closure_gap, t=t)),
        "constraint_velocity": largest(forces.violation),
    }


def _made(dae: ReferenceDAE, t: Any, instant: Instant, forces: Forces) -> dict[str, ByName]:
    """By path what components make whose laws are not theirs by construction; nothing where there are none."""
    made = made_by_unproven(dae, t, instant.x, instant.efforts, forces.multipliers)
    if made is None:
        return {}
    entries = entries_of(dict.fromkeys(made.paths, ()))
    return {"energy_made": ByName(made.energy, entries), "entropy_made": ByName(made.entropy, entries)}
