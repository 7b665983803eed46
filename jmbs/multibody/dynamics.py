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

from jmbs.arrays import changing_zero
from jmbs.multibody.adjoint import along_tangents, linearisation, power_gradient
from jmbs.multibody.articulated import articulated_accelerations, articulated_factor, articulated_solve
from jmbs.multibody.batches import Changes, Inputs, batchable
from jmbs.multibody.joints import Column
from jmbs.multibody.kept_rule import kept_rule
from jmbs.multibody.kinematics import TreeMotion, kinematics
from jmbs.multibody.mass_matrix import body_wrenches, generalised_forces, less_loads, mass_matrix, solve_lower
from jmbs.multibody.tree import Links, Tree

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
    return generalised_forces(tree, kin, _needed(links, kin, loads), walk=True)


def forward_dynamics(
    tree: Tree,
    links: Links,
    q: tuple[Array, ...],
    v: Float[Array, " n_v"],
    forces: Float[Array, " n_v"],
    loads: Float[Array, "bodies 6"] | None = None,
) -> Float[Array, " n_v"]:
    """Rates of the velocities under generalised forces and `loads`; arguments as `inverse_dynamics`."""
    leaves, structure = jax.tree.flatten(Inputs(links, q, v, forces, loads))
    alone = batchable(functools.partial(_rates, tree), ())

    def rates(*leaves: Array) -> Array:
        return alone(structure.unflatten(leaves), (), ())[0]

    def rule(leaves: tuple[Array, ...], changes: Changes) -> tuple[Array, Array]:
        inputs = structure.unflatten(leaves)
        dv = forward_dynamics(tree, *inputs)
        return dv, _rate_of_solution(tree, inputs, dv, changes)

    return kept_rule(rates, rule, jax.ShapeDtypeStruct(v.shape, jnp.result_type(*leaves)))(*leaves)


def _rate_of_solution(tree: Tree, inputs: Inputs, dv: Array, changes: Changes) -> Float[Array, " n_v"]:
    """How `dv` changes with the inputs.

    It solves the linear system `d(inverse dynamics - forces) = 0` for the change of `dv`; and for the inputs' changes
    as well, so that these are its right-hand side. JAX differentiates, transposes and batches linear systems; how this
    one and its transpose are solved is said here.
    """
    changing = tuple(x is not None for x in changes)
    if not any(changing):
        return jnp.zeros_like(dv)
    # JAX transposes a linear system only if its whole right-hand side is linear in what changes.
    nothing = jnp.broadcast_to(changing_zero(changes, dv.dtype), dv.shape)

    def system(unknown):
        rates, changes = unknown
        return _residual_rate(tree, inputs, dv, changes, rates), changes

    def solve(_, given):
        rhs, changes = given
        return batchable(functools.partial(_solved, tree), changing)(inputs, (dv, rhs), changes)[0], changes

    def solve_transposed(_, given):
        cotangent, others = given
        function = functools.partial(_solved_transposed, tree, changing)
        weights, derivatives = batchable(function, changing)(inputs, (dv, cotangent), ())
        return weights, jax.tree.map(jnp.add, others, derivatives)

    return jax.lax.custom_linear_solve(system, (nothing, changes), solve, solve_transposed)[0]


def _residual_rate(tree: Tree, inputs: Inputs, dv: Array, changes: Changes, rates: Array | None) -> Array:
    """How inverse dynamics less the forces changes with the inputs and, if given, the `rates` of `dv`.

    Elements change along their tangents only: so do derivatives backwards, and this is what JAX differentiates again.
    """
    leaves, structure = jax.tree.flatten(inputs)
    spaces = dict(enumerate((group.space for group in tree.groups), len(jax.tree.leaves(inputs.links))))
    which = [k for k, change in enumerate(changes) if change is not None]

    def residual(changed: list[Array], dv: Array) -> Array:
        now = list(leaves)
        for k, x in zip(which, changed, strict=True):
            now[k] = x
        links, q, v, forces, loads = structure.unflatten(now)
        return inverse_dynamics(tree, links, q, v, dv, loads) - forces

    at = [leaves[k] for k in which]
    along = [
        along_tangents(spaces[k], leaves[k], change) if k in spaces else change
        for k, change in enumerate(changes)
        if change is not None
    ]
    if rates is None:
        return jax.jvp(lambda changed: residual(changed, dv), (at,), (along,))[1]
    return jax.jvp(residual, (at, dv), (along, rates))[1]


