"""Trees that loop joints constrain, alone or with gears, see `Layout.only_loops`.

Rates and projections are those that `tree_with_constraints.py` has for any constraints.
"""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

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
from jmbs.jaxext import entries_at
from jmbs.lie import along_batches
from jmbs.rigid_body import TreeMotion, body_motions, frame_of, motion_of
from jmbs.tree.acting import Acting, still_kept_rates
from jmbs.tree.couplings import moving_with
from jmbs.tree.friction import no_production
from jmbs.tree.gears import gear_gaps, gear_matrix, gear_rates
from jmbs.tree.joint_tree import AbstractJointTree
from jmbs.tree.links import members
from jmbs.tree.projection import kept_motion
from jmbs.tree.tree_dae import Own


class TreeWithLoops(AbstractJointTree):
    """See the module.

    **Arguments:** `loop_joints`: all of them, with `loop_frames` (n, 3, 4) on their first and second bodies.
    """

    loop_joints: LoopJoints
    loop_frames: tuple[Array, Array]

    def joint_rows(self, y: Own) -> tuple[Float[Array, " k"], Float[Array, " m"]]:
        """See `AbstractJointTree`."""
        return loop_rates_and_rows(self, y, y[-1][0])

    def accelerations(self, y: Own, given: Acting, drift: Float[Array, " m"]) -> tuple[Array, Array]:
        """See `AbstractJointTree`."""
        closure = LoopInputs(self.loop_joints, given.efforts, drift, _coefficients(self))
        tree, elements, v = _constrained_tree(self), self.elements(y), y[-1][0]
        forces, loads = given.forces, given.loads
        return constrained_dynamics(tree, self.links, elements, v, forces, closure, loads, self.forward_only)

    def residuals(self, t, y: Own, motion: TreeMotion | None = None) -> tuple[Array, Array]:
        """See `TreeDAE`."""
        del t
        at = loop_residuals(self, y) if motion is None else seen_residuals(self, y, motion)
        return _rows(self, y[-1][0], at.rows), _gaps(self, y, at.normal)

    def projected(self, t, y: Own) -> Own:
        """See `TreeDAE`."""
        del t
        none, kept, gears = no_production(self.layout.friction, self.dtype), _kept(self, y), _coefficients(self)

        def correct(y: Own, positions: Array) -> tuple[Own, None]:
            at = loop_residuals(self, y)
            rows = jnp.where(positions, _gaps(self, y, at.normal), _rows(self, y[-1][0], at.rows))
            tree, elements = _constrained_tree(self), self.elements(y)
            change = loop_impulse(tree, self.links, elements, self.loop_joints, rows, gears, self.forward_only)
            step, dv = jnp.where(positions, change, 0.0), jnp.where(positions, 0.0, change)
            # With the bodies in place, loop joints close what is open along them.
            own = jnp.where(positions, 0.0, at.along)
            return self.retract(y, self.velocity(step, dv, none, kept(step, own))), None

        # First positions, then velocities: a loop, since a program with two solutions would compile for twice as long.
        return jax.lax.scan(correct, y, jnp.asarray([True, False]))[0]


def _kept(dae: TreeWithLoops, y: Own) -> Callable[[Array, Array], Array]:
    """How the blocks that stay move, as a function of how the tree's velocities, and the loop joints, move."""
    alone = dae.alone
    if alone is not None:
        return lambda _, rates: still_kept_rates(dae, alone, rates)
    free = jnp.zeros(len(dae.layout.free_slots), dae.dtype)
    nothing = [jnp.zeros(group.rates.shape, dae.dtype) for group in dae.layout.loops]
    geometry = moving_with(dae, y, nothing)
    still = jnp.zeros_like(geometry.stored)
    return lambda step, rates: kept_motion(dae, geometry, step, by_group(dae, rates), free, still)


def by_group(dae: TreeWithLoops, rates: Float[Array, " k"]) -> list[Float[Array, "n k"]]:
    """Rates of loop joints, group by group."""
    ends = np.cumsum([group.rates.size for group in dae.layout.loops])
    parts = jnp.split(rates, ends[:-1])
    return [part.reshape(group.rates.shape) for part, group in zip(parts, dae.layout.loops, strict=True)]


def loop_rates_and_rows(dae: TreeWithLoops, y: Own, v: Array) -> tuple[Float[Array, " k"], Float[Array, " m"]]:
    """The rates of loop joints, and all rows, at velocities `v`."""
    loops = _loops(dae)
    leaves, structure = jax.tree.flatten(dae.loop_joints)

    def of_motion(x: Array, *leaves: Array) -> tuple[Array, Array]:
        joints = structure.unflatten(leaves).in_components()
        return rates_and_rows(gaps(motion_of(x), loops, joints).twist, loops, joints)

    rates, rows = along_batches(of_motion, _motion(dae, y, v), *leaves)
    return rates, _rows(dae, v, rows)


def loop_residuals(dae: TreeWithLoops, y: Own) -> Residuals:
    """By how much loop joints are open, for what runs at every step."""
    loops, elements = _loops(dae), _loop_elements(dae, y)
    leaves, structure = jax.tree.flatten(dae.loop_joints)

    def of_motion(x: Array, *given: Array) -> Residuals:
        first, second, element = map(split_pose, given[:3])
        return residuals(motion_of(x), first, second, element, loops, structure.unflatten(given[3:]).in_components())

    return Residuals(*along_batches(of_motion, _motion(dae, y, y[-1][0]), *dae.loop_frames, elements, *leaves))


def seen_residuals(dae: TreeWithLoops, y: Own, motion: TreeMotion) -> Residuals:
    """The same for what runs seldom; of the bodies' `motion`, in arrays."""
    first, second, element = map(frame_of, (*dae.loop_frames, _loop_elements(dae, y)))
    return residuals(motion.bodies, first, second, element, _loops(dae), dae.loop_joints)


def _loop_elements(dae: TreeWithLoops, y: Own) -> Float[Array, "n 3 4"]:
    """The motions that the elements of all loop joints stand for."""
    layout, motions = dae.layout, []
    for group, (block, rows) in zip(layout.loops, layout.loop_elements, strict=True):
        joints = members(dae.reference.components[group.constraint.batch], group.constraint).motion
        included = eqx.filter_vmap(lambda _, joint, q: joint.inclusion(q))
        motions.append(included(np.arange(len(rows)), joints, entries_at(y[block], rows)))
    return jnp.concatenate(motions)


def _rows(dae: TreeWithLoops, v: Array, of_loops: Array) -> Float[Array, " m"]:
    """Those of loops, with those of gears before them."""
    return of_loops if dae.layout.only_gears is None else jnp.concatenate([gear_rates(dae, v), of_loops])


def _gaps(dae: TreeWithLoops, y: Own, of_loops: Array) -> Float[Array, " m"]:
    """What these are the rates of."""
    return of_loops if dae.layout.only_gears is None else jnp.concatenate([gear_gaps(dae, y), of_loops])


def _coefficients(dae: TreeWithLoops) -> Float[Array, "g n_v"] | None:
    return None if dae.layout.only_gears is None else gear_matrix(dae)


def _constrained_tree(dae: TreeWithLoops) -> ConstrainedTree:
    return ConstrainedTree(dae.layout.tree, _loops(dae), dae.layout.rows)


def _loops(dae: TreeWithLoops) -> Loops:
    assert dae.layout.only_loops is not None
    return dae.layout.only_loops


def _motion(dae: TreeWithLoops, y: Own, v: Array) -> Float[Array, "18 bodies"]:
    return body_motions(dae.layout.tree, dae.links, dae.elements(y), v)
