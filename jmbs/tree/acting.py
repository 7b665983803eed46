"""What acts on a tree beside its constraints: forces, entropy production, and the rates of states that stay."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.arrays import total
from jmbs.ephs import Power
from jmbs.jaxext import entries_at, evaluated_once
from jmbs.tree.alone import Alone
from jmbs.tree.couplings import direct_forces, geometry_of, others, power_of
from jmbs.tree.friction import friction_forces, no_production
from jmbs.tree.tree_dae import Own, TreeDAE


class Acting(NamedTuple):
    """What acts on a tree, multipliers left out.

    **Arguments:** generalised `forces`; `loads`: wrenches on bodies, in their axes, None if none acts; `efforts` at the
    rates of loop joints; entropy `production` of known friction; `kept`: rates of the blocks that stay; `power`.
    """

    forces: Float[Array, " n_v"]
    loads: Float[Array, "bodies 6"] | None
    efforts: Float[Array, " k"]
    production: Float[Array, " n"]
    kept: Float[Array, " kept"]
    power: Power


def acting(dae: TreeDAE, t, y: Own, rates: Float[Array, " k"]) -> Acting:
    """See `Acting`; `rates` of loop joints."""
    if dae.alone is None:
        return _with_components(dae, t, y)
    return _alone(dae, dae.alone, t, y, rates)


def _alone(dae: TreeDAE, alone: Alone, t, y: Own, rates: Float[Array, " k"]) -> Acting:
    """Simple forces, and springs and friction in the joints."""
    forces, production, (supplied, dissipated) = dae.own_forces(jnp.asarray(t, dae.dtype), y)
    at_loops = friction_forces(dae.reference, alone.friction, rates)
    whole = entries_at(jnp.concatenate([production, at_loops.production]), dae.layout.production_source)
    nothing = jnp.zeros((), dae.dtype)
    power = Power(supplied, dissipated + at_loops.dissipated, total(whole), nothing, whole)
    return Acting(forces, None, at_loops.forces, production, kept_rates(alone, rates, at_loops.production), power)


def kept_rates(alone: Alone, rates: Float[Array, " k"], production: Float[Array, " n"]) -> Float[Array, " kept"]:
    """The rates of the blocks that stay: loop joints by theirs, the environment by what friction in them produces."""
    return entries_at(jnp.concatenate([rates, production, jnp.zeros(1, rates.dtype)]), alone.kept_source)


def still_kept_rates(dae: TreeDAE, alone: Alone, rates: Float[Array, " k"]) -> Float[Array, " kept"]:
    """The same of a motion that takes no time."""
    return kept_rates(alone, rates, no_production(alone.friction, dae.dtype))


def _with_components(dae: TreeDAE, t, y: Own) -> Acting:
    """Also what other components do. It is evaluated once: all of it depends on all motion, and in a kernel that
    computes directions too the compiler would otherwise evaluate that motion anew for each number."""

    def at(t: Array, y: Own) -> Acting:
        layout = dae.layout
        simple, production, known = dae.simple_forces(t, y[-1][0])
        o = others(dae, t, geometry_of(dae, y))
        forces, loads = direct_forces(dae, o, simple)
        none = jnp.zeros(dae.reference.plan.n_rows, dae.dtype)
        power = power_of(dae, o, production, known, jnp.zeros((), dae.dtype), none)
        at_loops = [entries_at(o.flow, group.rates).ravel() for group in layout.loops]
        efforts = jnp.concatenate([jnp.zeros(0, dae.dtype), *at_loops])
        return Acting(forces, loads, efforts, production, -entries_at(o.flow, layout.kept_slots), power)

    return evaluated_once(at, jnp.asarray(t, dae.dtype), y)
