"""Forward dynamics of trees with loops that joints close: accelerations and multipliers at once.

    M(q) dv + b(q, v) + J^T mu = forces,      d/dt (J v) = -drift,      J = W^T (first - second body's twist)

Rows of given coefficients, as gears have them (`bound_dynamics.py`), may come before those of the joints.

Derivatives are those of these equations at the solution, see `jmbs.rigid_body.implicit`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.arrays import largest
from jmbs.by_value import by_value
from jmbs.constraints.bound_dynamics import BindingRows, gradient_by_coefficients, with_changed_rows
from jmbs.constraints.loop_adjoint import loop_gradient
from jmbs.constraints.loop_joints import (
    LoopJoints,
    Loops,
    drift,
    gaps,
    less_transmitted,
    loop_jacobian,
    rates_and_rows,
    transmitted_by,
)
from jmbs.constraints.loop_tangents import loop_change
from jmbs.constraints.row_blocks import band_solver
from jmbs.constraints.row_plan import RowPlan
from jmbs.linear import SparseRows, definite_solver_of_many, nearly_vanish, products, without_rounding
from jmbs.rigid_body import (
    Changes,
    Column,
    Equations,
    Factor,
    Inputs,
    Links,
    ResidualChange,
    Tree,
    TreeMotion,
    articulated_factor,
    articulated_solve,
    body_wrenches,
    forces_change,
    generalised_forces,
    kinematics,
    less_loads,
    linearisation,
    momenta_change,
    motion_change,
    power_gradient,
    solution,
    turned_inertias,
    twists_of,
    velocity_change,
    wrenches_of,
)
from jmbs.spatial import Symmetric, scale, symmetric_times

DENSE_ROWS = 24
"""Up to so many rows the systems of a batch are solved together, without regard to zeros in them."""


@by_value
@dataclasses.dataclass(frozen=True, eq=False)
class ConstrainedTree:
    """A `tree`, the joints that close `loops` in it, and how all rows are coupled, those of gears before theirs."""

    tree: Tree
    loops: Loops
    rows: RowPlan

    @functools.cached_property
    def jacobian(self) -> SparseRows:
        """Which velocities each row sees: of a loop joint those that move one of its bodies only."""
        ends = self.tree.moving(self.loops.bodies[self.loops.rows])
        return SparseRows.of(np.concatenate([self.rows.general, ends[:, 0] != ends[:, 1]]))

    def jacobian_at(self, coefficients: Array | None, of_loops: Callable[[SparseRows], Array]) -> Array:
        """The entries of all rows: of those that `coefficients` (g, n_v) give, and what loops have at some places."""
        J, g = self.jacobian, len(self.rows.general)
        entries = of_loops(SparseRows(J.columns[g:], J.size))
        if coefficients is None:
            return entries
        every = SparseRows.of(np.ones((g, J.size), dtype=bool))
        at = np.where(J.columns[:g] >= 0, J.columns[:g] + J.size * np.arange(g)[:, None], -1)
        own = every.at(coefficients, at)
        return jnp.concatenate([jnp.broadcast_to(own, (*own.shape[:2], *entries.shape[2:])), entries])

    def split(self, rows: Array) -> tuple[Array | None, Array]:
        """What belongs to rows of given coefficients, None without any, and to loops."""
        g = len(self.rows.general)
        return (rows[:g], rows[g:]) if g else (None, rows)

    @functools.cached_property
    def coloured(self) -> np.ndarray:
        """`(colours, n_v)`: the places of the entries of all rows of a colour."""
        places, colours = self.jacobian.places, self.rows.colours
        coloured = np.full((colours.max(initial=-1) + 1, self.jacobian.size), -1)
        row, column = np.nonzero(places >= 0)
        coloured[colours[row], column] = places[row, column]
        return coloured


class LoopInputs(NamedTuple):
    """**Arguments:** the parameters of the `joints` that close loops; `efforts` at their rates, given by others;
    `drift`, an additional rate of all rows; the `coefficients` of those that gears have, None without any."""

    joints: LoopJoints
    efforts: Float[Array, " rates"]
    drift: Float[Array, " m"]
    coefficients: Float[Array, "g n_v"] | None = None


def constrained_dynamics(
    constrained: ConstrainedTree,
    links: Links,
    q: tuple[Array, ...],
    v: Float[Array, " n_v"],
    forces: Float[Array, " n_v"],
    closure: LoopInputs,
    loads: Float[Array, "bodies 6"] | None = None,
    forward_only: bool = False,
) -> tuple[Float[Array, " n_v"], Float[Array, " m"]]:
    """Rates of the velocities, and multipliers of the rows; all but `closure` as in `forward_dynamics`."""
    n_v, inputs = constrained.tree.n_velocities, Inputs(links, q, v, forces, loads, closure)
    equations = _equations(constrained, rates_residual, _system, rates_residual_change)
    x = solution(equations, inputs, n_v + len(closure.drift), forward_only=forward_only)
    return x[:n_v], x[n_v:]


def loop_impulse(
    constrained: ConstrainedTree,
    links: Links,
    q: tuple[Array, ...],
    joints: LoopJoints,
    rows: Float[Array, " m"],
    coefficients: Float[Array, "g n_v"] | None = None,
    forward_only: bool = False,
) -> Float[Array, " n_v"]:
    """The change of velocities nearest in the mass metric that takes a violation of the rows away; `coefficients` as in
    `LoopInputs`, `forward_only` as in `forward_dynamics`."""
    tree = constrained.tree
    still = jnp.zeros(tree.n_velocities, rows.dtype)
    closure = LoopInputs(joints, jnp.zeros(len(constrained.loops.rates), rows.dtype), rows, coefficients)
    # Without motion and weight, the accelerations that annul a drift are those of an impulse.
    inputs = Inputs(links.weightless, q, still, still, None, closure)
    equations = _equations(constrained, impulse_residual, _impulse_system, impulse_residual_change)
    return solution(equations, inputs, tree.n_velocities + len(rows), forward_only=forward_only)[: tree.n_velocities]


def _equations(
    constrained: ConstrainedTree, residual: Callable, system: Callable, residual_change: Callable
) -> Equations:
    return Equations(
        constrained.tree,
        functools.partial(residual, constrained),
        functools.partial(_value, constrained, system),
        functools.partial(_solve, constrained),
        functools.partial(_pull, constrained),
        functools.partial(_push, constrained, residual_change),
        functools.partial(_value_and_change, constrained, system, residual_change),
    )


def rates_residual(constrained: ConstrainedTree, inputs: Inputs, x: Array) -> Array:
    """What rates and multipliers `x` leave of the equations."""
    tree, (links, q, v, forces, _, closure) = constrained.tree, inputs
    dv, multipliers = x[: tree.n_velocities], x[tree.n_velocities :]
    kin = kinematics(tree, links, q, v, dv, differentiable=True)
    joints = closure.joints.in_components()
    of_gears, of_loops = constrained.split(multipliers)
    needed = _needed(constrained, inputs, kin, joints, body_wrenches(links, kin), of_loops)
    rest = _with_gear_forces(closure, links.with_rotors(generalised_forces(tree, kin, needed), dv) - forces, of_gears)
    return jnp.concatenate([rest, _drift(constrained, kin, joints, closure, dv)])


def impulse_residual(constrained: ConstrainedTree, inputs: Inputs, x: Array) -> Array:
    """The same without motion, weight and forces: momenta of bodies that move with the impulse's velocities."""
    tree, (links, q, still, _, _, closure) = constrained.tree, inputs
    # With the batch axis that all inputs have.
    v, multipliers = x[: tree.n_velocities] + jnp.zeros_like(still), x[tree.n_velocities :]
    kin = kinematics(tree, links, q, v, differentiable=True)
    bodies, joints, loops = kin.bodies, closure.joints.in_components(), constrained.loops
    momenta = symmetric_times(turned_inertias(links, kin), bodies.spin), scale(links.mass, bodies.velocity)
    of_gears, of_loops = constrained.split(multipliers)
    transmitted = transmitted_by(loops, joints, None, of_loops)
    needed = less_transmitted(bodies, loops, joints, momenta, transmitted)
    rest = _with_gear_forces(closure, links.with_rotors(generalised_forces(tree, kin, needed), v), of_gears)
    rows = rates_and_rows(gaps(bodies, loops, joints).twist, loops, joints)[1]
    return jnp.concatenate([rest, _with_gear_rows(closure, rows, v) + closure.drift])


