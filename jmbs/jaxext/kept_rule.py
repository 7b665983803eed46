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
from jmbs.jaxext.switches import is_off

Changes = tuple[Array | None, ...]
"""Changes of arrays, None where there is none."""
Values = tuple[Array, ...]
Rule = Callable[[tuple[Array, ...], Changes], tuple[Values, Values]]
"""`(arguments, tangents)` to the values and their tangents; tangents are None where arguments do not change."""

_kept = Primitive("kept_rule")
_kept.multiple_results = True


def kept_rule(
    function: Callable[..., Values], rule: Rule, values: tuple[jax.ShapeDtypeStruct, ...]
) -> Callable[..., Values]:
    """`function` with `rule` as its derivative, in batches and loops, and in every mode and order that `rule` allows.

    `jax.custom_jvp` would not do: JAX forgets its rule where it evaluates part of a loop ahead, and second derivatives
    of a rollout would then go through the inside of `function`. Besides, `function` is traced only where the program is
    lowered, so not alone where it is batched later; JAX's settings are those of that moment.

    **Arguments:** `function`: of arrays, to a tuple of arrays; `rule`: see `Rule`; shapes and types of the `values`.
    Neither explicit shardings nor `shard_map` with `check_vma` are supported.
    """

    if is_off("kept_rule"):
        return _by_jax(function, rule)

    def bind(*arguments: Array) -> Values:
        return tuple(_kept.bind(*arguments, function=function, rule=rule, values=values))

    return bind


def _by_jax(function: Callable[..., Values], rule: Rule) -> Callable[..., Values]:
    """The function with the rule, as JAX has such things."""
    known = jax.custom_jvp(function)

    def jvp(arguments: tuple[Array, ...], tangents: tuple) -> tuple[Values, Values]:
        is_zero = lambda x: isinstance(x, jax.custom_derivatives.SymbolicZero)  # noqa: E731
        return rule(arguments, tuple(None if is_zero(x) else x for x in tangents))

    known.defjvp(jvp, symbolic_zeros=True)
    return known


def _evaluate(*arguments: Array, function: Callable[..., Values], rule: Rule, values: tuple) -> Values:
    return function(*arguments)


def _types(*_, function: Callable[..., Values], rule: Rule, values: tuple) -> list[ShapedArray]:
    return [ShapedArray(value.shape, value.dtype) for value in values]


def _differentiate(
    arguments: Sequence, tangents: Sequence, *, function: Callable[..., Values], rule: Rule, values: tuple
):
    return rule(tuple(arguments), tuple(None if isinstance(x, ad.Zero) else x for x in tangents))


def _batch(arguments: Sequence, axes: Sequence, *, function: Callable[..., Values], rule: Rule, values: tuple):
    axes = tuple(axes)
    size = batch_size(arguments, axes)

    def batched_rule(arguments: tuple[Array, ...], tangents: Changes) -> tuple[Values, Values]:
        of_tangents = tuple(None if x is None else axis for x, axis in zip(tangents, axes, strict=True))
        return jax.vmap(rule, (axes, of_tangents), axis_size=size)(arguments, tangents)

    batched = tuple(jax.ShapeDtypeStruct((size, *value.shape), value.dtype) for value in values)
    found = kept_rule(jax.vmap(function, axes, axis_size=size), batched_rule, batched)(*arguments)
    return found, [0] * len(found)


OPENED.add(_kept)
_kept.def_impl(_evaluate)
_kept.def_abstract_eval(_types)
ad.primitive_jvps[_kept] = _differentiate
batching.primitive_batchers[_kept] = _batch
mlir.register_lowering(_kept, mlir.lower_fun(_evaluate, multiple_results=True))
