"""Products of few numbers as sums of products: for those of matrices XLA takes a library, which no kernel can have."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn
from jax.extend.core.primitives import dot_general_p


def with_sums(program: ClosedJaxpr, most: int) -> ClosedJaxpr:
    """The program whose real matrix products of at most so many multiplications, also those in its loops, branches and
    functions, are sums of products; the same object if it has none."""
    return _rewritten(program, most)


def _rewritten(value: Any, most: int) -> Any:
    """A parameter of an equation, or a program; the same object where nothing changes."""
    if isinstance(value, Jaxpr):  # of JAX 0.11 a `ClosedJaxpr` is one too
        equations = [_equation(equation, most) for equation in value.eqns]
        changed = any(new is not old for new, old in zip(equations, value.eqns, strict=True))
        return value.replace(eqns=equations) if changed else value
    if isinstance(value, ClosedJaxpr):
        inside = _rewritten(value.jaxpr, most)
        return value if inside is value.jaxpr else ClosedJaxpr(inside, value.consts)
    if isinstance(value, tuple):
        entries = [_rewritten(x, most) for x in value]
        changed = any(new is not old for new, old in zip(entries, value, strict=True))
        return getattr(type(value), "_make", tuple)(entries) if changed else value
    return value


def _equation(equation: JaxprEqn, most: int) -> JaxprEqn:
    if equation.primitive is dot_general_p:
        return _summed(equation) if _is_small(equation, most) else equation
    params = {name: _rewritten(value, most) for name, value in equation.params.items()}
    changed = any(params[name] is not value for name, value in equation.params.items())
    return equation.replace(params=params) if changed else equation


def _is_small(product: JaxprEqn, most: int) -> bool:
    (of_a, _), (shape, dtype) = map(_type, product.invars), _type(product.outvars[0])
    (along, _), _ = product.params["dimension_numbers"]
    terms = math.prod(shape) * math.prod(of_a[0][axis] for axis in along)
    return terms <= most and jnp.issubdtype(dtype, jnp.floating)


def _type(variable: Any) -> tuple[tuple[int, ...], Any]:
    return variable.aval.shape, variable.aval.dtype


def _summed(product: JaxprEqn) -> JaxprEqn:
    """The call of a function that computes the product, between the same variables."""
    call = _call(product.params["dimension_numbers"], *map(_type, (*product.invars, *product.outvars)))
    return call.replace(invars=product.invars, outvars=product.outvars)


@functools.lru_cache(1024)
def _call(numbers: Any, of_a: tuple, of_b: tuple, of_result: tuple) -> JaxprEqn:
    """For products of these types; equal ones call one function, which then stands in a program once."""
    dtype = of_result[1]

    def sums(a: jax.Array, b: jax.Array) -> jax.Array:
        (along_a, along_b), (batch_a, batch_b) = numbers
        free_a, free_b = (
            [axis for axis in range(x.ndim) if axis not in (*along, *batch)]
            for x, along, batch in ((a, along_a, batch_a), (b, along_b, batch_b))
        )
        a = a.astype(dtype).transpose(*batch_a, *free_a, *along_a)
        b = b.astype(dtype).transpose(*batch_b, *free_b, *along_b)
        first, n = len(batch_a), len(along_a)
        a = jnp.expand_dims(a, range(first + len(free_a), first + len(free_a) + len(free_b)))
        b = jnp.expand_dims(b, range(first, first + len(free_a)))
        return jnp.sum(a * b, axis=range(a.ndim - n, a.ndim))

    (call,) = jax.make_jaxpr(jax.jit(sums))(*(jax.ShapeDtypeStruct(*x) for x in (of_a, of_b))).eqns
    return call
