"""Inverse and forward dynamics of a tree.

`M(q) dv + b(q, v) = forces`: inverse dynamics evaluates the left side by two passes through the tree; forward dynamics
solves for `dv`. The derivative of forward dynamics is that of inverse dynamics at constant `dv`, followed by one solve
with the mass matrix; recursions and factorisations are never differentiated.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.linear import cholesky, cholesky_solve
from jmbs.rigid_body.adjoint import linearisation, power_gradient
from jmbs.rigid_body.articulated import Factor, articulated_accelerations, articulated_solve
from jmbs.rigid_body.batches import Changes, Inputs
from jmbs.rigid_body.implicit import Equations, solution
from jmbs.rigid_body.joints import Column
from jmbs.rigid_body.kinematics import TreeMotion, kinematics
from jmbs.rigid_body.mass_matrix import (
    body_wrenches,
    generalised_forces,
    less_loads,
    mass_matrix,
    turned_inertias,
    wrenches_of,
)
from jmbs.rigid_body.tangents import forces_change, motion_change
from jmbs.rigid_body.topology import Links, Tree


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
    kin = kinematics(tree, links, q, v, dv, local=True, differentiable=True)
    return links.with_rotors(generalised_forces(tree, kin, _needed(links, kin, loads)), dv)


def forward_dynamics(
    tree: Tree,
    links: Links,
    q: tuple[Array, ...],
    v: Float[Array, " n_v"],
    forces: Float[Array, " n_v"],
    loads: Float[Array, "bodies 6"] | None = None,
    forward_only: bool = False,
) -> Float[Array, " n_v"]:
    """Rates of the velocities under generalised forces and `loads`; arguments as `inverse_dynamics`.

    **Arguments:** `forward_only`: see `solution`.
    """
    equations = Equations(
        tree,
        functools.partial(_residual, tree),
        functools.partial(_rates, tree),
        functools.partial(_solve, tree),
        functools.partial(_pull, tree),
        functools.partial(_push, tree),
        functools.partial(_rates_and_change, tree),
    )
    return solution(equations, Inputs(links, q, v, forces, loads), tree.n_velocities, forward_only=forward_only)


def _residual(tree: Tree, inputs: Inputs, dv: Array) -> Array:
    links, q, v, forces, loads, _ = inputs
    return inverse_dynamics(tree, links, q, v, dv, loads) - forces


def _rates(tree: Tree, inputs: Inputs) -> Array:
    return rates_and_factor(tree, inputs)[0]


def rates_and_factor(tree: Tree, inputs: Inputs) -> tuple[Array, Factor]:
    """Rates of the velocities, and the factorised mass matrix; arrays have a batch axis, see `Batchable`."""
    links, q, v, forces, loads, _ = inputs
    kin = kinematics(tree, links, q, v, local=True)
    inertia = turned_inertias(links, kin)
    needed = less_loads(kin, wrenches_of(links, kin, inertia), loads)
    dv, _, factor = articulated_accelerations(tree, links, kin, forces, inertia, needed)
    return dv, factor


def _solve(tree: Tree, inputs: Inputs, _: Array, rhs: Array) -> Array:
    kin = kinematics(tree, inputs.links, inputs.q, inputs.v, local=True)
    return articulated_accelerations(tree, inputs.links, kin, rhs, turned_inertias(inputs.links, kin))[0]


def _pull(tree: Tree, changing: tuple[bool, ...], inputs: Inputs, dv: Array, cotangent: Array):
    links, q, v, _, loads, _ = inputs
    at = linearisation(tree, links, q, v, dv, inputs.varied(changing), local=True)
    weights, twists, _ = articulated_accelerations(tree, links, at.kin, cotangent, at.inertia)
    by_links, by_q, by_v, by_loads = power_gradient(tree, links, at, loads, weights, twists)
    return weights, jax.tree.leaves(Inputs(by_links, by_q, by_v, -weights, by_loads))


def _push(tree: Tree, inputs: Inputs, dv: Array, rhs: Array, changes: Changes) -> Array:
    change = motion_change(tree, inputs, dv, changes, local=True)
    forces, inertia = forces_change(tree, inputs, dv, changes, change)
    return articulated_accelerations(tree, inputs.links, change.kin, rhs - forces, inertia)[0]


def _rates_and_change(tree: Tree, inputs: Inputs, changes: Changes) -> tuple[Array, Array]:
    dv, factor = rates_and_factor(tree, inputs)
    change = motion_change(tree, inputs, dv, changes, local=True)
    forces, _ = forces_change(tree, inputs, dv, changes, change)
    return dv, articulated_solve(tree, factor, -forces)


def mass_solver(tree: Tree, links: Links, q: tuple[Array, ...]) -> Callable[[Array], Array]:
    """A function that applies the inverse of the mass matrix, with one factorisation; differentiable to any order."""
    still, without_weight = jnp.zeros(tree.n_velocities, links.mass.dtype), links.weightless
    # Solves are differentiated as solutions of their equations, never through the factorisation.
    frozen = jax.lax.stop_gradient((links, q))
    kin = kinematics(tree, *frozen, still, local=True)
    lower = cholesky(mass_matrix(tree, frozen[0], kin, turned_inertias(frozen[0], kin)))

    def multiply(x: Array) -> Array:
        return inverse_dynamics(tree, without_weight, q, still, x)

    def solve(rhs: Array) -> Array:
        inverse = lambda _, b: cholesky_solve(lower, b[:, None])[:, 0]  # noqa: E731
        return jax.lax.custom_linear_solve(multiply, rhs, inverse, symmetric=True)

    return solve


def _needed(links: Links, kin: TreeMotion, loads: Array | None) -> Column:
    """Wrenches that bodies need beyond their loads."""
    return less_loads(kin, body_wrenches(links, kin), loads)
