"""Projection of a tree's positions and velocities onto the constraints beyond it, nearest in the mass metric."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.constraints import Split
from jmbs.jaxext import with_entries
from jmbs.rigid_body import mass_solver
from jmbs.tree.constrained_rates import condensed, constraint_matrices, multiplier_solver, still
from jmbs.tree.couplings import Geometry, geometry_of, geometry_with_change, known_efforts, with_free
from jmbs.tree.friction import no_production
from jmbs.tree.loops import loop_rates
from jmbs.tree.tree_dae import Own, TreeDAE


@eqx.filter_jit
def project(dae: TreeDAE, t, y: Own) -> tuple[Own, Float[Array, ""]]:
    """`y` moved onto the constraints beyond the tree, nearest in the mass metric; and the energy that this added, J."""
    if not dae.layout.other_rows.size:
        return y, jnp.zeros((), dae.dtype)
    moved = dae.projected(t, y)
    before, after = jax.vmap(dae.energy)(jax.tree.map(lambda *pair: jnp.stack(pair), y, moved))
    return moved, after - before


def coupled_projection(dae: TreeDAE, t, y: Own) -> Own:
    """The same for whatever is beside the tree."""
    layout, reference = dae.layout, dae.reference
    geometry, push = geometry_with_change(dae, y)
    inverse_mass = mass_solver(layout.tree, dae.links, dae.elements(y))
    matrices = constraint_matrices(dae, t, y, geometry, push)
    solve = multiplier_solver(dae, geometry, matrices, inverse_mass)
    gaps = reference.closures(geometry.x, only=layout.other_rows, t=t)
    along = [
        jnp.einsum("nki,ni->nk", at.split.inverse, gaps[g.rows])
        for at, g in zip(geometry.loops, layout.loops, strict=True)
    ]
    nothing = no_production(layout.friction, dae.dtype)

    def positions(free: Array, step: Array, velocities: Array) -> Array:
        """The motion that closes gaps; loop joints close the rest of theirs. `velocities`: what impulses do to them."""
        moving = _momenta_move(dae)
        stored = push(dae.lift(y, velocities) if moving else (*still(y), step[None])).stored
        twists, others = stored[layout.body_slots], jnp.zeros_like(stored)
        if moving:
            others = with_entries(stored, layout.body_slots.ravel(), jnp.zeros_like(twists).ravel())
        rates = [u - rest for u, rest in zip(loop_rates(layout.loops, geometry.loops, twists), along, strict=True)]
        return dae.velocity(step, jnp.zeros_like(step), nothing, kept_motion(dae, geometry, step, rates, free, others))

    def correct(so_far: tuple[Own, Array], first: Array) -> tuple[tuple[Own, Array], None]:
        moved, rows = so_far
        free, multipliers = solve(jnp.zeros(matrices.free.shape[1], dae.dtype), -rows)
        kept, step = -multipliers @ matrices.kept, -inverse_mass(multipliers @ matrices.J)
        velocities = dae.velocity(jnp.zeros_like(step), step, nothing, kept)
        moved = dae.retract(moved, jnp.where(first, positions(free, step, velocities), velocities))
        return (moved, _rows(dae, t, moved)), None

    # First positions, then velocities: a loop, since a program with two solutions would take twice as long to compile.
    rows = condensed(layout, _splits(geometry), gaps[layout.other_rows])
    return jax.lax.scan(correct, (y, rows), jnp.asarray([True, False]))[0][0]


def _momenta_move(dae: TreeDAE) -> bool:
    """Whether impulses move configurations that no joint has, as those of systems in redundant coordinates."""
    layout, plan = dae.layout, dae.reference.plan
    others = np.setdiff1d(layout.kept_slots[plan.configuration_slots[layout.kept_slots]], layout.own_slots)
    return others.size > 0 and any(i in plan.constrained_blocks for i in layout.kept)


def kept_motion(
    dae: TreeDAE, geometry: Geometry, step: Array, rates: list[Array], free: Array, stored: Array
) -> Float[Array, " kept"]:
    """How configurations that stay move along: what free efforts and the rates of loop joints do says the couplings.

    **Arguments:** `step`: motion of the tree's velocities; `stored`: efforts of momenta that are not bodies'.
    """
    reference, slots, s = dae.reference, dae.layout.kept_slots, geometry.structure
    e_free = with_free(dae, known_efforts(dae, jnp.zeros_like(step), rates), free)
    e = reference.expand(0.0, s, stored, e_free, prescribed=False)
    kept = -reference.reduce(s, reference.reversible_flows(s, e))[slots]
    return jnp.where(reference.plan.configuration_slots[slots], kept, 0.0)


def _rows(dae: TreeDAE, t, y: Own) -> Float[Array, " m"]:
    """The condensed rows; free efforts may be any, since the solve corrects them too, so they are zero."""
    nothing = jnp.zeros(len(dae.layout.free_slots), dae.dtype)
    geometry = geometry_of(dae, y)
    s = geometry.structure
    e = dae.reference.expand(t, s, geometry.stored, with_free(dae, geometry.known, nothing))
    return condensed(dae.layout, _splits(geometry), dae.reference.rows(t, s, e)[dae.layout.other_rows])


def _splits(geometry: Geometry) -> list[Split]:
    return [loop.split for loop in geometry.loops]
