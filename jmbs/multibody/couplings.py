"""What acts on a tree beyond itself: flows of other components, and constraints, loop joints among them.

With free efforts `z` (joint rates of loops, efforts at nodes without storage) and rows `r(t, y, z)`, the unknown rates
obey, as in the reference semantics,

    M dv = f - J^T lambda,      C_A dz - A lambda = -(drift),      C_A^T lambda = balance,      A = J M^-1 J^T + ...
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.ephs import ConstantFlow, Power, Structure, TableFlow
from jmbs.library.mechanics import PointLoad
from jmbs.linear import solve_saddle
from jmbs.multibody.dynamics import forward_dynamics, mass_solver

if TYPE_CHECKING:
    from jmbs.multibody.tree_dae import Own, TreeDAE


class TreeRates(NamedTuple):
    """Left-trivialised `velocity` of the tree's state, the account as in `jmbs.ephs.Rates`; rates `dv` of the tree's
    velocities; what the couplings were, None without any."""

    velocity: Float[Array, " n"]
    power: Power
    dv: Float[Array, " n_v"]
    couplings: Couplings | None


class Couplings(NamedTuple):
    """**Arguments:** what the `others` say; the rows as functions of rates, `linear`, and their `multipliers`, both
    None without constraints."""

    others: Others
    linear: Linear | None
    multipliers: Float[Array, " m"] | None


class Geometry(NamedTuple):
    """What depends on the tree's state alone: the reference state `x`; efforts that are `stored` there, with the
    bodies' velocities in place; structures of the other components; free efforts that are the tree's joint rates."""

    x: tuple[Array, ...]
    stored: Float[Array, " stored"]
    structure: Structure
    known: Float[Array, " free"]


class Others(NamedTuple):
    """What the reference semantics says of everything but the tree, multipliers left out.

    **Arguments:** `geometry`; all `efforts`; `free`, those of them that are not known beforehand; reduced `flow` into
    the other components; `account`: supplied and dissipated power, entropy production; `rows`: the constraint rows.
    """

    geometry: Geometry
    efforts: Float[Array, " efforts"]
    free: Float[Array, " z"]
    flow: Float[Array, " efforts"]
    account: tuple[Array, Array, Array]
    rows: Float[Array, " m"]


class Linear(NamedTuple):
    """How rates enter the rows: of the tree's velocities `J`, of kept stored efforts, of free efforts; and what
    multipliers do: `response = M^-1 J^T` by row, `A`, how fast they reduce the rows."""

    J: Float[Array, "m n_v"]
    kept: Float[Array, "m kept"]
    free: Float[Array, "m z"]
    response: Float[Array, "m n_v"]
    A: Float[Array, "m m"]


def geometry_of(dae: TreeDAE, y: Own) -> Geometry:
    """See `Geometry`."""
    reference, layout = dae.reference, dae.layout
    x, twist = dae.expanded(y)
    stored = reference.stored_efforts(x, layout.others).at[layout.body_slots].set(twist)
    return Geometry(x, stored, reference.structures(x, layout.others), _known_efforts(dae, y))


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


def coupled_rates(dae: TreeDAE, t, y: Own, stabilisation: Array | None) -> TreeRates:
    """The rates of a tree on which other components and constraints act."""
    layout, v = dae.layout, y[-1][0]
    forces, production, (supplied, dissipated) = dae.simple_forces(t, v)
    geometry, push = jax.linearize(functools.partial(geometry_of, dae), y)
    o = others(dae, t, geometry)
    forces, loads = given_forces(dae, o, forces)
    dv = forward_dynamics(layout.tree, dae.links, dae.elements(y), v, forces, loads)
    kept = -o.flow[layout.kept_slots]
    whole = jnp.concatenate([production, o.account[2]])[layout.production_source]
    power = Power(supplied + o.account[0], dissipated + o.account[1], jnp.sum(whole), jnp.zeros((), dae.dtype), whole)
    linear = multipliers = None
    if layout.other_rows.size:
        drift = _drift(dae, t, o, push(dae.lift(y, dae.velocity(v, dv, production, kept))))
        drift = drift + dae.reference.transport(o.efforts, all_rows(dae, o.rows))[layout.other_rows]
        drift = drift if stabilisation is None else drift + stabilisation
        linear = linearised(dae, t, y, geometry, push)
        _, multipliers = solve_saddle(linear.A, linear.free, -o.flow[layout.free_slots], -drift)
        dv = dv - multipliers @ linear.response
        kept = kept - multipliers @ linear.kept
        power = power._replace(constraint=-(multipliers @ o.rows))
    power = dae.reference.with_prescribed(power, geometry.structure, o.efforts, o.flow, all_rows(dae, multipliers))
    return TreeRates(dae.velocity(v, dv, production, kept), power, dv, Couplings(o, linear, multipliers))


def given_forces(dae: TreeDAE, o: Others, forces: Array) -> tuple[Float[Array, " n_v"], Float[Array, "bodies 6"]]:
    """`forces` on the tree's velocities with those of other components added, and wrenches on bodies in their axes."""
    layout = dae.layout
    inside = layout.rate_slots >= dae.reference.plan.n_stored
    forces = forces.at[np.flatnonzero(inside)].add(-o.flow[layout.rate_slots[inside]])
    return forces.at[layout.sprung].add(-o.efforts[layout.spring_slots]), -o.flow[layout.body_slots]


