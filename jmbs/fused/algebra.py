"""Scalar operations: how each is computed when all is known, how C writes it, and what is simpler than it.

Simplifications are exact but for two liberties, which XLA does not take: a constant zero of the program times anything
is zero, also where that is not finite, and a zero added to -0 leaves it as it is. Constants are added and multiplied
in the order in which the program does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jmbs.fused.expressions import Builder, Node

BOOL = np.dtype(bool)


class Operation(NamedTuple):
    """`evaluate`: by numpy, or None; `text`: with places for arguments, or the name of C's function of doubles."""

    evaluate: Callable[..., Any] | None
    text: str


def _infix(evaluate: Callable, sign: str) -> Operation:
    return Operation(evaluate, f"{{0}} {sign} {{1}}")


OPERATIONS: dict[str, Operation] = {
    "add": _infix(np.add, "+"),
    "sub": _infix(np.subtract, "-"),
    "mul": _infix(np.multiply, "*"),
    "div": Operation(None, "{0} / {1}"),
    "remainder": Operation(None, "{0} % {1}"),
    "neg": Operation(np.negative, "-{0}"),
    "eq": _infix(np.equal, "=="),
    "ne": _infix(np.not_equal, "!="),
    "lt": _infix(np.less, "<"),
    "le": _infix(np.less_equal, "<="),
    "gt": _infix(np.greater, ">"),
    "ge": _infix(np.greater_equal, ">="),
    "and": _infix(np.bitwise_and, "&"),
    "or": _infix(np.bitwise_or, "|"),
    "xor": _infix(np.bitwise_xor, "^"),
    "not": Operation(np.invert, "~{0}"),
    "logical_not": Operation(np.logical_not, "!{0}"),
    "shift_left": _infix(np.left_shift, "<<"),
    "shift_right": _infix(np.right_shift, ">>"),
    "select": Operation(None, "{0} ? {2} : {1}"),
    "convert": Operation(None, ""),
    "pow": Operation(np.power, "pow"),
    "fmod": Operation(np.fmod, "fmod"),
    "atan2": Operation(np.arctan2, "atan2"),
    "nextafter": Operation(np.nextafter, "nextafter"),
    "abs": Operation(np.abs, "fabs"),
    "sqrt": Operation(np.sqrt, "sqrt"),
    "rsqrt": Operation(None, "rsqrt"),
    "cbrt": Operation(np.cbrt, "cbrt"),
    "exp": Operation(np.exp, "exp"),
    "exp2": Operation(np.exp2, "exp2"),
    "expm1": Operation(np.expm1, "expm1"),
    "log": Operation(np.log, "log"),
    "log1p": Operation(np.log1p, "log1p"),
    "sin": Operation(np.sin, "sin"),
    "cos": Operation(np.cos, "cos"),
    "tan": Operation(np.tan, "tan"),
    "asin": Operation(np.arcsin, "asin"),
    "acos": Operation(np.arccos, "acos"),
    "atan": Operation(np.arctan, "atan"),
    "sinh": Operation(np.sinh, "sinh"),
    "cosh": Operation(np.cosh, "cosh"),
    "tanh": Operation(np.tanh, "tanh"),
    "asinh": Operation(np.arcsinh, "asinh"),
    "acosh": Operation(np.arccosh, "acosh"),
    "atanh": Operation(np.arctanh, "atanh"),
    "erf": Operation(None, "erf"),
    "erfc": Operation(None, "erfc"),
    "lgamma": Operation(None, "lgamma"),
    "floor": Operation(np.floor, "floor"),
    "ceil": Operation(np.ceil, "ceil"),
    "round": Operation(None, "round"),
    "rint": Operation(np.rint, "rint"),
}
COMPARED = {"eq", "ne", "lt", "le", "gt", "ge"}
COMMUTING = {"add", "mul", "eq", "ne", "and", "or", "xor"}


def apply(code: Builder, op: str, *args: Node, dtype: np.dtype | None = None) -> Node:
    """The operation, simplified. `dtype`: of the result, if it is not that of the last argument or of a comparison."""
    dtype = dtype or (BOOL if op in COMPARED or op == "logical_not" else args[-1].dtype)
    if op in _SIMPLER:
        found = _SIMPLER[op](code, dtype, *args)
        if found is not None:
            return found
    evaluate = OPERATIONS[op].evaluate
    if evaluate is not None and all(x.is_constant for x in args):
        with np.errstate(all="ignore"):
            return code.constant(evaluate(*(x.extra for x in args)), dtype)
    if op in COMMUTING and args[0].number > args[1].number:
        args = args[1], args[0]
    return code.node(op, dtype, *args)


def is_value(x: Node, value: float) -> bool:
    """Whether it is this constant."""
    return x.is_constant and bool(x.extra == value)


def _negated(x: Node) -> Node | None:
    return x.args[0] if x.op == "neg" else None


