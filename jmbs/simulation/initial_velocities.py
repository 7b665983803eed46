"""Initial velocities that meet every constraint row: given ones as far as possible, the others small."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.lie import SE3, rotate_back
from jmbs.linear import pseudo_inverse, rank_tolerance
from jmbs.simulation.mechanics import component
from jmbs.simulation.state import State

if TYPE_CHECKING:
    from jmbs.simulation.model import Model


class _Unknowns(NamedTuple):
    """Velocity-like efforts that the constraint rows relate: of storages with `state_from_effort`, and free ones.

    `slots` in the effort vector; `column` of each slot; `rates`: which columns are joint rates.
    """

    slots: np.ndarray
    column: dict[int, int]
    rates: np.ndarray

    def select(self, slots: np.ndarray, dtype) -> Float[Array, "n columns"]:
        """Rows that pick efforts out of the unknowns."""
        return jnp.asarray(np.eye(len(self.slots))[[self.column[s] for s in slots]], dtype)


def assembled_velocities(model: Model, x) -> tuple[dict[str, Array], Float[Array, " rows"], dict[str, Array]]:
    """Velocities by junction name, what they leave of the rows, and by how much given ones are missed, by path.

    Rows and given joint rates are met first, then other given velocities in the least-squares sense; among what that
    leaves free, joint rates are smallest. `x` holds velocities in blocks of momenta.
    """
    dae, plan, dtype = model.dae, model.dae.plan, model.dtype
    unknowns = _unknowns(model)
    t = jnp.asarray(model.settings.t0, dtype)
    s = dae.structures(x)
    C = dae.constraint_matrix(t, s)
    others = dae.stored_efforts(x).at[_stored(unknowns.slots, plan)].set(0.0)
    offset = dae.rows(t, s, dae.expand(t, s, others, jnp.zeros(plan.n_free, dtype)))

    hard, targets, misses = [C[:, unknowns.slots]], [-offset], {}
    for name, values in model.initial.get("joints", {}).items():
        slots = plan.slots[plan.junction_of[f"{name}/hc", "p_r"]]
        if values.get("v") is None or not len(slots):
            continue
        if slots[0] in unknowns.column:
            hard.append(unknowns.select(slots, dtype))
            targets.append(values["v"])
        else:
            misses[f"initial/joints/{name}"] = values["v"] - dae.efforts(t, x)[slots]
    soft = _given_body_velocities(model, x, unknowns) | _given_state_velocities(model, unknowns)
    matrix, target = jnp.concatenate(hard), jnp.concatenate(targets)
    whole = jnp.concatenate([matrix, *(rows for rows, _ in soft.values())])
    inverse = pseudo_inverse(whole)
    w = inverse @ jnp.concatenate([target, *(value for _, value in soft.values())])
    w = _least_rates(w, whole, inverse, unknowns.rates)
    misses |= {path: rows @ w - value for path, (rows, value) in soft.items()}
    if matrix.shape[0]:
        w = w + pseudo_inverse(matrix) @ (target - matrix @ w)
    entries = {}
    for block in plan.blocks:
        for junction in block.junctions if block.from_effort else ():
            entries[junction] = w[np.array([unknowns.column[slot] for slot in plan.slots[junction]], dtype=int)]
    return entries, C[:, unknowns.slots] @ w + offset, misses


def _unknowns(model: Model) -> _Unknowns:
    plan, layout = model.dae.plan, model.layout
    stored = [np.arange(b.slots.start, b.slots.stop) for b in plan.blocks if b.from_effort]
    slots = np.concatenate([*stored, np.arange(plan.n_stored, plan.n_stored + plan.n_free)]).astype(int)
    rates = [plan.slots[plan.junction_of[f"{name}/hc", "p_r"]] for name in layout.joints]
    return _Unknowns(slots, {slot: i for i, slot in enumerate(slots)}, np.isin(slots, np.concatenate([[-1], *rates])))


def _stored(slots: np.ndarray, plan) -> np.ndarray:
    return slots[slots < plan.n_stored]


def _given_state_velocities(model: Model, unknowns: _Unknowns) -> dict[str, tuple[Array, Array]]:
    """Rows and values of given states in blocks of momenta, by path."""
    plan = model.dae.plan
    velocities = {name for b in plan.blocks if b.from_effort for name in b.junctions}
    return {
        f"initial/states/{name}": (unknowns.select(plan.slots[name], model.dtype), values["value"])
        for name, values in model.initial.get("states", {}).items()
        if name in velocities
    }


def _given_body_velocities(model: Model, x, unknowns: _Unknowns) -> dict[str, tuple[Array, Array]]:
    """Rows and values of given body velocities, by path."""
    dae, plan, dtype = model.dae, model.dae.plan, model.dtype
    state = State(x, tuple(b.junctions for b in plan.blocks))
    result = {}
    for name, given in model.initial.get("bodies", {}).items():
        mask, values = np.zeros(6, dtype=bool), [jnp.zeros(0, dtype)]
        if given.get("angular_velocity") is not None:
            mask[:3] = True
            values.append(given["angular_velocity"])
        if given.get("velocity") is not None:
            mask[3:] = True
            on_se3 = model.layout.groups[model.layout.bodies.index(name)] == SE3
            pose = state[plan.junction_of[f"{name}/pe", "q"]]
            values.append(rotate_back(pose[:, :3], given["velocity"]) if on_se3 else given["velocity"])
        rows = unknowns.select(plan.slots[plan.junction_of[f"{name}/ke", "p"]], dtype)
        if f"{name}/in" in plan.member_of:  # a particle or a rod, whose velocity has fewer entries
            rows = component(dae, f"{name}/in").ratio({}) @ rows
        result[f"initial/bodies/{name}"] = (rows[mask], jnp.concatenate(values))
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
