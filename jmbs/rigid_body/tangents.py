"""Derivatives of inverse dynamics forwards, along a change of all that it depends on.

Along a change every body is displaced as one rigid body, by a twist `eta`: the sum of the displacements of the joints
before it. Seen from the displaced body only what its joints and velocities change is new. About the world's origin

    dU = eta x U + R du,   dV = sum of dU,   d(dU/dt) = dV x U + V x dU + eta x T + R dt,   dA = sum of d(dU/dt)

where `U` are the twists of bodies relative to their parents, with rates `T` in their own axes, `V` and `A` twists and
accelerations of the bodies. Less `eta x`, these are changes in the bodies' axes, as their Newton-Euler equations want
them; the wrenches that these give turn with the body. Derived in `docs/derivations/tangents.md`; the derivative
backwards is in `jmbs.rigid_body.adjoint`.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.jaxext import evaluated_once
from jmbs.rigid_body.adjoint import crossed, difference, wrench_sum
from jmbs.rigid_body.batches import Changes, Inputs
from jmbs.rigid_body.joints import Column, entries_of, twist_of
from jmbs.rigid_body.kinematics import TreeMotion, composed, joined_columns, relative_motions
from jmbs.rigid_body.mass_matrix import about_origin, less_loads, turned_inertias, wrenches_of
from jmbs.rigid_body.paths import Paths
from jmbs.rigid_body.topology import Links, Tree
from jmbs.spatial import (
    Matrix,
    Symmetric,
    Vector,
    add,
    columns,
    cross,
    dot,
    power,
    scale,
    subtract,
    symmetric_times,
    times,
    transposed_times,
)


class MotionChange(NamedTuple):
    """How a tree's motion changes; about the world's origin (where it is `local`, about the first body), world axes.

    **Arguments:** the motion `kin` itself; by body the twists `eta` of displacements, changes of twists and of their
    rates, as seen from the displaced bodies; by velocity, changes of the twists `columns` in the bodies' axes, None for
    none. Where velocities alone are looked at, `acceleration` is None.
    """

    kin: TreeMotion
    eta: Column
    velocity: Column
    acceleration: Column | None
    columns: Column | None


ResidualChange = tuple[Array, TreeMotion, Symmetric]
"""The change of equations of motion, or of forces in them, where their solution is held; and the motion, and inertias
in world axes, for the solve that follows."""


def velocity_change(tree: Tree, inputs: Inputs, v: Float[Array, " n_v"], changes: Changes) -> MotionChange:
    """See `MotionChange`: of motion with constant velocities `v` in place of the inputs' own."""
    at = len(jax.tree.leaves((inputs.links, inputs.q)))
    changes = (*changes[:at], None, *changes[at + 1 :])
    return motion_change(tree, inputs._replace(v=v), None, changes, local=False)


def motion_change(
    tree: Tree, inputs: Inputs, dv: Float[Array, " n_v"] | None, changes: Changes, local: bool
) -> MotionChange:
    """See `MotionChange`, along changes of the inputs at constant `dv`, None where velocities alone are looked at;
    tangent ones of elements."""
    leaves, structure = jax.tree.flatten(inputs)
    which = [k for k, change in enumerate(changes) if change is not None]

    def relative(*changed: Array):
        whole = list(leaves)
        for k, leaf in zip(which, changed, strict=True):
            whole[k] = leaf
        links, q, v, *_ = structure.unflatten(whole)
        motion, own = relative_motions(tree, links.joints, q, v, dv, local=local)
        return motion, joined_columns(tree, motion, own), own

    at, along = [leaves[k] for k in which], [changes[k] for k in which]
    (motion, _, own), (change, d_columns, _) = jax.jvp(relative, at, along)
    kin, paths = composed(tree, motion, own), Paths(tree.forest)
    steady = all(joints.steady for joints in inputs.links.joints)
    fixed = steady and not any(inputs.varied([change is not None for change in changes]))
    d_columns = None if fixed else d_columns
    once, body = evaluated_once, kin.bodies
    above = paths.above(body.rotation, identity=True)
    turn = once(_turn, motion.rotation, change.rotation)
    velocities = (motion.spin, motion.velocity), motion.rates, (change.spin, change.velocity)
    more = None if fixed else change.rates
    own = once(_by_joints, above, body.rotation, body.position, turn, change.position, velocities, more)
    if not tree.forest.has_edges:
        # Bodies change as their joints do.
        still = jax.tree.map(jnp.zeros_like, own.dU) if own.dT is None else own.dT
        return MotionChange(kin, own.eta, own.dU, None if dv is None else still, d_columns)
    eta = paths.sums_by_doubling(own.eta)
    dU = once(lambda eta, own: total_twist(crossed_twists(eta, own.U), own.dU), eta, own)
    dV, (V, A) = paths.sums_by_doubling(dU), twists_about_origin(kin)
    if dv is None:
        return MotionChange(kin, eta, once(_as_seen, eta, V, dV), None, d_columns)
    dA = paths.sums_by_doubling(once(_turned, own, V, eta, dU, dV))
    velocity, acceleration = once(lambda *x: (_as_seen(*x[:3]), _as_seen(x[0], *x[3:])), eta, V, dV, A, dA)
    return MotionChange(kin, eta, velocity, acceleration, d_columns)


