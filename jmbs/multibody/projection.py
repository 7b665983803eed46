"""Projection of a tree's positions and velocities onto the constraints beyond it, nearest in the mass metric."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.dae import total_energy
from jmbs.multibody.closed_rates import closed_projection, closing_impulse, closing_rates
from jmbs.multibody.constraints import condensed, linearised, multiplier_solver, still
from jmbs.multibody.couplings import Geometry, geometry_of, known_efforts, with_free
from jmbs.multibody.dynamics import mass_solver
from jmbs.multibody.friction import no_production
from jmbs.multibody.geared import geared_projection
from jmbs.multibody.loops import Split, loop_rates

if TYPE_CHECKING:
    from jmbs.multibody.tree_dae import Own, TreeDAE


@eqx.filter_jit
def project(dae: TreeDAE, t, y: Own) -> tuple[Own, Float[Array, ""]]:
    """`y` moved onto the constraints beyond the tree, nearest in the mass metric; and the energy that this added, J."""
    if not dae.layout.other_rows.size:
        return y, jnp.zeros((), dae.dtype)
    if dae.geared:
        return geared_projection(dae, y)
    if dae.closed:
        return closed_projection(dae, y)
    return coupled_projection(dae, t, y) if dae.closing is None else loaded_projection(dae, t, y)


class Correction(NamedTuple):
    """How to take violations of the condensed rows away at a state.

    **Arguments:** `impulse`: a function of violations for changes of free efforts, of kept stored efforts and of the
    tree's velocities; `rates`: one of velocities for the rates of loop joints, by group.
    """

    impulse: Callable[[Float[Array, " m"]], tuple[Array, Array, Array]]
    rates: Callable[[Float[Array, " n_v"]], list[Float[Array, "n k"]]]


def coupled_projection(dae: TreeDAE, t, y: Own) -> tuple[Own, Float[Array, ""]]:
    """The same for whatever is beside the tree."""
    layout = dae.layout
    geometry, push = jax.linearize(functools.partial(geometry_of, dae), y)
    inverse_mass = mass_solver(layout.tree, dae.links, dae.elements(y))
    linear = linearised(dae, t, y, geometry, push, inverse_mass)
    solve = multiplier_solver(layout, linear)

    def impulse(violation: Array) -> tuple[Array, Array, Array]:
        free, multipliers = solve(jnp.zeros(linear.free.shape[1], violation.dtype), -violation)
        return free, -multipliers @ linear.kept, -inverse_mass(multipliers @ linear.J)

    def rates(step: Array) -> list[Array]:
        return loop_rates(layout.loops, geometry.loops, push((*still(y), step[None])).stored[layout.body_slots])

    return _projection(dae, t, y, geometry, Correction(impulse, rates))


def loaded_projection(dae: TreeDAE, t, y: Own) -> tuple[Own, Float[Array, ""]]:
    """The same where loop joints are all that constrains."""
    nothing = jnp.zeros(0, dae.dtype), jnp.zeros(len(dae.layout.kept_slots), dae.dtype)
    correction = Correction(
        lambda rows: (*nothing, closing_impulse(dae, y, rows)), lambda step: closing_rates(dae, y, step)
    )
    return _projection(dae, t, y, geometry_of(dae, y), correction)


def _projection(dae: TreeDAE, t, y: Own, geometry: Geometry, correction: Correction) -> tuple[Own, Float[Array, ""]]:
    moved = _correct_positions(dae, y, geometry, correction)
    moved = _correct_velocities(dae, t, moved, correction)
    before, after = (total_energy(dae.reference, x) for x in (geometry.x, dae.expanded(moved)[0]))
    return moved, after - before


def _correct_positions(dae: TreeDAE, y: Own, geometry: Geometry, correction: Correction) -> Own:
    reference, layout, s = dae.reference, dae.layout, geometry.structure
    gaps = reference.closures(geometry.x)
    free, _, step = correction.impulse(condensed(layout, _splits(geometry), gaps[layout.other_rows]))
    # Loop joints close the rest of their gaps, and what moves with free efforts does what its couplings say.
    rates = [
        u - jnp.einsum("nki,ni->nk", at.split.inverse, gaps[g.rows])
        for u, at, g in zip(correction.rates(step), geometry.loops, layout.loops, strict=True)
    ]
    e_free = with_free(dae, known_efforts(dae, jnp.zeros_like(step), rates), free)
    e = reference.expand(0.0, s, jnp.zeros_like(geometry.stored), e_free, prescribed=False)
    kept = -reference.reduce(s, reference.reversible_flows(s, e))[layout.kept_slots]
    kept = jnp.where(reference.plan.configuration_slots[layout.kept_slots], kept, 0.0)
    return dae.retract(y, dae.velocity(step, jnp.zeros_like(step), no_production(dae.layout.friction, dae.dtype), kept))


def _correct_velocities(dae: TreeDAE, t, y: Own, correction: Correction) -> Own:
    # Free efforts may be any: the solve corrects them too, so the rows are evaluated with them at zero.
    nothing = jnp.zeros(len(dae.layout.free_slots), dae.dtype)
    geometry = geometry_of(dae, y)
    s = geometry.structure
    e = dae.reference.expand(t, s, geometry.stored, with_free(dae, geometry.known, nothing))
    rows = condensed(dae.layout, _splits(geometry), dae.reference.rows(t, s, e)[dae.layout.other_rows])
    _, kept, step = correction.impulse(rows)
    return dae.retract(y, dae.velocity(jnp.zeros_like(step), step, no_production(dae.layout.friction, dae.dtype), kept))


def _splits(geometry: Geometry) -> list[Split]:
    return [loop.split for loop in geometry.loops]
