"""Rotors that turn with joints of the tree: a diagonal of the mass matrix, and states that follow the velocities."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Array, Float

from jmbs.by_value import by_value
from jmbs.ephs import Plan
from jmbs.jaxext import entries_at, with_entries
from jmbs.tree.recognise import JointParts, Recognised
from jmbs.tree.segments import Segment, segments


@by_value
@dataclasses.dataclass(frozen=True, eq=False)
class Rotors:
    """**Arguments:** `inertias`: where their parameters are; by rotor, in that order, `velocities`: which velocity of
    the tree turns it, and `slots`: its effort in the reference numbering; `rows`: the constraints that say so where the
    joint's rate is not that effort, for the velocities `bound`; `blocks` of the reference state that hold their
    momenta, each with the velocities `(n, m)` of its entries."""

    inertias: tuple[Segment, ...]
    velocities: np.ndarray
    slots: np.ndarray
    rows: np.ndarray
    bound: np.ndarray
    blocks: tuple[tuple[int, np.ndarray], ...]

    def efforts(self, efforts: Array, v: Float[Array, " n_v"]) -> Array:
        """Efforts with the rotors' rates in place."""
        return with_entries(efforts, self.slots, entries_at(v, self.velocities))

    def held(self, by_velocity: Float[Array, " n_v"]) -> dict[int, Array]:
        """The blocks of the reference state, from what their entries are by velocity."""
        return {block: entries_at(by_velocity, at) for block, at in self.blocks}


def known_rotors(plan: Plan, recognised: Recognised, joints: Sequence[JointParts | None], start) -> Rotors | None:
    """The rotors that the tree takes over, None where there are none.

    **Arguments:** `joints` by body, and at which velocity each starts.
    """
    found = [(i, j.rotor) for i, j in enumerate(joints) if j is not None and j.rotor is not None]
    found = [(i, rotor) for i, rotor in found if rotor.inertia in recognised.known]
    if not found:
        return None
    velocities = [start[i] + np.array(rotor.coordinates) for i, rotor in found]
    junctions = [plan.junction_of[rotor.inertia, rotor.momentum] for _, rotor in found]
    bound = [(v, plan.member_of[r.rate]) for v, (_, r) in zip(velocities, found, strict=True) if r.rate is not None]
    nothing = np.zeros(0, int)
    return Rotors(
        segments([plan.member_of[rotor.inertia] for _, rotor in found]),
        np.concatenate(velocities),
        np.concatenate([plan.slots[junction] for junction in junctions]),
        np.concatenate([nothing, *(plan.batches[batch].multipliers[member] for _, (batch, member) in bound)]),
        np.concatenate([nothing, *(v for v, _ in bound)]),
        _blocks(plan, dict(zip(junctions, velocities, strict=True))),
    )


def _blocks(plan: Plan, velocities: Mapping[str, np.ndarray]) -> tuple[tuple[int, np.ndarray], ...]:
    """By block, the velocities of its entries."""
    blocks = sorted({plan.state_of[junction][0] for junction in velocities})
    return tuple((i, np.stack([velocities[name] for name in plan.blocks[i].junctions])) for i in blocks)
