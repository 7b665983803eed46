"""Functions that may fail: a member of a batch whose values are not finite has a derivative of zero.

Where a value is NaN, so is its derivative, and what multiplies that by zero is NaN again: one failed member would make
the gradient of a whole batch NaN, although nobody uses its values.
"""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PyTree


def guarded(function: Callable[..., PyTree], *args: PyTree) -> tuple[PyTree, Bool[Array, ""]]:
    """`function(*args)`, and whether its values are all finite; where they are not its derivatives are zero.

    **Arguments:** pytrees, of whose floating arrays the function is differentiated; it must not hold others
    that are differentiated. Forward and reverse mode and `jax.vmap` apply.
    """
    return _guarded(args, function=function)


@eqx.filter_custom_jvp
def _guarded(args: tuple, *, function: Callable[..., PyTree]) -> tuple[PyTree, Array]:
    values = function(*args)
    return values, _finite(values)


@_guarded.def_jvp
def _derivative(primals: tuple, tangents: tuple, *, function: Callable[..., PyTree]) -> tuple[PyTree, PyTree]:
    (args,), (changes,) = primals, tangents
    leaves, structure = jax.tree.flatten(args)
    changes = structure.flatten_up_to(changes)
    changing = [i for i, change in enumerate(changes) if change is not None]

    def of_changing(*changed: Array) -> PyTree:
        given = dict(zip(changing, changed, strict=True))
        return function(*structure.unflatten(given.get(i, leaf) for i, leaf in enumerate(leaves)))

    values, linear = jax.linearize(of_changing, *(leaves[i] for i in changing))
    finite = _finite(values)
    # Masked on both sides of what may hold NaN: forward mode reads the one, reverse mode the other.
    change = linear(*(_where(finite, changes[i]) for i in changing))
    return (values, finite), (jax.tree.map(lambda dx: _where(finite, dx), change), None)


def _where(finite: Array, change: Array) -> Array:
    return change if change.dtype == jax.dtypes.float0 else jnp.where(finite, change, jnp.zeros_like(change))


def _finite(values: PyTree) -> Bool[Array, ""]:
    floating = [x for x in jax.tree.leaves(values) if jnp.issubdtype(x.dtype, jnp.inexact)]
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(x)) for x in floating]))
