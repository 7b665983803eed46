"""Values that are defined by equations, `residual(inputs, x) = 0`, with derivatives by rule in every mode and order.

The derivative solves the linear system `d residual = 0` for the change of `x`, at the solution: how the solution was
found is never differentiated. See `docs/derivations/implicit.md`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float

from jmbs.arrays import SAVED_FOR_BACKWARD, changing_zero
from jmbs.jaxext import deferred, kept_rule
from jmbs.rigid_body.adjoint import along_tangents
from jmbs.rigid_body.batches import Batchable, Changes, Inputs, Vectors
from jmbs.rigid_body.topology import Tree


@dataclasses.dataclass(frozen=True, eq=False)
class Equations:
    """Equations of a tree's motion for a vector `x`. All but the residual take arrays with a batch axis, see
    `Batchable`.

    **Arguments:**

    - `residual(inputs, x)`: what shall vanish; JAX differentiates it.
    - `value(inputs)`: the solution `x`.
    - `solve(inputs, x, rhs)`: the change of `x` that makes the residual change by `rhs`.
    - `pull(changing, inputs, x, cotangent)`: weights of the residual, by the transposed of `solve`, and the
      gradient of the weighted residual by the inputs' leaves (anything where these are not `changing`).
    - `push(inputs, x, rhs, changes)`: the change of `x` that makes the residual change by `rhs` where the inputs
      change too, elements along their tangents; None: by differentiating the residual, then `solve`.
    - `value_and_change(inputs, changes)`: `value`, and `push` of no `rhs`, with one factorisation; None: apart.
    """

    tree: Tree
    residual: Callable[[Inputs, Array], Array]
    value: Callable[[Inputs], Array]
    solve: Callable[[Inputs, Array, Array], Array]
    pull: Callable[[tuple[bool, ...], Inputs, Array, Array], tuple[Array, list[Array]]]
    push: Callable[[Inputs, Array, Array, Changes], Array] | None = None
    value_and_change: Callable[[Inputs, Changes], tuple[Array, Array]] | None = None


def solution(
    equations: Equations, inputs: Inputs, size: int, saved: bool = True, forward_only: bool = False
) -> Float[Array, " size"]:
    """The solution `x`.

    **Arguments:** `saved`: reverse mode keeps it, see `SAVED_FOR_BACKWARD`; `forward_only`: derivatives are taken in
    forward mode only, so that value and change may be computed together.
    """
    leaves, structure = jax.tree.flatten(inputs)
    value = Batchable(lambda inputs, _, __: ((equations.value(inputs),), ()), (), (size,))

    def function(*leaves: Array) -> Vectors:
        return value(structure.unflatten(leaves), (), ())[0]

    def rule(leaves: tuple[Array, ...], changes: Changes) -> tuple[Vectors, Vectors]:
        inputs = structure.unflatten(leaves)
        if forward_only and equations.value_and_change is not None:
            x, dx = _together(equations, inputs, size, changes)
        else:
            x, dx = _apart(equations, inputs, size, changes, saved)
        return (x,), (dx,)

    (found,) = kept_rule(function, rule, (jax.ShapeDtypeStruct((size,), jnp.result_type(*leaves)),))(*leaves)
    return checkpoint_name(found, SAVED_FOR_BACKWARD) if saved else found


def _apart(equations: Equations, inputs: Inputs, size: int, changes: Changes, saved: bool = True) -> Vectors:
    """The solution and how it changes with the inputs."""
    x = solution(equations, inputs, size, saved)
    return x, _rate_of_solution(equations, inputs, x, changes)


def _together(equations: Equations, inputs: Inputs, size: int, changes: Changes) -> Vectors:
    """The same in one function; its derivative is that of the two apart."""
    assert equations.value_and_change is not None
    of_both = equations.value_and_change
    leaves, structure = jax.tree.flatten(inputs)
    changing = tuple(change is not None for change in changes)

    def evaluated(inputs: Inputs, _, changes: Changes) -> tuple[Vectors, Changes]:
        return of_both(inputs, changes_along_tangents(equations.tree, inputs, changes)), ()

    both = Batchable(evaluated, changing, (size, size))

    def parts(given: tuple[Array, ...]) -> tuple[Inputs, Changes]:
        rest = iter(given[len(leaves) :])
        return structure.unflatten(given[: len(leaves)]), tuple(next(rest) if c else None for c in changing)

    def apart(*given: Array) -> Vectors:
        inputs, changes = parts(given)
        return _apart(equations, inputs, size, changes)

    def function(*given: Array) -> Vectors:
        inputs, changes = parts(given)
        return both(inputs, (), changes)[0]

    def rule(given: tuple[Array, ...], tangents: Changes) -> tuple[Vectors, Vectors]:
        along = tuple(jnp.zeros_like(x) if dx is None else dx for x, dx in zip(given, tangents, strict=True))
        return jax.jvp(apart, given, along)

    given = (*leaves, *(change for change in changes if change is not None))
    value = jax.ShapeDtypeStruct((size,), jnp.result_type(*leaves))
    return kept_rule(function, rule, (value, value))(*given)


def _with(inputs: Inputs, which: list[int], changed: list[Array]) -> Inputs:
    """The inputs with some leaves exchanged."""
    leaves, structure = jax.tree.flatten(inputs)
    for k, leaf in zip(which, changed, strict=True):
        leaves[k] = leaf
    return structure.unflatten(leaves)


def _rate_of_solution(equations: Equations, inputs: Inputs, x: Array, changes: Changes) -> Array:
    """How `x` changes with the inputs.

    It solves the linear system also for the inputs' changes, so that these are its right-hand side. JAX differentiates,
    transposes and batches linear systems; how this one and its transpose are solved is said here.
    """
    changing = tuple(change is not None for change in changes)
    if not any(changing):
        return jnp.zeros_like(x)
    # JAX transposes a linear system only if its whole right-hand side is linear in what changes.
    nothing = jnp.broadcast_to(changing_zero(changes, x.dtype), x.shape)
    known, structure = jax.tree.flatten((inputs, x))

    def rate(known, unknown):
        inputs, x = structure.unflatten(known)
        rates, *given = unknown
        given = iter(given)
        changes = tuple(next(given) if wanted else None for wanted in changing)
        return (_residual_rate(equations, inputs, x, changes, rates),)

    def system(unknown):
        rates, changes = unknown
        given = tuple(change for change in changes if change is not None)
        (total,) = deferred(rate, tuple(known), (rates, *given), (jax.ShapeDtypeStruct(x.shape, x.dtype),))
        return total, changes

    def solve(_, given):
        rhs, changes = given
        solved = Batchable(functools.partial(_solved, equations), changing, (len(x),))
        return solved(inputs, (x, rhs), changes)[0][0], changes

    def solve_transposed(_, given):
        cotangent, others = given
        solved = Batchable(functools.partial(_solved_transposed, equations, changing), changing, (len(x),), True)
        (weights,), derivatives = solved(inputs, (x, cotangent), ())
        return weights, jax.tree.map(jnp.add, others, derivatives)

    return jax.lax.custom_linear_solve(system, (nothing, changes), solve, solve_transposed)[0]


def _residual_rate(equations: Equations, inputs: Inputs, x: Array, changes: Changes, rates: Array | None) -> Array:
    """How the residual changes with the inputs and, if given, the `rates` of `x`.

    Elements change along their tangents only: so do derivatives backwards, and this is what JAX differentiates again.
    """
    leaves, along = jax.tree.leaves(inputs), changes_along_tangents(equations.tree, inputs, changes)
    which = [k for k, change in enumerate(changes) if change is not None]

    def residual(changed: list[Array], x: Array) -> Array:
        return equations.residual(_with(inputs, which, changed), x)

    at = [leaves[k] for k in which]
    along = [change for change in along if change is not None]
    if rates is None:
        return jax.jvp(lambda changed: residual(changed, x), (at,), (along,))[1]
    return jax.jvp(residual, (at, x), (along, rates))[1]


def changes_along_tangents(tree: Tree, inputs: Inputs, changes: Changes) -> Changes:
    """The changes, of elements their tangent parts."""
    leaves = jax.tree.leaves(inputs)
    spaces = dict(enumerate((g.space for g in tree.groups), len(jax.tree.leaves(inputs.links))))
    return tuple(
        along_tangents(spaces[k], leaves[k], change) if change is not None and k in spaces else change
        for k, change in enumerate(changes)
    )


def _solved(equations: Equations, inputs: Inputs, vectors, changes: Changes) -> tuple[Vectors, Changes]:
    """The change of `x` that makes the residual change by the right-hand side."""
    x, rhs = _of_all(inputs, vectors)
    if equations.push is not None:
        return (equations.push(inputs, x, rhs, changes_along_tangents(equations.tree, inputs, changes)),), ()
    return (equations.solve(inputs, x, rhs - _residual_rate(equations, inputs, x, changes, None)),), ()


def _solved_transposed(
    equations: Equations, changing: tuple[bool, ...], inputs: Inputs, vectors, _
) -> tuple[Vectors, Changes]:
    """The residual's multipliers, and what the inputs' changes do through them."""
    weights, derivatives = equations.pull(changing, inputs, *_of_all(inputs, vectors))
    return (weights,), tuple(-d if wanted else None for wanted, d in zip(changing, derivatives, strict=True))


def _of_all(inputs: Inputs, vectors: Vectors) -> Vectors:
    """Vectors of each member: those that all share come with a batch axis of size one."""
    return tuple(jnp.broadcast_to(x, (*x.shape[:-1], inputs.v.shape[-1])) for x in vectors)
