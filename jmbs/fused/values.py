"""Arrays of a program: scalars one by one, or a part of an array in memory.

Scalars cost nothing to slice, transpose or join. What is read or written at places that are known only while the
program runs is in memory.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jmbs.fused.algebra import apply
from jmbs.fused.expressions import INDEX, LOAD, Buffer, Builder, Node

FEW = 4
"""Places among which a scalar is selected; among more it is loaded from memory."""


@dataclasses.dataclass(frozen=True, eq=False)
class Memory:
    """The entries of `buffer` from `base + offset` on, one after the other, row by row."""

    buffer: Buffer
    shape: tuple[int, ...]
    base: Node | None = None
    offset: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether it is all of the buffer."""
        return self.base is None and self.offset == 0 and math.prod(self.shape) == self.buffer.size


Scalars = np.ndarray
"""Of nodes."""
Value = Memory | Scalars


def scalars(code: Builder, value: Value) -> Scalars:
    """The entries as scalars; what is in memory is loaded, if anything needs it."""
    if not isinstance(value, Memory):
        return value
    size = math.prod(value.shape)
    return array((code.load(value.buffer, value.base, value.offset + i) for i in range(size)), value.shape)


def only(x: Scalars) -> Node:
    """The one entry."""
    return x.item()


def array(nodes: Any, shape: Sequence[int]) -> Scalars:
    """An array of these nodes."""
    found = np.empty(math.prod(shape), object)
    for i, node in enumerate(nodes):
        found[i] = node
    return found.reshape(shape)


def constants(code: Builder, values: Any, dtype: np.dtype | None = None) -> Scalars:
    """Constants of the program."""
    values = np.asarray(values, dtype)
    return array((code.constant(x, values.dtype) for x in values.ravel()), values.shape)


def in_memory(code: Builder, value: Value, dtype: np.dtype) -> Memory:
    """The value in memory, where nothing changes it: where it came from, or a new array of its entries."""
    if isinstance(value, Memory):
        return value
    return _source(value) or Memory(code.filled(list(value.flat), dtype), value.shape)


def _source(value: Scalars) -> Memory | None:
    """Where the scalars are in memory one after the other, if nothing changes them there."""
    nodes = list(value.flat)
    first = nodes[0]
    if not (first.op == LOAD and first.extra[0].is_final and all(_follow(first, x, i) for i, x in enumerate(nodes))):
        return None
    buffer, offset = first.extra
    return Memory(buffer, value.shape, first.args[0] if first.args else None, offset)


def rows(code: Builder, value: Value, dtype: np.dtype) -> Callable[[Node], Value]:
    """The rows of an array by their numbers, which are known only as the program runs.

    Scalars come into memory column by column: what is the same in all rows needs none, and what nothing reads neither.
    """
    if not math.prod(value.shape):
        return lambda i: np.empty(value.shape[1:], object)
    if isinstance(value, Memory) or _source(value) is not None or all(x.is_constant for x in value.flat):
        memory = in_memory(code, value, dtype)
        return lambda i: row(code, memory, i)
    columns = [list(column) for column in value.reshape(len(value), -1).T]

    def one(i: Node) -> Value:
        nodes = (
            column[0] if all(x is column[0] for x in column) else code.load(code.filled(column, dtype), i, 0)
            for column in columns
        )
        return array(nodes, value.shape[1:])

    return one


def _follow(first: Node, x: Node, i: int) -> bool:
    """Whether `x` is the i-th entry after the first."""
    return x.op == LOAD and x.args == first.args and x.extra == (first.extra[0], first.extra[1] + i)


def index(code: Builder, value: Any) -> Node:
    """A place, of type `INDEX`."""
    return apply(code, "convert", value, dtype=INDEX) if isinstance(value, Node) else code.constant(value, INDEX)


def clamped(code: Builder, place: Node, most: int) -> Node:
    """A place between 0 and `most`."""
    zero, last = code.constant(0, INDEX), code.constant(most, INDEX)
    place = apply(code, "select", apply(code, "lt", place, zero), place, zero)
    return apply(code, "select", apply(code, "gt", place, last), place, last)


def _place(code: Builder, shape: Sequence[int], starts: Sequence[Node]) -> tuple[Node | None, int]:
    """The place of an entry in memory: what is known only at run time, and the rest."""
    base, offset = None, 0
    for axis, start in enumerate(starts):
        stride = math.prod(shape[axis + 1 :])
        if start.is_constant:
            offset += int(start.extra) * stride
            continue
        moved = apply(code, "mul", start, code.constant(stride, INDEX))
        base = moved if base is None else apply(code, "add", base, moved)
    return base, offset


