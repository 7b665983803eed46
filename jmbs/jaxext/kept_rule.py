"""Functions that keep their derivative rule through every transformation of JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array

from jmbs.arrays import batch_size
from jmbs.jaxext.along_last import OPENED

Changes = tuple[Array | None, ...]
"""Changes of arrays, None where there is none."""
Rule = Callable[[tuple[Array, ...], Changes], tuple[Array, Array]]
"""`(arguments, tangents)` to the value and its tangent; tangents are None where arguments do not change."""

_kept = Primitive("kept_rule")


def kept_rule(function: Callable[..., Array], rule: Rule, value: jax.ShapeDtypeStruct) -> Callable[..., Array]:
    """`function` with `rule` as its derivative, in batches and loops, and in every mode and order that `rule` allows.

    `jax.custom_jvp` would not do: JAX forgets its rule where it evaluates part of a loop ahead, and second derivatives
    of a rollout would then go through the inside of `function`. Besides, `function` is traced only where the program is
    lowered, so not alone where it is batched later; JAX's settings are those of that moment.

    **Arguments:** `function`: of arrays, to one array; `rule`: see `Rule`; `value`: shape and type of the result.
    Neither explicit shardings nor `shard_map` with `check_vma` are supported.
    """

    def bind(*arguments: Array) -> Array:
        return _kept.bind(*arguments, function=function, rule=rule, value=value)

    return bind


def _evaluate(*arguments: Array, function: Callable[..., Array], rule: Rule, value: jax.ShapeDtypeStruct) -> Array:
    return function(*arguments)


def _type(*_, function: Callable[..., Array], rule: Rule, value: jax.ShapeDtypeStruct) -> ShapedArray:
    return ShapedArray(value.shape, value.dtype)


def _differentiate(
    arguments: Sequence, tangents: Sequence, *, function: Callable[..., Array], rule: Rule, value: jax.ShapeDtypeStruct
):
    return rule(tuple(arguments), tuple(None if isinstance(x, ad.Zero) else x for x in tangents))


def _batch(
    arguments: Sequence, axes: Sequence, *, function: Callable[..., Array], rule: Rule, value: jax.ShapeDtypeStruct
):
    axes = tuple(axes)
    size = batch_size(arguments, axes)

    def batched_rule(arguments: tuple[Array, ...], tangents: Changes) -> tuple[Array, Array]:
        of_tangents = tuple(None if x is None else axis for x, axis in zip(tangents, axes, strict=True))
        return jax.vmap(rule, (axes, of_tangents), axis_size=size)(arguments, tangents)

    batched = jax.ShapeDtypeStruct((size, *value.shape), value.dtype)
    return kept_rule(jax.vmap(function, axes, axis_size=size), batched_rule, batched)(*arguments), 0


OPENED.add(_kept)
_kept.def_impl(_evaluate)
_kept.def_abstract_eval(_type)
ad.primitive_jvps[_kept] = _differentiate
batching.primitive_batchers[_kept] = _batch
mlir.register_lowering(_kept, mlir.lower_fun(_evaluate, multiple_results=False))