def _with_gear_forces(closure: LoopInputs, forces: Array, multipliers: Array | None) -> Array:
    """Forces with those that the multipliers of gears take."""
    if closure.coefficients is None:
        return forces
    assert multipliers is not None
    return forces + products(jnp.swapaxes(closure.coefficients, 0, 1), multipliers)


def _with_gear_rows(closure: LoopInputs, of_loops: Array, v: Array | None) -> Array:
    """The rows, at velocities `v` or at rates of these; None: zero."""
    if closure.coefficients is None:
        return of_loops
    nothing = jnp.zeros((len(closure.coefficients), *of_loops.shape[1:]), of_loops.dtype)
    return jnp.concatenate([nothing if v is None else products(closure.coefficients, v) + nothing, of_loops])


class LoopSystem(NamedTuple):
    """`M a + J^T mu = forces` (None: zero) and `J a = rates` at a motion `kin`, with the bodies' `inertia` in world
    axes; `coefficients` as in `LoopInputs`."""

    links: Links
    kin: TreeMotion
    joints: LoopJoints
    coefficients: Array | None
    inertia: Symmetric
    forces: Array | None
    rates: Array


def _value(constrained: ConstrainedTree, system: Callable, inputs: Inputs) -> Array:
    return _solution(constrained, system(constrained, inputs))


