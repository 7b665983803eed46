"""Poses and velocities of all bodies of a tree, along the batch in batches, with derivatives by rule."""

from __future__ import annotations

import functools

import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.multibody.batches import Inputs
from jmbs.multibody.implicit import Equations, pulled_back, solution
from jmbs.multibody.kinematics import kinematics
from jmbs.multibody.tree import Links, Tree
from jmbs.spatial import Motion, Vector


def body_motions(tree: Tree, links: Links, q: tuple[Array, ...], v: Float[Array, " n_v"]) -> Motion:
    """How bodies move relative to the world, entries `(bodies,)`; without accelerations, which are zero here.

    The same as `kinematics`, which single mechanisms and the inside of recursions should rather use.
    """
    equations = Equations(
        tree,
        functools.partial(_residual, tree),
        functools.partial(_stacked, tree),
        lambda batch, inputs, x, rhs: rhs,
        functools.partial(_pull, tree),
    )
    n = len(tree.bodies)
    x = solution(equations, Inputs(links, q, v, jnp.zeros_like(v), None), 18 * n).reshape(18, n)
    rotation, position, spin, velocity = tuple(x[:9]), tuple(x[9:12]), tuple(x[12:15]), tuple(x[15:])
    nothing: Vector = (jnp.zeros(n, x.dtype),) * 3
    return Motion(rotation, position, spin, velocity, nothing, nothing)


def _residual(tree: Tree, inputs: Inputs, x: Array) -> Array:
    # A walk, since this is what is differentiated.
    return x - _stacked(tree, True, inputs, differentiable=True)


def _stacked(tree: Tree, batch: bool, inputs: Inputs, differentiable: bool = False) -> Array:
    kin = kinematics(tree, inputs.links, inputs.q, inputs.v, walk=batch, differentiable=differentiable).bodies
    whole = jnp.stack([*kin.rotation, *kin.position, *kin.spin, *kin.velocity])
    return whole.reshape(-1, *whole.shape[2:])


def _pull(tree: Tree, changing: tuple[bool, ...], batch: bool, inputs: Inputs, x: Array, cotangent: Array):
    return cotangent, pulled_back(functools.partial(_residual, tree), changing, inputs, x, cotangent)
