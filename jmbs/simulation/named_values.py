"""Values that are computed when they are asked for by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jaxtyping import Array

from jmbs.errors import ModelError
from jmbs.library.mechanics import nearest


class NamedValues(Mapping[str, Array]):
    """A mapping that reads its values. Raises `ModelError` for an unknown name, with the nearest known.

    **Arguments:** `owner`: whose values, for messages; `kind`: what has the names (`joint`); `entries`: by name, what
    `read` gets.
    """

    def __init__(self, owner: str, kind: str, entries: Mapping[str, Any], read: Callable[[Any], Array]):
        self._owner, self._kind, self._entries, self._read = owner, kind, entries, read

    def __getitem__(self, name: str) -> Array:
        if name not in self._entries:
            article = "an" if self._kind[0] in "aeiou" else "a"
            wanted = f"the name of {article} {self._kind}{nearest(name, self._entries)}"
            raise ModelError(self._owner, f"no {self._kind} {name!r}", wanted)
        return self._read(self._entries[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
