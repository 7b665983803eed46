"""What a traced program depends on, as a text that is the same in every process."""

from __future__ import annotations

import dataclasses
import enum
import functools
import hashlib
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FunctionType
from typing import Any

import jax
import numpy as np

from jmbs.jaxext import version

PACKAGES = ("jax", "jaxlib", "numpy", "equinox", "diffrax", "optimistix", "lineax", "optax")
"""Whose code a program may come from beside jmbs's own and Python's; each has a version."""
KNOWN = frozenset((*PACKAGES, "jmbs", "builtins", "collections", "functools", "operator", "types"))
UNREAD = (
    "jax_compilation_cache",
    "jax_persistent_cache",
    "jax_log",
    "jax_transfer_guard",
    "jax_dump_ir",
    "jax_debug_log",
)
"""Beginnings of names of JAX's settings that no program depends on."""
SWITCHES = ("JMBS_", "XLA_FLAGS")
"""Beginnings of names of variables of the environment that programs depend on."""
STRUCT = jax.ShapeDtypeStruct


class UnknownCode(Exception):
    """Something of which nobody can say whether it is the same in another process: code of the user's."""


def digest_of(*values: Any) -> str:
    """Of trees, whose arrays that are arguments are given as shapes (`jax.ShapeDtypeStruct`), and whose other arrays
    count by their values. Raises `UnknownCode`."""
    return _Digest({}).of(values).hex()


@functools.cache
def of_installation() -> str:
    """Of the code that programs come from."""
    return digest_of(tuple((name, version(name)) for name in PACKAGES), tuple(_own_files()))


def _own_files() -> Iterator[tuple[str, int, int]]:
    """jmbs's modules; a file that was changed has another time or size."""
    root = Path(__file__).parents[1]
    for file in sorted(root.rglob("*.py")):
        status = file.stat()
        yield str(file.relative_to(root)), status.st_size, status.st_mtime_ns


def settings() -> tuple[tuple[str, str], ...]:
    """What else is read while a program is traced: JAX's settings, and the environment's."""
    values = [(name, repr(value)) for name, value in jax.config.values.items() if not name.startswith(UNREAD)]
    return (*values, *((name, value) for name, value in sorted(os.environ.items()) if name.startswith(SWITCHES)))


@dataclasses.dataclass
class _Digest:
    known: dict[int, tuple[Any, bytes]]
    """By identity, with the value itself, whose identity nothing else gets meanwhile."""

    def of(self, value: Any) -> bytes:
        if id(value) not in self.known:
            sums = hashlib.sha256()
            for part in self.parts(value):
                sums.update(len(part).to_bytes(8, "little") + part)
            self.known[id(value)] = value, sums.digest()
        return self.known[id(value)][1]

    def parts(self, value: Any) -> Iterator[bytes]:
        yield _name(type(value)).encode()
        match value:
            case None | bool() | int() | float() | complex() | str() | bytes() | np.dtype():
                yield repr(value).encode()
            case STRUCT():
                yield repr((value.shape, str(value.dtype), value.weak_type)).encode()
            case enum.Enum():
                yield value.name.encode()
            case type():
                yield _name(value).encode()
            case np.ndarray() | np.generic() | jax.Array():
                array = np.asarray(value)
                if array.dtype.hasobject:
                    raise UnknownCode("an array of objects")
                yield repr((array.shape, array.dtype.str)).encode()
                yield array.tobytes()
            case slice():
                yield from map(self.of, (value.start, value.stop, value.step))
            case tuple() | list():
                yield from map(self.of, value)
            case Mapping():
                yield from map(self.of, (part for item in value.items() for part in item))
            case set() | frozenset():
                yield from sorted(map(self.of, value))
            case functools.partial():
                yield from map(self.of, (value.func, value.args, value.keywords))
            case FunctionType():
                if value.__closure__ or not _is_of_module(value):
                    raise UnknownCode(f"the function {value.__qualname__}")
                yield _name(value).encode()
            case _ if dataclasses.is_dataclass(value):
                yield from (self.of((f.name, getattr(value, f.name, None))) for f in dataclasses.fields(value))
            case _:
                raise UnknownCode(f"an object of type {type(value).__qualname__}")


def _is_of_module(function: FunctionType) -> bool:
    """Whether it is what its module calls by its name, there perhaps decorated."""
    found: Any = sys.modules.get(function.__module__)
    for part in function.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is function or getattr(found, "__wrapped__", None) is function


def _name(code: type | FunctionType) -> str:
    """Of a class or function, of code that is known."""
    if code.__module__.partition(".")[0] not in KNOWN:
        raise UnknownCode(f"{code.__module__}.{code.__qualname__}")
    return f"{code.__module__}.{code.__qualname__}"
