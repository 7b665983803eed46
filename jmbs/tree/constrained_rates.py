"""Constraints on a tree, loop joints among them: their rows, and the rates that obey them.

With free efforts `z` (those at nodes without storage that are no joint rates) and rows `r(t, y, z)`, the unknown rates
obey, as in the reference semantics,

    M dv = f - J^T mu,      C_A dz - A mu = -(drift),      C_A^T mu = balance,      A = J M^-1 J^T + ...

The rows are *condensed*: of the six of a loop joint those along its tangent are left out with its rates, so 6 - k stay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jmbs.constraints import Split, block_solver, by_colour, in_blocks
from jmbs.linear import nearly_vanish, saddle_solver, sparse_matrix, without_rounding
from jmbs.rigid_body import forward_dynamics, mass_solver
from jmbs.tree.couplings import (
    Geometry,
    Others,
    all_rows,
    geometry_with_change,
    given_forces,
    others,
    power_of,
    with_free,
)
from jmbs.tree.layout import Layout
from jmbs.tree.loops import balancing, jacobian
from jmbs.tree.tree_dae import Own, TreeDAE, TreeRates


class Matrices(NamedTuple):
    """How rates enter the condensed rows: of the tree's velocities `J`, of kept stored efforts, of free efforts; and
    which rows nearly vanish."""

    J: Float[Array, "m n_v"]
    kept: Float[Array, "m kept"]
    free: Float[Array, "m z"]
    vanishing: Bool[Array, " m"]


def coupled_rates(dae: TreeDAE, t, y: Own, stabilisation: Array | None) -> TreeRates:
    """The rates of a tree that other components act on and constraints bind."""
    layout, v = dae.layout, y[-1][0]
    forces, production, known = dae.simple_forces(t, v)
    geometry, push = geometry_with_change(dae, y)
    o = others(dae, t, geometry)
    forces, loads = given_forces(dae, o, forces)
    dv = forward_dynamics(layout.tree, dae.links, dae.elements(y), v, forces, loads)
    kept = -o.flow[layout.kept_slots]
    drift = _drift(dae, t, o, push(dae.lift(y, dae.velocity(v, dv, production, kept))))
    drift = drift + dae.reference.transport(o.efforts, all_rows(dae, o.rows))[layout.other_rows]
    drift = drift if stabilisation is None else drift + stabilisation
    inverse_mass = mass_solver(layout.tree, dae.links, dae.elements(y))
    matrices = constraint_matrices(dae, t, y, geometry, push)
    splits = [loop.split for loop in geometry.loops]
    solve = multiplier_solver(dae, geometry, matrices, inverse_mass)
    _, multipliers = solve(-o.flow[layout.free_slots], -condensed(layout, splits, drift))
    dv = dv - inverse_mass(multipliers @ matrices.J)
    kept = kept - multipliers @ matrices.kept
    work = -(multipliers @ condensed(layout, splits, o.rows))
    power = power_of(dae, o, production, known, work, general_multipliers(dae, multipliers))
    return TreeRates(dae.velocity(v, dv, production, kept), power, dv)


def _drift(dae: TreeDAE, t, o: Others, change: Geometry) -> Float[Array, " m"]:
    """The rate of the rows as time passes and the geometry changes, free efforts held."""
    reference, layout = dae.reference, dae.layout

    def rows(t, stored, structure, known):
        e = reference.expand(t, structure, stored, with_free(dae, known, o.free))
        return reference.rows(t, structure, e)[layout.other_rows]

    at = t, o.geometry.stored, o.geometry.structure, o.geometry.known
    return jax.jvp(rows, at, (jnp.ones_like(t), change.stored, change.structure, change.known))[1]


def condensed(layout: Layout, splits: Sequence[Split], rows: Float[Array, " others"]) -> Float[Array, " m"]:
    """Of the rows beyond the tree: the general ones, then those of loop joints that are normal to their tangents."""
    at = lambda wanted: rows[np.searchsorted(layout.other_rows, wanted)]  # noqa: E731
    normal = [
        jnp.einsum("nim,ni->nm", split.normal, at(group.rows)).ravel()
        for group, split in zip(layout.loops, splits, strict=True)
    ]
    return jnp.concatenate([at(layout.general_rows), *normal])


def multipliers_of(dae: TreeDAE, geometry: Geometry, multipliers: Array | None, flow: Array) -> Float[Array, " rows"]:
    """Multipliers in the reference numbering from those of condensed rows, zero on the tree's.

    **Arguments:** `flow`: what the other components take at joint rates without multipliers.
    """
    reference, layout, s = dae.reference, dae.layout, geometry.structure
    rows = general_multipliers(dae, multipliers)
    if layout.general_rows.size and layout.loops:
        flow = flow + reference.reduce(s, reference.multiplier_flows(s, rows))
    place = len(layout.general_rows)
    wrenches = balancing(layout.loops, geometry.loops, flow)
    for group, at, along in zip(layout.loops, geometry.loops, wrenches, strict=True):
        n, _, m = at.split.normal.shape
        if multipliers is not None:
            own = multipliers[place : place + n * m].reshape(n, m)
            along = along + jnp.einsum("nim,nm->ni", at.split.normal, own)
        place += n * m
        rows = rows.at[group.rows].set(along)
    return rows


def general_multipliers(dae: TreeDAE, multipliers: Array | None) -> Float[Array, " rows"]:
    """Those of `multipliers` of condensed rows that are of neither the tree nor loops, in the reference numbering."""
    rows = jnp.zeros(dae.reference.plan.n_rows, dae.dtype)
    general = dae.layout.general_rows
    return rows if multipliers is None else rows.at[general].set(multipliers[: len(general)])


def constraint_matrices(dae: TreeDAE, t, y: Own, geometry: Geometry, push: Callable) -> Matrices:
    """The condensed rows as linear functions of rates; `push`: how the geometry changes with `y`, see `geometry_of`."""
    layout = dae.layout
    J, kept, free = _general_matrices(dae, t, y, geometry, push)
    if layout.loops:
        of_loops = jacobian(layout.tree, layout.loops, geometry.loops, dae.motion(y))
        J = jnp.concatenate([J, of_loops])
        kept, free = (jnp.pad(x, ((0, len(of_loops)), (0, 0))) for x in (kept, free))
    # Rows are formed about the world's origin.
    size = 1.0 + jnp.max(jnp.abs(geometry.x[layout.poses[0]][:, :, 3]))
    J = without_rounding(J, size)
    return Matrices(J, kept, free, nearly_vanish(jnp.concatenate([J, kept, free], axis=1), size))


def multiplier_solver(
    dae: TreeDAE, geometry: Geometry, matrices: Matrices, inverse_mass: Callable[[Array], Array]
) -> Callable[[Array, Array], tuple[Array, Array]]:
    """See `jmbs.linear.saddle_solver`: a function of right-hand sides for free efforts' rates and multipliers."""
    layout, plan, (J, kept, free, vanishing) = dae.layout, dae.reference.plan, matrices
    response = jax.vmap(inverse_mass)(by_colour(layout.rows, J))
    A = in_blocks(layout.rows, jnp.matmul(J, response.T, precision="highest"))
    which = tuple(i for i in layout.kept if i in plan.constrained_blocks)
    if which:
        C_stored = jnp.zeros((J.shape[0], plan.n_stored), dae.dtype).at[:, layout.kept_slots].set(kept)
        A = A._replace(diagonal=A.diagonal + dae.reference.compliance(geometry.x, C_stored, which))
    if len(layout.rows.blocks) == 1:
        return saddle_solver(A.diagonal[0], free, vanishing)
    inverse = block_solver(layout.rows, A, vanishing)
    return lambda b1, b2: (b1, -inverse(b2))


