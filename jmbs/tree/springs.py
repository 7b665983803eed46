"""Springs of the tree's joints, evaluated from the joints' elements alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Array, Float

from jmbs.by_value import by_value
from jmbs.ephs import Plan, ReferenceDAE, each, energy_gradient
from jmbs.jaxext import entries_at, sums_of_parts


@by_value
@dataclasses.dataclass(frozen=True, eq=False)
class SpringSource:
    """Springs by batch of components: `block` and `rows` of the elements that they see in the tree's state, and which
    `velocities` (n, k) each acts on; of a batch all are springs of the tree's joints."""

    batch: int
    block: int
    rows: np.ndarray
    velocities: np.ndarray


def spring_sources(plan: Plan, joints: Sequence[Any], start, kept: tuple[int, ...]) -> tuple[SpringSource, ...]:
    """Springs by batch, without batches that have springs of joints which close loops.

    **Arguments:** `joints` (`JointParts` or None) of the tree, where the velocities of each `start`, and which blocks
    of the plan are `kept` in the tree's state.
    """
    by_batch: dict[int, list[tuple[int, np.ndarray, tuple[int, int]]]] = {}
    for i, joint in enumerate(joints):
        if joint is not None and joint.spring is not None:
            batch, member = plan.member_of[joint.spring]
            at = plan.state_of[plan.junction_of[joint.constraint, "q_r"]]
            by_batch.setdefault(batch, []).append((member, start[i] + np.arange(joint.freedom), at))
    sources = []
    for batch, entries in sorted(by_batch.items()):
        if len(entries) == len(plan.batches[batch].paths):
            _, velocities, places = zip(*sorted(entries, key=lambda entry: entry[0]), strict=True)
            blocks, rows = zip(*places, strict=True)
            sources.append(SpringSource(batch, kept.index(blocks[0]), np.array(rows), np.stack(velocities)))
    return tuple(sources)


def spring_forces(
    reference: ReferenceDAE, sources: tuple[SpringSource, ...], y: tuple[Array, ...], size: int
) -> Float[Array, " size"]:
    """Generalised forces of springs on the tree's velocities, `size` in number, at its state `y`."""
    parts = []
    for source in sources:
        batch, component = reference.plan.batches[source.batch], reference.components[source.batch]
        (port,) = batch.ports
        elements = {port.name: entries_at(y[source.block], source.rows)}
        gradient = each(batch, energy_gradient(batch), component, elements)
        parts.append((-gradient[port.name].ravel(), source.velocities.ravel()))
    return sums_of_parts(parts, size, reference.reference_temperature.dtype)