def _moved(code: Builder, memory: Memory, base: Node | None, offset: int) -> tuple[Node | None, int]:
    if memory.base is not None:
        base = memory.base if base is None else apply(code, "add", memory.base, base)
    return base, memory.offset + offset


def row(code: Builder, value: Value, i: Node | int) -> Value:
    """`value[i]`, in bounds; of scalars for a number only."""
    if not isinstance(value, Memory):
        assert isinstance(i, int)
        return value[i, ...]
    base, offset = _moved(code, value, *_place(code, value.shape, [index(code, i)]))
    return Memory(value.buffer, value.shape[1:], base, offset)


def part(code: Builder, value: Value, starts: Sequence[Node], sizes: Sequence[int], dtype: np.dtype) -> Value:
    """The part of these sizes from `starts` on, which are in bounds."""
    shape = value.shape
    if not math.prod(sizes):
        return np.empty(sizes, object)
    varying = [axis for axis, start in enumerate(starts) if not start.is_constant]
    if not isinstance(value, Memory):
        first = [0 if axis in varying else int(start.extra) for axis, start in enumerate(starts)]
        if not varying:
            return value[tuple(slice(a, a + n) for a, n in zip(first, sizes, strict=True))]
        count = shape[varying[0]] - sizes[varying[0]] + 1
        if len(varying) == 1 and count <= FEW:
            return _selected(code, value, starts, sizes, varying[0], count)
    memory = in_memory(code, value, dtype)
    base, offset = _moved(code, memory, *_place(code, shape, starts))
    whole_rows = [axis for axis in range(1, len(shape)) if sizes[axis] != shape[axis]]
    if all(n == 1 for n in sizes[: max(whole_rows, default=0)]):
        return Memory(memory.buffer, tuple(sizes), base, offset)
    nodes = (code.load(memory.buffer, base, offset + int(i)) for i in _offsets(shape, sizes).flat)
    return array(nodes, sizes)


def _offsets(shape: Sequence[int], sizes: Sequence[int]) -> np.ndarray:
    return np.arange(math.prod(shape)).reshape(shape)[tuple(map(slice, sizes))]


def _selected(
    code: Builder, value: Scalars, starts: Sequence[Node], sizes: Sequence[int], axis: int, count: int
) -> Scalars:
    """The part from one of few places on."""

    def at(place: int) -> Scalars:
        first = [place if i == axis else int(start.extra) for i, start in enumerate(starts)]
        return value[tuple(slice(a, a + n) for a, n in zip(first, sizes, strict=True))]

    found = at(0)
    for place in range(1, count):
        here = apply(code, "eq", starts[axis], code.constant(place, INDEX))
        found = each(code, "select", constants_of(here, found.shape), found, at(place))
    return found


def constants_of(node: Node, shape: Sequence[int]) -> Scalars:
    """The same node everywhere."""
    return array((node for _ in range(math.prod(shape))), shape)


def each(code: Builder, op: str, *values: Scalars) -> Scalars:
    """The operation entry by entry."""
    flat = zip(*(value.flat for value in values), strict=True)
    return array((apply(code, op, *nodes) for nodes in flat), values[0].shape)


def put(code: Builder, memory: Memory, starts: Sequence[Node], values: Scalars) -> None:
    """Stores values from `starts` on, which are in bounds."""
    base, offset = _moved(code, memory, *_place(code, memory.shape, starts))
    for i, node in zip(_offsets(memory.shape, values.shape).flat, list(values.flat), strict=True):
        code.store(memory.buffer, base, offset + int(i), node)


def fill(code: Builder, target: Memory, value: Value) -> None:
    """Stores all of a value in a buffer: from another one in a loop, if it is long."""
    if isinstance(value, Memory) and math.prod(value.shape) > LONG:
        with code.loop(math.prod(value.shape)) as loop:
            i = code.variable(loop.index)
            base = i if value.base is None else apply(code, "add", value.base, i)
            to = i if target.base is None else apply(code, "add", target.base, i)
            code.store(target.buffer, to, target.offset, code.load(value.buffer, base, value.offset))
        code.append(loop)
        target.buffer.version += 1
        return
    nodes = list(scalars(code, value).flat)
    if len(nodes) > LONG and all(node is nodes[0] for node in nodes):
        with code.loop(len(nodes)) as loop:
            i = code.variable(loop.index)
            to = i if target.base is None else apply(code, "add", target.base, i)
            code.store(target.buffer, to, target.offset, nodes[0])
        code.append(loop)
        return
    # All are loaded before any is stored.
    for i, node in enumerate(nodes):
        code.store(target.buffer, target.base, target.offset + i, node)


LONG = 512
"""Entries of an array in memory that is copied, or goes through an operation, in a loop if they are more, and of parts
that are loaded early if they are not."""