def _general_matrices(dae: TreeDAE, t, y: Own, geometry: Geometry, push: Callable) -> tuple[Array, Array, Array]:
    """How the tree's velocities, kept stored efforts and free efforts enter the general rows."""
    reference, layout, s = dae.reference, dae.layout, geometry.structure

    def rows(stored: Array, e_free: Array) -> Array:
        return reference.rows(t, s, reference.expand(t, s, stored, e_free, prescribed=False))[layout.general_rows]

    _, act = jax.linearize(rows, jnp.zeros_like(geometry.stored), jnp.zeros_like(geometry.known))

    def of_velocities(v: Array) -> Array:
        change = push((*still(y), v[None]))
        return act(change.stored, change.known)

    def of_kept(kept: Array) -> Array:
        return act(jnp.zeros_like(geometry.stored).at[layout.kept_slots].set(kept), jnp.zeros_like(geometry.known))

    def of_free(free: Array) -> Array:
        return act(jnp.zeros_like(geometry.stored), with_free(dae, jnp.zeros_like(geometry.known), free))

    seen = reference.plan.seen_by_rows[layout.general_rows]
    return (
        sparse_matrix(of_velocities, layout.rows.general, dae.dtype),
        sparse_matrix(of_kept, seen[:, layout.kept_slots], dae.dtype),
        sparse_matrix(of_free, seen[:, layout.free_slots], dae.dtype),
    )


def still(y: Own) -> Own:
    """Rates of all that is not velocities, zero."""
    return jax.tree.map(jnp.zeros_like, y[:-1])
