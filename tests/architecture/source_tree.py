"""What the architecture tests read from the source: modules, their syntax trees, and who imports whom."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "jmbs"


class Import(NamedTuple):
    """One import statement's target: the module it names, and the line that does."""

    importer: str
    target: str
    line: int


@cache
def modules() -> dict[str, Path]:
    """Dotted name of every module of jmbs, with its file; a package goes by its own name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def tree(module: str) -> ast.Module:
    """Syntax tree of a module named in `modules()`."""
    return ast.parse(modules()[module].read_text(encoding="utf-8"), filename=str(modules()[module]))


def is_package(module: str) -> bool:
    return modules()[module].name == "__init__.py"


def _runtime_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes below `node`, lazy imports in functions included, without what stands under `if TYPE_CHECKING`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            for statement in child.orelse:
                yield statement
                yield from _runtime_nodes(statement)
            continue
        yield child
        yield from _runtime_nodes(child)


def _absolute(module: str, node: ast.ImportFrom) -> str:
    if node.level == 0:
        return node.module or ""
    here = module.split(".") if is_package(module) else module.split(".")[:-1]
    base = here[: len(here) - (node.level - 1)]
    return ".".join(base + ([node.module] if node.module else []))


def _named(base: str, name: str) -> str:
    """The module that `from base import name` reaches: `base` itself where its `__init__` binds a function `name`."""
    inner = f"{base}.{name}"
    return inner if inner in modules() and name not in _exported(base) else base


@cache
def _exported(package: str) -> frozenset[str]:
    """Names that a package's `__init__` takes over from its modules."""
    if package not in modules() or not is_package(package):
        return frozenset()
    statements = (node for node in tree(package).body if isinstance(node, ast.ImportFrom))
    return frozenset(
        alias.asname or alias.name for node in statements for alias in node.names if node.module != package
    )


@cache
def imports(module: str, types_too: bool = False) -> tuple[Import, ...]:
    """The modules of jmbs that `module` imports at run time, and with `types_too` those that only annotations need;
    `from a import b` means `a.b` where that is a module."""
    found = []
    for node in ast.walk(tree(module)) if types_too else _runtime_nodes(tree(module)):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(module, node)
            targets = [_named(base, alias.name) for alias in node.names]
        else:
            continue
        found += [Import(module, target, node.lineno) for target in dict.fromkeys(targets) if target in modules()]
    return tuple(found)
