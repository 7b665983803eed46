"""Operations that move entries: of scalars they cost nothing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from jmbs.fused import places
from jmbs.fused.expressions import Builder
from jmbs.fused.flatten import Equation, Untranslatable
from jmbs.fused.values import Memory, Value, constants, constants_of, index, only, part, scalars

Rule = Callable[[Builder, Equation, list[Value]], Value]


def _reshape(code: Builder, eqn: Equation, args: list[Value]) -> Value:
    x, shape = args[0], eqn.types[0].shape
    return Memory(x.buffer, shape, x.base, x.offset) if isinstance(x, Memory) else x.reshape(shape)


def _slice(code: Builder, eqn: Equation, args: list[Value]) -> Value:
    p, x = eqn.params, args[0]
    strides = p["strides"] or (1,) * len(p["start_indices"])
    if isinstance(x, Memory) and all(stride == 1 for stride in strides):
        return part(code, x, [index(code, i) for i in p["start_indices"]], eqn.types[0].shape, x.buffer.dtype)
    places = zip(p["start_indices"], p["limit_indices"], strides, strict=True)
    return scalars(code, x)[tuple(slice(*place) for place in places)]


def _broadcast_in_dim(code: Builder, eqn: Equation, args: list[Value]) -> Value:
    x, shape = scalars(code, args[0]), eqn.params["shape"]
    wide = [1] * len(shape)
    for axis, size in zip(eqn.params["broadcast_dimensions"], x.shape, strict=True):
        wide[axis] = size
    return np.broadcast_to(x.reshape(wide), shape)


def _transpose(code: Builder, eqn: Equation, args: list[Value]) -> Value:
    return scalars(code, args[0]).transpose(eqn.params["permutation"])


def _rev(code: Builder, eqn: Equation, args: list[Value]) -> Value:
    return np.flip(scalars(code, args[0]), eqn.params["dimensions"])


def _concatenate(code: Builder, eqn: Equation, args: list[Value]) -> Value:
    return np.concatenate([scalars(code, x) for x in args], eqn.params["dimension"])


def _stack(code: Builder, eqn: Equation, args: list[Value]) -> Value:
    return np.stack([scalars(code, x) for x in args], eqn.params["axis"])


def _pad(code: Builder, eqn: Equation, args: list[Value]) -> Value:
    x, filler = scalars(code, args[0]), only(scalars(code, args[1]))
    for axis, (low, high, inner) in enumerate(eqn.params["padding_config"]):
        n = x.shape[axis]
        places = low + np.arange(n) * (inner + 1)
        size = low + high + max(n + (n - 1) * inner, 0)
        moved = np.moveaxis(constants_of(filler, (*x.shape[:axis], size, *x.shape[axis + 1 :])).copy(), axis, 0)
        inside = (places >= 0) & (places < size)
        moved[places[inside]] = np.moveaxis(x, axis, 0)[inside]
        x = np.moveaxis(moved, 0, axis)
    return x


def _iota(code: Builder, eqn: Equation, args: list[Value]) -> Value:
    shape, axis = eqn.params["shape"], eqn.params["dimension"]
    wide = [1] * len(shape)
    wide[axis] = shape[axis]
    return constants(code, np.broadcast_to(np.arange(shape[axis]).reshape(wide), shape), eqn.types[0].dtype)


def _split(code: Builder, eqn: Equation, args: list[Value]) -> list[Value]:
    sizes = [int(n) for n in eqn.params["sizes"]]
    return list(np.split(scalars(code, args[0]), np.cumsum(sizes)[:-1], eqn.params["axis"]))


def _unstack(code: Builder, eqn: Equation, args: list[Value]) -> list[Value]:
    rows = np.moveaxis(scalars(code, args[0]), eqn.params["axis"], 0)
    return [rows[i, ...] for i in range(len(rows))]


def _tile(code: Builder, eqn: Equation, args: list[Value]) -> Value:
    return np.tile(scalars(code, args[0]), eqn.params["reps"])


def _platform_index(code: Builder, eqn: Equation, args: list[Value]) -> Value:
    """The program that is for no platform in particular."""
    platforms = eqn.params["platforms"]
    if None not in platforms:
        raise Untranslatable(eqn.name, f"there is a program for {platforms} only")
    return constants(code, platforms.index(None), eqn.types[0].dtype)


RULES: dict[str, Rule] = {
    "reshape": _reshape,
    "squeeze": _reshape,
    "expand_dims": _reshape,
    "slice": _slice,
    "broadcast_in_dim": _broadcast_in_dim,
    "transpose": _transpose,
    "rev": _rev,
    "concatenate": _concatenate,
    "stack": _stack,
    "pad": _pad,
    "iota": _iota,
    "tile": _tile,
    "platform_index": _platform_index,
    **places.RULES,
}
SEVERAL: dict[str, Callable[[Builder, Equation, list[Value]], list[Value]]] = {"split": _split, "unstack": _unstack}
"""Of several results."""
