"""Inverse and forward dynamics of a tree.

`M(q) dv + b(q, v) = forces`: inverse dynamics evaluates the left side by one walk through the tree; forward dynamics
solves for `dv`. The derivative of forward dynamics is that of inverse dynamics at constant `dv`, followed by one solve
with the factorisation at hand; recursions and factorisations are never differentiated.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Float

from jmbs.multibody.articulated import articulated_accelerations, articulated_factor, articulated_solve
from jmbs.multibody.joints import Column, GeneralJoints
from jmbs.multibody.kinematics import TreeMotion, kinematics
from jmbs.multibody.mass_matrix import body_wrenches, generalised_forces, mass_matrix, solve_lower
from jmbs.multibody.tree import Links, Tree
from jmbs.spatial import subtract, times, vector

DENSE_LIMIT = 96
"""Up to so many velocities a single mechanism is quicker with a dense mass matrix than with walks of many steps."""


def inverse_dynamics(
    tree: Tree,
    links: Links,
    q: tuple[Array, ...],
    v: Float[Array, " n_v"],
    dv: Float[Array, " n_v"],
    loads: Float[Array, "bodies 6"] | None = None,
) -> Float[Array, " n_v"]:
    """Generalised forces (N or N m) that move the tree with rates `dv`.

    **Arguments:** `q`: elements by joint group; `loads`: wrenches on bodies, torque first, about their centres of mass,
    body axes.
    """
    # Derivatives go through here, and those of a walk are cheaper than those of doubling.
    kin = kinematics(tree, links, q, v, dv, local=True, walk=True)
    return generalised_forces(tree, kin, _needed(links, kin, loads))


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def forward_dynamics(
    tree: Tree,
    links: Links,
    q: tuple[Array, ...],
    v: Float[Array, " n_v"],
    forces: Float[Array, " n_v"],
    loads: Float[Array, "bodies 6"] | None = None,
) -> Float[Array, " n_v"]:
    """Rates of the velocities under generalised forces and `loads`; arguments as `inverse_dynamics`."""
    return _batchable(tree)(links, q, v, forces, loads)


@forward_dynamics.defjvp
def _forward_dynamics_jvp(tree: Tree, primals, tangents):
    links, q, v, forces, loads = primals
    kin = kinematics(tree, links, q, v, local=True, walk=True)
    solve = mass_solver(tree, links, q, kin)
    dv = solve(forces - generalised_forces(tree, kin, _needed(links, kin, loads)))

    # The checkpoint makes reverse mode keep the primal values alone, and not what the walk meets on its way.
    @jax.checkpoint
    def residual_rate(primals, dv, tangents):
        return jax.jvp(lambda links, q, v, loads: inverse_dynamics(tree, links, q, v, dv, loads), primals, tangents)[1]

    links_dot, q_dot, v_dot, forces_dot, loads_dot = tangents
    rate = residual_rate((links, q, v, loads), dv, (links_dot, q_dot, v_dot, loads_dot))
    return dv, solve(forces_dot - rate)


def mass_solver(tree: Tree, links: Links, q: tuple[Array, ...], kin: TreeMotion | None = None):
    """A function that applies the inverse of the mass matrix, with one factorisation; differentiable to any order.

    **Arguments:** `kin`: the kinematics at `q`, local, at any velocities, if they are known.
    """
    still = jnp.zeros(tree.n_velocities, links.mass.dtype)
    nothing = tuple(jnp.zeros_like(x) for x in links.weight)
    weightless = Links(links.joints, links.mass, links.inertia, nothing)
    kin = kinematics(tree, links, q, still, local=True, walk=True) if kin is None else kin
    # Solves are differentiated as solutions of their equations, never through the factorisation.
    frozen, kin = jax.tree.map(jax.lax.stop_gradient, (links, kin))
    if tree.n_velocities <= DENSE_LIMIT:
        lower = jnp.linalg.cholesky(mass_matrix(tree, frozen, kin), symmetrize_input=False)
        apply = functools.partial(solve_lower, lower)
    else:
        factor = articulated_factor(tree, frozen, kin)
        apply = functools.partial(articulated_solve, tree, factor)

    def multiply(x: Array) -> Array:
        return inverse_dynamics(tree, weightless, q, still, x)

    def solve(rhs: Array) -> Array:
        return jax.lax.custom_linear_solve(multiply, rhs, lambda _, b: apply(b), symmetric=True)

    return solve


def _needed(links: Links, kin: TreeMotion, loads: Array | None) -> Column:
    """Wrenches that bodies need beyond their loads."""
    torque, force = body_wrenches(links, kin)
    if loads is None:
        return torque, force
    R = kin.bodies.rotation
    return subtract(torque, times(R, vector(loads[..., :3]))), subtract(force, times(R, vector(loads[..., 3:])))


@functools.cache
def _batchable(tree: Tree):
    """Forward dynamics without derivatives: of one tree, and of batches, whose axis goes last."""

    @custom_vmap
    def one(links, q, v, forces, loads):
        kin = kinematics(tree, links, q, v, local=True)
        needed = _needed(links, kin, loads)
        if tree.n_velocities > DENSE_LIMIT:
            return articulated_accelerations(tree, links, kin, needed, forces)
        lower = jnp.linalg.cholesky(mass_matrix(tree, links, kin), symmetrize_input=False)
        return solve_lower(lower, forces - generalised_forces(tree, kin, needed))

    @one.def_vmap
    def batched(size, in_batched, *args):
        links, q, v, forces, loads = _trailing(size, in_batched, args)
        kin = kinematics(tree, links, q, v, local=True, walk=True)
        return articulated_accelerations(tree, links, kin, _needed(links, kin, loads), forces).T, True

    return one


def _trailing(size: int, in_batched, args):
    """Arguments with their batch axis where the recursions want it, of size one where there is none.

    Components have it last; joint elements, loads and motions, which are evaluated member by member, have it second.
    """
    links, q, v, forces, loads = args
    in_links, in_q, in_v, in_forces, in_loads = in_batched
    whole = functools.partial(_second, size)
    joints = tuple(_trailing_joints(size, flags, j) for flags, j in zip(in_links.joints, links.joints, strict=True))
    in_bodies = in_links.mass, in_links.inertia, in_links.weight
    by_body = jax.tree.map(_last, in_bodies, (links.mass, links.inertia, links.weight))
    v = _last(in_v, v)
    v = jnp.broadcast_to(v, (v.shape[0], size))
    loads = None if loads is None else whole(in_loads, loads)
    mass, inertia, weight = by_body
    return Links(joints, mass, inertia, weight), jax.tree.map(whole, in_q, q), v, _last(in_forces, forces), loads


def _trailing_joints(size: int, flags, joints):
    moved = jax.tree.map(_last, flags, joints)
    if not isinstance(joints, GeneralJoints):
        return moved
    batched = any(jax.tree.leaves(flags.motion))
    motion = jax.tree.map(functools.partial(_second, size), flags.motion, joints.motion) if batched else joints.motion
    return GeneralJoints(motion, moved.before, moved.after, moved.columns, joints.reversed, batched)


def _last(batched: bool, x: Array) -> Array:
    return jnp.moveaxis(x, 0, -1) if batched else x[..., None]


def _second(size: int, batched: bool, x: Array) -> Array:
    return jnp.moveaxis(x, 0, 1) if batched else jnp.broadcast_to(x[:, None], (x.shape[0], size, *x.shape[1:]))
