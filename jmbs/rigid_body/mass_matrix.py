"""The mass matrix of a tree by composite bodies, generalised forces of wrenches on bodies, and the dense solve."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.rigid_body.joints import Column, twist_of
from jmbs.rigid_body.kinematics import TreeMotion
from jmbs.rigid_body.paths import Paths
from jmbs.rigid_body.topology import Links, Tree
from jmbs.spatial import Matrix, Symmetric, Vector, add, cross, dot, scale, subtract, symmetric_times, times, turned


def body_wrenches(links: Links, kin: TreeMotion) -> Column:
    """Torque about the centre of mass and force that bodies need to move as they do, less their weight; world axes."""
    return wrenches_of(links, kin, turned_inertias(links, kin))


def turned_inertias(links: Links, kin: TreeMotion) -> Symmetric:
    """The inertias in world axes."""
    return turned(kin.bodies.rotation, links.inertias(_in_components(kin)))


def wrenches_of(links: Links, kin: TreeMotion, inertia: Symmetric) -> Column:
    """See `body_wrenches`; `inertia` as `turned_inertias` gives it."""
    body = kin.bodies
    torque = add(symmetric_times(inertia, body.spin_rate), cross(body.spin, symmetric_times(inertia, body.spin)))
    return torque, subtract(scale(links.mass, body.acceleration), links.weights(_in_components(kin)))


def less_loads(kin: TreeMotion, wrench: Column, loads: Float[Array, "bodies 6 *b"] | None) -> Column:
    """Wrenches less `loads`, which are about centres of mass, torque first, in the bodies' axes; None if none acts."""
    if loads is None:
        return wrench
    (torque, force), R, (moment, push) = wrench, kin.bodies.rotation, twist_of(loads, _in_components(kin))
    return subtract(torque, _turned(R, moment)), subtract(force, _turned(R, push))


def _turned(R: Matrix, a: Vector) -> Vector:
    """`R a`; of arrays written out, since XLA (jax 0.10) fails on the transpose of a product under three batch axes."""
    return times(R, a) if isinstance(R, tuple) else jnp.sum(R * a[..., None, :], axis=-1)


def _in_components(kin: TreeMotion) -> bool:
    return isinstance(kin.bodies.position, tuple)


def generalised_forces(tree: Tree, kin: TreeMotion, wrench: Column) -> Float[Array, " n_v"]:
    """What wrenches on bodies (about their centres of mass, world axes) do per unit of each velocity, N or N m."""
    torque, force = wrench
    r, (w, v) = kin.bodies.position, about_origin(tree, kin)
    torque, force = Paths(tree.forest).carried((add(torque, cross(r, force)), force), at=tree.body_of)
    return dot(w, torque) + dot(v, force)


def about_origin(tree: Tree, kin: TreeMotion) -> Column:
    """The twists of velocities about the origin instead of the bodies' centres of mass."""
    w, v = kin.columns
    r = tree.by_velocity(kin.bodies.position)
    return w, subtract(v, cross(w, r))


def mass_matrix(tree: Tree, links: Links, kin: TreeMotion, inertia: Symmetric) -> Float[Array, "n_v n_v"]:
    """The mass matrix, lower triangle and diagonal only: kinetic energy is `1/2 <v | M v>`. `inertia` as
    `turned_inertias` gives it."""
    r = kin.bodies.position
    mass = links.mass + jnp.zeros_like(r[0])
    m_r, xx, xy, xz, yy, yz, zz = scale(mass, r), *inertia
    square = dot(m_r, r)
    steiner = (square - m_r[0] * r[0], -m_r[0] * r[1], -m_r[0] * r[2])
    steiner += (square - m_r[1] * r[1], -m_r[1] * r[2], square - m_r[2] * r[2])
    angular = tuple(a + b for a, b in zip((xx, xy, xz, yy, yz, zz), steiner, strict=True))
    J, h, m = Paths(tree.forest).carried((angular, m_r, mass), at=tree.body_of)
    w, v = about_origin(tree, kin)
    L = add(symmetric_times(J, w), cross(h, v))
    P = subtract(scale(m, v), cross(h, w))
    products = jnp.matmul(jnp.stack([*L, *P], axis=1), jnp.stack([*w, *v]), precision="highest")
    below = tree.moves[tree.body_of] & (jnp.arange(len(m))[:, None] >= jnp.arange(len(m))[None, :])
    lower = jnp.where(below, products, 0.0)
    return lower if links.armature is None else lower + jnp.diag(links.armature)
