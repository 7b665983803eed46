"""Initial velocities that meet every constraint row: given ones as far as possible, the others small."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.lie import SE3, rotate_back
from jmbs.linear import pseudo_inverse, rank_tolerance
from jmbs.simulation.lengths import measures, slots_in_metres, units_of_rows
from jmbs.simulation.mechanics import component
from jmbs.simulation.misses import Sizes
from jmbs.simulation.state import State

if TYPE_CHECKING:
    from jmbs.simulation.model import Model


GIVES_WAY = 1e-4
"""Weight of drives and given rates beside other constraint rows: where they contradict each other, these miss."""


class _Unknowns(NamedTuple):
    """Velocity-like efforts that the constraint rows relate: of storages with `state_from_effort`, and free ones.

    `slots` in the effort vector; `column` of each slot; `rates`: which columns are joint rates, or velocities that no
    joint rates determine: of bodies that no joint leads to, and of other storages.
    """

    slots: np.ndarray
    column: dict[int, int]
    rates: np.ndarray

    def select(self, slots: np.ndarray, dtype) -> Float[Array, "n columns"]:
        """Rows that pick efforts out of the unknowns."""
        return jnp.asarray(np.eye(len(self.slots))[[self.column[s] for s in slots]], dtype)


class _Given(NamedTuple):
    """A given velocity: `rows` over the unknowns and the `value` that they shall have, in `unit`; which of them are
    `in_metres` a second."""

    path: str
    unit: str
    rows: Float[Array, "n columns"]
    value: Float[Array, " n"]
    in_metres: Any


def assembled_velocities(
    model: Model, t: Array, x, length: Float[Array, ""]
) -> tuple[dict[str, Array], Float[Array, " rows"], Sizes]:
    """Velocities by junction name, what they leave of the rows, and by how much given ones are missed.

    Rows are met first, then drives and given joint rates, then other given velocities in the least-squares sense; among
    what that leaves free, joint rates, and velocities that none of them determine, are smallest. `x` holds velocities
    in blocks of momenta. Rows and unknowns measure lengths by `length`, m.
    """
    dae, plan, dtype = model.dae, model.dae.plan, model.dtype
    unknowns = _unknowns(model)
    s = dae.structures(x)
    C = dae.constraint_matrix(t, s)
    others = dae.stored_efforts(x).at[_stored(unknowns.slots, plan)].set(0.0)
    offset = dae.rows(t, s, dae.expand(t, s, others, jnp.zeros(plan.n_free, dtype)))

    hard, misses = _given_rates(model, t, x, unknowns)
    soft = _given_body_velocities(model, x, unknowns) + _given_state_velocities(model, unknowns)
    whole = jnp.concatenate([C[:, unknowns.slots], *(given.rows for given in (*hard, *soft))])
    target = jnp.concatenate([-offset, *(given.value for given in (*hard, *soft))])
    by_slot = slots_in_metres(model)
    of_given = [np.broadcast_to(given.in_metres, given.value.shape) for given in (*hard, *soft)]
    by_row = measures(np.concatenate([units_of_rows(model) == "m", *of_given]), length)
    by_column = measures(by_slot[unknowns.slots], length)
    whole, target = whole * (by_column / by_row[:, None]), target / by_row
    inverse = pseudo_inverse(whole)
    w = inverse @ target
    w = _least_rates(w, whole, inverse, unknowns.rates)
    n = plan.n_rows + sum(len(given.value) for given in hard)
    if n:
        matrix, target = whole[:n], target[:n]
        weights = np.ones(n)
        weights[plan.n_rows :] = GIVES_WAY
        weights[[row for rows in plan.driven_rows.values() for row in rows]] = GIVES_WAY
        weights = jnp.asarray(weights, dtype)
        w = w + pseudo_inverse(weights[:, None] * matrix) @ (weights * (target - matrix @ w))
    w = by_column * w
    for given in (*hard, *soft):
        misses.setdefault(given.path, {})[given.unit] = given.rows @ w - given.value
    entries = {}
    for block in plan.blocks:
        for junction in block.junctions if block.from_effort else ():
            entries[junction] = w[np.array([unknowns.column[slot] for slot in plan.slots[junction]], dtype=int)]
    return entries, C[:, unknowns.slots] @ w + offset, misses


def _unknowns(model: Model) -> _Unknowns:
    plan, parts, placement = model.dae.plan, model.layout.parts, model.layout.placement
    stored = [np.arange(b.slots.start, b.slots.stop) for b in plan.blocks if b.from_effort]
    slots = np.concatenate([*stored, np.arange(plan.n_stored, plan.n_stored + plan.n_free)]).astype(int)
    led = {body for _, body, _ in placement.order}
    follow = [plan.slots[body.momentum] for number, body in enumerate(parts.bodies) if number in led]
    follow += [plan.slots[joint.rotor] for joint in parts.joints if joint.rotor is not None]
    own = np.setdiff1d(np.concatenate([np.zeros(0, int), *stored]), np.concatenate([[-1], *follow]))
    rates = np.concatenate([own, *(plan.slots[joint.rates] for joint in parts.joints)])
    return _Unknowns(slots, {slot: i for i, slot in enumerate(slots)}, np.isin(slots, rates))


def _stored(slots: np.ndarray, plan) -> np.ndarray:
    return slots[slots < plan.n_stored]


def _given_rates(model: Model, t: Array, x, unknowns: _Unknowns) -> tuple[list[_Given], Sizes]:
    """Given joint rates, and by how much those that are prescribed already are missed."""
    dae, plan, given = model.dae, model.dae.plan, []
    misses: Sizes = {}
    for name, values in model.initial.get("joints", {}).items():
        joint = model.layout.joint(name)
        slots, path = plan.slots[joint.rates], f"initial/joints/{name}"
        units = np.array(joint.names.v_units)
        for unit in dict.fromkeys(joint.names.v_units) if "v" in values else ():
            own = units == unit
            if slots[0] in unknowns.column:
                given.append(
                    _Given(path, unit, unknowns.select(slots[own], model.dtype), values["v"][own], unit == "m/s")
                )
            else:
                misses.setdefault(path, {})[unit] = values["v"][own] - dae.efforts(t, x)[slots[own]]
    return given, misses


def _given_state_velocities(model: Model, unknowns: _Unknowns) -> list[_Given]:
    """Given states in blocks of momenta."""
    plan = model.dae.plan
    velocities = {name for b in plan.blocks if b.from_effort for name in b.junctions}
    metres, select = slots_in_metres(model), unknowns.select
    return [
        _Given(
            f"initial/states/{name}",
            "",
            select(plan.slots[name], model.dtype),
            values["value"],
            metres[plan.slots[name]],
        )
        for name, values in model.initial.get("states", {}).items()
        if name in velocities
    ]


def _given_body_velocities(model: Model, x, unknowns: _Unknowns) -> list[_Given]:
    """Given velocities of bodies."""
    dae, plan, dtype = model.dae, model.dae.plan, model.dtype
    state, result = State(x, tuple(b.junctions for b in plan.blocks)), []
    for name, given in model.initial.get("bodies", {}).items():
        body, path = model.layout.body(name), f"initial/bodies/{name}"
        rows = unknowns.select(plan.slots[body.momentum], dtype)
        if body.inclusion is not None:
            rows = component(dae, body.inclusion).ratio({}) @ rows
        if "angular_velocity" in given:
            result.append(_Given(path, "rad/s", rows[:3], given["angular_velocity"], False))
        if "velocity" in given:
            turned = rotate_back(state[body.pose][:, :3], given["velocity"])
            result.append(_Given(path, "m/s", rows[3:], turned if body.group == SE3 else given["velocity"], True))
    return result


def _least_rates(w: Array, matrix: Array, inverse: Array, rates: np.ndarray) -> Array:
    """`w` moved within the null space of `matrix` to where its joint rates `w[rates]` are smallest."""
    if not rates.any() or matrix.shape[0] == 0:
        return w
    null = jnp.eye(w.size, dtype=w.dtype) - inverse @ matrix
    # Where nothing is left free these rows are rounding, which a relative rank decision would take for a matrix.
    free = null[rates]
    free = jnp.where(jnp.max(jnp.abs(free)) > rank_tolerance(w.dtype), free, jnp.zeros_like(free))
    return w - null @ (pseudo_inverse(free) @ w[rates])
