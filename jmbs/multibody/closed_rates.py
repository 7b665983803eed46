"""Rates and projection of trees that loop joints alone constrain, see `Layout.closing`.

They say what `jmbs.multibody.constraints` and `projection` say for any coupling; where nothing else is beside the tree,
without the reference semantics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.arrays import total
from jmbs.dae import total_energy
from jmbs.ephs import Power
from jmbs.library.mechanics import joint_residual
from jmbs.linear import products
from jmbs.multibody.body_motions import body_motions
from jmbs.multibody.closed_dynamics import ClosedTree, LoopInputs, closed_dynamics
from jmbs.multibody.closed_loops import ClosedLoops
from jmbs.multibody.closing import Closing, Loops, gaps, of_bodies, rates_and_rows
from jmbs.multibody.constraints import TreeRates, condensed, general_multipliers
from jmbs.multibody.couplings import direct_forces, geometry_of, others, power_of
from jmbs.multibody.friction import friction_forces, no_production
from jmbs.multibody.joints import Frame, frame_of, poses_of
from jmbs.multibody.links import frames, members
from jmbs.multibody.loops import Split
from jmbs.spatial import Motion, add, multiply, subtract, times, transpose, transposed_times
from jmbs.static_places import entries_at

if TYPE_CHECKING:
    from jmbs.multibody.tree_dae import Own, TreeDAE


def closed_rates(dae: TreeDAE, t, y: Own, stabilisation: Array | None) -> TreeRates:
    """The rates of a tree with loops; `stabilisation` as in `TreeDAE.rates`."""
    layout, v = dae.layout, y[-1][0]
    forces, production, (supplied, dissipated) = dae.simple_forces(t, v)
    rates, rows = _rates_and_rows(dae, y, v)
    friction = friction_forces(dae.reference, _closed(dae).friction, rates)
    closure = LoopInputs(_joints(dae), friction.forces, _drift(dae, rows, stabilisation))
    dv, multipliers = closed_dynamics(_closed_tree(dae), dae.links, dae.elements(y), v, forces, closure)
    whole = entries_at(jnp.concatenate([production, friction.production]), layout.production_source)
    power = Power(supplied, dissipated + friction.dissipated, total(whole), -total(multipliers * rows), whole)
    return TreeRates(dae.velocity(v, dv, production, _kept(dae, rates, friction.production)), power, dv, None)


def loaded_rates(dae: TreeDAE, t, y: Own, stabilisation: Array | None) -> TreeRates:
    """The same where other components act on the bodies or joints, or have states of their own."""
    layout, v = dae.layout, y[-1][0]
    forces, production, known = dae.simple_forces(t, v)
    o = others(dae, t, geometry_of(dae, y))
    forces, loads = direct_forces(dae, o, forces)
    _, rows = _rates_and_rows(dae, y, v)
    efforts = jnp.concatenate([o.flow[group.rates].ravel() for group in layout.loops])
    closure = LoopInputs(_joints(dae), efforts, _drift(dae, rows, stabilisation))
    dv, multipliers = closed_dynamics(_closed_tree(dae), dae.links, dae.elements(y), v, forces, closure, loads)
    power = power_of(dae, o, production, known, -total(multipliers * rows), general_multipliers(dae, None))
    return TreeRates(dae.velocity(v, dv, production, -o.flow[layout.kept_slots]), power, dv, None)


def closed_projection(dae: TreeDAE, y: Own) -> tuple[Own, Float[Array, ""]]:
    """See `jmbs.multibody.projection.project`."""
    v, splits = y[-1][0], _splits(dae)
    open_by = _closures(dae, y)
    normal = [products(s.normal.T, gap.T).T.ravel() for s, gap in zip(splits, open_by, strict=True)]
    along = [products(jnp.moveaxis(s.inverse, 0, -1), gap.T).T.ravel() for s, gap in zip(splits, open_by, strict=True)]

    def correct(so_far: tuple[Own, Array], positions: Array) -> tuple[tuple[Own, Array], None]:
        moved, rows = so_far
        change = closing_impulse(dae, y, rows)
        # The joints close the rest of their gaps.
        rates = _rates_and_rows(dae, y, change)[0] - jnp.concatenate(along)
        step, change, rates = positions * change, (1 - positions) * change, positions * rates
        moved = _moved(dae, moved, step, change, rates)
        return (moved, _rates_and_rows(dae, moved, v)[1]), None

    # First positions, then velocities: a loop, since a program with two solutions would take twice as long to compile.
    (moved, _), _ = jax.lax.scan(correct, (y, jnp.concatenate(normal)), jnp.asarray([1.0, 0.0], dae.dtype))
    before, after = (total_energy(dae.reference, dae.expanded(z)[0]) for z in (y, moved))
    return moved, after - before


def closing_impulse(dae: TreeDAE, y: Own, rows: Float[Array, " m"]) -> Float[Array, " n_v"]:
    """The change of velocities nearest in the mass metric that takes a violation of the rows away."""
    still = jnp.zeros(dae.layout.tree.n_velocities, dae.dtype)
    closure = LoopInputs(_joints(dae), jnp.zeros(len(_loops(dae).rates), dae.dtype), rows)
    # Without motion and weight, the accelerations that annul a drift are those of an impulse.
    links = dae.links.weightless
    return closed_dynamics(_closed_tree(dae), links, dae.elements(y), still, still, closure)[0]


def closing_rates(dae: TreeDAE, y: Own, v: Array) -> list[Float[Array, "n k"]]:
    """The rates of loop joints at velocities `v`, group by group."""
    rates, _ = _rates_and_rows(dae, y, v)
    ends = np.cumsum([group.rates.size for group in dae.layout.loops])
    parts = jnp.split(rates, ends[:-1])
    return [part.reshape(group.rates.shape) for part, group in zip(parts, dae.layout.loops, strict=True)]


def _closed(dae: TreeDAE) -> ClosedLoops:
    assert dae.layout.closed is not None
    return dae.layout.closed


def _closed_tree(dae: TreeDAE) -> ClosedTree:
    return ClosedTree(dae.layout.tree, _loops(dae), dae.layout.rows)


def _drift(dae: TreeDAE, rows: Array, stabilisation: Array | None) -> Array:
    return jnp.zeros_like(rows) if stabilisation is None else condensed(dae.layout, _splits(dae), stabilisation)


def _loops(dae: TreeDAE) -> Loops:
    assert dae.layout.closing is not None
    return dae.layout.closing


def _rates_and_rows(dae: TreeDAE, y: Own, v: Array) -> tuple[Array, Array]:
    """The rates of loop joints, and the rows, at velocities `v`."""
    loops, joints = _loops(dae), _joints(dae)
    return rates_and_rows(gaps(_motion(dae, y, v), loops, joints), loops, joints)


def _joints(dae: TreeDAE) -> Closing:
    assert dae.closing is not None
    return dae.closing


def _splits(dae: TreeDAE) -> list[Split]:
    return [split for split in dae.splits if split is not None]


def _motion(dae: TreeDAE, y: Own, v: Array) -> Motion:
    return body_motions(dae.layout.tree, dae.links, dae.elements(y), v)


def _kept(dae: TreeDAE, rates: Array, production: Array) -> Float[Array, " kept"]:
    """The rates of the blocks that stay: loop joints by theirs, the environment by what friction produces."""
    return entries_at(jnp.concatenate([rates, production, jnp.zeros(1, dae.dtype)]), _closed(dae).kept_source)


def _moved(dae: TreeDAE, y: Own, step: Array, change: Array, rates: Array) -> Own:
    """`y` moved along velocities, velocities changed, and loop joints moved along their rates."""
    closed = _closed(dae)
    kept = _kept(dae, rates, no_production(closed.friction, dae.dtype))
    return dae.retract(y, dae.velocity(step, change, no_production(dae.layout.friction, dae.dtype), kept))


def _closures(dae: TreeDAE, y: Own) -> list[Float[Array, "n 6"]]:
    """By how much loop joints are open, group by group: see `jmbs.library.mechanics.joint_closure`."""
    closed, reference, motion = _closed(dae), dae.reference, _motion(dae, y, y[-1][0])
    found = []
    for group, (block, rows) in zip(dae.layout.loops, closed.elements, strict=True):
        joints = members(reference.components[group.constraint.batch], group.constraint)
        elements = entries_at(y[block], rows)
        inclusion = eqx.filter_vmap(lambda _, m, q: m.inclusion(q))(np.arange(len(rows)), joints.motion, elements)
        first, second = (
            _frame(of_bodies(motion, group.bodies[:, end]), frames(reference, offsets))
            for end, offsets in ((0, group.first), (1, group.second))
        )
        R, p = _followed(first, frame_of(inclusion))
        error = multiply(transpose(R), second[0]), transposed_times(R, subtract(second[1], p))
        found.append(jax.vmap(joint_residual)(poses_of(error)))
    return found


def _frame(motion: Motion, offset: Float[Array, "n 3 4"]) -> Frame:
    return _followed((motion.rotation, motion.position), frame_of(offset))


def _followed(first: Frame, second: Frame) -> Frame:
    """The pose of a frame that stands in another."""
    (R, p), (own, place) = first, second
    return multiply(R, own), add(p, times(R, place))
