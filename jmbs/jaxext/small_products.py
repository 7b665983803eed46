"""Small matrix products as sums of products: for matrix products XLA takes a library, which no kernel can call."""

from __future__ import annotations

import math
from typing import Any

import jax
import numpy as np
from jax.core import ShapedArray
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters import mlir

DTYPES = {"f32": np.dtype(np.float32), "f64": np.dtype(np.float64)}
NUMBERS = "dot_dimension_numbers"


def is_small_product(operation: Any, most: int) -> bool:
    """Whether an operation of StableHLO is a real matrix product of so many multiplications at most."""
    if operation.name != "stablehlo.dot_general":
        return False
    types = [x.type for x in (*operation.operands, *operation.results)]
    along = stablehlo.DotDimensionNumbers(operation.attributes[NUMBERS]).lhs_contracting_dimensions
    terms = math.prod(types[2].shape) * math.prod(types[0].shape[axis] for axis in along)
    return terms <= most and len({str(t.element_type) for t in types} & DTYPES.keys()) == 1


def write_out(product: Any, context: mlir.LoweringRuleContext) -> None:
    """Puts sums of products in the place of a matrix product."""
    numbers = stablehlo.DotDimensionNumbers(product.attributes[NUMBERS])
    batch = numbers.lhs_batching_dimensions, numbers.rhs_batching_dimensions
    along = numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions
    types = [ShapedArray(tuple(x.type.shape), DTYPES[str(x.type.element_type)]) for x in product.operands]
    free = [
        [axis for axis in range(t.ndim) if axis not in (*ahead, *summed)]
        for t, ahead, summed in zip(types, batch, along, strict=True)
    ]

    def sums(a: jax.Array, b: jax.Array) -> jax.Array:
        a, b = (jax.lax.transpose(x, (*p, *q, *r)) for x, p, q, r in zip((a, b), batch, free, along, strict=True))
        first, second, n = len(batch[0]), len(free[0]), len(along[0])
        a = jax.lax.expand_dims(a, range(first + second, first + second + len(free[1])))
        b = jax.lax.expand_dims(b, range(first, first + second))
        return jax.lax.reduce_sum(a * b, tuple(range(a.ndim - n, a.ndim)))

    context = context.replace(avals_in=types, tokens_out=None)
    with product.location, mlir.ir.InsertionPoint(product):
        (values,) = mlir.lower_fun(sums, multiple_results=False)(context, *product.operands)
    product.results[0].replace_all_uses_with(values)
    product.operation.erase()
