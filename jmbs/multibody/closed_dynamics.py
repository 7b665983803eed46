"""Forward dynamics of trees with loops that joints close: accelerations and multipliers at once.

    M(q) dv + b(q, v) + J^T mu = forces,      d/dt (J v) = -drift,      J = W^T (first - second body's twist)

Derivatives are those of these equations at the solution, see `jmbs.multibody.implicit`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.by_value import by_value
from jmbs.linear import SparseRows, definite_solver_of_many, products
from jmbs.multibody.adjoint import linearisation, power_gradient, twists_of
from jmbs.multibody.articulated import articulated_factor, articulated_solve
from jmbs.multibody.batches import Inputs
from jmbs.multibody.closing import (
    Closing,
    Loops,
    by_joint,
    closing_jacobian,
    drift,
    gaps,
    less_transmitted,
    rates_and_rows,
)
from jmbs.multibody.closing_adjoint import closing_gradient
from jmbs.multibody.implicit import Equations, solution
from jmbs.multibody.joints import Column, sum_of
from jmbs.multibody.kinematics import TreeMotion, kinematics
from jmbs.multibody.mass_matrix import body_wrenches, generalised_forces, less_loads, turned_inertias, wrenches_of
from jmbs.multibody.row_blocks import band_solver
from jmbs.multibody.row_plan import RowPlan
from jmbs.multibody.tree import Links, Tree
from jmbs.spatial import Symmetric, scale, symmetric_times

DENSE_ROWS = 24
"""Up to so many rows the systems of a batch are solved together, without regard to zeros in them."""


@by_value
@dataclasses.dataclass(frozen=True, eq=False)
class ClosedTree:
    """A `tree`, the joints that close `loops` in it, and how their rows are coupled."""

    tree: Tree
    loops: Loops
    rows: RowPlan

    @functools.cached_property
    def jacobian(self) -> SparseRows:
        """Which velocities each row sees: those that move one of the joint's bodies only."""
        ends = self.tree.moving(self.loops.bodies[self.loops.rows])
        return SparseRows.of(ends[:, 0] != ends[:, 1])

    @functools.cached_property
    def coloured(self) -> np.ndarray:
        """`(colours, n_v)`: the places of the entries of all rows of a colour."""
        places, colours = self.jacobian.places, self.rows.colours
        coloured = np.full((colours.max(initial=-1) + 1, self.jacobian.size), -1)
        row, column = np.nonzero(places >= 0)
        coloured[colours[row], column] = places[row, column]
        return coloured


class LoopInputs(NamedTuple):
    """**Arguments:** the parameters of the `joints` that close loops; `efforts` at their rates, given by others; and
    `drift`, an additional rate of the rows."""

    joints: Closing
    efforts: Float[Array, " rates"]
    drift: Float[Array, " m"]


def closed_dynamics(
    closed: ClosedTree,
    links: Links,
    q: tuple[Array, ...],
    v: Float[Array, " n_v"],
    forces: Float[Array, " n_v"],
    closure: LoopInputs,
    loads: Float[Array, "bodies 6"] | None = None,
) -> tuple[Float[Array, " n_v"], Float[Array, " m"]]:
    """Rates of the velocities, and multipliers of the rows; `q`, `v`, `forces`, `loads` as in `forward_dynamics`."""
    n_v, inputs = closed.tree.n_velocities, Inputs(links, q, v, forces, loads, closure)
    x = solution(_equations(closed, _residual, _value), inputs, n_v + len(closure.drift))
    return x[:n_v], x[n_v:]


def closing_impulse(
    closed: ClosedTree, links: Links, q: tuple[Array, ...], joints: Closing, rows: Float[Array, " m"]
) -> Float[Array, " n_v"]:
    """The change of velocities nearest in the mass metric that takes a violation of the rows away."""
    tree = closed.tree
    still = jnp.zeros(tree.n_velocities, rows.dtype)
    closure = LoopInputs(joints, jnp.zeros(len(closed.loops.rates), rows.dtype), rows)
    # Without motion and weight, the accelerations that annul a drift are those of an impulse.
    inputs = Inputs(links.weightless, q, still, still, None, closure)
    equations = _equations(closed, _impulse_residual, _impulse)
    return solution(equations, inputs, tree.n_velocities + len(rows))[: tree.n_velocities]


def _equations(closed: ClosedTree, residual: Callable, value: Callable) -> Equations:
    return Equations(
        closed.tree,
        functools.partial(residual, closed),
        functools.partial(value, closed),
        functools.partial(_solve, closed),
        functools.partial(_pull, closed),
    )


def _residual(closed: ClosedTree, inputs: Inputs, x: Array) -> Array:
    tree, (links, q, v, forces, _, closure) = closed.tree, inputs
    dv, multipliers = x[: tree.n_velocities], x[tree.n_velocities :]
    kin = kinematics(tree, links, q, v, dv, differentiable=True)
    joints = closure.joints.in_components()
    needed = _needed(closed, inputs, kin, joints, body_wrenches(links, kin), multipliers)
    rest = links.with_rotors(generalised_forces(tree, kin, needed), dv) - forces
    return jnp.concatenate([rest, _drift(closed, kin, joints, closure)])