class _Own(NamedTuple):
    """Of each joint, about the origin: its displacement, its twist and the rate of that as the child sees it, and
    changes of both as the child sees them; None for none."""

    eta: Column
    U: Column
    T: Column | None
    dU: Column
    dT: Column | None


def _turn(rotation: Matrix, change: Matrix) -> Vector:
    """The angular displacement, in the child's axes."""
    (x, y, z), (dx, dy, dz) = columns(rotation), columns(change)
    pair = lambda a, b, da, db: 0.5 * (dot(b, da) - dot(a, db))  # noqa: E731
    return pair(y, z, dy, dz), pair(z, x, dz, dx), pair(x, y, dx, dy)


def _by_joints(above: Matrix, rotation: Matrix, r: Vector, turn: Vector, shift: Vector, velocities, more) -> _Own:
    out = lambda pair: seen_from_origin(r, (times(rotation, pair[0]), times(rotation, pair[1])))  # noqa: E731
    U, T, dU = (None if pair is None else out(pair) for pair in velocities)
    eta = seen_from_origin(r, (times(rotation, turn), times(above, shift)))
    assert U is not None and dU is not None
    return _Own(eta, U, T, dU, None if more is None else out(more))


def _turned(own: _Own, V: Column, eta: Column, dU: Column, dV: Column) -> Column:
    parts = [crossed_twists(dV, own.U), crossed_twists(V, dU)]
    parts += [] if own.T is None else [crossed_twists(eta, own.T)]
    return total_twist(*parts, *(() if own.dT is None else (own.dT,)))


def _as_seen(eta: Column, twist: Column, change: Column) -> Column:
    """A change as seen from the displaced body."""
    return difference(change, crossed_twists(eta, twist))


def forces_change(
    tree: Tree,
    inputs: Inputs,
    dv: Float[Array, " n_v"],
    changes: Changes,
    change: MotionChange,
    more: tuple[Column, Column] | None = None,
) -> tuple[Float[Array, " n_v"], Symmetric]:
    """How the generalised forces of inverse dynamics change at constant `dv`, less those that are given; and inertias
    in world axes, for the solve that follows.

    **Arguments:** `change` of the motion along `changes` of the inputs; `more`: wrenches that bodies need beside, about
    the origin, and how these change.
    """
    links, kin, eta = inputs.links, change.kin, change.eta
    r, once = kin.bodies.position, evaluated_once
    inertia = once(turned_inertias, links, kin)
    torque, force = less_loads(kin, wrenches_of(links, kin, inertia), inputs.loads)
    weight, V = links.weights(True), twists_about_origin(kin)[0]
    given = jax.tree.structure(inputs).unflatten(changes)
    momenta = once(_momenta, links.mass, inertia, r, V, change.velocity, change.acceleration)
    parts = [once(_wrench_change, momenta, V, change.velocity)]
    parts += [once(_carried_along, eta, r, torque, force, weight), *_of_parameters(links, given, kin)]
    wrenches = wrench_at_origin(r, (torque, force)), wrench_sum(*parts)
    forces = _generalised(tree, change, wrenches, more, given.links.armature, dv)
    return forces if given.forces is None else forces - given.forces, inertia


def momenta_change(
    tree: Tree,
    inputs: Inputs,
    v: Float[Array, " n_v"],
    changes: Changes,
    change: MotionChange,
    more: tuple[Column, Column] | None = None,
) -> tuple[Float[Array, " n_v"], Symmetric]:
    """The same of generalised momenta at constant velocities `v`, of which the change is `change`."""
    links, kin, eta = inputs.links, change.kin, change.eta
    r, once = kin.bodies.position, evaluated_once
    inertia = once(turned_inertias, links, kin)
    given = jax.tree.structure(inputs).unflatten(changes)
    V = twists_about_origin(kin)[0]
    h, dh = once(_momenta, links.mass, inertia, r, V, change.velocity)
    parts = [dh, crossed(eta, h)]
    if given.links.mass is not None:
        parts.append(wrench_at_origin(r, (None, scale(given.links.mass, kin.bodies.velocity))))
    if given.links.inertia is not None:
        w = transposed_times(kin.bodies.rotation, kin.bodies.spin)
        parts.append((times(kin.bodies.rotation, symmetric_times(entries_of(given.links.inertia, 6), w)), None))
    return _generalised(tree, change, (h, wrench_sum(*parts)), more, given.links.armature, v), inertia


