"""A state of the tree formulation seen with the reference semantics' eyes: efforts, and reactions in all joints.

Reactions are what it takes to make the bodies move as they do. The wrench that a joint of the tree transmits is what
the bodies behind it need, by inverse dynamics; with loops it takes multipliers too,

    J^T mu = forces - (M dv + b),

of which those are taken that make all reactions together of least norm: redundant mechanisms have self-stress.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.jaxext import entries_at
from jmbs.linear import pseudo_inverse, row_lengths, singular_values_of_directions, without_effect
from jmbs.rigid_body import Column, Paths, TreeMotion, body_wrenches, frame_of, generalised_forces, less_loads
from jmbs.spatial import add, cross, multiply, scale, subtract, times, transposed_times
from jmbs.tree.constrained_rates import constraint_matrices, multipliers_of
from jmbs.tree.couplings import (
    Geometry,
    Others,
    direct_loads,
    effort_parts,
    geometry_of,
    geometry_with_change,
    given_forces,
    moving_with,
    others,
)
from jmbs.tree.links import frames
from jmbs.tree.open_tree import OpenTree
from jmbs.tree.tree_dae import Own, TreeDAE
from jmbs.tree.tree_with_loops import TreeWithLoops, by_group, seen_residuals


class Seen(NamedTuple):
    """The reference state; efforts, see `effort_parts`; multipliers of all rows, of least norm; the rows' residuals;
    singular values of the constraint rows, descending, each row scaled to unit length (those of the tree's own joints
    and rotors, and of loop joints along their tangents, are independent and count as one); lengths of other rows."""

    x: tuple[Array, ...]
    efforts: tuple[Array, ...]
    multipliers: Float[Array, " rows"]
    violation: Float[Array, " rows"]
    singular_values: Float[Array, " k"]
    lengths: Float[Array, " m"]


def efforts_at(dae: TreeDAE, t, y: Own) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """The reference state, and efforts, see `effort_parts`."""
    t, free = jnp.asarray(t, dae.dtype), jnp.zeros(0, dae.dtype)
    if not isinstance(dae, TreeWithLoops):
        geometry = geometry_of(dae, y)
        if dae.layout.free_slots.size:
            free = others(dae, t, geometry).free
        return geometry.x, effort_parts(dae, t, geometry, free)
    motion = dae.motion(y)
    geometry = moving_with(dae, y, by_group(dae, seen_residuals(dae, y, motion).rates), motion)
    return geometry.x, effort_parts(dae, t, geometry, free)


def seen(dae: TreeDAE, t, y: Own, velocity: Float[Array, " n"]) -> Seen:
    """The state `y` that moves with a `velocity`, as `TreeDAE.rates` gives it, as the reference semantics sees it."""
    t, layout, v = jnp.asarray(t, dae.dtype), dae.layout, y[-1][0]
    dv = velocity[layout.n - len(v) :]
    motion = dae.motion(y, dv)
    wrench = body_wrenches(dae.links, motion)
    if dae.alone is None or not isinstance(dae, OpenTree):
        return _coupled(dae, t, y, velocity, motion, wrench)
    geometry = geometry_of(dae, y, motion)
    multipliers = _whole(dae, _reactions(dae, motion, wrench), jnp.zeros(dae.reference.plan.n_rows, dae.dtype), dv)
    efforts, violation = _efforts_and_violation(dae, t, geometry, jnp.zeros(0, dae.dtype))
    ones = jnp.ones(_own_rows(dae), dae.dtype)
    return Seen(geometry.x, efforts, multipliers, violation, ones, jnp.zeros(0, dae.dtype))


def _efforts_and_violation(
    dae: TreeDAE, t, geometry: Geometry, free: Array
) -> tuple[tuple[Array, ...], Float[Array, " rows"]]:
    efforts = effort_parts(dae, t, geometry, free)
    reference = dae.reference
    return efforts, reference.rows(t, reference.structures(geometry.x), jnp.concatenate(efforts))


def _coupled(dae: TreeDAE, t, y: Own, velocity: Array, motion: TreeMotion, wrench: Column) -> Seen:
    """The same where other components or constraints act on the tree."""
    layout = dae.layout
    geometry, push = geometry_with_change(dae, y) if layout.other_rows.size else (geometry_of(dae, y), None)
    o = others(dae, t, geometry)
    independent = lengths = jnp.zeros(0, dae.dtype)
    mu = None
    if push is not None:
        matrices = constraint_matrices(dae, t, y, geometry, push)
        rows = jnp.concatenate([matrices.J, matrices.kept, matrices.free], axis=1)
        # Beside rows of large entries, as a gear of radians per millimetre has, others would drown in rounding.
        sizes = jax.lax.stop_gradient(jnp.maximum(row_lengths(rows), 1.0))
        scaled = rows / sizes[:, None]
        inverse = pseudo_inverse(scaled)
        mu = inverse.T @ _taken(dae, t, y, velocity, o, motion, wrench) / sizes
    multipliers = multipliers_of(dae, geometry, mu, o.flow)
    loads = _constraint_loads(dae, geometry, multipliers) + direct_loads(dae, o)
    reaction = _reactions(dae, motion, less_loads(motion, wrench, loads))
    if mu is not None:
        stress = without_effect(scaled, inverse) / sizes[:, None]
        reaction, multipliers = _least(dae, geometry, motion, stress, reaction, multipliers)
        independent, lengths = singular_values_of_directions(rows), row_lengths(rows)
        most = jnp.max(independent, initial=0.0)
        independent = jnp.pad(independent, (0, len(rows) - len(independent))) / jnp.where(most > 0, most, 1.0)
    efforts, violation = _efforts_and_violation(dae, t, geometry, o.free)
    tangents = sum(group.rates.size for group in layout.loops)
    values = jnp.concatenate([jnp.ones(_own_rows(dae) + tangents, dae.dtype), independent])
    whole = _whole(dae, reaction, multipliers, velocity[layout.n - layout.tree.n_velocities :])
    return Seen(geometry.x, efforts, whole, violation, values, lengths)


def _own_rows(dae: TreeDAE) -> int:
    """The number of rows of the tree's own joints and rotors."""
    rotors = dae.layout.rotors
    return dae.layout.reactions.size + (0 if rotors is None else len(rotors.rows))


