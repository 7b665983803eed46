"""Expressions of unknowns, such as `0.5 * link1/mass` or `rail/friction/viscous / cart/mass`: `+ - * / **`, exp, log
and sqrt.

Paths hold slashes, so what is known is read first, the longest name that stands at a place: `cart/mass` is a path, and
`cart/mass / 2` a quotient.
"""

from __future__ import annotations

import ast
import dataclasses
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax.numpy as jnp

from jmbs.errors import ModelError
from jmbs.library.mechanics import nearest, show

_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {"exp": jnp.exp, "log": jnp.log, "sqrt": jnp.sqrt}
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:/[A-Za-z_][A-Za-z0-9_-]*)*")
_INDEX = re.compile(r"\[\s*\d+(?:\s*,\s*\d+)*\s*\]")
_NUMBER = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_LONGEST = 2000


@dataclasses.dataclass(frozen=True)
class Expression:
    """A parsed expression; `names` are the paths in it, in the order in which they first stand."""

    text: str
    names: tuple[str, ...]
    root: ast.expr = dataclasses.field(compare=False, repr=False)

    def __call__(self, values: Mapping[str, Any]) -> Any:
        """Its value where the paths have these values (numbers or arrays, traced or not)."""
        return _evaluate(self.root, [values[name] for name in self.names])


def parse_expression(path: str, text: str, known: Iterable[str]) -> Expression:
    """The expression in a text.

    **Arguments:** `path`: where it stands, for messages; `known`: the paths that it may hold, without indices. Raises
    `ModelError` with the nearest known path.
    """
    names: dict[str, int] = {}
    if len(text) > _LONGEST:
        raise ModelError(path, f"{len(text)} characters", f"an expression of up to {_LONGEST}")
    replaced = _with_places(path, " ".join(text.split()), sorted(known, key=len, reverse=True), names)
    try:
        root = ast.parse(replaced.strip(), mode="eval").body
        _check(root)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        wanted = "an expression of paths, numbers, + - * / **, exp, log and sqrt"
        raise ModelError(path, show(text), wanted) from None
    return Expression(text, tuple(names), root)


def _with_places(path: str, text: str, known: list[str], names: dict[str, int]) -> str:
    """The text with `_0`, `_1`, ... in place of paths; fills `names`, which counts them."""
    pieces, at = [], 0
    while at < len(text):
        name = next((name for name in known if _stands_at(text, at, name)), None)
        number = _NUMBER.match(text, at)
        word = _WORD.match(text, at)
        if name is not None:
            index = _INDEX.match(text, at + len(name))
            at += len(name)
            if index is not None:
                name += "".join(index[0].split())
                at = index.end()
            pieces.append(f" _{names.setdefault(name, len(names))} ")
        elif number is not None:
            pieces.append(number[0])
            at = number.end()
        elif word is not None and word[0] not in _FUNCTIONS:
            found = f"no {word[0]}" + (", which is one path: quotients have blanks" if "/" in word[0] else "")
            raise ModelError(path, found, f"a known path{nearest(word[0], known)}")
        else:
            piece = word[0] if word is not None else text[at]
            pieces.append(piece)
            at += len(piece)
    return "".join(pieces)


def _stands_at(text: str, at: int, name: str) -> bool:
    """Whether a name stands there and does not go on: neither as a word nor as a path."""
    if not text.startswith(name, at):
        return False
    after = text[at + len(name) : at + len(name) + 2]
    goes_on = bool(re.match(r"[A-Za-z0-9_]|/[A-Za-z_]", after))
    return not goes_on


def _check(node: ast.AST) -> None:
    """Refuses all but arithmetic with `ValueError`."""
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        _check(node.left)
        _check(node.right)
    elif isinstance(node, ast.UnaryOp) and type(node.op) in _OPERATORS:
        _check(node.operand)
    elif isinstance(node, ast.Call):
        if not isinstance(node.func, ast.Name) or node.func.id not in _FUNCTIONS:
            raise ValueError
        if len(node.args) != 1 or node.keywords:
            raise ValueError
        _check(node.args[0])
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, bool) or not isinstance(node.value, int | float):
            raise ValueError
    elif not (isinstance(node, ast.Name) and re.fullmatch(r"_\d+", node.id)):
        raise ValueError


def _evaluate(node: ast.AST, values: list[Any]) -> Any:
    if isinstance(node, ast.BinOp):
        return _OPERATORS[type(node.op)](_evaluate(node.left, values), _evaluate(node.right, values))
    if isinstance(node, ast.UnaryOp):
        return _OPERATORS[type(node.op)](_evaluate(node.operand, values))
    if isinstance(node, ast.Call):
        assert isinstance(node.func, ast.Name)
        return _FUNCTIONS[node.func.id](_evaluate(node.args[0], values))
    if isinstance(node, ast.Constant):
        return float(node.value)  # type: ignore[arg-type]
    assert isinstance(node, ast.Name)
    return values[int(node.id[1:])]
