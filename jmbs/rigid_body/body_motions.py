"""Poses and velocities of all bodies of a tree, along the batch in batches, with derivatives by rule."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.rigid_body.adjoint import Wrenches, linearisation, motion_gradient
from jmbs.rigid_body.batches import Inputs
from jmbs.rigid_body.implicit import Equations, solution
from jmbs.rigid_body.joints import Column
from jmbs.rigid_body.kinematics import kinematics
from jmbs.rigid_body.topology import Links, Tree
from jmbs.spatial import Matrix, Motion, Vector, add, columns, cross


def body_motions(tree: Tree, links: Links, q: tuple[Array, ...], v: Float[Array, " n_v"]) -> Float[Array, "18 bodies"]:
    """How bodies move relative to the world: rotation row by row, position, spin and velocity.

    The same as `kinematics`, which the inside of recursions and what runs seldom should rather use.
    """
    equations = Equations(
        tree,
        functools.partial(_residual, tree),
        functools.partial(_stacked, tree),
        lambda inputs, x, rhs: rhs,
        functools.partial(_pull, tree),
    )
    n = len(tree.bodies)
    return solution(equations, Inputs(links, q, v, jnp.zeros_like(v), None), 18 * n, saved=False).reshape(18, n)


def motion_of(x: Float[Array, "18 bodies *b"]) -> Motion:
    """Such motions in components; without accelerations, which are zero here."""
    entries: Any = tuple(jnp.squeeze(row, 0) for row in jax.lax.split(x, (1,) * 18, 0))
    nothing: Vector = (jnp.zeros_like(entries[0]),) * 3
    return Motion(*_parts(entries), nothing, nothing)


def _residual(tree: Tree, inputs: Inputs, x: Array) -> Array:
    return x - _stacked(tree, inputs, differentiable=True)


def _stacked(tree: Tree, inputs: Inputs, differentiable: bool = False) -> Array:
    kin = kinematics(tree, inputs.links, inputs.q, inputs.v, differentiable=differentiable).bodies
    whole = jnp.stack([*kin.rotation, *kin.position, *kin.spin, *kin.velocity])
    return whole.reshape(-1, *whole.shape[2:])


def _pull(tree: Tree, changing: tuple[bool, ...], inputs: Inputs, x: Array, cotangent: Array):
    links, v = inputs.links, inputs.v
    at = linearisation(tree, links, inputs.q, v, jnp.zeros_like(v), inputs.varied(changing), local=False)
    body = at.kin.bodies
    by = motion_of(-cotangent.reshape(18, len(tree.bodies), *cotangent.shape[1:]))
    own = body.position, body.spin, body.velocity, *columns(body.rotation)
    by_own = by.position, by.spin, by.velocity, *columns(by.rotation)
    torque = functools.reduce(add, map(cross, own, by_own))
    still: Column = by.spin_rate, by.acceleration
    wrenches = Wrenches(
        still, still, (add(by.spin, cross(body.position, by.velocity)), by.velocity), (torque, by.position)
    )
    joints, by_q, by_v = motion_gradient(tree, links, at, wrenches, still, jnp.zeros_like(v))
    rest = jax.tree.map(jnp.zeros_like, inputs)
    by_links = dataclasses.replace(rest.links, joints=joints)
    return cotangent, jax.tree.leaves(rest._replace(links=by_links, q=by_q, v=by_v))


def _parts(entries: tuple[Array, ...]) -> tuple[Matrix, Vector, Vector, Vector]:
    """Rotations, positions, spins and velocities."""
    return entries[:9], entries[9:12], entries[12:15], entries[15:]
