"""The articulated-body factorisation of a tree's mass matrix, one velocity after the other, in O(n).

Each velocity is a joint of one degree of freedom; those of one body follow each other without a body between them. A
backward pass eliminates one joint after the other: the node before it has the apparent inertia of all behind it. Then
`M a = f` takes a backward and a forward pass. See Featherstone, "Rigid Body Dynamics Algorithms" (2008), section 7.3.

All vectors have world axes and refer to the centre of mass of the body that the velocity moves. Entries are
`(nodes, ...)`, a node being a velocity or a body's joint without freedom (see `Nodes`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jmbs.jaxext import all_entries_at, entries_at
from jmbs.rigid_body.free_bodies import FreeFactor, are_free, free_accelerations, free_factor, free_solve
from jmbs.rigid_body.joints import Column
from jmbs.rigid_body.kinematics import TreeMotion
from jmbs.rigid_body.passes import backward_pass, forward_pass
from jmbs.rigid_body.paths import Paths, select
from jmbs.rigid_body.topology import Links, Nodes, Tree
from jmbs.spatial import (
    Inertia,
    Symmetric,
    Vector,
    add,
    apparent_inertia,
    cross,
    momentum,
    moved,
    power,
    scale,
    shifted,
    subtract,
    symmetric_times,
    with_body,
)


class Joint(NamedTuple):
    """By node: `column`, the twist that it allows; `arm` from the body before; `free`, 1 or 0, None where all are."""

    column: Column
    arm: Vector
    free: Array | None


class Load(NamedTuple):
    """By node: mass and inertia (world axes) of the body behind it; generalised force; the `wrench` that the body
    needs, None where none does; inertia of the `rotor` on the velocity, None where there is none at all."""

    mass: Array
    inertia: Symmetric
    generalised: Array
    wrench: Column | None
    rotor: Array | None


class Eliminated(NamedTuple):
    """By node, with the articulated inertia `I` and the column `S`: `U = I S`, the `inverse` of `D = S . U`, and
    `u = tau - S . p` with the bias wrench `p`."""

    U: Column
    inverse: Array
    u: Array


class ArticulatedFactor(NamedTuple):
    """The factorised mass matrix, by node: joints, the articulated inertia times their columns, inverse resistance."""

    joints: Joint
    U: Column
    inverse: Array


Factor = ArticulatedFactor | FreeFactor


def articulated_accelerations(
    tree: Tree, links: Links, kin: TreeMotion, forces: Array, inertia: Symmetric, wrench: Column | None = None
) -> tuple[Array, Column, Factor]:
    """`M^-1 (forces - what the bodies' needed wrenches do)`, `(n_v, ...)`; twists of bodies that moved with these; the
    factorisation of `M`.

    **Arguments:** `inertia` of the bodies in world axes; `wrench`: None where bodies need none.
    """
    if are_free(tree, links):
        return free_accelerations(links, kin, forces, wrench)
    nodes = tree.nodes
    joints, eliminated = _eliminated(tree, links, kin, inertia, wrench, _of_velocities(nodes, forces))

    def tell(above, x):
        own, rate = _accelerate(above, x)
        return own, (rate, own)

    rates, twists = forward_pass(nodes.forest, tell, _at_rest(kin), (joints, eliminated))
    twists = jax.tree.map(lambda x: all_entries_at(x, np.flatnonzero(nodes.last)), twists)
    return _of_free(nodes, rates), twists, ArticulatedFactor(joints, eliminated.U, eliminated.inverse)


def articulated_factor(tree: Tree, links: Links, kin: TreeMotion, inertia: Symmetric) -> Factor:
    """The factorisation of the mass matrix; `inertia` of the bodies in world axes."""
    if are_free(tree, links):
        return free_factor(links, kin)
    nothing = jnp.zeros((len(tree.nodes.body), *kin.bodies.position[0].shape[1:]), links.mass.dtype)
    joints, eliminated = _eliminated(tree, links, kin, inertia, None, nothing)
    return ArticulatedFactor(joints, eliminated.U, eliminated.inverse)


def articulated_solve(tree: Tree, factor: Factor, forces: Array) -> Array:
    """`M^-1 forces`, by a backward and a forward pass; forces may have more axes than the factor, behind the first."""
    if isinstance(factor, FreeFactor):
        return free_solve(factor, forces)
    nodes = tree.nodes
    zero = jnp.zeros(forces.shape[1:], forces.dtype)
    nothing = zero, zero, zero

    def transmit(gathered, x):
        joint, U, inverse, tau = x
        u = tau if gathered is None else tau - power(joint.column, gathered)
        if gathered is None:
            gathered = nothing, nothing
        torque, force = (add(g, scale(u * inverse, x)) for g, x in zip(gathered, U, strict=True))
        return (moved(torque, force, joint.arm), force), u

    xs = *factor, _of_velocities(nodes, forces)
    u = backward_pass(nodes.forest, transmit, (nothing, nothing), xs)
    eliminated = Eliminated(factor.U, factor.inverse, u)
    rates = forward_pass(nodes.forest, _accelerate, (nothing, nothing), (factor.joints, eliminated))
    return _of_free(nodes, rates)


def _eliminated(
    tree: Tree, links: Links, kin: TreeMotion, inertia: Symmetric, wrench: Column | None, generalised: Array
) -> tuple[Joint, Eliminated]:
    """All joints, eliminated from the leaves on, under bodies' needed wrenches (None: zero) and forces by node."""
    nodes, joints = tree.nodes, _joints(tree, kin)
    mass = jnp.broadcast_to(links.mass, inertia[0].shape)
    mass, inertia, wrench = _at(nodes, (mass, inertia, wrench), nodes.last)
    still = _at_rest(kin)
    zero = still[0][0]
    nothing = Inertia((zero,) * 6, (zero,) * 9, (zero,) * 6), still
    rotor = None if links.armature is None else _of_velocities(nodes, links.armature)
    loads = Load(mass, inertia, generalised, wrench, rotor)
    return joints, backward_pass(nodes.forest, _eliminate, nothing, (joints, loads))


