"""Derivatives of inverse dynamics backwards: the gradient of the power that it takes from given velocities.

Of `P = sum_k weights_k tau_k(q, v, dv)` at constant `dv` and `weights`. Bodies that moved with velocities `weights`
would have the twists `mu`, and `P` is the sum over bodies of `mu` times the wrench that each needs. Turning or shifting
one joint carries all behind it along as one rigid body. Seen from there only what comes from before the joint changes,
so that sums over all behind each joint say everything. About a common point they are

    F = sum of needed wrenches,  H = sum of I mu,  E = sum of dP/dV + V x* I mu (a couple),  N = sum of weight x mu

where `x*` is the cross product of twists with wrenches and `dP/dV` is by the twist in a body's Newton-Euler equations.
Anything else whose power depends on how bodies move adds to them: to F, H and E what it has by `mu`, by accelerations
and, as above, by velocities; to N what it does when a body with all its velocities is moved as one.
Derived in `docs/derivations/adjoint.md`, whose equations name these functions. Compare the closed forms of Carpentier
and Mansard, "Analytical derivatives of rigid body dynamics algorithms" (2018).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.jaxext import evaluated_once
from jmbs.lie import AbstractGroup, of_members
from jmbs.rigid_body.joints import Column, Joints, combined
from jmbs.rigid_body.kinematics import TreeMotion, by_body, composed, from_first_bodies, relative_motion
from jmbs.rigid_body.mass_matrix import less_loads
from jmbs.rigid_body.paths import Paths, select
from jmbs.rigid_body.topology import JointGroup, Links, Tree
from jmbs.spatial import (
    Matrix,
    Motion,
    RelativeMotion,
    Symmetric,
    Vector,
    add,
    cross,
    dot,
    multiply,
    power,
    scale,
    subtract,
    symmetric_times,
    times,
    transposed_times,
    turned,
)

Wrench = tuple[Vector, Vector | None]
"""Torque and force; couples alone have no force."""


class Linearisation(NamedTuple):
    """Inverse dynamics at a point, ready to be differentiated.

    **Arguments:** `relative` motions and the twists per velocity, as `relative_motions` gives them; `pulls`, by joint
    group, derivatives by these back to the joints' parameters, elements and velocities, or None where twists say it
    all; the joints' `elements`; `dv`, the velocities' rates; `kin`: the motion of the whole tree; the bodies' `inertia`
    in world axes; `local`, as there.
    """

    relative: RelativeMotion
    columns: list[tuple[Column, ...]]
    pulls: list[Callable | None]
    elements: tuple[Array, ...]
    dv: Float[Array, " n_v"]
    kin: TreeMotion
    inertia: Symmetric
    local: bool


def linearisation(
    tree: Tree,
    links: Links,
    q: tuple[Array, ...],
    v: Float[Array, " n_v"],
    dv: Float[Array, " n_v"],
    varied: tuple[bool, ...],
    local: bool,
) -> Linearisation:
    """See `Linearisation`; arguments as in `inverse_dynamics`. Arrays may have a batch axis, as in `kinematics`.

    **Arguments:** `varied`: by group, whether derivatives by the joints' parameters are wanted.
    """
    motions, columns, pulls = [], [], []
    for group, joints, element, any_varied in zip(tree.groups, links.joints, q, varied, strict=True):

        def of(joints, element, v, group=group):
            motion, own = relative_motion(group, joints, element, v, dv)
            shape = len(group.bodies), *v.shape[1:]
            return jax.tree.map(lambda x: jnp.broadcast_to(x, shape), (motion, own))

        if joints.steady and not any_varied:
            (motion, own), pull = of(joints, element, v), None
        else:
            (motion, own), pull = jax.vjp(of, joints, element, v)
        motions.append(motion)
        columns.append(own)
        pulls.append(pull)
    relative = by_body(tree, motions, v.shape[1:])
    relative = from_first_bodies(tree, relative) if local else relative
    kin = composed(tree, relative, columns)
    inertia = evaluated_once(turned, kin.bodies.rotation, links.inertias(True))
    return Linearisation(relative, columns, pulls, q, dv, kin, inertia, local)


class Wrenches(NamedTuple):
    """F, H, E and N of the module's docstring by body, about the world's origin (of a `local` linearisation, about the
    first body); world axes."""

    F: Column
    H: Column
    E: Wrench
    N: Wrench


def twists_of(tree: Tree, at: Linearisation, weights: Float[Array, " n_v"]) -> Column:
    """The twists `mu` of bodies that moved with velocities `weights`, world axes."""
    paths, twist = Paths(tree.forest), _relative_twists(tree, at, weights)
    if not tree.forest.has_edges:
        return twist
    above = paths.above(at.kin.bodies.rotation, identity=True)
    return _carried_along(paths, times(above, at.relative.position), twist)


def _relative_twists(tree: Tree, at: Linearisation, weights: Array) -> Column:
    own = [_own_twist(*part, weights) for part in zip(tree.groups, at.columns, strict=True)]
    spins, velocities = by_body(tree, own, weights.shape[1:])
    return times(at.kin.bodies.rotation, spins), times(at.kin.bodies.rotation, velocities)


def power_gradient(
    tree: Tree,
    links: Links,
    at: Linearisation,
    loads: Float[Array, "bodies 6"] | None,
    weights: Float[Array, " n_v"],
    mu: Column | None = None,
    more: Wrenches | None = None,
) -> tuple[Links, tuple[Array, ...], Float[Array, " n_v"], Float[Array, "bodies 6"] | None]:
    """The gradient of `weights @ inverse_dynamics(...)` at constant `dv`, by `links`, `q`, `v` and `loads`.

    It is zero by the parameters of joints that were not varied, and tangent by the entries of elements.

    **Arguments:** `mu`: see `twists_of`, where they are at hand; `more`: wrenches on bodies beyond what they need.
    """
    mu = twists_of(tree, at, weights) if mu is None else mu
    wrenches, by_parameter, by_loads = _bodies(links, at, mu, loads)
    if more is not None:
        wrenches = Wrenches(*(wrench_sum(a, b) for a, b in zip(wrenches, more, strict=True)))
    joints, by_q, by_v = motion_gradient(tree, links, at, wrenches, mu, weights)
    by_armature = None if links.armature is None else weights * at.dv
    return Links(joints, *by_parameter, by_armature), by_q, by_v, by_loads


def motion_gradient(
    tree: Tree, links: Links, at: Linearisation, wrenches: Wrenches, mu: Column, weights: Float[Array, " n_v"]
) -> tuple[tuple[Joints, ...], tuple[Array, ...], Float[Array, " n_v"]]:
    """The gradient of the power of wrenches on bodies that move, by the joints' parameters, `q` and `v`; see
    `power_gradient`."""
    paths, body = Paths(tree.forest), at.kin.bodies
    r = body.position
    twist = _relative_twists(tree, at, weights)
    about_centre = lambda w: w if w[1] is None else (subtract(w[0], cross(r, w[1])), w[1])  # noqa: E731
    sums = Wrenches(*(about_centre(wrench) for wrench in paths.carried(wrenches)))
    if not tree.forest.has_edges and all(pull is None for pull in at.pulls):
        fields, (turning, by_twist) = None, evaluated_once(_by_fields_alone, body, sums)
    else:
        fields = evaluated_once(_by_fields, at.relative, body, mu, sums)
        turning, by_twist = fields.pose, fields.velocity
        if any(pull is not None or group.space.dim > 1 for group, pull in zip(tree.groups, at.pulls, strict=True)):
            turning = wrench_sum(turning, *_by_own(body.rotation, at.relative, twist, fields))
    of_bodies = tree.by_velocity((turning, by_twist))
    by_turning, by_v = (evaluated_once(power, at.kin.columns, wrench) for wrench in of_bodies)
    joints, by_q = [], []
    for group, pull, element, own in zip(tree.groups, at.pulls, at.elements, links.joints, strict=True):
        if pull is None:
            joints.append(jax.tree.map(jnp.zeros_like, own))
            by_q.append(_by_entries(group.space, element, by_turning[group.velocities]))
        else:
            above = paths.above(body.rotation, identity=True)
            whole = above, at.relative.rotation, body.rotation, turning, fields
            here = jax.tree.map(lambda x, bodies=group.bodies: x[bodies], whole)
            first = jnp.asarray((tree.forest.parent[group.bodies] < 0) & at.local)
            by_motion, by_column = evaluated_once(_by_relative, first, *here)
            by_columns = tuple(jax.tree.map(lambda x, p=p: weights[p] * x, by_column) for p in group.velocities.T)
            of_joints, of_elements, of_v = pull((by_motion, by_columns))
            joints.append(of_joints)
            by_q.append(along_tangents(group.space, element, of_elements))
            by_v = select(np.isin(np.arange(tree.n_velocities), group.velocities), of_v, by_v)
    return tuple(joints), tuple(by_q), by_v


def _by_entries(space: AbstractGroup, element: Array, by_tangent: Array) -> Array:
    """Derivatives by the entries of elements that are `by_tangent` `(n, dim, ...)` along their tangents.

    Unit tangents are orthogonal as changes of entries, and equally long at every element.
    """
    with jax.ensure_compile_time_eval():
        units = jax.vmap(lambda e: space.lift(space.identity(e.dtype), e))(jnp.eye(space.dim))
        squares = np.sum(np.asarray(units) ** 2, axis=tuple(range(1, units.ndim)))
    squares = jnp.asarray(squares, by_tangent.dtype).reshape(-1, *(1,) * (by_tangent.ndim - 2))
    return of_members(space.lift, element, by_tangent / squares, more=by_tangent.ndim - 2)


def along_tangents(space: AbstractGroup, element: Array, change: Array) -> Array:
    """The tangent part of changes of elements `(n, *shape, ...)`, or of derivatives by their entries."""
    return of_members(space.project, element, change, more=element.ndim - 1 - len(space.shape))


def _own_twist(group: JointGroup, columns: tuple[Column, ...], weights: Array) -> Column:
    """Of each joint of a group, the twist relative to the parent at velocities `weights`, in the child's axes."""
    if columns:
        return combined(columns, [weights[p] for p in group.velocities.T])
    nothing = jnp.zeros((len(group.bodies), *weights.shape[1:]), weights.dtype)
    return (nothing,) * 3, (nothing,) * 3


