"""Functions and arrays that users give, which may be traced: refused by name, with what was found and what wanted."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array

from jmbs.errors import ModelError
from jmbs.library.mechanics import show

MOST_OBJECTS = 1000
"""That are looked into: what has more is no controller."""
UNOPENED = (
    *(type, types.ModuleType, types.BuiltinFunctionType, str, bytes, int, float, complex),
    *(jax.Array, Tracer, np.ndarray, np.generic),
)
"""Types of what holds nothing."""


def looked_at(given: Any) -> list[Any]:
    """Leaves that functions and objects among those of a tree look at: of what they have closed over, were given
    beforehand, belong to or have as attributes, and of what is found there in turn. Nothing of the user's is called."""
    found: list[Any] = []
    todo, known = _leaves(given), set[int]()
    while todo and len(known) < MOST_OBJECTS:
        leaf = todo.pop()
        if id(leaf) not in known and not issubclass(type(leaf), UNOPENED):
            known.add(id(leaf))
            leaves = [of for part in _parts(leaf) for of in _leaves(part)]
            found += leaves
            todo += leaves
    return found


def _parts(of: Any) -> list[Any]:
    """What a function or an object holds."""
    kind = type(of)
    try:
        parts = list(object.__getattribute__(of, "__dict__").values())
    except AttributeError:
        parts = []
    if issubclass(kind, types.FunctionType):
        cells = [cell.cell_contents for cell in of.__closure__ or () if cell != types.CellType()]
        parts += [*cells, *(of.__defaults__ or ()), *(of.__kwdefaults__ or {}).values()]
    elif issubclass(kind, types.MethodType):
        parts += [of.__self__, of.__func__]
    elif issubclass(kind, functools.partial):
        parts += [of.func, *of.args, *of.keywords.values()]
    return parts


def _leaves(tree: Any) -> list[Any]:
    """With partial functions, which have leaves of their own, as one each."""
    try:
        return jax.tree.leaves(tree, is_leaf=lambda part: issubclass(type(part), functools.partial))
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
