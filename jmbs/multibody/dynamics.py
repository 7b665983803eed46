"""Inverse and forward dynamics of a tree.

`M(q) dv + b(q, v) = forces`: inverse dynamics evaluates the left side by one walk through the tree; forward dynamics
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
from jmbs.multibody.adjoint import linearisation, power_gradient
from jmbs.multibody.articulated import articulated_accelerations, articulated_factor, articulated_solve
from jmbs.multibody.batches import Changes, Inputs
from jmbs.multibody.implicit import Equations, solution
from jmbs.multibody.joints import Column
from jmbs.multibody.kinematics import TreeMotion, kinematics
from jmbs.multibody.mass_matrix import (
    body_wrenches,
    generalised_forces,
    less_loads,
    mass_matrix,
    turned_inertias,
    wrenches_of,
)
from jmbs.multibody.tangents import forces_change
from jmbs.multibody.tree import Links, Tree
from jmbs.spatial import Symmetric

DENSE_LIMIT = 256
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
    kin = kinematics(tree, links, q, v, dv, local=True, walk=True, differentiable=True)
    return links.with_rotors(generalised_forces(tree, kin, _needed(links, kin, loads), walk=True), dv)


def forward_dynamics(
    tree: Tree,
    links: Links,
    q: tuple[Array, ...],
    v: Float[Array, " n_v"],
    forces: Float[Array, " n_v"],
    loads: Float[Array, "bodies 6"] | None = None,
) -> Float[Array, " n_v"]:
    """Rates of the velocities under generalised forces and `loads`; arguments as `inverse_dynamics`."""
    equations = Equations(
        tree,
        functools.partial(_residual, tree),
        functools.partial(_rates, tree),
        functools.partial(_solve, tree),
        functools.partial(_pull, tree),
        functools.partial(_push, tree),
    )
    return solution(equations, Inputs(links, q, v, forces, loads), tree.n_velocities)


def _residual(tree: Tree, inputs: Inputs, dv: Array) -> Array:
    links, q, v, forces, loads, _ = inputs
    return inverse_dynamics(tree, links, q, v, dv, loads) - forces


def _rates(tree: Tree, batch: bool, inputs: Inputs) -> Array:
    links, q, v, forces, loads, _ = inputs
    kin = kinematics(tree, links, q, v, local=True, walk=batch)
    inertia = turned_inertias(links, kin)
    needed = less_loads(kin, wrenches_of(links, kin, inertia), loads)
    if _dense(tree, batch):
        return factorised(tree, links, kin, inertia)(forces - generalised_forces(tree, kin, needed))
    return articulated_accelerations(tree, links, kin, forces, inertia, needed)[0]


def _solve(tree: Tree, batch: bool, inputs: Inputs, _: Array, rhs: Array) -> Array:
    kin = kinematics(tree, inputs.links, inputs.q, inputs.v, local=True, walk=batch)
    return _solution(tree, inputs.links, kin, turned_inertias(inputs.links, kin), batch, rhs)[0]


def _pull(tree: Tree, changing: tuple[bool, ...], batch: bool, inputs: Inputs, dv: Array, cotangent: Array):
    links, q, v, _, loads, _ = inputs
    at = linearisation(tree, links, q, v, dv, inputs.varied(changing), local=True, walk=batch)
    weights, twists = _solution(tree, links, at.kin, at.inertia, batch, cotangent)
    by_links, by_q, by_v, by_loads = power_gradient(tree, links, at, loads, weights, twists)
    return weights, jax.tree.leaves(Inputs(by_links, by_q, by_v, -weights, by_loads))


def _push(tree: Tree, batch: bool, inputs: Inputs, dv: Array, rhs: Array, changes: Changes) -> Array:
    change, kin, inertia = forces_change(tree, inputs, dv, changes, local=True, walk=batch)
    return _solution(tree, inputs.links, kin, inertia, batch, rhs - change)[0]


def _dense(tree: Tree, batch: bool) -> bool:
    return not batch and tree.n_velocities <= DENSE_LIMIT


def _solution(
    tree: Tree, links: Links, kin: TreeMotion, inertia: Symmetric, batch: bool, rhs: Array
) -> tuple[Array, Column | None]:
    """`M^-1 rhs`, and the twists of bodies that moved with it where they come for free."""
    if _dense(tree, batch):
        return factorised(tree, links, kin, inertia)(rhs), None
    return articulated_accelerations(tree, links, kin, rhs, inertia)


def factorised(tree: Tree, links: Links, kin: TreeMotion, inertia: Symmetric) -> Callable[[Array], Array]:
    """A function that applies the inverse of the mass matrix of a single mechanism, with one factorisation; `inertia`:
    as `turned_inertias` gives it."""
    if _dense(tree, batch=False):
        lower = cholesky(mass_matrix(tree, links, kin, inertia))
        return lambda rhs: cholesky_solve(lower, rhs[:, None])[:, 0]
    return functools.partial(articulated_solve, tree, articulated_factor(tree, links, kin, inertia))


def mass_solver(tree: Tree, links: Links, q: tuple[Array, ...]) -> Callable[[Array], Array]:
    """A function that applies the inverse of the mass matrix, with one factorisation; differentiable to any order."""
    still, without_weight = jnp.zeros(tree.n_velocities, links.mass.dtype), links.weightless
    # Solves are differentiated as solutions of their equations, never through the factorisation.
    frozen = jax.lax.stop_gradient((links, q))
    kin = kinematics(tree, *frozen, still, local=True, walk=not _dense(tree, batch=False))
    apply = factorised(tree, frozen[0], kin, turned_inertias(frozen[0], kin))

    def multiply(x: Array) -> Array:
        return inverse_dynamics(tree, without_weight, q, still, x)

    def solve(rhs: Array) -> Array:
        return jax.lax.custom_linear_solve(multiply, rhs, lambda _, b: apply(b), symmetric=True)

    return solve


def _needed(links: Links, kin: TreeMotion, loads: Array | None) -> Column:
    """Wrenches that bodies need beyond their loads."""
    return less_loads(kin, body_wrenches(links, kin), loads)
