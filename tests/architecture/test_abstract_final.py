"""A class is abstract (never instantiated) or final (never subclassed), and a method is written once.

Exceptions are left out: they are caught by their base, so a more telling subclass of one that is raised is ordinary.
"""

from __future__ import annotations

import ast
from typing import NamedTuple

import pytest
from source_tree import modules, tree

# Hooks that each class of a hierarchy may have: equinox calls every `__check_init__`, Python every `__init_subclass__`.
COOPERATIVE = {"__check_init__", "__init_subclass__"}
ABSTRACT_DECORATORS = {"abstractmethod", "abc.abstractmethod"}


class Class(NamedTuple):
    """A class as it stands in the source; `methods` maps each name to whether it is abstract."""

    where: str
    bases: tuple[str, ...]
    methods: dict[str, bool]


def last_name(node: ast.expr) -> str:
    """`eqx.Module` -> `Module`, `Base[T]` -> `Base`: class names are taken to be unique within jmbs (tested below)."""
    if isinstance(node, ast.Subscript):
        return last_name(node.value)
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def is_abstract(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(ast.unparse(decorator) in ABSTRACT_DECORATORS for decorator in function.decorator_list)


def all_classes() -> list[tuple[str, Class]]:
    found = []
    for module in modules():
        for node in ast.walk(tree(module)):
            if isinstance(node, ast.ClassDef):
                functions = [child for child in node.body if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)]
                bases = tuple(last_name(base) for base in node.bases)
                methods = {function.name: is_abstract(function) for function in functions}
                found.append((node.name, Class(f"{module}:{node.lineno}", bases, methods)))
    return found


def is_exception(name: str, bases: dict[str, tuple[str, ...]]) -> bool:
    return name in ("Exception", "BaseException") or any(is_exception(base, bases) for base in bases.get(name, ()))


BASES = {name: cls.bases for name, cls in all_classes()}
CLASSES = {name: cls for name, cls in all_classes() if not is_exception(name, BASES)}
SUBCLASSED = sorted({base for cls in CLASSES.values() for base in cls.bases if base in CLASSES})


def ancestors(name: str) -> list[str]:
    bases = [base for base in CLASSES[name].bases if base in CLASSES]
    return bases + [ancestor for base in bases for ancestor in ancestors(base)]


def test_class_names_are_unique():
    """Two classes of one name confuse readers, and this file's bookkeeping."""
    names = [name for name, _ in all_classes()]
    assert not {f"{name} in {cls.where}" for name, cls in all_classes() if names.count(name) > 1}


def test_subclassed_classes_are_never_instantiated():
    calls = [
        f"{module}:{node.lineno} builds {last_name(node.func)}"
        for module in modules()
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Call) and last_name(node.func) in SUBCLASSED
    ]
    assert not calls


@pytest.mark.parametrize("name", sorted(name for name in CLASSES if ancestors(name)))
def test_methods_are_not_overridden(name: str):
    overridden = [
        f"{CLASSES[name].where}: {name}.{method} overrides {ancestor}.{method}"
        for ancestor in ancestors(name)
        for method in CLASSES[name].methods
        if method not in COOPERATIVE and CLASSES[ancestor].methods.get(method) is False
    ]
    assert not overridden


def test_this_file_sees_the_classes():
    assert {"AbstractGroup", "AbstractLowerPair", "Revolute"} <= set(CLASSES)
    assert "AbstractGroup" in SUBCLASSED
    assert "Revolute" not in SUBCLASSED
    assert not {"JmbsError", "ModelError"} & set(CLASSES)
