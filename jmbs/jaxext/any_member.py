"""Whether something holds of any member of a batch, as one answer for the whole batch.

`jax.vmap` turns a `lax.cond` of members into both branches for all. A condition that asks for any member stays one.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array, Bool

from jmbs.jaxext.switches import is_off


def any_member(holds: Bool[Array, ""]) -> Bool[Array, ""]:
    """`holds`; under `jax.vmap` whether it holds of any member, the same for all of them."""
    return holds if is_off("any_member") else _any.bind(holds)


def _batch(arguments, axes):
    return _any.bind(jnp.any(arguments[0], axis=axes[0])), None


_any = Primitive("any_member")
_any.def_impl(lambda holds: holds)
_any.def_abstract_eval(lambda holds: ShapedArray(holds.shape, holds.dtype))
ad.primitive_jvps[_any] = lambda primals, tangents: (_any.bind(*primals), tangents[0])
batching.primitive_batchers[_any] = _batch
mlir.register_lowering(_any, lambda context, holds: [holds])
