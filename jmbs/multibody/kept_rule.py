"""Functions that keep their derivative rule through every transformation of JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array

Tangents = tuple[Array | None, ...]
"""One per argument, None where it does not change."""

Rule = Callable[[tuple[Array, ...], Tangents], tuple[Array, Array]]
"""`(arguments, tangents)` to the value and its tangent."""

_kept = Primitive("kept_rule")


def kept_rule(function: Callable[..., Array], rule: Rule, value: jax.ShapeDtypeStruct) -> Callable[..., Array]:
    """`function`, of arrays to one array, with `rule` as its derivative in every order, mode and batch.

    Unlike `jax.custom_jvp`, whose rule JAX forgets where it evaluates a part of a loop ahead of its derivative, so that
    second derivatives of a rollout differentiate the inside of `function`. And `function` is traced only as it is used
    in the end, so not alone where it is batched later.

    **Arguments:** `value`: shape and type of what `function` returns.
    """

    def bind(*arguments: Array) -> Array:
        return _kept.bind(*arguments, function=function, rule=rule, value=value)

    return bind


def _evaluate(*arguments: Array, function: Callable[..., Array], rule: Rule, value: jax.ShapeDtypeStruct) -> Array:
    return function(*arguments)


def _type(*_, function: Callable[..., Array], rule: Rule, value: jax.ShapeDtypeStruct) -> ShapedArray:
    return ShapedArray(value.shape, value.dtype)


def _differentiate(arguments: Sequence, tangents: Sequence, *, function: Callable[..., Array], rule: Rule, value: Any):
    return rule(tuple(arguments), tuple(None if isinstance(x, ad.Zero) else x for x in tangents))


def _batch(arguments: Sequence, axes: Sequence, *, function: Callable[..., Array], rule: Rule, value: Any):
    axes = tuple(axes)
    (size,) = {np.shape(x)[axis] for x, axis in zip(arguments, axes, strict=True) if axis is not None}

    def batched_rule(arguments: tuple[Array, ...], tangents: Tangents) -> tuple[Array, Array]:
        of_tangents = tuple(None if x is None else axis for x, axis in zip(tangents, axes, strict=True))
        return jax.vmap(rule, (axes, of_tangents), axis_size=size)(arguments, tangents)

    batched = jax.ShapeDtypeStruct((size, *value.shape), value.dtype)
    return kept_rule(jax.vmap(function, axes, axis_size=size), batched_rule, batched)(*arguments), 0


_kept.def_impl(_evaluate)
_kept.def_abstract_eval(_type)
ad.primitive_jvps[_kept] = _differentiate
batching.primitive_batchers[_kept] = _batch
mlir.register_lowering(_kept, mlir.lower_fun(_evaluate, multiple_results=False))
