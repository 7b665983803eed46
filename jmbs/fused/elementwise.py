"""Operations entry by entry: JAX's names, and what they are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from jmbs.fused.algebra import BOOL, apply
from jmbs.fused.expressions import Builder, Node
from jmbs.fused.flatten import Untranslatable

SAME = {
    **{name: name for name in ("add", "sub", "mul", "div", "neg", "eq", "ne", "lt", "le", "gt", "ge")},
    **{name: name for name in ("pow", "atan2", "nextafter", "sqrt", "rsqrt", "cbrt", "exp", "exp2", "log", "log1p")},
    **{name: name for name in ("expm1", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh")},
    **{name: name for name in ("acosh", "atanh", "erf", "erfc", "lgamma", "floor", "ceil", "and", "or", "xor")},
    "add_any": "add",
}
"""JAX's names of operations that are ours as they are."""
IDENTITIES = {"copy", "copy_p", "name", "stop_gradient", "optimization_barrier", "pvary"}
"""Those that give what they are given."""

Rule = Callable[..., Node]


def _number(code: Builder, value: float, like: Node) -> Node:
    return code.constant(value, like.dtype)


def _select_n(code: Builder, params: Mapping, which: Node, *cases: Node) -> Node:
    if len(cases) > 2:
        found = cases[0]
        for i, case in enumerate(cases[1:], 1):
            found = apply(code, "select", apply(code, "eq", which, _number(code, i, which)), found, case)
        return found
    which = which if which.dtype == BOOL else apply(code, "convert", which, dtype=BOOL)
    return cases[0] if len(cases) == 1 else apply(code, "select", which, *cases)


def _larger(code: Builder, params: Mapping, x: Node, y: Node) -> Node:
    return _one_of(code, "gt", "or", x, y)


def _smaller(code: Builder, params: Mapping, x: Node, y: Node) -> Node:
    return _one_of(code, "lt", "and", x, y)


def _one_of(code: Builder, compared: str, of_booleans: str, x: Node, y: Node) -> Node:
    """The larger or the smaller one, or the one that is no number."""
    if x is y:
        return x
    if x.dtype == BOOL:
        return apply(code, of_booleans, x, y)
    if x.is_constant and not y.is_constant:
        x, y = y, x
    wins = apply(code, compared, x, y)
    if x.dtype.kind == "f":
        wins = apply(code, "or", wins, apply(code, "ne", x, x))
    return apply(code, "select", wins, y, x)


def _clamp(code: Builder, params: Mapping, low: Node, x: Node, high: Node) -> Node:
    return _smaller(code, params, _larger(code, params, x, low), high)


def _sign(code: Builder, params: Mapping, x: Node) -> Node:
    zero = _number(code, 0, x)
    negative = x if x.dtype.kind == "u" else apply(code, "select", apply(code, "lt", x, zero), x, _number(code, -1, x))
    found = apply(code, "select", apply(code, "gt", x, zero), negative, _number(code, 1, x))
    return found


def _abs(code: Builder, params: Mapping, x: Node) -> Node:
    if x.dtype.kind == "f":
        return apply(code, "abs", x)
    if x.dtype.kind == "u":
        return x
    return apply(code, "select", apply(code, "lt", x, _number(code, 0, x)), x, apply(code, "neg", x))


def _not(code: Builder, params: Mapping, x: Node) -> Node:
    return apply(code, "logical_not" if x.dtype == BOOL else "not", x)


def _is_finite(code: Builder, params: Mapping, x: Node) -> Node:
    return apply(code, "eq", apply(code, "sub", x, x), _number(code, 0, x))


def _rem(code: Builder, params: Mapping, x: Node, y: Node) -> Node:
    return apply(code, "fmod" if x.dtype.kind == "f" else "remainder", x, y)


def _round(code: Builder, params: Mapping, x: Node) -> Node:
    return apply(code, "rint" if int(params["rounding_method"]) else "round", x)


def _square(code: Builder, params: Mapping, x: Node) -> Node:
    return apply(code, "mul", x, x)


def _integer_pow(code: Builder, params: Mapping, x: Node) -> Node:
    """By squares, as XLA does it."""
    exponent, power, found = abs(params["y"]), x, None
    while exponent:
        if exponent & 1:
            found = power if found is None else apply(code, "mul", found, power)
        exponent >>= 1
        power = apply(code, "mul", power, power) if exponent else power
    found = found or _number(code, 1, x)
    return found if params["y"] >= 0 else apply(code, "div", _number(code, 1, x), found)


def _pow(code: Builder, params: Mapping, x: Node, y: Node) -> Node:
    return apply(code, "pow", x, y if y.dtype == x.dtype else apply(code, "convert", y, dtype=x.dtype))


def _logistic(code: Builder, params: Mapping, x: Node) -> Node:
    one = _number(code, 1, x)
    return apply(code, "div", one, apply(code, "add", one, apply(code, "exp", apply(code, "neg", x))))


def _convert(code: Builder, params: Mapping, x: Node) -> Node:
    return apply(code, "convert", x, dtype=np.dtype(params["new_dtype"]))


def _shift(op: str) -> Rule:
    def shift(code: Builder, params: Mapping, x: Node, by: Node) -> Node:
        """By at least as many places as there are, nothing is left, or the sign."""
        dtype, bits = x.dtype, 8 * x.dtype.itemsize
        by = apply(code, "convert", by, dtype=np.dtype(f"u{dtype.itemsize}"))
        beyond = apply(code, "ge", by, code.constant(bits, by.dtype))
        rest = code.constant(0, dtype)
        if op == "arithmetic":
            by, beyond = (
                apply(code, "select", beyond, by, code.constant(bits - 1, by.dtype)),
                code.constant(False, bool),
            )
        by = apply(code, "select", beyond, by, code.constant(0, by.dtype))
        if op == "logical":
            x = apply(code, "convert", x, dtype=np.dtype(f"u{dtype.itemsize}"))
        name = "shift_left" if op == "left" else "shift_right"
        moved = apply(code, name, x, by, dtype=x.dtype)
        return apply(code, "select", beyond, apply(code, "convert", moved, dtype=dtype), rest)

    return shift


def _same(op: str) -> Rule:
    def rule(code: Builder, params: Mapping, *args: Node) -> Node:
        if args[0].dtype.kind not in "fiub":
            raise Untranslatable(op, f"of {args[0].dtype}")
        return apply(code, op, *args)

    return rule


RULES: dict[str, Rule] = {
    **{name: _same(op) for name, op in SAME.items()},
    "select_n": _select_n,
    "max": _larger,
    "min": _smaller,
    "clamp": _clamp,
    "sign": _sign,
    "abs": _abs,
    "not": _not,
    "is_finite": _is_finite,
    "rem": _rem,
    "round": _round,
    "square": _square,
    "integer_pow": _integer_pow,
    "pow": _pow,
    "logistic": _logistic,
    "convert_element_type": _convert,
    "shift_left": _shift("left"),
    "shift_right_logical": _shift("logical"),
    "shift_right_arithmetic": _shift("arithmetic"),
}
"""`(code, params, scalars of an entry)` to the entry; by JAX's name of the operation."""


def combine(op: str) -> Callable[[Builder, Any, Any], Node]:
    """An operation of two scalars, for sums and the like."""
    return lambda code, x, y: RULES[op](code, {}, x, y)
