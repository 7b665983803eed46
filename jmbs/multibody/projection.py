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
from jmbs.multibody.closed_rates import closed_projection
from jmbs.multibody.constraints import Linear, condensed, linearised, multiplier_solver, still
from jmbs.multibody.couplings import Geometry, geometry_of, known_efforts, with_free
from jmbs.multibody.dynamics import mass_solver
from jmbs.multibody.friction import no_production
from jmbs.multibody.loops import Split, loop_rates

if TYPE_CHECKING:
    from jmbs.multibody.tree_dae import Own, TreeDAE


@eqx.filter_jit
def project(dae: TreeDAE, t, y: Own) -> tuple[Own, Float[Array, ""]]:
    """`y` moved onto the constraints beyond the tree, nearest in the mass metric; and the energy that this added, J."""
    if not dae.layout.other_rows.size:
        return y, jnp.zeros((), dae.dtype)
    return closed_projection(dae, y) if dae.closed else coupled_projection(dae, t, y)


def coupled_projection(dae: TreeDAE, t, y: Own) -> tuple[Own, Float[Array, ""]]:
    """The same for whatever is beside the tree."""
    geometry, push = jax.linearize(functools.partial(geometry_of, dae), y)
    inverse_mass = mass_solver(dae.layout.tree, dae.links, dae.elements(y))
    linear = linearised(dae, t, y, geometry, push, inverse_mass)
    correction = Correction(linear, multiplier_solver(dae.layout, linear), inverse_mass)
    moved = _correct_positions(dae, y, geometry, push, correction)
    moved = _correct_velocities(dae, t, moved, correction)
    before, after = (total_energy(dae.reference, x) for x in (geometry.x, dae.expanded(moved)[0]))
    return moved, after - before


class Correction(NamedTuple):
    """The rows at a state, and the solvers for multipliers and for the tree's velocities."""

    linear: Linear
    multipliers: Callable[[Array, Array], tuple[Array, Array]]
    inverse_mass: Callable[[Array], Array]

    def by_impulse(self, residual: Float[Array, " m"]) -> tuple[Array, Array, Float[Array, " n_v"]]:
        """Changes of free efforts, the impulse and the change of velocities that take the residual away."""
        nothing = jnp.zeros(self.linear.free.shape[1], residual.dtype)
        free, impulse = self.multipliers(nothing, -residual)
        return free, impulse, -self.inverse_mass(impulse @ self.linear.J)


def _correct_positions(dae: TreeDAE, y: Own, geometry: Geometry, push: Callable, correction: Correction) -> Own:
    reference, layout, s = dae.reference, dae.layout, geometry.structure
    gaps = reference.closures(geometry.x)
    free, _, step = correction.by_impulse(condensed(layout, _splits(geometry), gaps[layout.other_rows]))
    # Loop joints close the rest of their gaps, and what moves with free efforts does what its couplings say.
    rates = loop_rates(layout.loops, geometry.loops, push((*still(y), step[None])).stored[layout.body_slots])
    rates = [
        u - jnp.einsum("nki,ni->nk", at.split.inverse, gaps[g.rows])
        for u, at, g in zip(rates, geometry.loops, layout.loops, strict=True)
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
    _, impulse, step = correction.by_impulse(rows)
    kept = -impulse @ correction.linear.kept
    return dae.retract(y, dae.velocity(jnp.zeros_like(step), step, no_production(dae.layout.friction, dae.dtype), kept))


def _splits(geometry: Geometry) -> list[Split]:
    return [loop.split for loop in geometry.loops]
