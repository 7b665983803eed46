"""The rows of gears: their coefficients, rates and gaps, where nothing but gears and loop joints constrains a tree."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.jaxext import entries_at
from jmbs.library.mechanics import Gear, JointRelation
from jmbs.tree.gear_rows import GearRows
from jmbs.tree.links import gear_values
from jmbs.tree.tree_dae import Own, TreeDAE


def _gear_rows(dae: TreeDAE) -> GearRows:
    assert dae.layout.only_gears is not None
    return dae.layout.only_gears


def _rate(gear: Gear | JointRelation, ends: tuple[Array, ...]) -> Array:
    return gear.rate(ends)


def _gap(gear: Gear | JointRelation, ends: tuple[Array, ...]) -> Array:
    return gear.rate(ends) + gear.offset


def _of_ends(dae: TreeDAE, ends: list[Array], function: Callable[..., Array]) -> Float[Array, "m ..."]:
    return gear_values(dae.reference, _gear_rows(dae).gears, ends, function)


def gear_rates(dae: TreeDAE, v: Float[Array, " n_v"]) -> Float[Array, " m"]:
    """`J v`."""
    return _of_ends(dae, [entries_at(v, own) for own in _gear_rows(dae).velocities], _rate)


def gear_gaps(dae: TreeDAE, y: Own) -> Float[Array, " m"]:
    """What `J v` is the rate of."""
    gears = _gear_rows(dae)
    q = jnp.concatenate([y[b].ravel() for b in gears.blocks])
    return _of_ends(dae, [entries_at(q, own) for own in gears.coordinates], _gap)


def gear_matrix(dae: TreeDAE) -> Float[Array, "m n_v"]:
    """`J`."""
    units = [jnp.asarray(np.eye(dae.layout.tree.n_velocities)[own], dae.dtype) for own in _gear_rows(dae).velocities]
    return _of_ends(dae, units, _rate)