def linearised(dae: TreeDAE, t, y: Own, geometry: Geometry, push: Callable) -> Linear:
    """The rows as linear functions of rates, and the response of the tree to multipliers; `push`: see `geometry_of`."""
    reference, layout, s = dae.reference, dae.layout, geometry.structure
    n_v, n_kept, n_free = layout.tree.n_velocities, len(layout.kept_slots), len(layout.free_slots)
    nothing = jax.tree.map(jnp.zeros_like, y[:-1])

    def rows(stored: Array, e_free: Array) -> Array:
        return reference.rows(t, s, reference.expand(t, s, stored, e_free, prescribed=False))[layout.other_rows]

    _, act = jax.linearize(rows, jnp.zeros_like(geometry.stored), jnp.zeros_like(geometry.known))

    def of_velocities(v: Array) -> Array:
        change = push((*nothing, v[None]))
        return act(change.stored, change.known)

    def of_kept(kept: Array) -> Array:
        return act(jnp.zeros_like(geometry.stored).at[layout.kept_slots].set(kept), jnp.zeros_like(geometry.known))

    def of_free(free: Array) -> Array:
        return act(jnp.zeros_like(geometry.stored), with_free(dae, jnp.zeros_like(geometry.known), free))

    matrix = lambda f, n: jax.vmap(f, out_axes=1)(jnp.eye(n, dtype=dae.dtype))  # noqa: E731
    J, kept, free = matrix(of_velocities, n_v), matrix(of_kept, n_kept), matrix(of_free, n_free)
    response = jax.vmap(mass_solver(layout.tree, dae.links, dae.elements(y)))(J)
    A = J @ response.T
    which = tuple(i for i in layout.kept if i in reference.plan.constrained_blocks)
    if which:
        C_stored = jnp.zeros((J.shape[0], reference.plan.n_stored), dae.dtype).at[:, layout.kept_slots].set(kept)
        A = A + reference.compliance(geometry.x, C_stored, which)
    return Linear(J, kept, free, response, A)


@eqx.filter_jit
def project(dae: TreeDAE, t, y: Own) -> tuple[Own, Float[Array, ""]]:
    """`y` moved onto the constraints beyond the tree, nearest in the mass metric; and the energy that this added, J."""
    if not dae.layout.other_rows.size:
        return y, jnp.zeros((), dae.dtype)
    geometry, push = jax.linearize(functools.partial(geometry_of, dae), y)
    linear = linearised(dae, t, y, geometry, push)
    moved = _correct_positions(dae, y, geometry, linear)
    moved = _correct_velocities(dae, t, moved, linear)
    energy = lambda x: jnp.sum(dae.reference.energies(x))  # noqa: E731
    return moved, energy(dae.expanded(moved)[0]) - energy(geometry.x)


def _correct_positions(dae: TreeDAE, y: Own, geometry: Geometry, linear: Linear) -> Own:
    reference, layout, s = dae.reference, dae.layout, geometry.structure
    nothing = jnp.zeros(linear.free.shape[1], dae.dtype)
    gaps = reference.closures(geometry.x)[layout.other_rows]
    free, impulse = solve_saddle(linear.A, linear.free, nothing, -gaps)
    step = -impulse @ linear.response
    # Loop joints move with the free efforts, as their couplings say.
    e_free = with_free(dae, jnp.zeros_like(geometry.known), free)
    e = reference.expand(0.0, s, jnp.zeros_like(geometry.stored), e_free, prescribed=False)
    kept = -reference.reduce(s, reference.reversible_flows(s, e))[layout.kept_slots]
    kept = jnp.where(reference.plan.configuration_slots[layout.kept_slots], kept, 0.0)
    return dae.retract(y, dae.velocity(step, jnp.zeros_like(step), _no_production(dae), kept))


