"""Friction of joints that heats the environment, evaluated from the joints' velocities alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.arrays import total
from jmbs.by_value import by_value
from jmbs.ephs import Plan, ReferenceDAE, each
from jmbs.jaxext import entries_at


@by_value
@dataclasses.dataclass(frozen=True, eq=False)
class FrictionSource:
    """Friction by batch of components: which `velocities` (n, k) each sees, and its place among the irreversible
    components and the states of the environment."""

    batch: int
    velocities: np.ndarray
    productions: np.ndarray


class FrictionForces(NamedTuple):
    """**Arguments:** `forces` that brake each velocity; `production` of entropy, source after source, W/K; the power
    that is `dissipated`, W."""

    forces: Float[Array, " n_v"]
    production: Float[Array, " sources"]
    dissipated: Float[Array, ""]


def friction_sources(plan: Plan, joints: Sequence[Any], start) -> tuple[tuple[FrictionSource, ...], dict[int, int]]:
    """Known friction by batch, and for each slot of the environment which of its entropy productions goes there.

    **Arguments:** `joints` (`JointParts` or None) and where the velocities of each `start`.
    """
    by_batch: dict[int, list[tuple[int, int, Any]]] = {}
    for i, joint in enumerate(joints):
        if joint is not None and joint.friction is not None:
            batch, member = plan.member_of[joint.friction]
            by_batch.setdefault(batch, []).append((member, i, joint))
    places = {path: n for n, path in enumerate(plan.irreversible)}
    sources, entropies, count = [], {}, 0
    for batch, entries in sorted(by_batch.items()):
        entries.sort(key=lambda entry: entry[0])
        assert len(entries) == len(plan.batches[batch].paths)
        velocities = np.stack([start[i] + np.arange(joint.freedom) for _, i, joint in entries])
        productions = np.array([places[joint.friction] for _, _, joint in entries])
        sources.append(FrictionSource(batch, velocities, productions))
        for _, _, joint in entries:
            entropies[int(plan.slots[plan.junction_of[joint.friction, "s"]][0])] = count
            count += 1
    return tuple(sources), entropies


def friction_forces(
    reference: ReferenceDAE, sources: tuple[FrictionSource, ...], v: Float[Array, " n_v"]
) -> FrictionForces:
    """What friction does at velocities `v`."""
    braking, productions = [], [jnp.zeros(0, v.dtype)]
    dissipated = jnp.zeros((), v.dtype)
    for source in sources:
        u = entries_at(v, source.velocities)
        batch, component = reference.plan.batches[source.batch], reference.components[source.batch]
        force = each(batch, lambda c, u: c.force(u), component, u)
        braking.append(force.ravel())
        heat = total((force * u).T)
        productions.append(heat / reference.reference_temperature)
        dissipated = dissipated + total(heat)
    # One after the other, then nothing, and from there to the velocities.
    forces = jnp.concatenate([*braking, jnp.zeros(1, v.dtype)])
    return FrictionForces(entries_at(forces, _places(sources, v.shape[0])), jnp.concatenate(productions), dissipated)


def no_production(sources: tuple[FrictionSource, ...], dtype) -> Float[Array, " sources"]:
    """Zero production of entropy: what projections move takes no time."""
    return jnp.zeros(sum(len(source.productions) for source in sources), dtype)


def _places(sources: tuple[FrictionSource, ...], n_v: int) -> np.ndarray:
    """`(n_v,)`: which entry of all friction, source after source, acts on each velocity; one beyond: none."""
    listed = np.concatenate([np.zeros(0, int), *(source.velocities.ravel() for source in sources)])
    place = np.full(n_v, len(listed))
    place[listed] = np.arange(len(listed))
    return place