def _carried_along(paths: Paths, arm: Vector, twist: Column) -> Column:
    """Twists of bodies from those relative to their parents; `arm` from there; world axes."""
    (spin,) = paths.sums((twist[0],))
    (velocity,) = paths.sums((add(cross(subtract(spin, twist[0]), arm), twist[1]),))
    return spin, velocity


def _bodies(links: Links, at: Linearisation, mu: Column, loads: Array | None):
    """The wrenches of each body; and the derivatives by masses, inertias, weights, and by loads."""
    body = at.kin.bodies
    (kappa, m), w, v, r, R = mu, body.spin, body.velocity, body.position, body.rotation
    mass, weight = links.mass, links.weights(True)
    by = lambda x: symmetric_times(at.inertia, x)  # noqa: E731
    Jw, Jk = by(w), by(kappa)
    torque = add(by(body.spin_rate), cross(w, Jw))
    force = subtract(scale(mass, body.acceleration), weight)
    torque, force = less_loads(at.kin, (torque, force), loads)
    couple = add(subtract(cross(w, Jk), cross(kappa, Jw)), by(cross(kappa, w)))
    pushed = scale(mass, m)
    whirl = cross(v, pushed)
    couple = add(couple, add(whirl, whirl))
    needed, moved = (add(torque, cross(r, force)), force), (add(Jk, cross(r, pushed)), pushed)
    wrenches = Wrenches(needed, moved, (couple, None), (cross(weight, m), None))
    own_kappa, own_m = transposed_times(R, kappa), transposed_times(R, m)
    by_inertia = _by_inertia(own_kappa, *(transposed_times(R, x) for x in (body.spin_rate, w)))
    by_loads = None if loads is None else -jnp.stack([*own_kappa, *own_m], axis=1)
    by_mass = dot(m, body.acceleration)
    return wrenches, (by_mass, jnp.stack(by_inertia, axis=1), -jnp.stack(m, axis=1)), by_loads


