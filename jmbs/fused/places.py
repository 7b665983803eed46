"""Parts of arrays at places that may be known only at run time: read, or changed; in memory, or chosen among few."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.lax import GatherScatterMode

from jmbs.fused import elementwise
from jmbs.fused.algebra import apply
from jmbs.fused.expressions import INDEX, Builder, Node
from jmbs.fused.flatten import Equation
from jmbs.fused.values import (
    Memory,
    Scalars,
    Value,
    array,
    clamped,
    constants_of,
    each,
    index,
    only,
    part,
    row,
    scalars,
)

Combined = Callable[[Builder, Node, Node], Node] | None
"""What comes of an old and a new value; None: the new one."""
Part = tuple[list[Node], Node | None, Scalars]
"""Where a part begins, whether it is inside of the array, and what is put there."""
MOST_SELECTED = 8
"""Places among which a change is selected; among more the array is in memory."""


def _dynamic_slice(code: Builder, eqn: Equation, args: list[Value]) -> Value:
    x, sizes = args[0], eqn.params["slice_sizes"]
    return part(code, x, _starts(code, x.shape, args[1:], sizes), sizes, eqn.types[0].dtype)


def _starts(code: Builder, shape: Sequence[int], places: Sequence[Value], sizes: Sequence[int]) -> list[Node]:
    """Where a part begins, moved so that it is inside."""
    room = zip(places, shape, sizes, strict=True)
    return [clamped(code, index(code, only(scalars(code, place))), n - size) for place, n, size in room]


def starts_of_update(code: Builder, args: list[Value]) -> list[Node]:
    """Where `dynamic_update_slice` puts its part."""
    return _starts(code, args[0].shape, args[2:], args[1].shape)


def has_few_places(shape: Sequence[int], parts: Sequence[Part]) -> bool:
    """Whether an array of scalars is better kept, and a change chosen at each place."""
    return all(
        sum(not start.is_constant for start in starts) <= 1
        and all(n - size < MOST_SELECTED for n, size in zip(shape, values.shape, strict=True))
        for starts, _, values in parts
    )


def selected_update(
    code: Builder, x: Scalars, starts: Sequence[Node], inside: Node | None, values: Scalars, combined: Combined
) -> Scalars:
    """An array of scalars that is changed from `starts` on, if that is `inside`."""
    ranges = [
        [int(start.extra)] if start.is_constant else list(range(n - size + 1))
        for start, n, size in zip(starts, x.shape, values.shape, strict=True)
    ]
    found = x.copy()
    for places in itertools.product(*ranges):
        here = code.constant(True, bool) if inside is None else inside
        for start, place in zip(starts, places, strict=True):
            here = apply(code, "and", here, apply(code, "eq", start, code.constant(place, INDEX)))
        at = tuple(slice(a, a + n) for a, n in zip(places, values.shape, strict=True))
        found[at] = _chosen(code, here, found[at], values, combined)
    return found


def changed(
    code: Builder, memory: Memory, starts: Sequence[Node], inside: Node | None, values: Scalars, combined: Combined
) -> Scalars:
    """What becomes of the part from `starts` on."""
    if inside is None and combined is None:
        return values
    old = scalars(code, part(code, memory, starts, values.shape, memory.buffer.dtype))
    return _chosen(code, code.constant(True, bool) if inside is None else inside, old, values, combined)


def _chosen(code: Builder, which: Node, old: Scalars, values: Scalars, combined: Combined) -> Scalars:
    """The new values, or those combined with the old ones; the old ones unless `which`."""
    new = [y if combined is None else combined(code, x, y) for x, y in zip(old.flat, values.flat, strict=True)]
    pairs = zip(old.flat, new, strict=True)
    return array((apply(code, "select", which, x, y) for x, y in pairs), values.shape)


def at(code: Builder, memory: Memory, i: Node) -> Value:
    """The i-th entry, row by row."""
    return row(code, Memory(memory.buffer, (math.prod(memory.shape),), memory.base, memory.offset), i)


# -- at many places ---------------------------------------------------------------------------------------------------


def _gather(code: Builder, eqn: Equation, args: list[Value]) -> Value:
    numbers, sizes, x = eqn.params["dimension_numbers"], eqn.params["slice_sizes"], args[0]
    where, shape = scalars(code, args[1]), eqn.types[0].shape
    gone = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    batch = [axis for axis in range(len(shape)) if axis not in numbers.offset_dims]
    found = np.empty(shape, object)
    for place in np.ndindex(*where.shape[:-1]):
        starts = _places(code, where[place], place, x.shape, numbers.start_index_map, numbers.operand_batching_dims,
                         numbers.start_indices_batching_dims)  # fmt: skip
        starts, inside = _inside(code, starts, x.shape, sizes, eqn.params["mode"])
        values = scalars(code, part(code, x, starts, sizes, eqn.types[0].dtype)).squeeze(gone)
        if inside is not None:
            filler = _filler(code, eqn)
            values = each(
                code, "select", constants_of(inside, values.shape), constants_of(filler, values.shape), values
            )
        at: list[Any] = [slice(None)] * len(shape)
        for axis, i in zip(batch, place, strict=True):
            at[axis] = i
        found[(*at, ...)] = values
    return found


def _filler(code: Builder, eqn: Equation) -> Node:
    """What a look-up outside gives."""
    dtype, value = eqn.types[0].dtype, eqn.params.get("fill_value")
    if value is None:
        value = {"f": np.nan, "b": True}.get(dtype.kind)
    if value is None:
        value = np.iinfo(dtype).max if dtype.kind == "u" else np.iinfo(dtype).min
    return code.constant(value, dtype)


def _places(
    code: Builder,
    given: np.ndarray,
    place: tuple,
    shape: Sequence[int],
    axes: Sequence,
    own: Sequence,
    theirs: Sequence,
) -> list[Node]:
    """Where a part begins, axis by axis: as the indices say, or with the batch."""
    starts = [code.constant(0, INDEX)] * len(shape)
    for axis, start in zip(axes, given, strict=True):
        starts[axis] = index(code, start)
    for axis, batch in zip(own, theirs, strict=True):
        starts[axis] = code.constant(place[batch], INDEX)
    return starts


def _inside(
    code: Builder, starts: list[Node], shape: Sequence[int], sizes: Sequence[int], mode: Any
) -> tuple[list[Node], Node | None]:
    """The same places, moved inside; and whether they were, if that matters and is not known to be so."""
    most = [n - size for n, size in zip(shape, sizes, strict=True)]
    moved = [clamped(code, start, m) for start, m in zip(starts, most, strict=True)]
    mode = GatherScatterMode.from_any(mode)
    if mode in (GatherScatterMode.CLIP, GatherScatterMode.PROMISE_IN_BOUNDS):
        # A promise that is broken reads what XLA reads, and not what belongs to others.
        return moved, None
    inside = code.constant(True, bool)
    for a, b in zip(starts, moved, strict=True):
        inside = apply(code, "and", inside, apply(code, "eq", a, b))
    return moved, None if inside.is_constant and inside.extra else inside


def scatter_parts(code: Builder, eqn: Equation, args: list[Value]) -> list[Part]:
    """The parts that a scatter changes: where each begins, whether it is inside, and what is put there."""
    numbers, x = eqn.params["dimension_numbers"], args[0]
    where, updates = scalars(code, args[1]), scalars(code, args[2])
    gone = sorted((*numbers.inserted_window_dims, *numbers.operand_batching_dims))
    windows = numbers.update_window_dims
    batch = [axis for axis in range(updates.ndim) if axis not in windows]
    left = iter([updates.shape[axis] for axis in windows])
    sizes = tuple(1 if axis in gone else next(left) for axis in range(len(x.shape)))
    parts = []
    for place in np.ndindex(*where.shape[:-1]):
        starts = _places(code, where[place], place, x.shape, numbers.scatter_dims_to_operand_dims,
                         numbers.operand_batching_dims, numbers.scatter_indices_batching_dims)  # fmt: skip
        starts, inside = _inside(code, starts, x.shape, sizes, eqn.params["mode"])
        at: list[Any] = [slice(None)] * updates.ndim
        for axis, i in zip(batch, place, strict=True):
            at[axis] = i
        parts.append((starts, inside, updates[(*at, ...)].reshape(sizes)))
    return parts


SCATTERS: dict[str, Combined] = {
    "scatter": None,
    "scatter-add": elementwise.combine("add"),
    "scatter-sub": elementwise.combine("sub"),
    "scatter-mul": elementwise.combine("mul"),
    "scatter-min": elementwise.combine("min"),
    "scatter-max": elementwise.combine("max"),
}


RULES: dict[str, Callable[[Builder, Equation, list[Value]], Value]] = {
    "dynamic_slice": _dynamic_slice,
    "gather": _gather,
}