def _add(code: Builder, dtype: np.dtype, x: Node, y: Node) -> Node | None:
    if is_value(x, 0):
        return y
    if is_value(y, 0):
        return x
    if (inner := _negated(y)) is not None:
        return apply(code, "sub", x, inner)
    if (inner := _negated(x)) is not None:
        return apply(code, "sub", y, inner)
    return None


def _sub(code: Builder, dtype: np.dtype, x: Node, y: Node) -> Node | None:
    if is_value(y, 0):
        return x
    if is_value(x, 0):
        return apply(code, "neg", y)
    if (inner := _negated(y)) is not None:
        return apply(code, "add", x, inner)
    return None


def _mul(code: Builder, dtype: np.dtype, x: Node, y: Node) -> Node | None:
    for a, b in ((x, y), (y, x)):
        if is_value(a, 0):
            return a
        if is_value(a, 1):
            return b
        if is_value(a, -1):
            return apply(code, "neg", b)
    if x.is_constant and y.is_constant:
        return None
    for a, b in ((x, y), (y, x)):
        if (inner := _negated(a)) is not None:
            return apply(code, "neg", apply(code, "mul", inner, b))
    return None


def _div(code: Builder, dtype: np.dtype, x: Node, y: Node) -> Node | None:
    if x.is_constant and y.is_constant and dtype.kind == "f":
        with np.errstate(all="ignore"):
            return code.constant(x.extra / y.extra, dtype)
    if is_value(y, 1) or (is_value(x, 0) and not is_value(y, 0)):
        return x
    if dtype.kind != "f":
        return _whole_division(code, "div", x, y)
    for a, quotient in ((x, lambda a: (a, y)), (y, lambda a: (x, a))):
        if (inner := _negated(a)) is not None:
            return apply(code, "neg", apply(code, "div", *quotient(inner)))
    return None


def _whole_division(code: Builder, op: str, x: Node, y: Node) -> Node | None:
    """Towards zero; XLA says -1, and leaves all as remainder, where the divisor is zero."""
    if y.is_constant and y.extra != 0:
        if x.is_constant:
            quotient = abs(int(x.extra)) // abs(int(y.extra)) * (1 if (x.extra < 0) == (y.extra < 0) else -1)
            return code.constant(quotient if op == "div" else int(x.extra) - quotient * int(y.extra), x.dtype)
        return None
    is_zero = apply(code, "eq", y, code.constant(0, y.dtype))
    divisor = apply(code, "select", is_zero, y, code.constant(1, y.dtype))
    other = code.constant(-1 if x.dtype.kind == "i" else np.iinfo(x.dtype).max, x.dtype) if op == "div" else x
    return apply(code, "select", is_zero, code.node(op, x.dtype, x, divisor), other)


def _remainder(code: Builder, dtype: np.dtype, x: Node, y: Node) -> Node | None:
    return _whole_division(code, "remainder", x, y)


def _neg(code: Builder, dtype: np.dtype, x: Node) -> Node | None:
    return _negated(x)


def _select(code: Builder, dtype: np.dtype, which: Node, x: Node, y: Node) -> Node | None:
    """`y` if `which`, else `x`."""
    if which.is_constant:
        return y if which.extra else x
    if x is y:
        return x
    if which.op == "logical_not":
        return apply(code, "select", which.args[0], y, x)
    if dtype == BOOL and x.is_constant and y.is_constant:
        return which if y.extra else apply(code, "logical_not", which)
    return None


def _and(code: Builder, dtype: np.dtype, x: Node, y: Node) -> Node | None:
    for a, b in ((x, y), (y, x)):
        if a.is_constant and dtype == BOOL:
            return b if a.extra else a
    return x if x is y else None


def _or(code: Builder, dtype: np.dtype, x: Node, y: Node) -> Node | None:
    for a, b in ((x, y), (y, x)):
        if a.is_constant and dtype == BOOL:
            return a if a.extra else b
    return x if x is y else None


def _not(code: Builder, dtype: np.dtype, x: Node) -> Node | None:
    return x.args[0] if x.op == "logical_not" else None


def _convert(code: Builder, dtype: np.dtype, x: Node) -> Node | None:
    if x.dtype == dtype:
        return x
    if dtype == BOOL:
        return apply(code, "ne", x, code.constant(0, x.dtype))
    if x.is_constant:
        with np.errstate(all="ignore"):
            return code.constant(x.extra, dtype)
    return None


def _compare(code: Builder, dtype: np.dtype, x: Node, y: Node) -> Node | None:
    """A comparison of a truth value, turned into a number, with a number."""
    if x.op != "convert" or x.args[0].dtype != BOOL or not is_value(y, 0):
        return None
    return x.args[0]


_SIMPLER: dict[str, Callable[..., Node | None]] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "remainder": _remainder,
    "neg": _neg,
    "select": _select,
    "and": _and,
    "or": _or,
    "logical_not": _not,
    "convert": _convert,
    "ne": _compare,
}
