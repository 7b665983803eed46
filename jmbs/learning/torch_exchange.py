"""Arrays and derivatives between JAX and PyTorch: by dlpack, without a copy where both are on one device.

Tensors keep their dtype. Without JAX's 64-bit mode tensors of float64 are refused, since JAX would round them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jmbs.arrays import resolve_dtype
from jmbs.errors import ModelError
from jmbs.learning.extras import optional


def to_torch(array: Array) -> Any:
    """The tensor with the numbers of an array; in their memory, so it is not to be written to. Detached."""
    return optional("torch", "torch").from_dlpack(jax.block_until_ready(array))


def from_torch(tensor: Any) -> Array:
    """The array with the numbers of a tensor, detached; in memory of its own, since tensors may be written to.

    Raises `ModelError` for what is no tensor, and for float64 while JAX's 64-bit mode is off.
    """
    torch = optional("torch", "torch")
    if not isinstance(tensor, torch.Tensor):
        raise ModelError("tensor", f"a {type(tensor).__name__}", "a torch.Tensor")
    if tensor.dtype == torch.float64:
        resolve_dtype("float64")
    return jax.block_until_ready(jnp.array(jnp.from_dlpack(tensor.detach().contiguous()), copy=True))


def torch_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of arrays as one of tensors, whose backward pass is JAX's reverse mode.

    It is compiled once for all tensors of equal shapes and dtypes. Derivatives are first ones: the backward pass cannot
    be differentiated again. For a batch hand `jax.vmap(function)` over.

    **Arguments:** `function`: of arrays, gives an array or a tuple of some; pure. Other arguments than tensors are
    refused with `ModelError`: bind them before.
    """
    autograd = optional("torch", "torch").autograd
    value = jax.jit(function)
    value_and_pull = jax.jit(lambda floating, whole: jax.vjp(lambda *x: function(*_joined(x, whole)), *floating))
    pulled = jax.jit(lambda pull, change: pull(change))

    differentiable = autograd.Function

    class Bridge(differentiable):
        @staticmethod
        def forward(ctx: Any, *tensors: Any) -> Any:
            arrays = [from_torch(tensor) for tensor in tensors]
            if not any(ctx.needs_input_grad):
                return jax.tree.map(to_torch, value(*arrays))
            floating = [x for x in arrays if _is_floating(x)]
            values, ctx.pull = value_and_pull(floating, [None if _is_floating(x) else x for x in arrays])
            ctx.values, ctx.floating = values, [_is_floating(x) for x in arrays]
            return jax.tree.map(to_torch, values)

        @staticmethod
        @autograd.function.once_differentiable
        def backward(ctx: Any, *changes: Any) -> tuple:
            leaves, structure = jax.tree.flatten(ctx.values)
            cotangents = [_cotangent(x, change) for x, change in zip(leaves, changes, strict=True)]
            found = iter(pulled(ctx.pull, structure.unflatten(cotangents)))
            return tuple(to_torch(next(found)) if floating else None for floating in ctx.floating)

    return Bridge.apply


def _is_floating(x: Array) -> bool:
    return jnp.issubdtype(x.dtype, jnp.floating)


def _joined(floating: tuple, whole: list) -> list:
    """Arguments in their order: floating ones where `whole` has None."""
    ahead = iter(floating)
    return [next(ahead) if x is None else x for x in whole]


def _cotangent(value: Array, change: Any) -> Any:
    if not _is_floating(value):
        return np.zeros(value.shape, jax.dtypes.float0)
    return jnp.zeros_like(value) if change is None else from_torch(change)
