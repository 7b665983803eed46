"""What other components do to a tree: they see its motion as efforts, and give flows and constraint rows."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.ephs import Power, Structure
from jmbs.jaxext import entries_at, sums_at, sums_of_parts, with_entries
from jmbs.library.mechanics import PointLoad
from jmbs.linear import least_squares, sparse_matrix
from jmbs.rigid_body import TreeMotion
from jmbs.tree.loops import LoopRows, balancing, loop_loads, loop_rates, loop_rows
from jmbs.tree.tree_dae import Own, TreeDAE, is_simple


class Geometry(NamedTuple):
    """What depends on the tree's state alone: the reference state `x`; the bodies' velocities `twist`, in body axes;
    efforts that are `stored` there, these velocities among them; structures of the other components; free efforts that
    are rates of joints, in the tree and in `loops`."""

    x: tuple[Array, ...]
    twist: Float[Array, "bodies 6"]
    stored: Float[Array, " stored"]
    structure: Structure
    loops: tuple[LoopRows, ...]
    known: Float[Array, " free"]


class Others(NamedTuple):
    """What the reference semantics says of everything but the tree, multipliers left out.

    **Arguments:** `geometry`; all `efforts`; `free`, those of them that are not known beforehand; reduced `flow` into
    the other components; `account`: supplied and dissipated power, entropy production; `rows`: the constraint rows
    beyond the tree.
    """

    geometry: Geometry
    efforts: Float[Array, " efforts"]
    free: Float[Array, " z"]
    flow: Float[Array, " efforts"]
    account: tuple[Array, Array, Array]
    rows: Float[Array, " m"]


def geometry_of(dae: TreeDAE, y: Own, motion: TreeMotion | None = None) -> Geometry:
    """See `Geometry`; `motion`: of the bodies, where it is at hand."""
    reference, layout = dae.reference, dae.layout
    x, twist = dae.expanded(y, motion)
    stored = stored_with(dae, x, twist, y[-1][0])
    structure = reference.structures(x, layout.others)
    loops = loop_rows(layout.loops, dae.splits, structure)
    known = known_efforts(dae, y[-1][0], loop_rates(layout.loops, loops, twist))
    return Geometry(x, twist, stored, structure, loops, known)


def moving_with(dae: TreeDAE, y: Own, rates: list[Float[Array, "n k"]], motion: TreeMotion | None = None) -> Geometry:
    """The geometry of a tree that nothing but loop joints and gears constrains, without the rows of these joints.

    **Arguments:** `rates` of these joints, by group; `motion` of the bodies, where it is at hand.
    """
    reference, layout = dae.reference, dae.layout
    x, twist = dae.expanded(y, motion)
    stored, known = stored_with(dae, x, twist, y[-1][0]), known_efforts(dae, y[-1][0], rates)
    closing = {group.constraint.batch for group in layout.loops}
    structure = reference.structures(x, [i for i in layout.others if i not in closing])
    return Geometry(x, twist, stored, structure, (), known)


def geometry_with_change(dae: TreeDAE, y: Own) -> tuple[Geometry, Callable[[Own], Geometry]]:
    """The geometry, and how it changes with the tree's state."""
    return jax.linearize(functools.partial(geometry_of, dae), y)


def stored_with(
    dae: TreeDAE, x: tuple[Array, ...], twist: Float[Array, "bodies 6"], v: Array
) -> Float[Array, " stored"]:
    """Efforts at storages with velocities of bodies and rotors in place; without those that only the tree knows.

    **Arguments:** `v`: the tree's velocities.
    """
    stored = dae.reference.stored_efforts(x, dae.layout.others)
    stored = with_entries(stored, dae.layout.body_slots.ravel(), twist.ravel())
    return stored if dae.layout.rotors is None else dae.layout.rotors.efforts(stored, v)


def others(dae: TreeDAE, t, geometry: Geometry, free: Array | None = None) -> Others:
    """Efforts, flows and rows of everything that is not the tree; `free` efforts by least squares if not given."""
    reference, layout = dae.reference, dae.layout
    x, s = geometry.x, geometry.structure
    free = _free_efforts(dae, t, geometry) if free is None else free
    e = reference.expand(t, s, geometry.stored, with_free(dae, geometry.known, free))
    irreversible, dissipated, production = reference.irreversible_flows(x, e, layout.others)
    outside = _outer(dae)
    # Functions of a user may look at any effort, also at those that the tree has no need of.
    looked_at = all_efforts(dae, t, geometry, free) if any(_looks(d) for d in outside.drives.values()) else e
    outer, supplied = outside.outer_flows(t, x, looked_at)
    flow = reference.reduce(s, reference.reversible_flows(s, e) + irreversible - outer)
    rows = reference.rows(t, s, e)[layout.other_rows]
    return Others(geometry, e, free, flow, (supplied, dissipated, production), rows)


def given_forces(dae: TreeDAE, o: Others, forces: Array) -> tuple[Float[Array, " n_v"], Float[Array, "bodies 6"]]:
    """`forces` on the tree's velocities with those of other components added, and wrenches on bodies in their axes."""
    layout, loops = dae.layout, o.geometry.loops
    forces, loads = direct_forces(dae, o, forces)
    return forces, loop_loads(layout.loops, loops, balancing(layout.loops, loops, o.flow), loads)


def all_forces(dae: TreeDAE, t, y: Own) -> tuple[Float[Array, " n_v"], Float[Array, "bodies 6"]]:
    """See `TreeDAE.forces`, where other components act on the tree."""
    forces, _, _ = dae.simple_forces(t, y[-1][0])
    return given_forces(dae, others(dae, t, geometry_of(dae, y)), forces)