def _taken(
    dae: TreeDAE, t, y: Own, velocity: Array, o: Others, motion: TreeMotion, wrench: Column
) -> Float[Array, " n_v+kept+z"]:
    """What multipliers take of the forces on the tree's velocities, of kept states' rates and of free balances."""
    layout = dae.layout
    forces, loads = given_forces(dae, o, dae.simple_forces(t, y[-1][0])[0])
    needed = generalised_forces(layout.tree, motion, less_loads(motion, wrench, loads))
    needed = dae.links.with_rotors(needed, velocity[layout.n - len(needed) :])
    kept = -o.flow[layout.kept_slots] - velocity[: len(layout.kept_slots)]
    return jnp.concatenate([forces - needed, kept, -o.flow[layout.free_slots]])


def _least(
    dae: TreeDAE,
    geometry: Geometry,
    motion: TreeMotion,
    stress: Float[Array, "m m"],
    reaction: Float[Array, "joints 6"],
    multipliers: Float[Array, " rows"],
) -> tuple[Array, Array]:
    """Reactions and multipliers of least norm together; columns of `stress` are multipliers that move nothing."""
    layout = dae.layout
    nothing = jax.tree.map(jnp.zeros_like, (motion.bodies.position,) * 2)
    no_flow = jnp.zeros(dae.reference.plan.n_efforts, dae.dtype)

    def transmitted(condensed: Array) -> tuple[Array, Array]:
        whole = multipliers_of(dae, geometry, condensed, no_flow)
        loads = _constraint_loads(dae, geometry, whole)
        return _reactions(dae, motion, less_loads(motion, nothing, loads)).ravel(), whole

    through_tree, through_others = jax.vmap(transmitted, out_axes=1)(stress.T)
    whole = jnp.concatenate([through_tree, through_others[layout.other_rows]])
    share = pseudo_inverse(whole) @ jnp.concatenate([reaction.ravel(), multipliers[layout.other_rows]])
    return reaction - (through_tree @ share).reshape(reaction.shape), multipliers - through_others @ share


def _whole(dae: TreeDAE, reaction: Array, multipliers: Array, dv: Array) -> Float[Array, " rows"]:
    """The multipliers of all rows, from those of the tree's joints and others; those of rotors are torques on them."""
    multipliers, rotors = multipliers.at[dae.layout.reactions].set(reaction), dae.layout.rotors
    if rotors is None:
        return multipliers
    return multipliers.at[rotors.rows].set(dae.links.rotor_momentum(dv)[rotors.bound])


def _constraint_loads(dae: TreeDAE, geometry: Geometry, multipliers: Array) -> Float[Array, "bodies 6"]:
    """Wrenches on the bodies, in their axes, by multipliers of the rows beyond the tree (zero on the tree's)."""
    reference, s = dae.reference, geometry.structure
    flow = reference.reduce(s, reference.multiplier_flows(s, multipliers))
    return -flow[dae.layout.body_slots]


def _reactions(dae: TreeDAE, motion: TreeMotion, wrench: Column) -> Float[Array, "joints 6"]:
    """Wrenches of the tree's joints on their second bodies, at and in the joint frames there.

    **Arguments:** `wrench`: what the joints have to bring to the bodies, about centres of mass, world axes; in arrays.
    """
    layout, tree = dae.layout, dae.layout.tree
    if not layout.reacting.size:
        return jnp.zeros((0, 6), dae.dtype)
    (torque, force), r = wrench, motion.bodies.position
    torque, force = Paths(tree.forest).carried((add(torque, cross(r, force)), force), at=layout.reacting)
    second = np.where(layout.reaction_reversed, tree.forest.parent[layout.reacting], layout.reacting)
    frame = frame_of(frames(dae.reference, layout.reaction_frames))
    R = entries_at(motion.bodies.rotation, second)
    place, axes = add(entries_at(r, second), times(R, frame[1])), multiply(R, frame[0])
    torque = subtract(torque, cross(place, force))
    found = jnp.concatenate([transposed_times(axes, torque), transposed_times(axes, force)], axis=1)
    if not layout.reaction_reversed.any():
        return found
    return scale(jnp.asarray(np.where(layout.reaction_reversed, -1.0, 1.0), dae.dtype), found)