def _generalised(
    tree: Tree,
    change: MotionChange,
    wrenches: tuple[Column, Column],
    more: tuple[Column, Column] | None,
    armature: Array | None,
    rates: Float[Array, " n_v"],
) -> Float[Array, " n_v"]:
    """The change of generalised forces from that of wrenches on bodies about the origin, and of rotors' inertias."""
    if more is not None:
        wrenches = jax.tree.map(jnp.add, wrenches, more)
    kin, paths, once = change.kin, Paths(tree.forest), evaluated_once
    F, dF = tree.by_velocity(paths.carried_by_doubling(wrenches))
    S = about_origin(tree, kin)
    change_of = lambda S, F, dF, eta: power(S, difference(dF, crossed(eta, F)))  # noqa: E731
    forces = once(change_of, S, F, dF, tree.by_velocity(change.eta))
    if change.columns is not None:
        R, r = tree.by_velocity((kin.bodies.rotation, kin.bodies.position))
        w, v = (times(R, x) for x in change.columns)
        forces = forces + power(seen_from_origin(r, (w, v)), F)
    return forces if armature is None else forces + armature * rates


def _momenta(mass: Array, inertia: Symmetric, r: Vector, *twists: Column) -> tuple[Column, ...]:
    """Momenta about the origin, of twists about it."""

    def momentum(twist: Column) -> Column:
        w, v = twist
        p = scale(mass, add(v, cross(w, r)))
        return add(symmetric_times(inertia, w), cross(r, p)), p

    return tuple(map(momentum, twists))


def _wrench_change(momenta: tuple[Column, ...], V: Column, dV: Column) -> Column:
    """What a body needs beyond what turns with it."""
    h, dh, dk = momenta
    return wrench_sum(dk, crossed(dV, h), crossed(V, dh))


def _carried_along(eta: Column, r: Vector, torque: Vector, force: Vector, weight: Vector) -> Column:
    """What turns with a body: all but its weight, which does not."""
    shift = add(eta[1], cross(eta[0], r))
    turned = crossed(eta, wrench_at_origin(r, (torque, add(force, weight))))
    return subtract(turned[0], cross(shift, weight)), turned[1]


def _of_parameters(links: Links, given: Inputs, kin: TreeMotion) -> list[Column]:
    """What changes of masses, inertias, weights and loads do, about the origin."""
    body, found = kin.bodies, []
    r, R = body.position, body.rotation
    if given.links.mass is not None:
        found.append(wrench_at_origin(r, (None, scale(given.links.mass, body.acceleration))))
    if given.links.inertia is not None:
        J = entries_of(given.links.inertia, 6)
        w, alpha = transposed_times(R, body.spin), transposed_times(R, body.spin_rate)
        torque = add(symmetric_times(J, alpha), cross(w, symmetric_times(J, w)))
        found.append((times(R, torque), None))
    if given.links.weight is not None:
        found.append(wrench_at_origin(r, (None, scale(-1.0, entries_of(given.links.weight, 3)))))
    if given.loads is not None:
        moment, push = twist_of(given.loads, True)
        found.append(wrench_at_origin(r, (scale(-1.0, times(R, moment)), scale(-1.0, times(R, push)))))
    return found


def twists_about_origin(kin: TreeMotion) -> tuple[Column, Column]:
    """Twists of bodies, and the rates of these, about the origin."""
    body = kin.bodies
    rate = subtract(body.acceleration, cross(body.spin, body.velocity))
    r = body.position
    return seen_from_origin(r, (body.spin, body.velocity)), seen_from_origin(r, (body.spin_rate, rate))


def seen_from_origin(r: Vector, twist: Column) -> Column:
    """A twist about `r`, about the origin."""
    return twist[0], subtract(twist[1], cross(twist[0], r))


def wrench_at_origin(r: Vector, wrench: tuple[Vector | None, Vector]) -> Column:
    """A wrench about `r`, about the origin."""
    torque, force = wrench
    moment = cross(r, force)
    return (moment if torque is None else add(torque, moment)), force


def crossed_twists(a: Column, b: Column) -> Column:
    """How `b` changes that is at rest in what moves with `a`, both about one point."""
    return cross(a[0], b[0]), add(cross(a[0], b[1]), cross(a[1], b[0]))


def total_twist(first: Column, *others: Column) -> Column:
    """The sum of twists about one point."""
    for angular, linear in others:
        first = add(first[0], angular), add(first[1], linear)
    return first