def _by_inertia(kappa: Vector, alpha: Vector, w: Vector) -> Symmetric:
    """The derivative of `kappa . (J alpha + w x J w)` by the components of `J`."""
    k = cross(kappa, w)
    pair = lambda i, j: kappa[i] * alpha[j] + k[i] * w[j]  # noqa: E731
    xy, xz, yz = (pair(i, j) + pair(j, i) for i, j in ((0, 1), (0, 2), (1, 2)))
    return pair(0, 0), xy, xz, pair(1, 1), yz, pair(2, 2)


class Fields(NamedTuple):
    """Derivatives by relative poses, velocities, accelerations and twists as fields that stay in the parent; each is a
    wrench about the child's centre of mass, world axes."""

    pose: Column
    velocity: Column
    acceleration: Column
    twist: Column


def _by_fields(relative: RelativeMotion, body: Motion, mu: Column, sums: Wrenches) -> Fields:
    F, H, E, N = sums
    V = body.spin, body.velocity
    A = body.spin_rate, subtract(body.acceleration, cross(*V))
    inner = difference(E, crossed(V, H))
    pose = wrench_sum(crossed(mu, F), crossed(A, H), crossed(V, inner))
    # The body's velocity and its parent's, at the same point.
    own = times(body.rotation, relative.spin), times(body.rotation, relative.velocity)
    both = tuple(subtract(add(x, x), y) for x, y in zip(V, own, strict=True))
    return Fields(difference(N, pose), difference(E, crossed(both, H)), H, F)


