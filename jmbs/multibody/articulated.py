"""The articulated-body factorisation of a tree's mass matrix, one velocity after the other, in O(n).

Each velocity is a joint of one degree of freedom; those of one body follow each other without a body between them. From
the leaves to the roots every joint is freed: what is felt before it is the articulated inertia behind it, less what the
joint yields. `M a = f` then takes one walk back and one walk out.

All vectors have world axes and refer to the centre of mass of the body that the velocity moves. Entries are
`(nodes, ...)`, a node being a velocity or a body's joint without freedom (see `Nodes`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jmbs.multibody.joints import Column
from jmbs.multibody.kinematics import TreeMotion
from jmbs.multibody.paths import Paths, select, taken
from jmbs.multibody.tree import Links, Nodes, Tree
from jmbs.multibody.walks import inward, outward
from jmbs.spatial import (
    Inertia,
    Symmetric,
    Vector,
    add,
    cross,
    freed,
    momentum,
    moved,
    power,
    scale,
    shifted,
    subtract,
    turned,
    with_body,
)
from jmbs.static_places import entries_at


class Joint(NamedTuple):
    """By node: `column`, the twist that it allows; `arm` from the body before; `free`, 1 or 0, None where all are."""

    column: Column
    arm: Vector
    free: Array | None


class Load(NamedTuple):
    """By node: mass and inertia (world axes) of the body behind it and the wrench that it needs; generalised force."""

    mass: Array
    inertia: Symmetric
    torque: Vector
    force: Vector
    generalised: Array


class Freed(NamedTuple):
    """By node: the articulated inertia times the column; the inverse of its resistance; the force that is left."""

    yielding: Column
    inverse: Array
    left: Array


def articulated_accelerations(
    tree: Tree, links: Links, kin: TreeMotion, wrench: Column | None, forces: Array
) -> tuple[Array, Column]:
    """`M^-1 (forces - what the bodies' needed wrenches do)`, `(n_v, ...)`; twists of bodies that moved with these."""
    nodes, zero = tree.nodes, jnp.zeros_like(kin.bodies.position[0][0])
    joints, freed_joints = _freed(tree, links, kin, wrench, _of_velocities(nodes, forces))

    def tell(above, x):
        own, rate = _accelerate(above, x)
        return own, (rate, own)

    rates, twists = outward(nodes.forest, tell, ((zero,) * 3,) * 2, (joints, freed_joints))
    return _of_free(nodes, rates), jax.tree.map(lambda x: taken(x, np.flatnonzero(nodes.last)), twists)


class Factor(NamedTuple):
    """The factorised mass matrix, by node: joints, the articulated inertia times their columns, inverse resistance."""

    joints: Joint
    yielding: Column
    inverse: Array


def articulated_factor(tree: Tree, links: Links, kin: TreeMotion) -> Factor:
    """The factorisation of the mass matrix."""
    nothing = jnp.zeros((len(tree.nodes.body), *kin.bodies.position[0].shape[1:]), links.mass.dtype)
    joints, freed_joints = _freed(tree, links, kin, None, nothing)
    return Factor(joints, freed_joints.yielding, freed_joints.inverse)


def articulated_solve(tree: Tree, factor: Factor, forces: Array) -> Array:
    """`M^-1 forces`, by one walk back and one walk out; forces may have more axes than the factor, after the first."""
    nodes = tree.nodes
    zero = jnp.zeros_like(forces[0])
    nothing = zero, zero, zero

    def transmit(gathered, x):
        joint, U, inverse, tau = x
        left = tau - power(joint.column, gathered)
        torque, force = (add(g, scale(left * inverse, u)) for g, u in zip(gathered, U, strict=True))
        return (moved(torque, force, joint.arm), force), left

    xs = *factor, _of_velocities(nodes, forces)
    left = inward(nodes.forest, transmit, (nothing, nothing), xs)
    freed_joints = Freed(factor.yielding, factor.inverse, left)
    rates = outward(nodes.forest, _accelerate, (nothing, nothing), (factor.joints, freed_joints))
    return _of_free(nodes, rates)


def _freed(tree: Tree, links: Links, kin: TreeMotion, wrench: Column | None, generalised: Array) -> tuple[Joint, Freed]:
    """All joints, freed from the leaves on, under bodies' needed wrenches (None: zero) and forces by node."""
    nodes, joints = tree.nodes, _joints(tree, kin)
    zero = jnp.zeros_like(kin.bodies.position[0])
    needed = ((zero,) * 3,) * 2 if wrench is None else wrench
    body = links.mass + zero, turned(kin.bodies.rotation, links.inertia), *needed
    loads = Load(*_at(nodes, body, nodes.last), generalised=generalised)
    return joints, inward(nodes.forest, _free_joint, _nothing_gathered(zero[0]), (joints, loads))


def _nothing_gathered(zero: Array):
    nothing = zero, zero, zero
    return Inertia((zero,) * 6, (zero,) * 9, (zero,) * 6), (nothing, nothing)


def _joints(tree: Tree, kin: TreeMotion) -> Joint:
    nodes, r = tree.nodes, kin.bodies.position
    arm = subtract(r, Paths(tree.forest, walk=False).above(r))
    w, v = (tuple(_of_velocities(nodes, x) for x in part) for part in kin.columns)
    free = None if nodes.free.all() else jnp.asarray(nodes.free, r[0].dtype)
    return Joint((w, v), _at(nodes, arm, nodes.first), free)


def _at(nodes: Nodes, body, mask: np.ndarray) -> Any:
    """What bodies have, at the nodes of the mask, zero at others."""
    if nodes.simple:
        return body
    if isinstance(body, tuple):
        return tuple(_at(nodes, part, mask) for part in body)
    return _where(mask, body, nodes.body)


def _of_velocities(nodes: Nodes, x: Array) -> Array:
    """What velocities have, zero at nodes without freedom."""
    if nodes.free.all():
        return x
    return _where(nodes.free, x, np.maximum(np.cumsum(nodes.free) - 1, 0))


def _where(mask: np.ndarray, x: Array, at: np.ndarray) -> Array:
    """The entries at places where the mask holds, else zero."""
    entries = entries_at(x, at)
    return select(mask, entries, jnp.zeros_like(entries))


def _of_free(nodes: Nodes, x: Array) -> Array:
    """What velocities have, from what nodes have."""
    return taken(x, np.flatnonzero(nodes.free))


def _free_joint(gathered, x: tuple[Joint, Load]):
    """One joint freed: what the node before it feels."""
    inertia, (torque, force) = gathered
    joint, body = x
    inertia = with_body(inertia, body.mass, body.inertia)
    torque, force = add(torque, body.torque), add(force, body.force)
    U = momentum(inertia, *joint.column)
    resistance = power(joint.column, U)
    inverse = 1 / resistance if joint.free is None else joint.free / (resistance + (1 - joint.free))
    left = body.generalised - power(joint.column, (torque, force))
    torque, force = add(torque, scale(left * inverse, U[0])), add(force, scale(left * inverse, U[1]))
    up = shifted(freed(inertia, U, inverse), joint.arm), (moved(torque, force, joint.arm), force)
    return up, Freed(U, inverse, left)


def _accelerate(above, x: tuple[Joint, Freed]):
    """One joint's rate: `inverse (left - U a)`, `a` the acceleration before it."""
    joint, behind = x
    w, v = above
    v = add(v, cross(w, joint.arm))
    rate = behind.inverse * (behind.left - power((w, v), behind.yielding))
    return (add(w, scale(rate, joint.column[0])), add(v, scale(rate, joint.column[1]))), rate
