"""Operations of many entries to one: sums and the like, products of matrices, running sums, extremes, sorting."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jmbs.fused import elementwise
from jmbs.fused.algebra import apply
from jmbs.fused.expressions import Builder, Node
from jmbs.fused.flatten import Equation, Untranslatable
from jmbs.fused.values import Scalars

Rule = Callable[[Builder, Equation, list[Scalars]], list[Scalars]]


def _limit(dtype: np.dtype, sign: int) -> Any:
    if dtype.kind == "f":
        return sign * np.inf
    if dtype.kind == "b":
        return sign > 0
    return np.iinfo(dtype).max if sign > 0 else np.iinfo(dtype).min


STARTS: dict[str, tuple[str, Callable[[np.dtype], Any]]] = {
    "reduce_sum": ("add", lambda dtype: 0),
    "reduce_prod": ("mul", lambda dtype: 1),
    "reduce_max": ("max", lambda dtype: _limit(dtype, -1)),
    "reduce_min": ("min", lambda dtype: _limit(dtype, 1)),
    "reduce_and": ("and", lambda dtype: True if dtype.kind == "b" else -1),
    "reduce_or": ("or", lambda dtype: 0),
    "reduce_xor": ("xor", lambda dtype: 0),
}
"""What combines two entries, and what nothing gives."""
RUNNING = {"cumsum": "add", "cumprod": "mul", "cummax": "max", "cummin": "min"}


def _reduce(code: Builder, eqn: Equation, args: list[Scalars]) -> list[Scalars]:
    op, start = STARTS[eqn.name]
    x, axes = args[0], tuple(eqn.params["axes"])
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    shape = [x.shape[axis] for axis in kept]
    rows = x.transpose([*kept, *axes]).reshape(*shape, math.prod(x.shape[axis] for axis in axes))
    combined, dtype = elementwise.combine(op), eqn.types[0].dtype
    found = np.empty(rows.shape[:-1], object)
    for place in np.ndindex(*found.shape):
        found[place] = _folded(code, combined, rows[place]) or code.constant(start(dtype), dtype)
    return [found]


def _folded(code: Builder, combined: Callable, nodes: Scalars) -> Node | None:
    found = None
    for node in nodes:
        found = node if found is None else combined(code, found, node)
    return found


def _running(code: Builder, eqn: Equation, args: list[Scalars]) -> list[Scalars]:
    combined, axis, x = elementwise.combine(RUNNING[eqn.name]), eqn.params["axis"], args[0]
    rows = np.moveaxis(x, axis, 0).copy()
    order = list(range(len(rows)))[:: -1 if eqn.params["reverse"] else 1]
    for before, i in zip(order, order[1:], strict=False):
        for place in np.ndindex(*rows.shape[1:]):
            rows[(i, *place)] = combined(code, rows[(before, *place)], rows[(i, *place)])
    return [np.moveaxis(rows, 0, axis)]


def _dot_general(code: Builder, eqn: Equation, args: list[Scalars]) -> list[Scalars]:
    (inner, batch), (x, y) = eqn.params["dimension_numbers"], args
    dtype = eqn.types[0].dtype
    x, y = (_as_matrices(z, axes, batches) for z, axes, batches in zip((x, y), inner, batch, strict=True))
    found = np.empty((x.shape[0], x.shape[1], y.shape[1]), object)
    for b, i, j in np.ndindex(*found.shape):
        found[b, i, j] = product(code, x[b, i], y[b, j], dtype)
    return [found.reshape(eqn.types[0].shape)]


def product(code: Builder, x: Scalars, y: Scalars, dtype: np.dtype) -> Node:
    """The sum of products of scalars, which become of that type first."""
    found = code.constant(0, dtype)
    for a, b in zip(x, y, strict=True):
        a, b = (apply(code, "convert", z, dtype=dtype) for z in (a, b))
        found = apply(code, "add", found, apply(code, "mul", a, b))
    return found


def _as_matrices(x: Scalars, inner: Sequence[int], batch: Sequence[int]) -> Scalars:
    """`(batch, free, contracted)`."""
    free = [axis for axis in range(x.ndim) if axis not in (*inner, *batch)]
    size = lambda axes: int(np.prod([x.shape[axis] for axis in axes], dtype=int))  # noqa: E731
    return x.transpose([*batch, *free, *inner]).reshape(size(batch), size(free), size(inner))


def _extreme(code: Builder, eqn: Equation, args: list[Scalars]) -> list[Scalars]:
    """The first place of the extreme, or of the first entry that is no number."""
    (axis,), dtype = eqn.params["axes"], np.dtype(eqn.params["index_dtype"])
    rows = np.moveaxis(args[0], axis, -1)
    found = np.empty(rows.shape[:-1], object)
    for place in np.ndindex(*found.shape):
        best, at = rows[place][0], code.constant(0, dtype)
        for i, x in enumerate(rows[place][1:], 1):
            wins = apply(code, "gt" if eqn.name == "argmax" else "lt", x, best)
            if x.dtype.kind == "f":
                lost = apply(code, "and", apply(code, "ne", x, x), apply(code, "eq", best, best))
                wins = apply(code, "or", apply(code, "and", wins, apply(code, "eq", best, best)), lost)
            best = apply(code, "select", wins, best, x)
            at = apply(code, "select", wins, at, code.constant(i, dtype))
        found[place] = at
    return [found]


MOST_SORTED = 16


def _sort(code: Builder, eqn: Equation, args: list[Scalars]) -> list[Scalars]:
    """By exchanges of neighbours, which keeps the order of equals."""
    axis, keys = eqn.params["dimension"], eqn.params["num_keys"]
    rows = [np.moveaxis(x, axis, 0).copy() for x in args]
    n = len(rows[0])
    if n > MOST_SORTED or keys != 1:
        raise Untranslatable("sort", f"of {n} entries by {keys} keys, where {MOST_SORTED} by one can be sorted")
    for place in np.ndindex(*rows[0].shape[1:]):
        for last in range(n - 1, 0, -1):
            for i in range(last):
                a, b = (i, *place), (i + 1, *place)
                swap = _is_after(code, rows[0][a], rows[0][b])
                for x in rows:
                    x[a], x[b] = apply(code, "select", swap, x[a], x[b]), apply(code, "select", swap, x[b], x[a])
    return [np.moveaxis(x, 0, axis) for x in rows]


def _is_after(code: Builder, a: Node, b: Node) -> Node:
    """Whether a comes after b; what is no number comes last."""
    after = apply(code, "lt", b, a)
    if a.dtype.kind == "f":
        after = apply(code, "or", after, apply(code, "and", apply(code, "ne", a, a), apply(code, "eq", b, b)))
    return after


RULES: dict[str, Rule] = {
    **dict.fromkeys(STARTS, _reduce),
    **dict.fromkeys(RUNNING, _running),
    "dot_general": _dot_general,
    "argmax": _extreme,
    "argmin": _extreme,
    "sort": _sort,
}
