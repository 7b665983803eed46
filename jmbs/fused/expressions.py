"""Programs as they are built: expressions that are shared, in nested blocks of statements.

An expression is computed once: equal ones are one, in the outermost block that knows all that it is made of. They leave
loops, but no branches, which may not be taken. What nothing needs is never printed, see `printing`.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

CONSTANT, VARIABLE, LOAD = "constant", "variable", "load"
INDEX = np.dtype(np.int32)
"""The type of places in arrays."""


class Node:
    """A scalar: an operation `op` on `args`, in the block of that `depth`; `extra` is the value of a constant, the
    variable that is read, or buffer and place of a load."""

    __slots__ = ("args", "depth", "dtype", "extra", "home", "name", "number", "op", "outside", "uses")

    def __init__(self, op: str, dtype: np.dtype, args: tuple[Node, ...], extra: Any, number: int, home: CodeBlock):
        self.op, self.dtype, self.args, self.extra, self.number = op, dtype, args, extra, number
        self.home, self.depth = home, home.depth
        self.uses, self.outside, self.name = 0, False, ""

    @property
    def is_constant(self) -> bool:
        return self.op == CONSTANT


@dataclasses.dataclass(eq=False)
class Variable:
    """A scalar that changes: carried by a loop, given by either branch, or counting a loop's rounds."""

    dtype: np.dtype
    owner: Loop | IfElse
    values: tuple[Node, ...] = ()
    """What it may become: first and next value, or those of the branches."""
    number: int = -1
    is_live: bool = False


@dataclasses.dataclass(eq=False)
class Buffer:
    """An array in memory. `kind`: `argument`, `shared` (an argument of all members), `output`, `local`, `table`."""

    name: str
    dtype: np.dtype
    size: int
    kind: str
    content: np.ndarray | None = None
    is_final: bool = False
    """Whether nothing more is stored, so that loads are as good as values."""
    depth: int = 0
    """Of the block in which it became final."""
    version: int = 0
    """Counts what is stored, so that loads before and after differ."""
    is_live: bool = False


@dataclasses.dataclass(eq=False)
class Store:
    """`buffer[base + offset] = value`, base absent or an index."""

    buffer: Buffer
    base: Node | None
    offset: int
    value: Node
    block: CodeBlock
    is_live: bool = False


