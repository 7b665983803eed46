"""Where a dtype is chosen, traced values, zeros that JAX takes for changing, batches, sums, what reverse mode keeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray, Tracer
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array, Float, PyTree

from jmbs.errors import ModelError

FLOAT_DTYPES = {"float32": np.dtype(np.float32), "float64": np.dtype(np.float64)}


def is_traced(tree: PyTree) -> bool:
    """Whether JAX is tracing any of its leaves; of a constant made here, whether it is tracing the caller."""
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(tree))


def resolve_dtype(precision: str | np.dtype | type | None) -> np.dtype:
    """The floating dtype for a precision name, refused where JAX cannot hold it.

    `None` gives JAX's current default. Raises `ModelError` for an unknown name and for float64 while
    JAX's x64 switch is off, since JAX would silently round everything to float32.
    """
    if precision is None:
        return jnp.zeros(()).dtype
    try:
        name = precision if isinstance(precision, str) else np.dtype(precision).name
    except TypeError:
        raise ModelError("precision", repr(precision), "float32 or float64") from None
    if name not in FLOAT_DTYPES:
        raise ModelError("precision", repr(precision), "float32 or float64")
    if name == "float64" and not jax.config.jax_enable_x64:  # pyright: ignore[reportAttributeAccessIssue]
        raise ModelError(
            "precision",
            "float64 while JAX's 64-bit mode is off",
            'jax.config.update("jax_enable_x64", True) before the first array, or JAX_ENABLE_X64=1 in the environment',
        )
    return FLOAT_DTYPES[name]


def without_derivatives(tree: PyTree) -> PyTree:
    """The same values, which change with nothing; leaves that are no floating arrays are as they were."""
    return jax.tree.map(lambda x: jax.lax.stop_gradient(x) if eqx.is_inexact_array(x) else x, tree)


def changing_zero(source: PyTree, dtype: np.dtype) -> Float[Array, ""]:
    """A zero that changes, by zero, with all floating arrays of `source`.

    Where JAX wants to know ahead what will change: a linear system's right-hand side, the start of a loop's carry. A
    loop that starts from plain zeros is differentiated twice, the second time knowing better.
    """
    leaves = [x for x in jax.tree.leaves(source) if isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jnp.floating)]
    return _zero.bind(*leaves, dtype=np.dtype(dtype)) if leaves else jnp.zeros((), dtype)


_zero = Primitive("changing_zero")
_zero.def_impl(lambda *_, dtype: jnp.zeros((), dtype))
_zero.def_abstract_eval(lambda *_, dtype: ShapedArray((), dtype))
ad.deflinear2(_zero, lambda _, *given, dtype: [None] * len(given))
batching.primitive_batchers[_zero] = lambda given, axes, *, dtype: (_zero.bind(*given, dtype=dtype), None)
mlir.register_lowering(_zero, mlir.lower_fun(lambda *_, dtype: jnp.zeros((), dtype), multiple_results=False))


def batch_size(arguments: Sequence, axes: Sequence) -> int:
    """The size of the batch axes, which are None where an argument has none."""
    (size,) = {np.shape(x)[axis] for x, axis in zip(arguments, axes, strict=True) if axis is not None}
    return size


def types_of_values(function: Callable[..., Sequence[Array]], types: Sequence[ShapedArray]) -> list[ShapedArray]:
    """Those of what a function gives for arrays of these types, as a primitive states them."""
    shapes = (jax.ShapeDtypeStruct(x.shape, x.dtype) for x in types)
    return [ShapedArray(value.shape, value.dtype) for value in jax.eval_shape(function, *shapes)]


def total(x: Float[Array, "n *shape"]) -> Float[Array, "*shape"]:
    """The sum along the first axis, in pairs: where compilers on CPUs shall not call a library for long sums."""
    return _in_pairs(jnp.add, x) if len(x) else jnp.zeros(x.shape[1:], x.dtype)


def largest(x: Float[Array, "n *shape"]) -> Float[Array, "*shape"]:
    """The largest entry along the first axis, likewise."""
    return _in_pairs(jnp.maximum, x)


def _in_pairs(combined: Callable[[Array, Array], Array], x: Array) -> Array:
    while len(x) > 1:
        half = len(x) // 2
        pairs = combined(x[:half], x[half : 2 * half])
        x = pairs if len(x) % 2 == 0 else jnp.concatenate([pairs, x[-1:]])
    return x[0]


SAVED_FOR_BACKWARD = "saved for the backward pass"
"""The name of values that reverse mode keeps where it computes others anew, see `jax.ad_checkpoint.checkpoint_name`."""
