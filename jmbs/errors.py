"""The errors users meet: each says where, what was found, and what was wanted."""

from __future__ import annotations


class JmbsError(Exception):
    """Base of all errors that jmbs raises on purpose."""


class ModelError(JmbsError):
    """A model, config or argument is wrong.

    **Arguments:**

    - `path`: where, as names joined by `/` (`bodies/link1/mass`).
    - `found`: the offending value, shown as it was given.
    - `wanted`: what would have been right, in words.
    """

    def __init__(self, path: str, found: object, wanted: str):
        self.path = path
        self.found = found
        self.wanted = wanted
        super().__init__(f"{path}: found {found}, wanted {wanted}")


class AssemblyError(JmbsError):
    """No consistent initial state exists near the one that was given."""


class SimulationError(JmbsError):
    """An integration failed and the caller asked for an exception (`throw=True`)."""