@dataclasses.dataclass(eq=False)
class CodeBlock:
    """Statements in order. `barrier`: the least depth to which expressions may go from here."""

    depth: int
    barrier: int
    owner: Loop | IfElse | None = None
    statements: list[Any] = dataclasses.field(default_factory=list)
    known: dict[Any, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(eq=False)
class Loop:
    """Rounds of `body`: `length` of them, backwards if `reverse`; without a length until `Break`."""

    parent: CodeBlock
    length: int | None
    reverse: bool = False
    body: CodeBlock = dataclasses.field(init=False)
    index: Variable = dataclasses.field(init=False)
    carried: list[Variable] = dataclasses.field(default_factory=list)
    is_live: bool = False


@dataclasses.dataclass(eq=False)
class Break:
    """Leaves the loop unless the condition holds."""

    condition: Node
    loop: Loop


@dataclasses.dataclass(eq=False)
class IfElse:
    """Either of two blocks."""

    parent: CodeBlock
    condition: Node
    blocks: list[CodeBlock] = dataclasses.field(default_factory=list)
    given: list[Variable] = dataclasses.field(default_factory=list)
    is_live: bool = False


class Builder:
    """Blocks under way, the innermost last. All that makes statements goes through it."""

    def __init__(self) -> None:
        self.root = CodeBlock(0, 0)
        self.open = [self.root]
        self.buffers: list[Buffer] = []
        self.count = 0

    @property
    def block(self) -> CodeBlock:
        return self.open[-1]

    # -- expressions --------------------------------------------------------------------------------------------------

    def constant(self, value: Any, dtype: Any) -> Node:
        """A constant of this type."""
        value = np.asarray(value).astype(dtype)[()]
        key = CONSTANT, value.dtype.char, value.tobytes()
        if key not in self.root.known:
            self.root.known[key] = self._node(CONSTANT, value.dtype, (), value, self.root)
        return self.root.known[key]

    def node(self, op: str, dtype: np.dtype, *args: Node, extra: Any = None) -> Node:
        """An operation as it stands, or the same one that was there before; `algebra.apply` simplifies it first."""
        depth = max((x.depth for x in args), default=0)
        return self._shared((op, dtype.char, extra, *(x.number for x in args)), op, dtype, args, extra, depth)

    def load(self, buffer: Buffer, base: Node | None, offset: int) -> Node:
        """`buffer[base + offset]`; of a buffer that still changes, in this block and in order."""
        args = () if base is None else (base,)
        depth = max(buffer.depth, *(x.depth for x in args), 0) if buffer.is_final else self.block.depth
        key = LOAD, id(buffer), offset, buffer.version, *(x.number for x in args)
        return self._shared(key, LOAD, buffer.dtype, args, (buffer, offset), depth)

    def _shared(self, key: Any, op: str, dtype: np.dtype, args: tuple[Node, ...], extra: Any, depth: int) -> Node:
        for block in reversed(self.open):
            found = block.known.get(key)
            if found is not None:
                return found
        home = self.open[max(depth, self.block.barrier)]
        node = home.known[key] = self._node(op, dtype, args, extra, home)
        home.statements.append(node)
        return node

    def _node(self, op: str, dtype: np.dtype, args: tuple[Node, ...], extra: Any, home: CodeBlock) -> Node:
        self.count += 1
        return Node(op, dtype, args, extra, self.count, home)

    def variable(self, variable: Variable) -> Node:
        """What the variable is now, in this block."""
        return self._node(VARIABLE, variable.dtype, (), variable, self.block)

    # -- arrays -------------------------------------------------------------------------------------------------------

    def buffer(self, dtype: np.dtype, size: int, kind: str = "local", name: str = "", content: Any = None) -> Buffer:
        """A new array."""
        buffer = Buffer(name or f"{kind}{len(self.buffers)}", dtype, size, kind, content)
        buffer.is_final = kind not in ("local", "output")
        self.buffers.append(buffer)
        return buffer

    def store(self, buffer: Buffer, base: Node | None, offset: int, value: Node) -> None:
        """Puts a value into the buffer, here and now."""
        self._store(buffer, base, offset, value, self.block)
        buffer.version += 1

    def filled(self, values: Sequence[Node], dtype: np.dtype) -> Buffer:
        """An array of these values that never changes, in the outermost block that knows them all."""
        key = "filled", tuple(x.number for x in values)
        for block in reversed(self.open):
            if key in block.known:
                return block.known[key]
        if all(x.is_constant for x in values):
            home, content = self.root, np.array([x.extra for x in values], dtype)
            buffer = self.buffer(dtype, len(values), "table", content=content)
        else:
            home = self.open[max(self.block.barrier, *(x.depth for x in values))]
            buffer = self.buffer(dtype, len(values))
            home.statements.append(buffer)
            for offset, value in enumerate(values):
                self._store(buffer, None, offset, value, home)
            buffer.is_final, buffer.depth = True, home.depth
        home.known[key] = buffer
        return buffer

    def _store(self, buffer: Buffer, base: Node | None, offset: int, value: Node, block: CodeBlock) -> None:
        block.statements.append(Store(buffer, base, offset, value, block))

    def finish(self, buffer: Buffer) -> None:
        """Nothing more is stored in a local buffer of this block: from now on loads are as good as values."""
        buffer.is_final, buffer.depth = True, self.block.depth

    def local(self, dtype: np.dtype, size: int) -> Buffer:
        """A new array that is filled later."""
        buffer = self.buffer(dtype, size)
        self.block.statements.append(buffer)
        return buffer

    # -- control ------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def loop(self, length: int | None, reverse: bool = False) -> Iterator[Loop]:
        """A loop, in whose body the context is. It becomes a statement by `append`."""
        loop = Loop(self.block, length, reverse)
        loop.body = CodeBlock(self.block.depth + 1, self.block.barrier, loop)
        loop.index = Variable(INDEX, loop)
        with self.within(loop.body):
            yield loop

    def branch(self, condition: Node) -> IfElse:
        """Two blocks to choose from, both empty."""
        branch, depth = IfElse(self.block, condition), self.block.depth + 1
        branch.blocks = [CodeBlock(depth, depth, branch) for _ in range(2)]
        return branch

    @contextlib.contextmanager
    def within(self, block: CodeBlock) -> Iterator[None]:
        """Goes on in a block inside of this one."""
        self.open.append(block)
        try:
            yield
        finally:
            self.open.pop()

    def append(self, statement: Loop | IfElse | Break) -> None:
        """Puts a statement here."""
        self.block.statements.append(statement)
