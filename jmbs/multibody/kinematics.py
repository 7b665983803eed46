"""TreeMotion of a tree: motions of joints by what they declare, then of all bodies relative to the world."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.linear import definite_inverse, products
from jmbs.multibody.joints import Column, Joints
from jmbs.multibody.paths import IDENTITY, Paths, select
from jmbs.multibody.tree import JointGroup, Links, Tree
from jmbs.multibody.walks import outward
from jmbs.spatial import (
    Matrix,
    Motion,
    RelativeMotion,
    Vector,
    add,
    cross,
    following,
    multiply,
    scale,
    subtract,
    times,
    transpose,
    transposed_times,
    vector,
)
from jmbs.static_places import entries_at


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
    walk: bool = False,
    differentiable: bool = False,
) -> TreeMotion:
    """Poses, velocities and accelerations of all bodies.

    **Arguments:** `q`: elements by joint group, `(n, *space.shape, ...)`; `v`, `dv`: velocities and their rates
    `(n_v, ...)`, no rates meaning zero; the dots are a batch axis that all have, or none. `local`: put the first body
    of each tree at the origin, which changes no force and keeps small numbers small. `walk`: go from body to body
    instead of doubling and multiplying by masks, which pays for batches and derivatives. `differentiable`: see
    `relative_motions`.
    """
    return composed(tree, *relative_motions(tree, links.joints, q, v, dv, differentiable), local, walk)


def relative_motions(
    tree: Tree, joints: tuple[Joints, ...], q: tuple[Array, ...], v: Array, dv: Array | None, differentiable: bool
) -> tuple[RelativeMotion, list[tuple[Column, ...]]]:
    """How bodies move relative to their parents; and by joint group their twists per velocity, in their own axes.

    **Arguments:** `differentiable`: take derivatives along rotations only, whatever the elements' entries are.
    """
    parts = [relative_motion(*group, v, dv) for group in zip(tree.groups, joints, q, strict=True)]
    motions, columns = [motion for motion, _ in parts], [own for _, own in parts]
    if differentiable:
        motions = [m._replace(rotation=_orthonormal(m.rotation)) for m in motions]
    return by_body(tree, _all_with_rates(motions), v.shape[1:]), columns


def relative_motion(
    group: JointGroup, joints: Joints, element: Array, v: Array, dv: Array | None
) -> tuple[RelativeMotion, tuple[Column, ...]]:
    """The same of one group, in its order; `v`, `dv` of the whole tree."""
    own = lambda x: [entries_at(x, places) for places in group.velocities.T]  # noqa: E731
    return joints.relative(element, own(v), None if dv is None else own(dv))


def _all_with_rates(motions: list[RelativeMotion]) -> list[RelativeMotion]:
    """The same, rates written as zeros where others have some."""
    if all(m.rates is None for m in motions):
        return motions
    return [m._replace(rates=m.rates or (jax.tree.map(jnp.zeros_like, m.spin),) * 2) for m in motions]


def by_body(tree: Tree, parts: Sequence[Any], batch: tuple[int, ...]) -> Any:
    """What joint groups have, as arrays `(bodies, *batch)`."""
    whole = jax.tree.map(lambda *x: _ordered(x, tree.order), *parts)
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (x.shape[0], *batch)), whole)


def composed(
    tree: Tree, relative: RelativeMotion, columns: list[tuple[Column, ...]], local: bool = False, walk: bool = False
) -> TreeMotion:
    """Motions relative to the world from those relative to parents; see `kinematics`."""
    if local:
        relative = relative._replace(position=from_first_bodies(tree, relative.position))
    bodies = _composed(Paths(tree.forest, walk), relative)
    own = [c for group in columns for c in group]
    if not own:
        nothing = jnp.zeros((0, *relative.position[0].shape[1:]), relative.position[0].dtype)
        return TreeMotion(bodies, ((nothing,) * 3, (nothing,) * 3))
    w, v = jax.tree.map(lambda *parts: _ordered(parts, tree.velocity_order), *own)
    R = tree.by_velocity(bodies.rotation)
    return TreeMotion(bodies, (times(R, w), times(R, v)))


def from_first_bodies(tree: Tree, vectors: Vector) -> Vector:
    """The vectors, zero at the first body of each tree."""
    base = tree.forest.parent < 0
    return tuple(select(base, jnp.zeros_like(x), x) for x in vectors)


def _orthonormal(R: Matrix) -> Matrix:
    """`R (3 - R^T R) / 2`: a rotation as it is, but with derivatives along rotations only."""
    square = multiply(transpose(R), R)
    return tuple(1.5 * a - 0.5 * b for a, b in zip(R, multiply(R, square), strict=True))


def _composed(paths: Paths, relative: RelativeMotion) -> Motion:
    """Motions relative to the world from those relative to parents."""
    if paths.walk and paths.forest.jumps:
        zero = jnp.zeros_like(relative.position[0][0])
        nothing = zero, zero, zero
        still = Motion(tuple(zero + entry for entry in IDENTITY), *(nothing,) * 5)
        return outward(paths.forest, lambda above, own: (following(above, own),) * 2, still, relative)
    # Rotations are multiplied along the paths from the roots; with world axes everything else is a sum along them.
    rotation, above = paths.products(relative.rotation)
    out = lambda x: times(above, x)  # noqa: E731
    arm, spin, velocity = out(relative.position), out(relative.spin), out(relative.velocity)
    position, whole_spin = paths.sums((arm, spin))
    turning = subtract(whole_spin, spin)
    speed = add(cross(turning, arm), velocity)
    change = cross(turning, spin)
    bent = add(cross(turning, add(cross(turning, arm), scale(2.0, velocity))), cross(spin, velocity))
    if relative.rates is not None:
        change, bent = (add(x, out(rate)) for x, rate in zip((change, bent), relative.rates, strict=True))
    whole_velocity, spin_rate = paths.sums((speed, change))
    bent = add(bent, cross(subtract(spin_rate, change), arm))
    (acceleration,) = paths.sums((bent,))
    return Motion(rotation, position, whole_spin, whole_velocity, spin_rate, acceleration)


def joint_rates(tree: Tree, links: Links, q: tuple[Array, ...], twists: Float[Array, "bodies 6"]) -> Array:
    """The velocities `(n_v,)` of the joints that explain the bodies' twists (body axes), by least squares."""
    still = jnp.zeros(tree.n_velocities, twists.dtype)
    motion, columns = relative_motions(tree, links.joints, q, still, None, differentiable=False)
    own = *vector(twists[:, :3]), *vector(twists[:, 3:])
    above = Paths(tree.forest, walk=False).above(own)
    # The parent's twist at the body's centre of mass, in the body's axes.
    carried = above[:3], add(above[3:], cross(above[:3], motion.position))
    carried = *transposed_times(motion.rotation, carried[0]), *transposed_times(motion.rotation, carried[1])
    relative = [x - y for x, y in zip(own, carried, strict=True)]
    rates = []
    for group, along in zip(tree.groups, columns, strict=True):
        if along:
            here = jnp.stack([entries_at(x, group.bodies) for x in relative])
            rates += list(_coefficients(jnp.stack([jnp.stack([*w, *v]) for w, v in along]), here))
    return _ordered(tuple(rates), tree.velocity_order) if rates else still


def _coefficients(S: Float[Array, "k 6 n"], x: Float[Array, "6 n"]) -> Float[Array, "k n"]:
    """The factors of `k` vectors whose sum is nearest to `x`, of each of many."""
    length = jnp.sqrt(jnp.sum(S * S, axis=1))
    unit = S / length[:, None]
    share = jnp.sum(unit * x, axis=1)
    if len(S) > 1:
        share = products(definite_inverse(jnp.sum(unit[:, None] * unit[None], axis=2)), share)
    return share / length


def _ordered(parts: tuple[Array, ...], order: np.ndarray | None) -> Array:
    whole = parts[0] if len(parts) == 1 else jnp.concatenate(_alike(parts))
    return whole if order is None else entries_at(whole, order)


def _alike(parts: tuple[Array, ...]) -> list[Array]:
    shape = jnp.broadcast_shapes(*(x.shape[1:] for x in parts))
    return [jnp.broadcast_to(x, (x.shape[0], *shape)) for x in parts]
