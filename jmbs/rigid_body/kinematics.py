"""TreeMotion of a tree: motions of joints by what they declare, then of all bodies relative to the world."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.graphs import Forest
from jmbs.jaxext import entries_at
from jmbs.linear import definite_inverse, products
from jmbs.rigid_body.joints import Column, Joints, frame_of
from jmbs.rigid_body.passes import forward_pass
from jmbs.rigid_body.paths import select
from jmbs.rigid_body.topology import JointGroup, Links, Tree
from jmbs.spatial import (
    Matrix,
    Motion,
    RelativeMotion,
    Vector,
    cross,
    following,
    from_rest,
    multiply,
    multiply_transposed,
    times,
    transpose,
)


class TreeMotion(NamedTuple):
    """Motions of all bodies relative to the world, entries `(bodies, ...)`, and twists per velocity `(n_v, ...)`.

    A twist is the body's angular velocity and the velocity of its centre of mass, world axes, relative to its parent.
    """

    bodies: Motion
    columns: Column


def kinematics(
    tree: Tree,
    links: Links,
    q: tuple[Array, ...],
    v: Array,
    dv: Array | None = None,
    local: bool = False,
    differentiable: bool = False,
    components: bool = True,
) -> TreeMotion:
    """Poses, velocities and accelerations of all bodies.

    **Arguments:** `q`: elements by joint group, `(n, *space.shape, ...)`; `v`, `dv`: velocities and their rates
    `(n_v, ...)`, no rates meaning zero; the dots are a batch axis that all have, or none. `local`: put the first body
    of each tree at the origin, which changes no force and keeps small numbers small. `differentiable`: see
    `relative_motions`. `components`: in which form of `jmbs.spatial`; arrays have no batch axis.
    """
    relative, columns = relative_motions(tree, links.joints, q, v, dv, differentiable, local, components)
    return composed(tree, relative, columns)


def relative_motions(
    tree: Tree,
    joints: tuple[Joints, ...],
    q: tuple[Array, ...],
    v: Array,
    dv: Array | None,
    differentiable: bool = False,
    local: bool = False,
    components: bool = True,
) -> tuple[RelativeMotion, list[tuple[Column, ...]]]:
    """How bodies move relative to their parents; and by joint group their twists per velocity, in their own axes.

    **Arguments:** `differentiable`: take derivatives along rotations only, whatever the elements' entries are; the
    others as in `kinematics`.
    """
    parts = [relative_motion(*group, v, dv, components) for group in zip(tree.groups, joints, q, strict=True)]
    motions, columns = [motion for motion, _ in parts], [own for _, own in parts]
    if differentiable:
        motions = [m._replace(rotation=_orthonormal(m.rotation)) for m in motions]
    whole = by_body(tree, _all_with_rates(motions), v.shape[1:])
    return from_first_bodies(tree, whole) if local else whole, columns


def relative_motion(
    group: JointGroup, joints: Joints, element: Array, v: Array, dv: Array | None, components: bool = True
) -> tuple[RelativeMotion, tuple[Column, ...]]:
    """The same of one group, in its order; `v`, `dv` of the whole tree."""
    own = lambda x: [entries_at(x, places) for places in group.velocities.T]  # noqa: E731
    return joints.relative(element, own(v), None if dv is None else own(dv), components)


def _all_with_rates(motions: list[RelativeMotion]) -> list[RelativeMotion]:
    """The same, rates written as zeros where others have some."""
    if all(m.rates is None for m in motions):
        return motions
    return [m._replace(rates=m.rates or (jax.tree.map(jnp.zeros_like, m.spin),) * 2) for m in motions]


def by_body(tree: Tree, parts: Sequence[Any], batch: tuple[int, ...]) -> Any:
    """What joint groups have, as arrays `(bodies, ..., *batch)`."""
    whole = jax.tree.map(lambda *x: _ordered(x, tree.order), *parts)
    if not batch:
        return whole
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (x.shape[0], *batch)), whole)


def composed(tree: Tree, relative: RelativeMotion, columns: list[tuple[Column, ...]]) -> TreeMotion:
    """Motions relative to the world from those relative to parents; see `kinematics`."""
    bodies = _composed(tree.forest, relative)
    w, v = joined_columns(tree, relative, columns)
    R = tree.by_velocity(bodies.rotation)
    return TreeMotion(bodies, (times(R, w), times(R, v)))


def joined_columns(tree: Tree, relative: RelativeMotion, columns: list[tuple[Column, ...]]) -> Column:
    """The twists per velocity, in the bodies' own axes, in the order of the velocities."""
    own = [c for group in columns for c in group]
    if not own:
        nothing = jax.tree.map(lambda x: x[:0], relative.position)
        return nothing, nothing
    return jax.tree.map(lambda *parts: _ordered(parts, tree.velocity_order), *own)


