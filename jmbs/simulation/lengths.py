"""The size of a mechanism, by which assembly measures lengths, so that what it finds does not depend on their unit."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jmbs.jaxext import entries_at
from jmbs.simulation.misses import unit_of_row

if TYPE_CHECKING:
    from jmbs.simulation.model import Model


LENGTHS_MOVE = 4.0
"""Typical lengths: with less, loops of which one joint is guessed end at the branch that is farther from the guess more
often (`docs/decisions/runs.md`)."""


def typical_length(model: Model) -> Float[Array, ""]:
    """The farthest that a joint's frame lies from the middle of a moving body that it binds, m; one metre where all of
    them lie there. Without derivative."""
    plan, members = model.dae.plan, defaultdict(list)
    for joint in model.layout.parts.joints:
        for body, offset in zip((joint.parent, joint.child), joint.offsets, strict=True):
            if body != "ground":
                batch, member = plan.member_of[offset]
                members[batch].append(member)
    if not members:
        return jnp.ones((), model.dtype)
    found = [entries_at(model.dae.components[batch].position, np.array(own)) for batch, own in members.items()]
    squares = jnp.sum(jax.lax.stop_gradient(jnp.concatenate(found)) ** 2, axis=1)
    return jnp.where(jnp.max(squares) > 0, jnp.sqrt(jnp.max(squares)), 1.0).astype(model.dtype)


def assembly_length(model: Model) -> Float[Array, ""]:
    """What assembly measures lengths by, m: what a point moves as readily as a body turns by a radian."""
    return LENGTHS_MOVE * typical_length(model) if model.layout.parts.joints else jnp.ones((), model.dtype)


def measures(in_metres: np.ndarray, length: Float[Array, ""]) -> Float[Array, " n"]:
    """Of each entry what it is measured by: those `in_metres` by the `length`, m, the others by one."""
    return jnp.where(in_metres, length, jnp.ones_like(length))


def slots_in_metres(model: Model) -> Bool[np.ndarray, " slots"]:
    """Which slots, of states and of efforts, hold lengths, or velocities of points."""
    plan, parts = model.dae.plan, model.layout.parts
    metres = np.zeros(plan.n_efforts, bool)
    for body in parts.bodies:
        metres[plan.slots[body.pose][3:]] = True
        metres[plan.slots[body.momentum][-3:]] = True
    for joint in parts.joints:
        for junction in (joint.coordinates, joint.rates):
            metres[plan.slots[junction]] = [unit == "m/s" for unit in joint.names.v_units]
    for element in parts.elements:
        metres[plan.slots[element.length]] = True
    return metres


def units_of_rows(model: Model) -> np.ndarray:
    """The unit of what each constraint row binds at position level, m, rad, or "" where it is not known."""
    plan, parts = model.dae.plan, model.layout.parts
    metres = slots_in_metres(model)
    units = np.full(plan.n_rows, "", dtype="<U3")
    of_component = {joint.constraint: ["rad"] * 3 + ["m"] * 3 for joint in parts.joints}
    for constraint in parts.constraints:
        of_rows = list(map(unit_of_row, constraint.multipliers))
        for path in constraint.components:
            batch, member = plan.member_of[path]
            of_component[path] = [of_rows.pop(0) for _ in plan.batches[batch].multipliers[member]]
    for path, own in of_component.items():
        batch, member = plan.member_of[path]
        units[plan.batches[batch].multipliers[member]] = own
    for port, own in plan.driven_rows.items():
        units[own] = np.where(metres[plan.drive_slots[port]], "m", "")
    return units