def _value_and_change(
    constrained: ConstrainedTree, system: Callable, residual_change: Callable, inputs: Inputs, changes: Changes
) -> tuple[Array, Array]:
    given = system(constrained, inputs)
    factorised, a = _factorised(constrained, given)
    x = _constrained(constrained, factorised, a, given.rates)
    rest = -residual_change(constrained, inputs, x, changes)[0]
    n_v = constrained.tree.n_velocities
    a = articulated_solve(constrained.tree, factorised.factor, rest[:n_v])
    return x, _constrained(constrained, factorised, a, rest[n_v:])


def _system(constrained: ConstrainedTree, inputs: Inputs) -> LoopSystem:
    tree, (links, q, v, forces, _, closure) = constrained.tree, inputs
    kin, joints = kinematics(tree, links, q, v), closure.joints.in_components()
    inertia = turned_inertias(links, kin)
    needed = _needed(constrained, inputs, kin, joints, wrenches_of(links, kin, inertia), None)
    free = forces - generalised_forces(tree, kin, needed)
    rates = -_drift(constrained, kin, joints, closure, None)
    return LoopSystem(links, kin, joints, closure.coefficients, inertia, free, rates)


def _impulse_system(constrained: ConstrainedTree, inputs: Inputs) -> LoopSystem:
    """The same without motion, weight and forces."""
    links, q, v, _, _, closure = inputs
    kin, joints = kinematics(constrained.tree, links, q, v), closure.joints.in_components()
    return LoopSystem(links, kin, joints, closure.coefficients, turned_inertias(links, kin), None, -closure.drift)


def _solve(constrained: ConstrainedTree, inputs: Inputs, _: Array, rhs: Array) -> Array:
    n_v, links, closure = constrained.tree.n_velocities, inputs.links, inputs.closure
    kin, joints = kinematics(constrained.tree, links, inputs.q, inputs.v), closure.joints.in_components()
    inertia = turned_inertias(links, kin)
    return _solution(constrained, LoopSystem(links, kin, joints, closure.coefficients, inertia, rhs[:n_v], rhs[n_v:]))


