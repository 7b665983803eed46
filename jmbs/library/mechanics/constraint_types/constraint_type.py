"""What a type of constraint on one body is: all that schema, checks, components, parameters and export need of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from jmbs.ephs import Closure
from jmbs.library.mechanics import checks
from jmbs.lie import AbstractGroup

Values = Mapping[str, Any]
"""What a section says, checked, by key."""


@dataclasses.dataclass(frozen=True)
class ConstraintKey:
    """A key of a constraint's section.

    **Arguments:** `name`; `form` of the value in configs: `vector` (3,), `number`, `word` or `surface`; `check`:
    refuses a value at a path and gives it checked; `default`, where nothing is given; `needed`: something must be;
    `may_lack`: nothing stays nothing.
    """

    name: str
    form: str
    check: Callable[[str, Any], Any]
    default: Any = None
    needed: bool = False
    may_lack: bool = False


@dataclasses.dataclass(frozen=True)
class ConstraintParameter:
    """A parameter: `path` below the constraint's name, `field` of its components, `unit`, and a key of `RULES`."""

    path: str
    field: str
    unit: str
    rule: str


@dataclasses.dataclass(frozen=True)
class ConstraintType:
    """A type of constraint on the velocity of a body.

    **Arguments:** `name` in configs; `keys`; `parameters`, those that are not None; `system`: a component, or a system
    with `boxes`, from the values, the group of the body's pose, and a function that makes arrays of JAX; `closures`:
    what its rows are the rates of, by the names of the constraint and of its body; `surface`: the key of its surface.
    """

    name: str
    keys: tuple[ConstraintKey, ...]
    parameters: tuple[ConstraintParameter, ...]
    system: Callable[[Values, AbstractGroup, Callable[[Any], Any]], Any]
    closures: Callable[[str, str], tuple[Closure, ...]] = lambda name, body: ()
    boxes: tuple[str, ...] = ()
    surface: str | None = None


def vector(path: str, value: Any) -> Any:
    """Three numbers. Raises `ModelError`."""
    return checks.vector(path, value, 3)
