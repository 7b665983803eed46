"""Linear functions that are traced only where something comes of them: where a program is lowered or differentiated.

`jax.lax.custom_linear_solve` takes the system that it solves as a function and transposes it at once, though the way to
solve it and its transpose is given too. A system from which second derivatives alone are made should cost first ones
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array

from jmbs.arrays import batch_size
from jmbs.jaxext.along_last import OPENED
from jmbs.jaxext.switches import is_off

Arrays = tuple[Array, ...]
Linear = Callable[[Arrays, Arrays], Arrays]
"""`(known, arguments)` to values that are linear in the arguments."""
Shapes = tuple[jax.ShapeDtypeStruct, ...]

_deferred = Primitive("deferred")
_deferred.multiple_results = True


def deferred(function: Linear, known: Arrays, arguments: Arrays, values: Shapes) -> Arrays:
    """`function(known, arguments)`, whose results have the shapes and types of `values`; in every mode and order."""
    if is_off("deferred"):
        return tuple(function(known, arguments))
    return tuple(_deferred.bind(*known, *arguments, function=function, n=len(known), values=values))


def _evaluate(*inputs: Array, function: Linear, n: int, values: Shapes) -> Arrays:
    return function(inputs[:n], inputs[n:])


def _types(*_, function: Linear, n: int, values: Shapes) -> list[ShapedArray]:
    return [ShapedArray(value.shape, value.dtype) for value in values]


def _differentiate(inputs: Sequence, tangents: Sequence, *, function: Linear, n: int, values: Shapes):
    changing = [i for i, tangent in enumerate(tangents) if not isinstance(tangent, ad.Zero)]

    def of_changing(*changed: Array) -> Arrays:
        whole = list(inputs)
        for i, value in zip(changing, changed, strict=True):
            whole[i] = value
        return function(tuple(whole[:n]), tuple(whole[n:]))

    return jax.jvp(of_changing, [inputs[i] for i in changing], [tangents[i] for i in changing])


def _transpose(cotangents: Sequence, *inputs, function: Linear, n: int, values: Shapes) -> list:
    known, arguments = inputs[:n], inputs[n:]
    shapes = tuple(jax.ShapeDtypeStruct(a.aval.shape, a.aval.dtype) for a in arguments)

    def transposed(known: Arrays, cotangents: Arrays) -> Arrays:
        return jax.linear_transpose(lambda *arguments: function(known, arguments), *shapes)(cotangents)

    whole = tuple(ad.instantiate_zeros(c) for c in cotangents)
    return [None] * n + list(deferred(transposed, known, whole, shapes))


def _batch(inputs: Sequence, axes: Sequence, *, function: Linear, n: int, values: Shapes):
    size = batch_size(inputs, axes)
    batched = jax.vmap(function, (tuple(axes[:n]), tuple(axes[n:])), axis_size=size)
    shapes = tuple(jax.ShapeDtypeStruct((size, *value.shape), value.dtype) for value in values)
    return list(deferred(batched, tuple(inputs[:n]), tuple(inputs[n:]), shapes)), [0] * len(values)


OPENED.add(_deferred)
_deferred.def_impl(_evaluate)
_deferred.def_abstract_eval(_types)
ad.primitive_jvps[_deferred] = _differentiate
ad.primitive_transposes[_deferred] = _transpose
batching.primitive_batchers[_deferred] = _batch
mlir.register_lowering(_deferred, mlir.lower_fun(_evaluate, multiple_results=True))
