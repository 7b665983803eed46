"""Rates and projection of trees that loop joints alone constrain, see `Layout.only_loops`.

They say what `jmbs.tree.constrained_rates` and `projection` say for any coupling; where nothing else is beside the
tree, without the reference semantics.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.arrays import total
from jmbs.constraints import (
    ConstrainedTree,
    LoopInputs,
    LoopJoints,
    Loops,
    Residuals,
    constrained_dynamics,
    gaps,
    loop_impulse,
    rates_and_rows,
    residuals,
    split_pose,
)
from jmbs.ephs import Power
from jmbs.jaxext import entries_at
from jmbs.lie import along_batches
from jmbs.rigid_body import TreeMotion, body_motions, frame_of, motion_of
from jmbs.tree.constrained_rates import TreeRates, general_multipliers
from jmbs.tree.couplings import direct_forces, geometry_of, others, power_of
from jmbs.tree.friction import friction_forces, no_production
from jmbs.tree.links import members
from jmbs.tree.loops_alone import LoopsAlone

if TYPE_CHECKING:
    from jmbs.tree.tree_dae import Own, TreeDAE


def rates_of_loops(dae: TreeDAE, t, y: Own, stabilisation: Array | None) -> TreeRates:
    """The rates of a tree with loops; `stabilisation` as in `TreeDAE.rates`."""
    layout, v = dae.layout, y[-1][0]
    forces, production, (supplied, dissipated) = dae.simple_forces(t, v)
    rates, rows = loop_rates_and_rows(dae, y, v)
    friction = friction_forces(dae.reference, _alone(dae).friction, rates)
    closure = LoopInputs(_joints(dae), friction.forces, _drift(rows, stabilisation))
    dv, multipliers = constrained_dynamics(
        _constrained_tree(dae), dae.links, dae.elements(y), v, forces, closure, None, dae.forward_only
    )
    whole = entries_at(jnp.concatenate([production, friction.production]), layout.production_source)
    power = Power(supplied, dissipated + friction.dissipated, total(whole), -total(multipliers * rows), whole)
    return TreeRates(dae.velocity(v, dv, production, _kept(dae, rates, friction.production)), power, dv)


def rates_of_loops_and_others(dae: TreeDAE, t, y: Own, stabilisation: Array | None) -> TreeRates:
    """The same where other components act on the bodies or joints, or have states of their own."""
    layout, v = dae.layout, y[-1][0]
    forces, production, known = dae.simple_forces(t, v)
    o = others(dae, t, geometry_of(dae, y))
    forces, loads = direct_forces(dae, o, forces)
    _, rows = loop_rates_and_rows(dae, y, v)
    efforts = jnp.concatenate([o.flow[group.rates].ravel() for group in layout.loops])
    closure = LoopInputs(_joints(dae), efforts, _drift(rows, stabilisation))
    dv, multipliers = constrained_dynamics(
        _constrained_tree(dae), dae.links, dae.elements(y), v, forces, closure, loads
    )
    power = power_of(dae, o, production, known, -total(multipliers * rows), general_multipliers(dae, None))
    return TreeRates(dae.velocity(v, dv, production, -o.flow[layout.kept_slots]), power, dv)


def loop_projection(dae: TreeDAE, y: Own, kept: Callable[[Array, Array], Array]) -> Own:
    """See `jmbs.tree.projection.project`.

    **Arguments:** `kept`: how the blocks that stay move where the tree's velocities, and the loop joints, move so.
    """
    none = no_production(dae.layout.friction, dae.dtype)

    def correct(y: Own, positions: Array) -> tuple[Own, None]:
        at = loop_residuals(dae, y)
        rows = jnp.where(positions, at.normal, at.rows)
        tree, elements = _constrained_tree(dae), dae.elements(y)
        change = loop_impulse(tree, dae.links, elements, _joints(dae), rows, dae.forward_only)
        step, dv = jnp.where(positions, change, 0.0), jnp.where(positions, 0.0, change)
        # With the bodies in place, loop joints close what is open along them.
        own = jnp.where(positions, 0.0, at.along)
        return dae.retract(y, dae.velocity(step, dv, none, kept(step, own))), None

    # First positions, then velocities: a loop, since a program with two solutions would take twice as long to compile.
    return jax.lax.scan(correct, y, jnp.asarray([True, False]))[0]


def kept_by_loops(dae: TreeDAE, rates: Array) -> Float[Array, " kept"]:
    """The rates of the blocks that stay where nothing else is beside the tree: loop joints by theirs."""
    return _kept(dae, rates, no_production(_alone(dae).friction, dae.dtype))


def by_group(dae: TreeDAE, rates: Float[Array, " k"]) -> list[Float[Array, "n k"]]:
    """Rates of loop joints, group by group."""
    ends = np.cumsum([group.rates.size for group in dae.layout.loops])
    parts = jnp.split(rates, ends[:-1])
    return [part.reshape(group.rates.shape) for part, group in zip(parts, dae.layout.loops, strict=True)]


def loop_rates_and_rows(dae: TreeDAE, y: Own, v: Array) -> tuple[Float[Array, " k"], Float[Array, " m"]]:
    """The rates of loop joints, and the rows, at velocities `v`."""
    loops = _loops(dae)
    leaves, structure = jax.tree.flatten(_joints(dae))

    def of_motion(x: Array, *leaves: Array) -> tuple[Array, Array]:
        joints = structure.unflatten(leaves).in_components()
        return rates_and_rows(gaps(motion_of(x), loops, joints).twist, loops, joints)

    rates, rows = along_batches(of_motion, _motion(dae, y, v), *leaves)
    return rates, rows


def loop_residuals(dae: TreeDAE, y: Own) -> Residuals:
    """By how much loop joints are open, for what runs at every step."""
    loops, elements = _loops(dae), _loop_elements(dae, y)
    leaves, structure = jax.tree.flatten(_joints(dae))

    def of_motion(x: Array, *given: Array) -> Residuals:
        first, second, element = map(split_pose, given[:3])
        return residuals(motion_of(x), first, second, element, loops, structure.unflatten(given[3:]).in_components())

    assert dae.loop_frames is not None
    return Residuals(*along_batches(of_motion, _motion(dae, y, y[-1][0]), *dae.loop_frames, elements, *leaves))


def seen_residuals(dae: TreeDAE, y: Own, motion: TreeMotion) -> Residuals:
    """The same for what runs seldom; of the bodies' `motion`, in arrays."""
    assert dae.loop_frames is not None
    first, second, element = map(frame_of, (*dae.loop_frames, _loop_elements(dae, y)))
    return residuals(motion.bodies, first, second, element, _loops(dae), _joints(dae))


