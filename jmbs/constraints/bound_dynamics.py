"""Forward dynamics of trees whose velocities rows of given coefficients bind, as gears do: accelerations and
multipliers at once.

    M(q) dv + b(q, v) + J^T mu = forces,      J dv = -drift

Derivatives are those of these equations at the solution, see `jmbs.rigid_body.implicit`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.linear import definite_solver_of_many, products
from jmbs.rigid_body import (
    Changes,
    Equations,
    Factor,
    Inputs,
    Links,
    ResidualChange,
    Tree,
    articulated_factor,
    articulated_solve,
    forces_change,
    inverse_dynamics,
    kinematics,
    linearisation,
    momenta_change,
    motion_change,
    power_gradient,
    rates_and_factor,
    solution,
    turned_inertias,
    velocity_change,
)


class BindingRows(NamedTuple):
    """**Arguments:** `coefficients` J of the velocities; `drift`, an additional rate of the rows."""

    coefficients: Float[Array, "m n_v"]
    drift: Float[Array, " m"]


def bound_dynamics(
    tree: Tree,
    links: Links,
    q: tuple[Array, ...],
    v: Float[Array, " n_v"],
    forces: Float[Array, " n_v"],
    rows: BindingRows,
    loads: Float[Array, "bodies 6"] | None = None,
    forward_only: bool = False,
) -> tuple[Float[Array, " n_v"], Float[Array, " m"]]:
    """Rates of the velocities, and multipliers of the rows, which may be redundant; all but `rows` as in
    `forward_dynamics`."""
    equations = _equations(tree, rates_and_factor, _forces_change)
    size = tree.n_velocities + len(rows.drift)
    x = solution(equations, Inputs(links, q, v, forces, loads, rows), size, forward_only=forward_only)
    return _parts(tree, x)


def bound_impulse(
    tree: Tree, links: Links, q: tuple[Array, ...], rows: BindingRows, forward_only: bool = False
) -> Float[Array, " n_v"]:
    """The change of velocities nearest in the mass metric that takes a violation of the rows, their `drift`, away."""
    still = jnp.zeros(tree.n_velocities, rows.drift.dtype)
    # Without motion and weight, the accelerations that annul a drift are those of an impulse.
    inputs = Inputs(links.weightless, q, still, still, None, rows)
    size = tree.n_velocities + len(rows.drift)
    x = solution(_equations(tree, _at_rest, _momenta_change), inputs, size, forward_only=forward_only)
    return x[: tree.n_velocities]


def _equations(tree: Tree, free: Callable, change: Callable) -> Equations:
    """**Arguments:** functions `free(tree, inputs)` for the rates that there were without the rows and the factorised
    mass matrix, `change(tree, inputs, dv, changes)` for the `ResidualChange` of forces where rates `dv` are held."""
    return Equations(
        tree,
        functools.partial(_residual, tree),
        functools.partial(_value, tree, free),
        functools.partial(_solve, tree),
        functools.partial(_pull, tree),
        functools.partial(_push, tree, change),
        functools.partial(_value_and_change, tree, free, change),
    )


def _at_rest(tree: Tree, inputs: Inputs) -> tuple[Array, Factor]:
    """Rates without motion, weight and forces, which are zero."""
    return jnp.zeros_like(inputs.v), _factor(tree, inputs)


def _forces_change(tree: Tree, inputs: Inputs, dv: Array, changes: Changes) -> ResidualChange:
    change = motion_change(tree, inputs, dv, changes, local=True)
    forces, inertia = forces_change(tree, inputs, dv, changes, change)
    return forces, change.kin, inertia


def _momenta_change(tree: Tree, inputs: Inputs, dv: Array, changes: Changes) -> ResidualChange:
    """The same without motion, weight and forces: of momenta at velocities `dv`."""
    change = velocity_change(tree, inputs, dv, changes)
    momenta, inertia = momenta_change(tree, inputs, dv, changes, change)
    return momenta, change.kin, inertia


def _residual(tree: Tree, inputs: Inputs, x: Array) -> Array:
    """What rates and multipliers `x` leave of the equations."""
    (J, drift), (dv, multipliers) = inputs.closure, _parts(tree, x)
    taken = products(jnp.swapaxes(J, 0, 1), multipliers)
    rest = inverse_dynamics(tree, inputs.links, inputs.q, inputs.v, dv, inputs.loads) + taken - inputs.forces
    return jnp.concatenate([rest, products(J, dv) + drift])


def _value(tree: Tree, free: Callable, inputs: Inputs) -> Array:
    a, factor = free(tree, inputs)
    return _solver(tree, factor, inputs)(a, -inputs.closure.drift)


def _value_and_change(
    tree: Tree, free: Callable, change: Callable, inputs: Inputs, changes: Changes
) -> tuple[Array, Array]:
    a, factor = free(tree, inputs)
    solver = _solver(tree, factor, inputs)
    x = solver(a, -inputs.closure.drift)
    forces, rows = _parts(tree, -_residual_change(tree, change, inputs, x, changes)[0])
    return x, solver(articulated_solve(tree, factor, forces), rows)


def _solve(tree: Tree, inputs: Inputs, _: Array, rhs: Array) -> Array:
    return _solved(tree, _factor(tree, inputs), inputs, rhs)


def _push(tree: Tree, change: Callable, inputs: Inputs, x: Array, rhs: Array, changes: Changes) -> Array:
    residual, kin, inertia = _residual_change(tree, change, inputs, x, changes)
    return _solved(tree, articulated_factor(tree, inputs.links, kin, inertia), inputs, rhs - residual)


def _residual_change(tree: Tree, change: Callable, inputs: Inputs, x: Array, changes: Changes) -> ResidualChange:
    """How the residual changes with the inputs where rates and multipliers `x` are held."""
    dv, multipliers = _parts(tree, x)
    forces, kin, inertia = change(tree, inputs, dv, changes)
    forces, rows = with_changed_rows(jax.tree.structure(inputs).unflatten(changes).closure, forces, dv, multipliers)
    return jnp.concatenate([forces, rows]), kin, inertia


def with_changed_rows(changed: BindingRows, forces: Array, dv: Array, multipliers: Array) -> tuple[Array, Array]:
    """The changes of forces, with what changed rows do to them, and of the rows, where rates and multipliers are held.

    **Arguments:** `changed`: None where nothing changes; `forces`: their change with all else.
    """
    rows = jnp.zeros((len(multipliers), *forces.shape[1:]), forces.dtype)
    rows = rows if changed.drift is None else rows + changed.drift
    if changed.coefficients is not None:
        forces = forces + products(jnp.swapaxes(changed.coefficients, 0, 1), multipliers)
        rows = rows + products(changed.coefficients, dv)
    return forces, rows


def gradient_by_coefficients(
    dv: Array, multipliers: Array, of_forces: Array, of_rows: Array
) -> Float[Array, "m n_v *b"]:
    """That of the residual, with weights of forces and of rows."""
    return multipliers[:, None] * of_forces[None] + of_rows[:, None] * dv[None]


def _pull(tree: Tree, changing: tuple[bool, ...], inputs: Inputs, x: Array, cotangent: Array):
    (links, q, v, _, loads, _), (dv, multipliers) = inputs, _parts(tree, x)
    at = linearisation(tree, links, q, v, dv, inputs.varied(changing), local=True)
    weights = _solved(tree, articulated_factor(tree, links, at.kin, at.inertia), inputs, cotangent)
    of_forces, of_rows = _parts(tree, weights)
    by_links, by_q, by_v, by_loads = power_gradient(tree, links, at, loads, of_forces)
    by_J = gradient_by_coefficients(dv, multipliers, of_forces, of_rows)
    by_inputs = Inputs(by_links, by_q, by_v, -of_forces, by_loads, BindingRows(by_J, of_rows))
    return weights, jax.tree.leaves(by_inputs)


def _factor(tree: Tree, inputs: Inputs) -> Factor:
    kin = kinematics(tree, inputs.links, inputs.q, inputs.v, local=True)
    return articulated_factor(tree, inputs.links, kin, turned_inertias(inputs.links, kin))


def _solved(tree: Tree, factor: Factor, inputs: Inputs, rhs: Array) -> Array:
    """`(dv, mu)` of `M dv + J^T mu` and `J dv` that are the right-hand side."""
    forces, rows = _parts(tree, rhs)
    return _solver(tree, factor, inputs)(articulated_solve(tree, factor, forces), rows)


def _solver(tree: Tree, factor: Factor, inputs: Inputs) -> Callable[[Array, Array], Array]:
    """A function of the rates that there were without the rows, `M^-1 forces`, and of those that the rows shall have,
    for `(dv, mu)`."""
    J = inputs.closure.coefficients
    J = jnp.broadcast_to(J, (*J.shape[:2], inputs.v.shape[-1]))
    response = articulated_solve(tree, factor, jnp.swapaxes(J, 0, 1))
    inverse = definite_solver_of_many(products(J, response))

    def solve(a: Array, rates: Array) -> Array:
        multipliers = inverse(products(J, a) - rates)
        return jnp.concatenate([a - products(response, multipliers), multipliers])

    return solve


def _parts(tree: Tree, x: Array) -> tuple[Array, Array]:
    """What belongs to velocities, and to rows."""
    return x[: tree.n_velocities], x[tree.n_velocities :]