def from_first_bodies(tree: Tree, relative: RelativeMotion) -> RelativeMotion:
    """The same with the first body of each tree at the origin."""
    base = tree.forest.parent < 0
    zero = jax.tree.map(lambda x: select(base, jnp.zeros_like(x), x), relative.position)
    return relative._replace(position=zero)


def _orthonormal(R: Matrix) -> Matrix:
    """`R (3 - R^T R) / 2`: a rotation as it is, but with derivatives along rotations only."""
    square = multiply(transpose(R), R)
    return jax.tree.map(lambda a, b: 1.5 * a - 0.5 * b, R, multiply(R, square))


def _composed(forest: Forest, relative: RelativeMotion) -> Motion:
    """Motions relative to the world from those relative to parents."""
    if not forest.has_edges:
        return from_rest(relative)
    nothing = jax.tree.map(lambda x: jnp.zeros(x.shape[1:], x.dtype), relative.position)
    still = Motion(_unit(nothing), *(nothing,) * 5)
    return forward_pass(forest, lambda above, own: (following(above, own),) * 2, still, relative)


def _unit(zero: Vector) -> Matrix:
    """The unit matrix, like a vector of zeros."""
    if not isinstance(zero, tuple):
        return jnp.eye(3, dtype=zero.dtype)
    o, one = zero[0], jnp.ones_like(zero[0])
    return one, o, o, o, one, o, o, o, one


def joint_rates(
    tree: Tree, links: Links, q: tuple[Array, ...], poses: Float[Array, "bodies 3 4"], twists: Float[Array, "bodies 6"]
) -> Float[Array, " n_v"]:
    """The velocities of the joints that explain the bodies' twists (body axes), by least squares."""
    still = jnp.zeros(tree.n_velocities, twists.dtype)
    _, columns = relative_motions(tree, links.joints, q, still, None, components=False)
    R, r = frame_of(poses)
    # Rows of spin and velocity, in world axes; the parent's with its position.
    own = multiply_transposed(twists.reshape(-1, 2, 3), R)
    parents = np.where(tree.forest.parent < 0, len(poses), tree.forest.parent)
    above = entries_at(jnp.pad(jnp.concatenate([own, r[:, None]], axis=1), ((0, 1), (0, 0), (0, 0))), parents)
    shift = cross(above[:, 0], r - above[:, 2])
    carried = jnp.stack([above[:, 0], above[:, 1] + shift], axis=1)
    relative = multiply(own - carried, R).reshape(-1, 6)
    rates = []
    for group, along in zip(tree.groups, columns, strict=True):
        if along:
            S = jnp.stack([jnp.concatenate(column, axis=1) for column in along], axis=1)
            rates.append(_coefficients(S, entries_at(relative, group.bodies)).T.ravel())
    return _ordered(tuple(rates), tree.velocity_order) if rates else still


def _coefficients(S: Float[Array, "n k 6"], x: Float[Array, "n 6"]) -> Float[Array, "n k"]:
    """The factors of `k` vectors whose sum is nearest to `x`, of each of many."""
    length = jnp.sqrt(jnp.sum(S * S, axis=2))
    unit = S / length[..., None]
    share = times(unit, x)
    if S.shape[1] > 1:
        squares = multiply_transposed(unit, unit)
        share = products(definite_inverse(jnp.moveaxis(squares, 0, -1)), share.T).T
    return share / length


def _ordered(parts: tuple[Array, ...], order: np.ndarray | None) -> Array:
    whole = parts[0] if len(parts) == 1 else jnp.concatenate(_alike(parts))
    return whole if order is None else entries_at(whole, order)


def _alike(parts: tuple[Array, ...]) -> list[Array]:
    shape = jnp.broadcast_shapes(*(x.shape[1:] for x in parts))
    return [jnp.broadcast_to(x, (x.shape[0], *shape)) for x in parts]