def row_residuals(dae: TreeDAE, t, y: Own, motion: TreeMotion | None) -> tuple[Array, Array]:
    """See `TreeDAE.residuals`, by the reference semantics."""
    geometry, rows = geometry_of(dae, y, motion), dae.layout.other_rows
    return others(dae, t, geometry).rows, dae.reference.closures(geometry.x, only=rows, t=t)[rows]


def direct_forces(dae: TreeDAE, o: Others, forces: Array) -> tuple[Float[Array, " n_v"], Float[Array, "bodies 6"]]:
    """The same without those that act at the rates of loop joints."""
    layout = dae.layout
    taken = [
        (entries_at(o.flow, layout.rate_slots[layout.jointed]), np.flatnonzero(layout.jointed)),
        (entries_at(o.efforts, layout.spring_slots), layout.sprung),
    ]
    return forces - sums_of_parts(taken, len(forces), dae.dtype), direct_loads(dae, o)


def direct_loads(dae: TreeDAE, o: Others) -> Float[Array, "bodies 6"]:
    """The wrenches alone, those of potentials by users' laws among them."""
    layout = dae.layout
    loads = -entries_at(o.flow, layout.body_slots)
    if not layout.lawful.size:
        return loads
    under_law = entries_at(loads, layout.lawful) - entries_at(o.efforts, layout.law_slots)
    return with_entries(loads, layout.lawful, under_law)


def power_of(
    dae: TreeDAE, o: Others, production: Array, known: tuple[Array, Array], constraint: Array, multipliers: Array
) -> Power:
    """The account of everything.

    **Arguments:** `production` and `known`, as `TreeDAE.simple_forces` has them, are not the others'; `constraint`: the
    power of multipliers; `multipliers`, by all rows, of those of neither the tree nor loops.
    """
    whole = jnp.concatenate([production, o.account[2]])[dae.layout.production_source]
    supplied, dissipated = known[0] + o.account[0], known[1] + o.account[1]
    power = Power(supplied, dissipated, jnp.sum(whole), constraint, whole)
    return dae.reference.with_prescribed(power, o.geometry.structure, o.efforts, o.flow, multipliers)


def known_efforts(dae: TreeDAE, v: Float[Array, " n_v"], rates: list[Float[Array, "n k"]]) -> Float[Array, " free"]:
    """Efforts at junctions without storage that are joint rates, of the tree and of loops by group; else zero."""
    plan, slots = dae.reference.plan, dae.layout.rate_slots
    inside = slots >= plan.n_stored
    parts = [(entries_at(v, np.flatnonzero(inside)), slots[inside] - plan.n_stored)]
    parts += [(rate, group.rates - plan.n_stored) for group, rate in zip(dae.layout.loops, rates, strict=True)]
    return sums_of_parts(parts, plan.n_free, dae.dtype)


def with_free(dae: TreeDAE, known: Array, free: Array) -> Float[Array, " free"]:
    return with_entries(known, dae.layout.free_slots - dae.reference.plan.n_stored, free)


def _free_efforts(dae: TreeDAE, t, geometry: Geometry) -> Float[Array, " z"]:
    """The other efforts at junctions without storage, from the rows in the least-squares sense."""
    reference, layout, s = dae.reference, dae.layout, geometry.structure
    zero = jnp.zeros(len(layout.free_slots), dae.dtype)
    if not zero.size:
        return zero

    def rows(z: Array) -> Array:
        e = reference.expand(t, s, geometry.stored, with_free(dae, geometry.known, z))
        return reference.rows(t, s, e)[layout.general_rows]

    offset, push = jax.linearize(rows, zero)
    B = sparse_matrix(push, reference.plan.seen_by_rows[np.ix_(layout.general_rows, layout.free_slots)], dae.dtype)
    return -least_squares(B, offset)


def _outer(dae: TreeDAE):
    """The reference semantics without the drives that are simple forces on the tree."""
    drives = {port: drive for port, drive in dae.reference.drives.items() if port not in dae.simple_drives}
    is_drives = lambda leaf: leaf is dae.reference.drives  # noqa: E731
    return eqx.tree_at(lambda d: d.drives, dae.reference, drives, is_leaf=is_drives)


def all_efforts(dae: TreeDAE, t, geometry: Geometry, free: Array) -> Float[Array, " efforts"]:
    """All efforts in the numbering of the reference plan; `free`: those that only the rows give."""
    reference = dae.reference
    stored, known = reference.stored_efforts(geometry.x), with_free(dae, geometry.known, free)
    return reference.expand(t, reference.structures(geometry.x), stored, known)


def effort_parts(dae: TreeDAE, t, geometry: Geometry, free: Array) -> tuple[Array, ...]:
    """The same in parts: efforts at storages, the bodies' velocities apart from those before and after; at junctions
    without storage; and those that follow from these. Without the forces of storages that only the tree knows."""
    reference, (block, rows), stored = dae.reference, dae.layout.momenta, geometry.stored
    known = with_free(dae, geometry.known, free)
    e = reference.expand(t, reference.structures(geometry.x), stored, known)
    twists, place = entries_at(geometry.twist, np.argsort(rows)).ravel(), reference.plan.blocks[block].slots
    return stored[: place.start], twists, stored[place.stop :], known, e[len(stored) + len(known) :]


def _looks(drive) -> bool:
    """Whether a drive may look at more than time and poses."""
    if isinstance(drive, PointLoad):
        return not (is_simple(drive.force) and is_simple(drive.torque))
    return hasattr(drive, "flow") and not is_simple(drive)


def all_rows(dae: TreeDAE, values: Array) -> Float[Array, " rows"]:
    """Values of the rows beyond the tree, in the numbering of the reference plan; zero on the tree's."""
    return sums_at(values, dae.layout.other_rows, dae.reference.plan.n_rows)