def _rates(tree: Tree, batch: bool, inputs: Inputs, _, __) -> tuple[Array, Changes]:
    links, q, v, forces, loads = inputs
    kin = kinematics(tree, links, q, v, local=True, walk=batch)
    needed = _needed(links, kin, loads)
    if _dense(tree, batch):
        return _factorised(tree, links, kin)(forces - generalised_forces(tree, kin, needed)), ()
    return articulated_accelerations(tree, links, kin, needed, forces)[0], ()


def _solved(tree: Tree, batch: bool, inputs: Inputs, vectors, changes: Changes) -> tuple[Array, Changes]:
    """The change of `dv` that makes the residual change by the right-hand side."""
    dv, rhs = vectors
    kin = kinematics(tree, inputs.links, inputs.q, inputs.v, local=True, walk=batch)
    rate = _residual_rate(tree, inputs, dv, changes, None)
    return _solution(tree, inputs.links, kin, batch, rhs - rate)[0], ()


def _solved_transposed(tree: Tree, changing: tuple[bool, ...], batch: bool, inputs: Inputs, vectors, _):
    """The residual's multipliers, and what the inputs' changes do through them."""
    (dv, cotangent), structure = vectors, jax.tree.structure(inputs)
    links, q, v, _, loads = inputs
    joints = structure.unflatten(changing).links.joints
    varied = tuple(any(jax.tree.leaves(j)) for j in joints)
    at = linearisation(tree, links, q, v, dv, varied, walk=batch)
    weights, twists = _solution(tree, links, at.kin, batch, cotangent)
    by_links, by_q, by_v, by_loads = power_gradient(tree, links, at, loads, weights, twists)
    derivatives = jax.tree.leaves(Inputs(by_links, by_q, by_v, -weights, by_loads))
    return weights, tuple(-x if wanted else None for wanted, x in zip(changing, derivatives, strict=True))


def _dense(tree: Tree, batch: bool) -> bool:
    return not batch and tree.n_velocities <= DENSE_LIMIT


def _solution(tree: Tree, links: Links, kin: TreeMotion, batch: bool, rhs: Array) -> tuple[Array, Column | None]:
    """`M^-1 rhs`, and the twists of bodies that moved with it where they come for free."""
    if _dense(tree, batch):
        return _factorised(tree, links, kin)(rhs), None
    return articulated_accelerations(tree, links, kin, None, rhs)


def _factorised(tree: Tree, links: Links, kin: TreeMotion) -> Callable[[Array], Array]:
    """A function that applies the inverse of the mass matrix of a single mechanism, with one factorisation."""
    if _dense(tree, batch=False):
        lower = jnp.linalg.cholesky(mass_matrix(tree, links, kin), symmetrize_input=False)
        return functools.partial(solve_lower, lower)
    return functools.partial(articulated_solve, tree, articulated_factor(tree, links, kin))


def mass_solver(tree: Tree, links: Links, q: tuple[Array, ...]) -> Callable[[Array], Array]:
    """A function that applies the inverse of the mass matrix, with one factorisation; differentiable to any order."""
    still = jnp.zeros(tree.n_velocities, links.mass.dtype)
    nothing = tuple(jnp.zeros_like(x) for x in links.weight)
    weightless = Links(links.joints, links.mass, links.inertia, nothing)
    # Solves are differentiated as solutions of their equations, never through the factorisation.
    frozen = jax.lax.stop_gradient((links, q))
    kin = kinematics(tree, *frozen, still, local=True, walk=not _dense(tree, batch=False))
    apply = _factorised(tree, frozen[0], kin)

    def multiply(x: Array) -> Array:
        return inverse_dynamics(tree, weightless, q, still, x)

    def solve(rhs: Array) -> Array:
        return jax.lax.custom_linear_solve(multiply, rhs, lambda _, b: apply(b), symmetric=True)

    return solve


def _needed(links: Links, kin: TreeMotion, loads: Array | None) -> Column:
    """Wrenches that bodies need beyond their loads."""
    return less_loads(kin, body_wrenches(links, kin), loads)
