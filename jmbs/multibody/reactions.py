"""A state of the tree formulation seen with the reference semantics' eyes: all its rates, and reactions in all joints.

The wrench that a joint of the tree transmits is what the bodies behind it need, by inverse dynamics. In a mechanism
with loops that are redundant, self-stress is removed: of all reactions that balance the bodies, those of least norm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.ephs import Rates
from jmbs.linear import pseudo_inverse, singular_values_of_directions
from jmbs.multibody.constraints import Couplings, TreeRates, coupled_rates, multipliers_of
from jmbs.multibody.couplings import Geometry, all_efforts, geometry_of
from jmbs.multibody.joints import Column
from jmbs.multibody.kinematics import TreeMotion, kinematics
from jmbs.multibody.links import frames
from jmbs.multibody.mass_matrix import body_wrenches, less_loads
from jmbs.multibody.paths import Paths
from jmbs.spatial import (
    add,
    cross,
    matrix,
    multiply,
    scale,
    subtract,
    symmetric_times,
    times,
    transposed_times,
    vector,
)

if TYPE_CHECKING:
    from jmbs.multibody.tree_dae import Own, TreeDAE


class Seen(NamedTuple):
    """The reference state; the rates in its numbering; singular values of the constraint rows, descending, each row
    scaled to unit length (those of the tree's own joints, and of loop joints along their tangents, are independent and
    count as one)."""

    x: tuple[Array, ...]
    rates: Rates
    singular_values: Float[Array, " rows"]


def seen(dae: TreeDAE, t, y: Own) -> Seen:
    """The state `y` as the reference semantics sees it, with multipliers of least norm."""
    t = jnp.asarray(t, dae.dtype)
    reference, layout = dae.reference, dae.layout
    own = coupled_rates(dae, t, y, None) if dae.coupled else dae.rates(t, y)
    couplings = own.couplings
    geometry = geometry_of(dae, y) if couplings is None else couplings.others.geometry
    twist = geometry.stored[layout.body_slots]
    motion = kinematics(layout.tree, dae.links, dae.elements(y), y[-1][0], own.dv, local=True)
    loads, independent = jnp.zeros_like(twist), jnp.zeros(0, dae.dtype)
    multipliers = jnp.zeros(reference.plan.n_rows, dae.dtype)
    if couplings is not None:
        flow = couplings.others.flow
        multipliers = multipliers_of(dae, geometry, couplings.multipliers, flow)
        loads = _constraint_loads(dae, geometry.structure, multipliers) - flow[layout.body_slots]
    reaction = _reactions(dae, motion, less_loads(motion, body_wrenches(dae.links, motion), loads))
    if couplings is not None and couplings.linear is not None:
        reaction, multipliers, independent = _least(dae, couplings, motion, reaction, multipliers)
    whole = multipliers.at[layout.reactions].set(reaction)
    efforts = efforts_of(dae, t, geometry, couplings)
    violation = reference.rows(t, reference.structures(geometry.x), efforts)
    rates = Rates(_velocity(dae, motion, twist, own), efforts, whole, violation, own.power)
    tangents = sum(group.rates.size for group in layout.loops)
    ones = jnp.ones(layout.reactions.size + tangents, dae.dtype)
    return Seen(geometry.x, rates, jnp.concatenate([ones, independent]))


def efforts_of(dae: TreeDAE, t, geometry: Geometry, couplings: Couplings | None) -> Float[Array, " efforts"]:
    """All efforts in the numbering of the reference plan."""
    nothing = jnp.zeros(len(dae.layout.free_slots), dae.dtype)
    return all_efforts(dae, t, geometry, nothing if couplings is None else couplings.others.free)


def _velocity(dae: TreeDAE, motion: TreeMotion, twist: Array, own: TreeRates) -> Float[Array, " stored"]:
    """The rate of the reference state: kept blocks as they are, poses by twists, momenta by accelerations."""
    layout, body, links = dae.layout, motion.bodies, dae.links
    spin_rate = transposed_times(body.rotation, body.spin_rate)
    relative = subtract(body.acceleration, cross(body.spin, body.velocity))
    force = scale(links.mass, transposed_times(body.rotation, relative))
    momentum = jnp.stack([*symmetric_times(links.inertia, spin_rate), *force], axis=-1)
    velocity = jnp.zeros(dae.reference.plan.n_stored, dae.dtype)
    velocity = velocity.at[layout.kept_slots].set(own.velocity[: len(layout.kept_slots)])
    block, rows = layout.poses
    poses = dae.reference.plan.blocks[block].slots.start + 6 * rows[:, None] + np.arange(6)[None, :]
    return velocity.at[poses].set(twist).at[layout.body_slots].set(momentum)


def _constraint_loads(dae: TreeDAE, structure, multipliers: Array) -> Float[Array, "bodies 6"]:
    """Wrenches on the bodies, in their axes, by multipliers of the rows beyond the tree (zero on the tree's)."""
    reference = dae.reference
    flow = reference.reduce(structure, reference.multiplier_flows(structure, multipliers))
    return -flow[dae.layout.body_slots]


def _reactions(dae: TreeDAE, motion: TreeMotion, wrench: Column) -> Float[Array, "joints 6"]:
    """Wrenches of the tree's joints on their second bodies, at and in the joint frames there.

    **Arguments:** `wrench`: what the joints have to bring to the bodies, about centres of mass, world axes.
    """
    layout, tree = dae.layout, dae.layout.tree
    if not layout.reacting.size:
        return jnp.zeros((0, 6), dae.dtype)
    torque, force = wrench
    r = motion.bodies.position
    behind = Paths(tree.forest, walk=False).carried((add(torque, cross(r, force)), force))
    sign = jnp.where(layout.reaction_reversed, -1.0, 1.0).astype(dae.dtype)
    torque, force = jax.tree.map(lambda x: sign * x[layout.reacting], behind)
    second = np.where(layout.reaction_reversed, tree.forest.parent[layout.reacting], layout.reacting)
    frame = frames(dae.reference, layout.reaction_frames)
    R = tuple(x[second] for x in motion.bodies.rotation)
    place = add(tuple(x[second] for x in r), times(R, vector(frame[..., 3])))
    axes = multiply(R, matrix(frame[..., :3]))
    torque = subtract(torque, cross(place, force))
    return jnp.stack([*transposed_times(axes, torque), *transposed_times(axes, force)], axis=-1)


def _least(dae: TreeDAE, couplings: Couplings, motion: TreeMotion, reaction: Array, multipliers: Array):
    """Reactions and multipliers of least norm together; singular values of the condensed rows."""
    linear, geometry, layout = couplings.linear, couplings.others.geometry, dae.layout
    assert linear is not None
    rows = jnp.concatenate([linear.J, linear.kept, linear.free], axis=1)
    m = rows.shape[0]
    if m == 0:
        return reaction, multipliers, jnp.zeros(0, dae.dtype)
    stress = jnp.eye(m, dtype=dae.dtype) - rows @ pseudo_inverse(rows)
    # A projector has rank zero or more: rounding must not be taken for a self-stress.
    stress = jnp.where(jnp.trace(stress) > 0.5, stress, jnp.zeros_like(stress))
    no_flow = jnp.zeros_like(couplings.others.flow)

    def transmitted(condensed: Array) -> tuple[Array, Array]:
        whole = multipliers_of(dae, geometry, condensed, no_flow)
        loads = _constraint_loads(dae, geometry.structure, whole)
        zero = jnp.zeros_like(motion.bodies.position[0])
        nothing = zero, zero, zero
        return _reactions(dae, motion, less_loads(motion, (nothing, nothing), loads)).ravel(), whole

    through_tree, through_others = jax.vmap(transmitted, out_axes=1)(stress.T)
    whole = jnp.concatenate([through_tree, through_others[layout.other_rows]])
    given = jnp.concatenate([reaction.ravel(), multipliers[layout.other_rows]])
    share = pseudo_inverse(whole) @ given
    values = singular_values_of_directions(rows)
    values = jnp.concatenate([values, jnp.zeros(m - values.shape[0], dae.dtype)]) / values[0]
    return reaction - (through_tree @ share).reshape(reaction.shape), multipliers - through_others @ share, values
