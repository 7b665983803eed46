"""Functions and arrays that users give, which may be traced: refused by name, with what was found and what wanted."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from jmbs.errors import ModelError
from jmbs.library.mechanics import show


def looked_at(given: Any) -> list[Any]:
    """Leaves that functions among those of a tree look at: of what they have closed over, were given beforehand or
    belong to, and of what functions among these look at in turn."""
    found: list[Any] = []
    todo, known = _leaves(given), set[int]()
    while todo:
        leaf = todo.pop()
        if id(leaf) not in known and (callable(leaf) or hasattr(leaf, "flow")) and not isinstance(leaf, type):
            known.add(id(leaf))
            leaves = [of for part in _parts(leaf) for of in _leaves(part)]
            found += leaves
            todo += leaves
    return found


def _parts(function: Any) -> list[Any]:
    cells = [cell.cell_contents for cell in getattr(function, "__closure__", None) or () if cell != types.CellType()]
    names = ("func", "args", "keywords", "__self__", "__wrapped__", "__dict__")
    return [*cells, *(getattr(function, name, None) for name in names)]


def _leaves(tree: Any) -> list[Any]:
    try:
        return jax.tree.leaves(tree)
    except (TypeError, ValueError):  # of a mapping whose keys have no order: JAX looks into none such
        return []


def require_arguments(path: str, function: Callable, names: str) -> None:
    """Raises `ModelError` for a function that does not take these arguments; of some, nothing can be known."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*names.split(", "))
    except TypeError:
        raise ModelError(path, f"a function {signature}", f"a function ({names})") from None


def called(path: str, function: Callable, *arguments: Any) -> Any:
    """What a function gives. Raises `ModelError` for one that cannot be traced, such as one of numpy."""
    try:
        return function(*arguments)
    except (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError) as error:
        wanted = "one of jax.numpy, whose arguments need not be known"
        raise ModelError(path, "a function that asks for known numbers, as those of numpy do", wanted) from error


def real_array(path: str, value: Any, wanted: str) -> Array:
    """An array of real numbers, known or traced. Raises `ModelError`."""
    try:
        array = None if isinstance(value, str | bytes) else jnp.asarray(value)
    except (TypeError, ValueError):
        array = None
    if array is None:
        raise ModelError(path, show(value), wanted)
    if array.dtype.kind not in "iuf":
        raise ModelError(path, f"an array of {array.dtype}", wanted)
    return array