def _impulse_residual(closed: ClosedTree, inputs: Inputs, x: Array) -> Array:
    """The same without motion, weight and forces: momenta of bodies that move with the impulse's velocities."""
    tree, (links, q, still, _, _, closure) = closed.tree, inputs
    # With the batch axis that all inputs have.
    v, multipliers = x[: tree.n_velocities] + jnp.zeros_like(still), x[tree.n_velocities :]
    kin = kinematics(tree, links, q, v, differentiable=True)
    bodies, joints, loops = kin.bodies, closure.joints.in_components(), closed.loops
    momenta = symmetric_times(turned_inertias(links, kin), bodies.spin), scale(links.mass, bodies.velocity)
    transmitted = by_joint(joints.normal, multipliers, loops.rows, len(loops.bodies))
    needed = less_transmitted(bodies, loops, joints, momenta, transmitted)
    rest = links.with_rotors(generalised_forces(tree, kin, needed), v)
    rows = rates_and_rows(gaps(bodies, loops, joints).twist, loops, joints)[1]
    return jnp.concatenate([rest, rows + closure.drift])


def _value(closed: ClosedTree, inputs: Inputs) -> Array:
    tree, (links, q, v, forces, _, closure) = closed.tree, inputs
    kin, joints = kinematics(tree, links, q, v), closure.joints.in_components()
    inertia = turned_inertias(links, kin)
    needed = _needed(closed, inputs, kin, joints, wrenches_of(links, kin, inertia), None)
    free = forces - generalised_forces(tree, kin, needed)
    rates = -_drift(closed, kin, joints, closure)
    return _solution(closed, links, kin, joints, inertia, free, rates)


def _impulse(closed: ClosedTree, inputs: Inputs) -> Array:
    """The same without motion, weight and forces."""
    links, q, v, _, _, closure = inputs
    kin, joints = kinematics(closed.tree, links, q, v), closure.joints.in_components()
    return _solution(closed, links, kin, joints, turned_inertias(links, kin), None, -closure.drift)


def _solve(closed: ClosedTree, inputs: Inputs, _: Array, rhs: Array) -> Array:
    n_v, links = closed.tree.n_velocities, inputs.links
    kin, joints = kinematics(closed.tree, links, inputs.q, inputs.v), inputs.closure.joints.in_components()
    return _solution(closed, links, kin, joints, turned_inertias(links, kin), rhs[:n_v], rhs[n_v:])


def _pull(closed: ClosedTree, changing: tuple[bool, ...], inputs: Inputs, x: Array, cotangent: Array):
    n_v, (links, q, v, _, loads, closure) = closed.tree.n_velocities, inputs
    dv, multipliers, joints = x[:n_v], x[n_v:], closure.joints.in_components()
    at = linearisation(closed.tree, links, q, v, dv, inputs.varied(changing), local=False)
    weights = _solution(closed, links, at.kin, joints, at.inertia, cotangent[:n_v], cotangent[n_v:])
    mu = twists_of(closed.tree, at, weights[:n_v])
    wrenches, by_joints, by_efforts = closing_gradient(
        at.kin.bodies, mu, closed.loops, joints, closure.efforts, multipliers, weights[n_v:]
    )
    by_links, by_q, by_v, by_loads = power_gradient(closed.tree, links, at, loads, weights[:n_v], mu, wrenches)
    by_closure = LoopInputs(by_joints.in_arrays(), by_efforts, weights[n_v:])
    return weights, jax.tree.leaves(Inputs(by_links, by_q, by_v, -weights[:n_v], by_loads, by_closure))


def _needed(
    closed: ClosedTree, inputs: Inputs, kin: TreeMotion, joints: Closing, wrenches: Column, multipliers: Array | None
) -> Column:
    """What bodies need beyond loads and what loop joints transmit, along tangents and, if given, by multipliers.

    **Arguments:** `wrenches` that their motion needs.
    """
    loops, n = closed.loops, len(closed.loops.bodies)
    transmitted = by_joint(joints.inverse, -inputs.closure.efforts, loops.rates, n)
    if multipliers is not None:
        transmitted = sum_of([transmitted, by_joint(joints.normal, multipliers, loops.rows, n)])
    return less_transmitted(kin.bodies, loops, joints, less_loads(kin, wrenches, inputs.loads), transmitted)


def _drift(closed: ClosedTree, kin: TreeMotion, joints: Closing, closure: LoopInputs) -> Array:
    """The rate of the rows, as fast as the velocities of `kin` change."""
    return drift(gaps(kin.bodies, closed.loops, joints), closed.loops, joints) + closure.drift


def _solution(
    closed: ClosedTree,
    links: Links,
    kin: TreeMotion,
    joints: Closing,
    inertia: Symmetric,
    forces: Array | None,
    rates: Array,
) -> Array:
    """`(a, mu)` with `M a + J^T mu = forces` (None: zero) and `J a = rates`, with a batch axis, last."""
    tree, rows, J = closed.tree, closed.rows, closed.jacobian
    entries = closing_jacobian(tree, kin, closed.loops, joints, J)
    factor = articulated_factor(tree, links, kin, inertia)
    columns = jnp.swapaxes(J.at(entries, closed.coloured), 0, 1)
    given = [] if forces is None else [forces[:, None]]
    response = articulated_solve(tree, factor, jnp.concatenate([*given, columns], axis=1))
    if forces is None:
        a, gap = jnp.zeros_like(response[:, 0]), -rates
    else:
        a, response = response[:, 0], response[:, 1:]
        gap = J.times(entries, a) - rates
    A = J.times(entries, response)
    if len(rows.blocks) == 1 and len(A) <= DENSE_ROWS:
        multipliers = definite_solver_of_many(A)(gap)
        return jnp.concatenate([a - products(response, multipliers), multipliers])
    multipliers = band_solver(rows, A)(gap)
    return jnp.concatenate([a - articulated_solve(tree, factor, J.transposed_times(entries, multipliers)), multipliers])
