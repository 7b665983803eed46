"""Functions that keep their derivative rule through every transformation of JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Primitive, jaxpr_as_fun
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array

Tangents = tuple[Array | None, ...]
"""One per argument, None where it does not change."""

Rule = Callable[[tuple[Array, ...], Tangents], tuple[Array, Array]]
"""`(arguments, tangents)` to the value and its tangent."""

_kept = Primitive("kept_rule")


def kept_rule(function: Callable[..., Array], rule: Rule) -> Callable[..., Array]:
    """`function`, of arrays to one array, with `rule` as its derivative in every order, mode and batch.

    Unlike `jax.custom_jvp`, whose rule JAX forgets where it evaluates a part of a loop ahead of its derivative, so that
    second derivatives of a rollout differentiate the inside of `function`.
    """

    def bind(*arguments: Array) -> Array:
        return _kept.bind(*arguments, jaxpr=jax.make_jaxpr(function)(*arguments), rule=rule)

    return bind


def _evaluate(*arguments: Array, jaxpr: ClosedJaxpr, rule: Rule) -> Array:
    (value,) = jaxpr_as_fun(jaxpr)(*arguments)
    return value


def _differentiate(arguments: Sequence, tangents: Sequence, *, jaxpr: ClosedJaxpr, rule: Rule) -> tuple[Array, Array]:
    return rule(tuple(arguments), tuple(None if isinstance(x, ad.Zero) else x for x in tangents))


def _batch(arguments: Sequence, axes: Sequence, *, jaxpr: ClosedJaxpr, rule: Rule) -> tuple[Array, int]:
    axes = tuple(axes)
    (size,) = {np.shape(x)[axis] for x, axis in zip(arguments, axes, strict=True) if axis is not None}

    def batched_rule(arguments: tuple[Array, ...], tangents: Tangents) -> tuple[Array, Array]:
        of_tangents = tuple(None if x is None else axis for x, axis in zip(tangents, axes, strict=True))
        return jax.vmap(rule, (axes, of_tangents), axis_size=size)(arguments, tangents)

    function = jax.vmap(lambda *one: _evaluate(*one, jaxpr=jaxpr, rule=rule), axes, axis_size=size)
    return kept_rule(function, batched_rule)(*arguments), 0


_kept.def_impl(_evaluate)
_kept.def_abstract_eval(lambda *_, jaxpr, rule: jaxpr.out_avals[0])
ad.primitive_jvps[_kept] = _differentiate
batching.primitive_batchers[_kept] = _batch
mlir.register_lowering(_kept, mlir.lower_fun(_evaluate, multiple_results=False))
