"""The power balance of a system at one instant: what each component takes, and what is left at junctions."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.ephs.component import Role
from jmbs.ephs.evaluate import each, onsager
from jmbs.ephs.rates import Rates, State
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


def _component_flows(dae: ReferenceDAE, x: State, rates: Rates, outer: Array) -> dict[str, tuple[np.ndarray, Array]]:
    """Effort slots and flow into every component, by path."""
    plan, e, multipliers = dae.plan, rates.efforts, rates.multipliers
    s = dae.structures(x)
    flows: dict[str, tuple[np.ndarray, Array]] = {}
    for batch, component, J, C in zip(plan.batches, dae.components, s.J, s.C, strict=True):
        efforts = e[batch.efforts]
        flow = jnp.zeros_like(efforts)
        if batch.role is Role.STORAGE:
            flow = rates.velocity[batch.efforts]
        if batch.role is Role.IRREVERSIBLE:
            M = each(
                batch,
                onsager(batch, dae),
                component,
                batch.states(x),
                efforts,
            )
            flow = jnp.einsum("npq,nq->np", M, efforts) / dae.reference_temperature
        if J is not None:
            flow = flow + jnp.einsum("npq,nq->np", J, efforts)
        if C is not None:
            flow = flow + jnp.einsum("nmp,nm->np", C, multipliers[batch.multipliers])
        if batch.level == 0:
            flows.update({path: (batch.efforts[i], flow[i]) for i, path in enumerate(batch.paths)})
    for (path, _), junction in plan.junction_of.items():
        if path not in plan.member_of:  # environments
            flows[path] = plan.slots[junction], rates.velocity[plan.slots[junction]]
    return flows | _transformer_flows(dae, rates, flows, outer, s.A)


def _transformer_flows(dae, rates, flows, outer, ratios) -> dict[str, tuple[np.ndarray, Array]]:
    """Flows of eliminated transformers: what the others leave at the output, handed to the inputs by the transpose."""
    plan, at = dae.plan, -outer
    for slots, flow in flows.values():
        at = at.at[slots].add(flow)
    for port, rows in plan.driven_rows.items():
        at = at.at[plan.drive_slots[port]].add(-rates.multipliers[rows])
    result = {}
    for i in reversed(plan.levels):
        batch = plan.batches[i]
        outputs = -at[batch.outputs]
        inputs = -jnp.einsum("noi,no->ni", ratios[i], outputs)
        at = at.at[batch.outputs].add(outputs).at[batch.inputs].add(inputs)
        for n, path in enumerate(batch.paths):
            slots = np.concatenate([batch.inputs[n], batch.outputs[n]])
            result[path] = slots, jnp.concatenate([inputs[n], outputs[n]])
    return result