def _loop_elements(dae: TreeDAE, y: Own) -> Float[Array, "n 3 4"]:
    """The motions that the elements of all loop joints stand for."""
    layout, motions = dae.layout, []
    for group, (block, rows) in zip(layout.loops, layout.loop_elements, strict=True):
        joints = members(dae.reference.components[group.constraint.batch], group.constraint).motion
        included = eqx.filter_vmap(lambda _, joint, q: joint.inclusion(q))
        motions.append(included(np.arange(len(rows)), joints, entries_at(y[block], rows)))
    return jnp.concatenate(motions)


def _alone(dae: TreeDAE) -> LoopsAlone:
    assert dae.layout.loops_alone is not None
    return dae.layout.loops_alone


def _constrained_tree(dae: TreeDAE) -> ConstrainedTree:
    return ConstrainedTree(dae.layout.tree, _loops(dae), dae.layout.rows)


def _drift(rows: Array, stabilisation: Array | None) -> Array:
    return jnp.zeros_like(rows) if stabilisation is None else stabilisation


def _loops(dae: TreeDAE) -> Loops:
    assert dae.layout.only_loops is not None
    return dae.layout.only_loops


def _joints(dae: TreeDAE) -> LoopJoints:
    assert dae.loop_joints is not None
    return dae.loop_joints


def _motion(dae: TreeDAE, y: Own, v: Array) -> Float[Array, "18 bodies"]:
    return body_motions(dae.layout.tree, dae.links, dae.elements(y), v)


def _kept(dae: TreeDAE, rates: Array, production: Array) -> Float[Array, " kept"]:
    """The rates of the blocks that stay: loop joints by theirs, the environment by what friction produces."""
    return entries_at(jnp.concatenate([rates, production, jnp.zeros(1, dae.dtype)]), _alone(dae).kept_source)
