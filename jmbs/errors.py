"""The errors users meet: each says where, what was found, and what was wanted."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

MOST_QUOTED = 80
"""Characters of anything that a message quotes."""
_MOST_SAID = 500
_LONG_WORD = re.compile(rf"[^\s/]{{{MOST_QUOTED + 1},}}")


def shortened(text: str, most: int = MOST_QUOTED) -> str:
    """The text, or the beginning of a long one, `most` characters with the dots that say so."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def printable(text: object) -> str:
    """The text as one line that is safe on a terminal: what does not print is escaped, and long words are shortened.

    File names and keys may hold control characters, with which a terminal can be made to show or do anything.
    """
    line = " ".join(str(text).splitlines())
    escaped = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in line)
    return _LONG_WORD.sub(lambda word: shortened(word[0]), escaped)


def message_of(path: str, found: object, wanted: str, more: str = "") -> str:
    """Where, what was found and what was wanted, as one line."""
    place = "/".join(shortened(piece) for piece in printable(path).split("/"))
    said = f"found {shortened(printable(found), _MOST_SAID)}, wanted {shortened(printable(wanted), _MOST_SAID)}{more}"
    return f"{place}: {said}" if place else said


class JmbsError(Exception):
    """Base of all errors that jmbs raises on purpose."""


class ModelError(JmbsError):
    """A model, config or argument is wrong.

    **Arguments:**

    - `path`: where, as names joined by `/` (`bodies/link1/mass`).
    - `found`: the offending value, shown as it was given.
    - `wanted`: what would have been right, in words.

    These are kept as they are; the message is one printable line that quotes at most 80 characters of each name.
    """

    def __init__(self, path: str, found: object, wanted: str):
        self.path = path
        self.found = found
        self.wanted = wanted
        super().__init__(message_of(path, found, wanted))


class AssemblyError(JmbsError):
    """No consistent initial state exists near the one that was given."""


class SimulationError(JmbsError):
    """An integration failed and the caller asked for an exception (`throw=True`)."""


class RunInterrupted(KeyboardInterrupt):
    """Ctrl-C came while a run was under way that shows its progress.

    **Arguments:** `trajectory`: a function that makes the trajectory of what was computed, of status `interrupted`.
    """

    def __init__(self, trajectory: Callable[[], Any]):
        super().__init__("the run was interrupted")
        self.trajectory = trajectory
