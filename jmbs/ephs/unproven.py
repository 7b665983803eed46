"""What components that are not lawful by construction make of energy and entropy at one state: nothing, by law."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.ephs.balance import eliminated_flows, law_flows
from jmbs.ephs.component import Role, is_lawful
from jmbs.ephs.evaluate import each, onsager, thermal_mask
from jmbs.ephs.plan import Batch
from jmbs.ephs.rates import State
from jmbs.ephs.semantics import ReferenceDAE
from jmbs.jaxext import entries_across

ROUNDING = {"float64": 1e-9, "float32": 1e-4}
"""Of what goes through a component: less than that is nothing."""


class Made(NamedTuple):
    """Energy (W) and entropy (W/K) that components make, by their `paths`, static; exactly zero where it is rounding.

    Reversible components make neither, irreversible ones no energy, and no less than no entropy.
    """

    paths: tuple[str, ...]
    energy: Float[Array, " paths"]
    entropy: Float[Array, " paths"]


def made_by_unproven(
    dae: ReferenceDAE, t: Any, x: State, efforts: Sequence[Array], multipliers: Float[Array, " rows"]
) -> Made | None:
    """What components other than storages make whose laws were only tried on samples; None without any.

    **Arguments:** `t`, s; `efforts`, in parts one after the other, and `multipliers` at the state, as `ReferenceDAE`
    has them.
    """
    found = [*_made_by_transformers(dae, t, x, efforts, multipliers)]
    for i, (batch, component) in enumerate(zip(dae.plan.batches, dae.components, strict=True)):
        if batch.role not in (Role.REVERSIBLE, Role.IRREVERSIBLE) or is_lawful(component):
            continue
        e = entries_across(efforts, batch.efforts)
        flows = _flows(dae, i, x, e, multipliers)
        if flows is not None:
            found.append((batch.paths, *_made(batch, dae.reference_temperature, e, *flows)))
    if not found:
        return None
    paths, energy, entropy = zip(*found, strict=True)
    return Made(sum(paths, ()), jnp.concatenate(energy), jnp.concatenate(entropy))


def _made_by_transformers(
    dae: ReferenceDAE, t: Any, x: State, efforts: Sequence[Array], multipliers: Float[Array, " rows"]
) -> Iterator[tuple[tuple[str, ...], Array, Array]]:
    """Paths, energy and entropy of transformers between thermal ports: their exergy is kept by how they are written,
    their entropy where equal changes of temperature go over into equal ones."""
    tried = [
        i
        for i, (batch, component) in enumerate(zip(dae.plan.batches, dae.components, strict=True))
        if batch.role is Role.TRANSFORMER and thermal_mask(batch).any() and not is_lawful(component)
    ]
    if not tried:
        return
    e, s = jnp.concatenate([jnp.ravel(part) for part in efforts]), dae.structures(x)
    flows = {i: law_flows(dae, i, x, e, multipliers, s) for i in range(len(dae.plan.batches))}
    at = -dae.outer_flows(t, x, e)[0]
    for i, flow in flows.items():
        at = at.at[dae.plan.batches[i].efforts].add(flow)
    for i, ends in eliminated_flows(dae, at, multipliers, s).items():
        places = np.argsort(np.concatenate(_ends(dae.plan.batches[i], dae.components[i])))
        flows[i] = jnp.concatenate(ends, axis=1)[:, places]
    for i in tried:
        batch = dae.plan.batches[i]
        nothing = jnp.zeros_like(flows[i])
        yield batch.paths, *_made(batch, dae.reference_temperature, e[batch.efforts], nothing, flows[i])


def _ends(batch: Batch, transformer: Any) -> tuple[np.ndarray, np.ndarray]:
    """Places of the output and of the inputs among the stacked power ports of a transformer."""
    power = [port for port in batch.ports if port.efforts is not None]
    output = np.concatenate([np.full(port.space.dim, port.name == transformer.output) for port in power])
    return np.flatnonzero(output), np.flatnonzero(~output)


def _flows(
    dae: ReferenceDAE, i: int, x: State, e: Float[Array, "n P"], multipliers: Float[Array, " rows"]
) -> tuple[Array, Array] | None:
    """Flows (n, P) into the components of a batch that take part in the exchange of power, and those of multipliers,
    whose power is that of violated constraints; None where nothing can break a law."""
    batch, component = dae.plan.batches[i], dae.components[i]
    if batch.role is Role.IRREVERSIBLE:
        M = each(batch, onsager(batch, dae.reference_conditions), component, batch.states(x), e)
        return jnp.einsum("npq,nq->np", M, e) / dae.reference_temperature, jnp.zeros_like(e)
    structure = dae.structures(x, {i})
    J, C = structure.J[i], structure.C[i]
    if J is None and not thermal_mask(batch).any():
        return None
    flow = jnp.zeros_like(e) if J is None else jnp.einsum("npq,nq->np", J, e)
    if C is None or not thermal_mask(batch).any():
        return flow, jnp.zeros_like(e)
    return flow, jnp.einsum("nmp,nm->np", C, entries_across([multipliers], batch.multipliers))


def _made(
    batch: Batch,
    theta0: Float[Array, ""],
    e: Float[Array, "n P"],
    flow: Float[Array, "n P"],
    forced: Float[Array, "n P"],
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """Energy and entropy that the components of a batch give out beyond what they take in."""
    rounding = ROUNDING[e.dtype.name]
    heat = jnp.where(np.asarray(thermal_mask(batch)), flow + forced, 0.0)
    entropy, passing = -jnp.sum(heat, axis=1), jnp.sum(jnp.abs(heat), axis=1)
    energy = theta0 * entropy - jnp.sum(e * flow, axis=1)
    power = theta0 * passing + jnp.sum(jnp.abs(e * flow), axis=1)
    nothing = jnp.zeros_like(entropy)
    return (
        jnp.where(jnp.abs(energy) > rounding * power, energy, nothing),
        jnp.where(jnp.abs(entropy) > rounding * passing, entropy, nothing),
    )
