"""Static plans that compare by what they hold, so that programs made for one serve every equal one.

JAX looks for a program by the static parts of its arguments. Two mechanisms that are compiled from the same text have
equal plans, and so has one that was pickled and read again.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Hashable, Mapping
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")
KEY, HASH = "_key", "_hash"


def by_value(cls: type[T]) -> type[T]:
    """Decorates a frozen dataclass whose fields hold arrays, mappings, tuples of such and hashable values: instances
    compare and hash by these. Both are computed once; arrays must not change afterwards."""

    def key(self: Any) -> tuple:
        return tuple(_hashable(getattr(self, field.name)) for field in dataclasses.fields(self))

    def equal(self: Any, other: Any) -> bool:
        return self is other or (type(self) is type(other) and hash(self) == hash(other) and self._key == other._key)

    def state(self: Any) -> dict[str, Any]:
        # Hashes of text differ from process to process.
        return {name: value for name, value in vars(self).items() if name not in (KEY, HASH)}

    for name, value in ((KEY, key), (HASH, lambda self: hash((type(self), self._key)))):
        cached = functools.cached_property(value)
        cached.__set_name__(cls, name)
        setattr(cls, name, cached)
    for name, method in (("__eq__", equal), ("__hash__", lambda self: self._hash), ("__getstate__", state)):
        setattr(cls, name, method)
    return cls


def _hashable(value: Any) -> Hashable:
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, value.tobytes()
    if isinstance(value, Mapping):
        return tuple((name, _hashable(entry)) for name, entry in value.items())
    if isinstance(value, (tuple, list)):
        return tuple(_hashable(entry) for entry in value)
    if isinstance(value, slice):
        return value.start, value.stop, value.step
    return value