def _pull(constrained: ConstrainedTree, changing: tuple[bool, ...], inputs: Inputs, x: Array, cotangent: Array):
    n_v, (links, q, v, _, loads, closure) = constrained.tree.n_velocities, inputs
    dv, multipliers, joints = x[:n_v], x[n_v:], closure.joints.in_components()
    at = linearisation(constrained.tree, links, q, v, dv, inputs.varied(changing), local=False)
    coefficients = closure.coefficients
    system = LoopSystem(links, at.kin, joints, coefficients, at.inertia, cotangent[:n_v], cotangent[n_v:])
    weights = _solution(constrained, system)
    mu = twists_of(constrained.tree, at, weights[:n_v])
    (of_gears, of_loops), (gear_weights, loop_weights) = map(constrained.split, (multipliers, weights[n_v:]))
    wrenches, by_joints, by_efforts = loop_gradient(
        at.kin.bodies, mu, constrained.loops, joints, closure.efforts, of_loops, loop_weights
    )
    by_links, by_q, by_v, by_loads = power_gradient(constrained.tree, links, at, loads, weights[:n_v], mu, wrenches)
    by_coefficients = None
    if coefficients is not None:
        assert of_gears is not None and gear_weights is not None
        by_coefficients = gradient_by_coefficients(dv, of_gears, weights[:n_v], gear_weights)
    by_closure = LoopInputs(by_joints.in_arrays(), by_efforts, weights[n_v:], by_coefficients)
    return weights, jax.tree.leaves(Inputs(by_links, by_q, by_v, -weights[:n_v], by_loads, by_closure))


def rates_residual_change(constrained: ConstrainedTree, inputs: Inputs, x: Array, changes: Changes) -> ResidualChange:
    """See `ResidualChange`: where rates and multipliers `x` are held."""
    tree, closure, (given, gears) = constrained.tree, inputs.closure, _given(constrained, inputs, changes)
    dv, (of_gears, of_loops) = x[: tree.n_velocities], constrained.split(x[tree.n_velocities :])
    change = motion_change(tree, inputs, dv, changes, local=False)
    joints = closure.joints.in_components()
    at_loops = loop_change(change, constrained.loops, joints, closure.efforts, of_loops, given)
    forces, inertia = forces_change(tree, inputs, dv, changes, change, at_loops.wrenches)
    return _with_gear_changes(gears, forces, at_loops.rows, dv, of_gears), change.kin, inertia


def impulse_residual_change(constrained: ConstrainedTree, inputs: Inputs, x: Array, changes: Changes) -> ResidualChange:
    """The same without motion, weight and forces."""
    tree, (given, gears) = constrained.tree, _given(constrained, inputs, changes)
    v, (of_gears, of_loops) = x[: tree.n_velocities], constrained.split(x[tree.n_velocities :])
    change = velocity_change(tree, inputs, v, changes)
    joints = inputs.closure.joints.in_components()
    at_loops = loop_change(change, constrained.loops, joints, None, of_loops, given)
    momenta, inertia = momenta_change(tree, inputs, v, changes, change, at_loops.wrenches)
    return _with_gear_changes(gears, momenta, at_loops.rows, v, of_gears), change.kin, inertia


def _given(constrained: ConstrainedTree, inputs: Inputs, changes: Changes) -> tuple[LoopInputs, BindingRows]:
    """The changes of what concerns the loops, and the gears."""
    given = jax.tree.structure(inputs).unflatten(changes).closure
    of_gears: Any = None
    of_loops: Any = None
    if given.drift is not None:
        of_gears, of_loops = constrained.split(given.drift)
    return given._replace(drift=of_loops), BindingRows(given.coefficients, of_gears)


def _with_gear_changes(
    gears: BindingRows, forces: Array, of_loops: Array, v: Array, multipliers: Array | None
) -> Array:
    """The change of the residual, from that of forces and of the loops' rows."""
    if multipliers is None:
        return jnp.concatenate([forces, of_loops])
    return jnp.concatenate([*with_changed_rows(gears, forces, v, multipliers), of_loops])


def _push(
    constrained: ConstrainedTree, residual_change: Callable, inputs: Inputs, x: Array, rhs: Array, changes: Changes
) -> Array:
    n_v, closure = constrained.tree.n_velocities, inputs.closure
    change, kin, inertia = residual_change(constrained, inputs, x, changes)
    rest, joints = rhs - change, closure.joints.in_components()
    system = LoopSystem(inputs.links, kin, joints, closure.coefficients, inertia, rest[:n_v], rest[n_v:])
    return _solution(constrained, system)