def _by_fields_alone(body: Motion, sums: Wrenches) -> tuple[Column, Column]:
    """The fields of poses, with what `_by_own` adds, and of velocities, where no joint is before another."""
    _, H, E, (couple, push) = sums
    V = body.spin, body.velocity
    return (couple, jax.tree.map(jnp.zeros_like, couple) if push is None else push), difference(E, crossed(V, H))


def _by_own(rotation: Matrix, relative: RelativeMotion, twist: Column, fields: Fields) -> tuple[Column, ...]:
    """What comes to the fields of poses since a joint's own velocities, rates and twist turn with the child.

    It does no work along a twist that is alone in its joint, if that is constant there.
    """
    assert relative.rates is not None
    own = (relative.spin, relative.velocity), relative.rates
    velocity, rate = ((times(rotation, angular), times(rotation, linear)) for angular, linear in own)
    pairs = (velocity, fields.velocity), (rate, fields.acceleration), (twist, fields.twist)
    return tuple(crossed(*pair) for pair in pairs)


def _by_relative(
    first: Array, above: Matrix, relative: Matrix, rotation: Matrix, turning: Column, fields: Fields
) -> tuple[RelativeMotion, Column]:
    """The derivatives by relative motions and by twists, which both turn with the child.

    **Arguments:** `first`: which are first bodies of their trees; these have no position. Rotations of the parents, of
    the children relative to them, and of the children.
    """
    turn, shift = turning
    x, y, z = evaluated_once(lambda R, turn: scale(0.5, transposed_times(R, turn)), above, turn)
    nothing = jnp.zeros_like(x)
    by_rotation = multiply((nothing, -z, y, z, nothing, -x, -y, x, nothing), relative)
    by_position = tuple(select(first, jnp.zeros_like(x), x) for x in transposed_times(above, shift))
    _, (by_spin, by_velocity), (by_spin_rate, by_acceleration), (torque, force) = fields
    parts = by_spin, by_velocity, by_spin_rate, by_acceleration, torque, force
    by_spin, by_velocity, *rates, torque, force = (transposed_times(rotation, x) for x in parts)
    return RelativeMotion(by_rotation, by_position, by_spin, by_velocity, tuple(rates)), (torque, force)


def crossed(twist: Column, wrench: Column) -> Column:
    """`twist x* wrench`, both about the same point."""
    (w, v), (torque, force) = twist, wrench
    return add(cross(w, torque), cross(v, force)), cross(w, force)


def wrench_sum(*wrenches: Wrench) -> Column:
    """The sum of wrenches about one point, not all of which are couples alone."""
    forces = [force for _, force in wrenches if force is not None]
    return functools.reduce(add, [torque for torque, _ in wrenches]), functools.reduce(add, forces)


def difference(a: Wrench, b: Column) -> Column:
    """Of two wrenches about one point, or of two twists."""
    return subtract(a[0], b[0]), scale(-1.0, b[1]) if a[1] is None else subtract(a[1], b[1])
