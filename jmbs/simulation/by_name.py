"""Values by name in one stacked array: what is traced and compiled does not grow with the number of names."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jmbs.jaxext import entries_across


class Entry(NamedTuple):
    """One value: it takes `prod(shape)` places from `start` on in the last axis of the stacked array."""

    name: str
    start: int
    shape: tuple[int, ...]

    @property
    def places(self) -> slice:
        """Where the value stands in the last axis."""
        return slice(self.start, self.start + math.prod(self.shape))


def entries_of(shapes: Mapping[str, tuple[int, ...]]) -> tuple[Entry, ...]:
    """Entries of these shapes, one behind the other."""
    entries, start = [], 0
    for name, shape in shapes.items():
        entries.append(Entry(name, start, shape))
        start += math.prod(shape)
    return tuple(entries)


class ByName(eqx.Module, Mapping[str, Any]):
    """A mapping from names to arrays that are parts of one; a pytree with one leaf, which keeps the order of its names.

    `values["link1"]` has shape `(..., *shape)`: axes that all values share (members of a batch, time) come first.
    It is a JAX array, or a numpy one after `jax.device_get`. Raises `KeyError` for an unknown name.

    **Arguments:** `array` (..., N), all values; `entries`: static, the part of the last axis that each name has.
    """

    array: Array
    entries: tuple[Entry, ...] = eqx.field(static=True)

    def __getitem__(self, name: str) -> Any:
        entry = self._entry(name)
        return self.array[..., entry.places].reshape(*self.array.shape[:-1], *entry.shape)

    def __iter__(self) -> Iterator[str]:
        return (entry.name for entry in self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def replace(self, name: str, value: Any) -> ByName:
        """The same values with one replaced; `value` is broadcast to its shape. Raises `KeyError`."""
        entry, shared = self._entry(name), self.array.shape[:-1]
        array = jnp.asarray(self.array)
        new = jnp.broadcast_to(jnp.asarray(value, array.dtype), (*shared, *entry.shape))
        return ByName(array.at[..., entry.places].set(new.reshape(*shared, math.prod(entry.shape))), self.entries)

    def _entry(self, name: str) -> Entry:
        for entry in self.entries:
            if entry.name == name:
                return entry
        raise KeyError(f"{name!r}: no such name, wanted one of {', '.join(self) or 'none'}")


class Places(NamedTuple):
    """Where values by name are found in a vector, or in several that are numbered one after the other; static.

    Gathering them is one operation however many there are.
    """

    index: np.ndarray
    entries: tuple[Entry, ...]

    @staticmethod
    def of(indices: Mapping[str, np.ndarray | np.integer]) -> Places:
        """From one array of indices per name, in the shape of its value."""
        flat = [np.zeros(0, int), *(np.ravel(index) for index in indices.values())]
        return Places(np.concatenate(flat), entries_of({name: np.shape(index) for name, index in indices.items()}))

    def take(self, *vectors: Array) -> ByName:
        """The values out of vectors (n,); those that hold none are not touched."""
        return ByName(entries_across(vectors, self.index), self.entries)
