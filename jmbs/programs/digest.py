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
from types import FunctionType, MappingProxyType
from typing import Any

import jax
import numpy as np

from jmbs.jaxext import switched_off, version

PACKAGES = ("jax", "jaxlib", "numpy", "equinox", "diffrax", "optimistix", "lineax", "optax")
"""Whose code a program may come from beside jmbs's own and Python's; each has a version."""
KNOWN = frozenset((*PACKAGES, "jmbs", "functools"))
COLLECTIONS = (tuple, list, dict, set, frozenset, MappingProxyType)
BUILTIN = (type(None), bool, int, float, complex, str, bytes, slice, *COLLECTIONS)
UNREAD = ("jax_compilation_cache", "jax_persistent_cache", "jax_log", "jax_transfer_guard", "jax_dump_ir")
"""Beginnings of names of JAX's settings that no program depends on."""
SWITCHES = ("JMBS_", "XLA_FLAGS")
"""Beginnings of names of variables of the environment that programs depend on."""


class UnknownCode(Exception):
    """Something of which nobody can say whether it is the same in another process: code of the user's."""


def digest_of(*values: Any) -> str:
    """Of trees, whose arrays that are arguments are given as shapes (`jax.ShapeDtypeStruct`), and whose other arrays
    count by their values. Raises `UnknownCode`."""
    return _Digest({}).of(values).hex()


def of_installation() -> str:
    """Of the code that programs come from. Raises `UnknownCode` where files are not those that were imported."""
    if _own_files() != IMPORTED:
        raise UnknownCode("files of jmbs that were changed since it was imported")
    return _of_packages()


@functools.cache
def _of_packages() -> str:
    return digest_of(tuple((name, version(name)) for name in PACKAGES), IMPORTED)


def _own_files() -> tuple[tuple[str, int, int], ...]:
    """jmbs's modules; a file that was changed has another time or size."""
    status = [(file, file.stat()) for file in sorted(Path(__file__).parents[1].rglob("*.py"))]
    return tuple((str(file), of.st_size, of.st_mtime_ns) for file, of in status)


IMPORTED = _own_files()


def settings() -> tuple[tuple[str, str], ...]:
    """What else is read while a program is traced: JAX's settings, and the environment's."""
    values = [(name, repr(value)) for name, value in jax.config.values.items() if not name.startswith(UNREAD)]
    values.append(("without", ",".join(sorted(switched_off()))))
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
        kind = type(value)
        yield (kind.__name__ if kind in (*BUILTIN, FunctionType, type) else _name(kind)).encode()
        match value:
            case None | bool() | int() | float() | complex() | str() | bytes() | np.dtype():
                yield repr(value).encode()
            case jax.ShapeDtypeStruct():
                yield repr((value.shape, str(value.dtype), value.weak_type)).encode()
            case enum.Enum():
                yield value.name.encode()
            case type():
                yield (value.__name__ if value in BUILTIN else _name(value)).encode()
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
                if value.__closure__:
                    raise UnknownCode(f"the function {value.__qualname__}")
                yield _name(value).encode()
            case _ if dataclasses.is_dataclass(value):
                yield from (self.of((f.name, getattr(value, f.name, None))) for f in dataclasses.fields(value))
            case _:
                raise UnknownCode(f"an object of type {kind.__qualname__}")


def _name(code: type | FunctionType) -> str:
    """Of a class or function, of code that is known: it is what its module calls so, a function there perhaps
    decorated."""
    name = f"{code.__module__}.{code.__qualname__}"
    found: Any = sys.modules.get(code.__module__)
    for part in code.__qualname__.split("."):
        found = getattr(found, part, None)
    decorated = isinstance(code, FunctionType) and getattr(found, "__wrapped__", None) is code
    if name.partition(".")[0] not in KNOWN or not (found is code or decorated):
        raise UnknownCode(name)
    return name
