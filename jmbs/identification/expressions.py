"""Expressions of parameters in studies: `0.5 * link1/mass`, `rail/friction/viscous / cart/mass`.

A slash or a minus between two names belongs to a path unless there are spaces around it.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp

from jmbs.errors import ModelError

FUNCTIONS: dict[str, Callable[[Any], Any]] = {"exp": jnp.exp, "log": jnp.log, "sqrt": jnp.sqrt}
_OPERATIONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.Pow: lambda a, b: a**b,
}
_ALLOWED = (ast.BinOp, ast.UnaryOp, ast.expr_context, ast.USub, ast.UAdd, *_OPERATIONS)
_PATH = re.compile(r"[A-Za-z_][\w.-]*(?:/[A-Za-z_][\w.-]*)+(?:\[\d+(?:,\s*\d+)*\])?")
LONGEST = 1000
"""Characters of an expression, at most."""
_WANTED = f"numbers, paths, + - * / **, and {', '.join(FUNCTIONS)}"


@dataclasses.dataclass(frozen=True)
class Expression:
    """A parsed expression: `text` and the `paths` in it, each once."""

    text: str
    paths: tuple[str, ...]
    tree: ast.expr = dataclasses.field(compare=False, repr=False)

    def value(self, values: Mapping[str, Any]) -> Any:
        """The value where its paths have `values`; pure."""
        return _value(self.tree, dict(enumerate(values[path] for path in self.paths)))


def parse(place: str, text: Any) -> Expression:
    """The expression of a text that stands at `place`. Raises `ModelError`."""
    if isinstance(text, int | float) and not isinstance(text, bool):
        text = repr(text)
    if not isinstance(text, str) or not 0 < len(text.strip()) <= LONGEST:
        raise ModelError(place, repr(text)[:80], f"an expression of {_WANTED}")
    paths: dict[str, int] = {}

    def numbered(match: re.Match[str]) -> str:
        path = re.sub(r"\s", "", match.group())
        return f"_{paths.setdefault(path, len(paths))}_"

    try:
        tree = ast.parse(_PATH.sub(numbered, text.strip()), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ModelError(place, repr(text)[:80], f"an expression of {_WANTED}") from None
    _refuse_others(place, text, tree, len(paths))
    return Expression(text, tuple(paths), tree)


def _refuse_others(place: str, text: str, tree: ast.expr, count: int) -> None:
    names = {f"_{i}_" for i in range(count)}
    called = {node.func for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            known = node.id in names or (node in called and node.id in FUNCTIONS)
            if not known:
                wanted = f"a path such as link1/mass, or a call of {', '.join(FUNCTIONS)}"
                raise ModelError(place, f"{node.id!r} in {text!r}"[:120], wanted)
        elif isinstance(node, ast.Constant):
            if isinstance(node.value, bool) or not isinstance(node.value, int | float):
                raise ModelError(place, repr(text)[:80], f"an expression of {_WANTED}")
        elif isinstance(node, ast.Call):
            if node.keywords or len(node.args) != 1:
                raise ModelError(place, repr(text)[:80], "functions of one argument")
        elif not isinstance(node, _ALLOWED):
            raise ModelError(place, repr(text)[:80], f"an expression of {_WANTED}")


def _value(node: ast.expr, values: Mapping[int, Any]) -> Any:
    match node:
        case ast.Constant(value=value):
            return jnp.asarray(value, float)
        case ast.Name(id=name):
            return values[int(name.strip("_"))]
        case ast.UnaryOp(op=op, operand=operand):
            value = _value(operand, values)
            return -value if isinstance(op, ast.USub) else value
        case ast.BinOp(left=left, op=op, right=right):
            return _OPERATIONS[type(op)](_value(left, values), _value(right, values))
        case ast.Call(func=ast.Name(id=name), args=[argument]):
            return FUNCTIONS[name](_value(argument, values))
    raise AssertionError(ast.dump(node))
