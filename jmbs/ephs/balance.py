"""The power balance of a system at one instant: what each component takes, and what is left at junctions."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.ephs.component import Role
from jmbs.ephs.evaluate import each, onsager
from jmbs.ephs.rates import Rates, State, Structure
from jmbs.ephs.semantics import ReferenceDAE


class Balance(NamedTuple):
    """First and second law, component by component and junction by junction, at one instant.

    - `power`: component path to the exergy that it takes through its ports, W: what a storage stores, zero for
      reversible components and environments, what an irreversible component destroys (never negative).
    - `production`: path of each irreversible component to the entropy that it produces, W/K.
    - `junction`: junction name to `sum of flows in - sum of flows supplied from outside`, zero (dim,).
    - `flow_size`: junction name to the sum of the magnitudes of those flows, to compare with (dim,).
    """

    power: dict[str, Float[Array, ""]]
    production: dict[str, Float[Array, ""]]
    junction: dict[str, Float[Array, " dim"]]
    flow_size: dict[str, Float[Array, " dim"]]


def balance(dae: ReferenceDAE, t, x: State) -> Balance:
    """The balance at `(t, x)`, from the flow that each component's own relation gives at its ports; pure.

    Junctions where the effort is prescribed are left out: there the balance defines what is supplied.
    """
    t = jnp.asarray(t, dae.reference_temperature.dtype)
    rates = dae.rates(t, x)
    e, plan = rates.efforts, dae.plan
    outer, _ = dae.outer_flows(t, x, e)
    flows = _component_flows(dae, x, rates, outer)
    total, size, power = -outer, jnp.abs(outer), {}
    for path, (slots, flow) in flows.items():
        total, size = total.at[slots].add(flow), size.at[slots].add(jnp.abs(flow))
        power[path] = e[slots] @ flow
    prescribed = {port for port, drive in dae.drives.items() if not hasattr(drive, "flow")}
    unbalanced = {int(slot) for port in prescribed for slot in plan.drive_slots[port]}
    kept = {name: slots for name, slots in plan.slots.items() if not unbalanced & set(slots.tolist())}
    return Balance(
        power,
        {path: rates.power.production[i] for i, path in enumerate(plan.irreversible)},
        {name: total[slots] for name, slots in kept.items()},
        {name: size[slots] for name, slots in kept.items()},
    )


def law_flows(
    dae: ReferenceDAE, i: int, x: State, e: Float[Array, " efforts"], multipliers: Float[Array, " rows"], s: Structure
) -> Float[Array, "n P"]:
    """Flows into the components of batch `i` by their own law; zero into storages and eliminated transformers."""
    batch, component, J, C = dae.plan.batches[i], dae.components[i], s.J[i], s.C[i]
    efforts = e[batch.efforts]
    flow = jnp.zeros_like(efforts)
    if batch.role is Role.IRREVERSIBLE:
        M = each(batch, onsager(batch, dae.reference_conditions), component, batch.states(x), efforts)
        flow = jnp.einsum("npq,nq->np", M, efforts) / dae.reference_temperature
    if J is not None:
        flow = flow + jnp.einsum("npq,nq->np", J, efforts)
    if C is not None:
        flow = flow + jnp.einsum("nmp,nm->np", C, multipliers[batch.multipliers])
    return flow


def eliminated_flows(
    dae: ReferenceDAE, at: Float[Array, " efforts"], multipliers: Float[Array, " rows"], s: Structure
) -> dict[int, tuple[Float[Array, "n out"], Float[Array, "n in"]]]:
    """Flows into the outputs and inputs of eliminated transformers, by batch: what the others leave at an output is
    handed to the inputs by the transpose.

    **Arguments:** `at`: the flows into all other components less those from outside.
    """
    plan, found = dae.plan, {}
    for port, rows in plan.driven_rows.items():
        at = at.at[plan.drive_slots[port]].add(-multipliers[rows])
    for i in reversed(plan.levels):
        batch = plan.batches[i]
        outputs = -at[batch.outputs]
        inputs = -jnp.einsum("noi,no->ni", s.A[i], outputs)
        at = at.at[batch.outputs].add(outputs).at[batch.inputs].add(inputs)
        found[i] = outputs, inputs
    return found


def _component_flows(dae: ReferenceDAE, x: State, rates: Rates, outer: Array) -> dict[str, tuple[np.ndarray, Array]]:
    """Effort slots and flow into every component, by path."""
    plan, s = dae.plan, dae.structures(x)
    flows: dict[str, tuple[np.ndarray, Array]] = {}
    for i, batch in enumerate(plan.batches):
        if batch.level == 0:
            if batch.role is Role.STORAGE:
                flow = rates.velocity[batch.efforts]
            else:
                flow = law_flows(dae, i, x, rates.efforts, rates.multipliers, s)
            flows.update({path: (batch.efforts[n], flow[n]) for n, path in enumerate(batch.paths)})
    for (path, _), junction in plan.junction_of.items():
        if path not in plan.member_of:  # environments
            flows[path] = plan.slots[junction], rates.velocity[plan.slots[junction]]
    at = -outer
    for slots, flow in flows.values():
        at = at.at[slots].add(flow)
    for i, (outputs, inputs) in eliminated_flows(dae, at, rates.multipliers, s).items():
        batch = plan.batches[i]
        for n, path in enumerate(batch.paths):
            slots = np.concatenate([batch.inputs[n], batch.outputs[n]])
            flows[path] = slots, jnp.concatenate([inputs[n], outputs[n]])
    return flows