def _correct_velocities(dae: TreeDAE, t, y: Own, linear: Linear) -> Own:
    # Free efforts may be any: the solve corrects them too, so the rows are evaluated with them at zero.
    nothing = jnp.zeros(linear.free.shape[1], dae.dtype)
    geometry = geometry_of(dae, y)
    s = geometry.structure
    e = dae.reference.expand(t, s, geometry.stored, with_free(dae, geometry.known, nothing))
    rows = dae.reference.rows(t, s, e)[dae.layout.other_rows]
    _, impulse = solve_saddle(linear.A, linear.free, nothing, -rows)
    still = jnp.zeros(dae.layout.tree.n_velocities, dae.dtype)
    change = dae.velocity(still, -impulse @ linear.response, _no_production(dae), -impulse @ linear.kept)
    return dae.retract(y, change)


def _no_production(dae: TreeDAE) -> Array:
    return jnp.zeros(sum(len(f.productions) for f in dae.layout.friction), dae.dtype)


def _drift(dae: TreeDAE, t, o: Others, change: Geometry) -> Float[Array, " m"]:
    """The rate of the rows as time passes and the geometry changes, free efforts held."""
    reference, layout = dae.reference, dae.layout

    def rows(t, stored, structure, known):
        e = reference.expand(t, structure, stored, with_free(dae, known, o.free))
        return reference.rows(t, structure, e)[layout.other_rows]

    at = t, o.geometry.stored, o.geometry.structure, o.geometry.known
    return jax.jvp(rows, at, (jnp.ones_like(t), change.stored, change.structure, change.known))[1]


def _known_efforts(dae: TreeDAE, y: Own) -> Float[Array, " free"]:
    """Efforts at junctions without storage that are the tree's joint rates; zero at others."""
    plan, slots = dae.reference.plan, dae.layout.rate_slots
    inside = slots >= plan.n_stored
    return jnp.zeros(plan.n_free, dae.dtype).at[slots[inside] - plan.n_stored].set(y[-1][0][np.flatnonzero(inside)])


def with_free(dae: TreeDAE, known: Array, free: Array) -> Float[Array, " free"]:
    return known.at[dae.layout.free_slots - dae.reference.plan.n_stored].set(free)


def _free_efforts(dae: TreeDAE, t, geometry: Geometry) -> Float[Array, " z"]:
    """The other efforts at junctions without storage, from the rows in the least-squares sense."""
    reference, layout, s = dae.reference, dae.layout, geometry.structure
    zero = jnp.zeros(len(layout.free_slots), dae.dtype)
    if not zero.size:
        return zero

    def rows(z: Array) -> Array:
        e = reference.expand(t, s, geometry.stored, with_free(dae, geometry.known, z))
        return reference.rows(t, s, e)[layout.other_rows]

    offset, push = jax.linearize(rows, zero)
    B = jax.vmap(push, out_axes=1)(jnp.eye(zero.size, dtype=dae.dtype))
    return -jnp.linalg.solve(B.T @ B, B.T @ offset)


def _outer(dae: TreeDAE):
    """The reference semantics without the drives that are simple forces on the tree."""
    drives = {port: drive for port, drive in dae.reference.drives.items() if port not in dae.simple_drives}
    is_drives = lambda leaf: leaf is dae.reference.drives  # noqa: E731
    return eqx.tree_at(lambda d: d.drives, dae.reference, drives, is_leaf=is_drives)


def all_efforts(dae: TreeDAE, t, geometry: Geometry, free: Array) -> Float[Array, " efforts"]:
    """All efforts in the numbering of the reference plan; `free`: those that only the rows give."""
    reference = dae.reference
    stored = reference.stored_efforts(geometry.x)
    known = with_free(dae, geometry.known, free)
    return reference.expand(t, reference.structures(geometry.x), stored, known)


def _looks(drive) -> bool:
    """Whether a drive may look at more than time and poses."""
    fixed = ConstantFlow | TableFlow
    if isinstance(drive, PointLoad):
        return not (isinstance(drive.force, fixed) and isinstance(drive.torque, fixed))
    return hasattr(drive, "flow") and not isinstance(drive, fixed)


def all_rows(dae: TreeDAE, values: Array | None) -> Float[Array, " rows"]:
    """Values of the other rows, in the numbering of the reference plan; zero on the tree's."""
    rows = jnp.zeros(dae.reference.plan.n_rows, dae.dtype)
    return rows if values is None else rows.at[dae.layout.other_rows].set(values)
