"""Functions of single elements that also take many, whose axes come last: in batches every operation runs along them.

`jax.vmap` leaves it to each operation where the batch axis goes; beside axes of length three, a loop over a first one
is several times slower.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array

from jmbs.arrays import batch_size, types_of_values
from jmbs.jaxext.along_last import OPENED
from jmbs.jaxext.kernels import one_kernel
from jmbs.jaxext.switches import is_off

_many = Primitive("of_many")
_many.multiple_results = True


def along_batches(function: Callable[..., Sequence[Array]], *arrays: Array) -> list[Array]:
    """`function(*arrays)`, in batches with their axes last; reverse mode keeps nothing but the arrays.

    **Arguments:** `function`: its arrays may have further axes at their end, all the same, and so have its values then.
    """
    if is_off("along_batches"):
        return list(function(*arrays))
    return _bound(lambda *arrays: tuple(function(*arrays)), arrays)


def of_members(function: Callable[..., Array], *arrays: Array, more: int = 0) -> Array:
    """What a method of a group gives for many members: all arrays have these first, `more` axes last."""
    if is_off("along_batches"):
        return jax.vmap(function)(*arrays)
    rank = lambda x: x.ndim - 1 - more  # noqa: E731
    values = function(*(jnp.moveaxis(x, 0, rank(x)) for x in arrays))
    return jnp.moveaxis(values, rank(values), 0)


def _bound(function: Callable[..., Sequence[Array]], arrays: Sequence, linear: int = 0) -> list[Array]:
    """Values of the function, which is linear in the last so many arrays."""
    return _many.bind(*arrays, function=function, linear=linear)


def _evaluate(*arrays: Array, function: Callable, linear: int) -> Sequence[Array]:
    return function(*arrays)


def _compute(*arrays: Array, function: Callable, linear: int) -> Sequence[Array]:
    return one_kernel(function, *arrays)


def _types(*arrays: ShapedArray, function: Callable, linear: int) -> list[ShapedArray]:
    return types_of_values(function, arrays)


def _differentiate(arrays: Sequence, tangents: Sequence, *, function: Callable, linear: int):
    changing = [i for i, tangent in enumerate(tangents) if not isinstance(tangent, ad.Zero)]

    def change(*arrays: Array) -> Sequence[Array]:
        at, along = arrays[: len(tangents)], arrays[len(tangents) :]

        def of_changing(*changed: Array) -> Sequence[Array]:
            given = dict(zip(changing, changed, strict=True))
            return function(*(given.get(i, x) for i, x in enumerate(at)))

        return jax.jvp(of_changing, tuple(at[i] for i in changing), along)[1]

    along = [tangents[i] for i in changing]
    return _bound(function, arrays, linear), _bound(change, [*arrays, *along], len(along))


def _transpose(cotangents: Sequence, *arrays, function: Callable, linear: int) -> list:
    n, rank = len(arrays) - linear, cotangents[0].aval.ndim

    def transposed(*known: Array) -> Sequence[Array]:
        at, weights = known[:n], known[n:]
        more = weights[0].shape[rank:]
        shapes = (jax.ShapeDtypeStruct((*x.aval.shape, *more), x.aval.dtype) for x in arrays[n:])
        return jax.linear_transpose(lambda *along: function(*at, *along), *shapes)(weights)

    weights = [ad.instantiate_zeros(c) for c in cotangents]
    return [None] * n + list(_bound(transposed, [*arrays[:n], *weights], len(weights)))


def _batch(arrays: Sequence, axes: Sequence, *, function: Callable, linear: int):
    size = batch_size(arrays, axes)
    last = [
        jnp.broadcast_to(x[..., None], (*x.shape, size)) if axis is None else jnp.moveaxis(x, axis, -1)
        for x, axis in zip(arrays, axes, strict=True)
    ]
    values = _bound(function, last, linear)
    return values, [value.ndim - 1 for value in values]


OPENED.add(_many)
_many.def_impl(_evaluate)
_many.def_abstract_eval(_types)
ad.primitive_jvps[_many] = _differentiate
ad.primitive_transposes[_many] = _transpose
batching.primitive_batchers[_many] = _batch
mlir.register_lowering(_many, mlir.lower_fun(_compute, multiple_results=True))