def _needed(
    constrained: ConstrainedTree,
    inputs: Inputs,
    kin: TreeMotion,
    joints: LoopJoints,
    wrenches: Column,
    multipliers: Array | None,
) -> Column:
    """What bodies need beyond loads and what loop joints transmit, along tangents and, if given, by multipliers.

    **Arguments:** `wrenches` that their motion needs.
    """
    loops = constrained.loops
    transmitted = transmitted_by(loops, joints, inputs.closure.efforts, multipliers)
    return less_transmitted(kin.bodies, loops, joints, less_loads(kin, wrenches, inputs.loads), transmitted)


def _drift(
    constrained: ConstrainedTree, kin: TreeMotion, joints: LoopJoints, closure: LoopInputs, dv: Array | None
) -> Array:
    """The rate of the rows, as fast as the velocities of `kin` change, by `dv`; None: not at all."""
    of_loops = drift(gaps(kin.bodies, constrained.loops, joints), constrained.loops, joints)
    return _with_gear_rows(closure, of_loops, dv) + closure.drift


def _solution(constrained: ConstrainedTree, system: LoopSystem) -> Array:
    """`(a, mu)` of the system, with a batch axis, last."""
    factorised, a = _factorised(constrained, system)
    return _constrained(constrained, factorised, a, system.rates)


class Factorised(NamedTuple):
    """A tree with loops, ready to be solved: the `factor` of the mass matrix; `entries` of `J`; what velocities the
    rows' multipliers change, `response`, in columns; a function of rates of the rows for `multipliers`."""

    factor: Factor
    entries: Array
    response: Array
    multipliers: Callable[[Array], Array]


def _factorised(constrained: ConstrainedTree, system: LoopSystem) -> tuple[Factorised, Array | None]:
    """See `Factorised`; and the velocities' rates under forces alone, `M^-1 forces`."""
    links, kin, joints, coefficients, inertia, forces, _ = system
    tree, rows, J = constrained.tree, constrained.rows, constrained.jacobian
    of_loops = functools.partial(loop_jacobian, tree, kin, constrained.loops, joints)
    # Rows are formed about the world's origin.
    reach = largest(jnp.concatenate([jnp.abs(x) for x in kin.bodies.position]))
    entries = without_rounding(constrained.jacobian_at(coefficients, of_loops), 1.0 + reach)
    vanishing = nearly_vanish(entries, 1.0 + reach)
    factor = articulated_factor(tree, links, kin, inertia)
    columns = jnp.swapaxes(J.at(entries, constrained.coloured), 0, 1)
    given = [] if forces is None else [forces[:, None]]
    response = articulated_solve(tree, factor, jnp.concatenate([*given, columns], axis=1))
    a, response = (None, response) if forces is None else (response[:, 0], response[:, 1:])
    A = J.times(entries, response)
    solve_with = definite_solver_of_many if _is_dense(constrained) else functools.partial(band_solver, rows)
    solver = solve_with(A, vanishing)
    return Factorised(factor, entries, response, solver), a


def _is_dense(constrained: ConstrainedTree) -> bool:
    rows = constrained.rows
    return len(rows.blocks) == 1 and len(rows.pattern) <= DENSE_ROWS


def _constrained(constrained: ConstrainedTree, factorised: Factorised, a: Array | None, rates: Array) -> Array:
    """`(a, mu)`, by the rates `a` that there were without the rows; None: zero."""
    factor, entries, response, solver = factorised
    J = constrained.jacobian
    if a is None:
        a, gap = jnp.zeros_like(response[:, 0]), -rates
    else:
        gap = J.times(entries, a) - rates
    multipliers = solver(gap)
    if _is_dense(constrained):
        return jnp.concatenate([a - products(response, multipliers), multipliers])
    back = articulated_solve(constrained.tree, factor, J.transposed_times(entries, multipliers))
    return jnp.concatenate([a - back, multipliers])
