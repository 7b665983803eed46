"""Names that a config can hold, for names that model files use more freely."""

from __future__ import annotations

import re

# A config keeps these for itself.
_RESERVED = ("ground", "environment", "gravity", "initial", "inputs")


class Names:
    """Hands out names of letters, digits, `_` and `-`, each only once.

    Model files may call a body and its joint the same, and use characters and words that configs do not; `notes` gets
    a line for each name that had to change.
    """

    def __init__(self, notes: list[str]):
        self._taken: set[str] = set(_RESERVED)
        self._notes = notes

    def new(self, kind: str, wanted: str) -> str:
        """The name that the part called `wanted` gets; `kind`, as joint or body, also sets equal names apart."""
        name = re.sub(r"[^A-Za-z0-9_-]", "_", wanted)
        if not re.match(r"[A-Za-z_]", name):
            name = f"_{name}"
        if name in self._taken:
            name = f"{name}_{kind}"
        base, count = name, 2
        while name in self._taken:
            name, count = f"{base}_{count}", count + 1
        self._taken.add(name)
        if name != wanted:
            self._notes.append(f"{kind} {wanted}: called {name} here, where names are plain and used only once")
        return name
