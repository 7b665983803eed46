"""What a program's results need, found backwards from what is stored in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jmbs.fused.expressions import (
    LOAD,
    VARIABLE,
    Break,
    Buffer,
    Builder,
    CodeBlock,
    IfElse,
    Loop,
    Node,
    Store,
    Variable,
)


def mark(code: Builder) -> None:
    """Counts the uses of each expression that a result needs, and marks what changes and is stored for it."""
    _Marker(code).run()


class _Marker:
    def __init__(self, code: Builder):
        self.stores: dict[Buffer, list[Store]] = {}
        self.breaks: dict[Loop, list[Break]] = {}
        self.todo: list[Any] = [buffer for buffer in code.buffers if buffer.kind == "output"]
        for statement in _all(code.root):
            if isinstance(statement, Store):
                self.stores.setdefault(statement.buffer, []).append(statement)
            elif isinstance(statement, Break):
                self.breaks.setdefault(statement.loop, []).append(statement)

    def run(self) -> None:
        """Until nothing new is needed."""
        while self.todo:
            thing = self.todo.pop()
            if not thing.is_live:
                thing.is_live = True
                self._needs(thing)

    def _needs(self, thing: Any) -> None:
        if isinstance(thing, Buffer):
            self.todo += self.stores.get(thing, [])
        elif isinstance(thing, Store):
            self.todo.append(thing.buffer)
            self._block(thing.block)
            self._use(thing.value, thing.block)
            if thing.base is not None:
                self._use(thing.base, thing.block)
        elif isinstance(thing, Variable):
            self.todo.append(thing.owner)
            blocks = (thing.owner.parent, thing.owner.body) if isinstance(thing.owner, Loop) else thing.owner.blocks
            for value, block in zip(thing.values, blocks, strict=bool(thing.values)):
                self._use(value, block)
            if isinstance(thing.owner, Loop) and thing.values:
                # Has a name, since what a loop carries changes all at once.
                thing.values[1].outside = True
        elif isinstance(thing, Loop):
            self._block(thing.parent)
            for leave in self.breaks.get(thing, []):
                self._use(leave.condition, thing.body)
        elif isinstance(thing, IfElse):
            self._block(thing.parent)
            self._use(thing.condition, thing.parent)

    def _block(self, block: CodeBlock) -> None:
        if block.owner is not None:
            self.todo.append(block.owner)

    def _use(self, node: Node, block: CodeBlock) -> None:
        """One more use of an expression in a block, and of all that it is made of."""
        stack = [(node, block)]
        while stack:
            node, block = stack.pop()
            node.uses += 1
            node.outside |= node.home is not block
            if node.uses > 1:
                continue
            self._block(node.home)
            if node.op == VARIABLE:
                self.todo.append(node.extra)
            elif node.op == LOAD:
                self.todo.append(node.extra[0])
            stack += [(x, node.home) for x in node.args]


def _all(block: CodeBlock) -> Iterator[Any]:
    """All statements, those inside of loops and branches too."""
    for statement in block.statements:
        yield statement
        inside = [statement.body] if isinstance(statement, Loop) else getattr(statement, "blocks", [])
        for inner in inside:
            yield from _all(inner)