def _at_rest(kin: TreeMotion) -> Column:
    """The twist of a body that does not move, in the shape of one body."""
    x = kin.bodies.position[0]
    zero = jnp.zeros(x.shape[1:], x.dtype)
    return (zero,) * 3, (zero,) * 3


def _joints(tree: Tree, kin: TreeMotion) -> Joint:
    nodes, r = tree.nodes, kin.bodies.position
    arm = subtract(r, Paths(tree.forest).above(r))
    w, v = (tuple(_of_velocities(nodes, x) for x in part) for part in kin.columns)
    free = None if nodes.free.all() else jnp.asarray(nodes.free, r[0].dtype)
    return Joint((w, v), _at(nodes, arm, nodes.first), free)


def _at(nodes: Nodes, body, mask: np.ndarray) -> Any:
    """What bodies have, at the nodes of the mask, zero at others."""
    if nodes.simple:
        return body
    return jax.tree.map(lambda x: _where(mask, x, nodes.body), body)


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
    return all_entries_at(x, np.flatnonzero(nodes.free))


def _eliminate(gathered, x: tuple[Joint, Load]):
    """Eliminates one joint: apparent inertia and bias wrench for the node before it; None if none has any."""
    joint, (mass, own, generalised, wrench, rotor) = x
    if gathered is None:
        inertia, U = None, (symmetric_times(own, joint.column[0]), scale(mass, joint.column[1]))
    else:
        inertia = with_body(gathered[0], mass, own)
        U = momentum(inertia, *joint.column)
        behind = gathered[1]
        wrench = behind if wrench is None else (add(behind[0], wrench[0]), add(behind[1], wrench[1]))
    resistance = power(joint.column, U) if rotor is None else power(joint.column, U) + rotor
    inverse = 1 / resistance if joint.free is None else joint.free / (resistance + (1 - joint.free))
    u = generalised if wrench is None else generalised - power(joint.column, wrench)
    if inertia is None or wrench is None:
        return None, Eliminated(U, inverse, u)
    rate = u * inverse
    torque, force = add(wrench[0], scale(rate, U[0])), add(wrench[1], scale(rate, U[1]))
    bias = moved(torque, force, joint.arm), force
    return (shifted(apparent_inertia(inertia, U, inverse), joint.arm), bias), Eliminated(U, inverse, u)


def _accelerate(above: Column | None, x: tuple[Joint, Eliminated]):
    """One joint's rate: `inverse (u - U a)`, `a` the acceleration before it."""
    joint, behind = x
    if above is None:
        rate = behind.inverse * behind.u
        return (scale(rate, joint.column[0]), scale(rate, joint.column[1])), rate
    w, v = above
    v = add(v, cross(w, joint.arm))
    rate = behind.inverse * (behind.u - power((w, v), behind.U))
    return (add(w, scale(rate, joint.column[0])), add(v, scale(rate, joint.column[1]))), rate
