"""Units and rules that fields of components, joints and laws declare."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import numpy as np

from jmbs.errors import ModelError
from jmbs.library.mechanics.checks import show
from jmbs.library.mechanics.rules import Rule

_KEY = "jmbs"


def parameter(*, unit: str = "1", bounds: tuple[float, float] = (-math.inf, math.inf), **field: Any) -> Any:
    """A field that says of its numbers in which `unit` they are and from where to where they may go, ends included.

    ```python
    class Capacitor(eqx.Module):
        capacitance: float = jmbs.parameter(unit="F", bounds=(1e-12, 1.0))
    ```

    `model.parameters()` lists the unit; `jmbs.compile` and `with_parameters` refuse what is beyond the bounds, and
    traced values beyond them give `invalid_parameters`. **Arguments:** `field`: as `eqx.field` takes them, a `default`
    for one. Raises `ModelError`.
    """
    if not isinstance(unit, str):
        raise ModelError("unit", show(unit), "a word such as N/m")
    ends = np.asarray(bounds, dtype=object)
    if ends.shape != (2,) or not all(isinstance(end, int | float) for end in bounds) or not bounds[0] < bounds[1]:
        raise ModelError("bounds", show(bounds), "two numbers, the lower one first; -inf and inf are none")
    low, high = map(float, bounds)
    bounded = not (math.isinf(low) and math.isinf(high))
    own = unit_and_rule(unit, "bounds", low, high) if bounded else unit_and_rule(unit)
    return eqx.field(metadata=own | field.pop("metadata", {}), **field)


CONSTANT = {_KEY: ("", None)}
"""The metadata of a field that is no parameter, but what the component is built of."""


def unit_and_rule(unit: str, kind: str | None = None, *detail: Any, more: tuple[Rule, ...] = ()) -> dict[str, Any]:
    """The metadata of a field: its unit and what its value must be, None for anything, with `more` rules that look at
    fields beside it, by name. Type checkers see that `eqx.field(metadata=...)` gives no default."""
    return {_KEY: (unit, (*(() if kind is None else (Rule(kind, detail=detail),)), *more))}


def declared(module: Any, field: str) -> tuple[str, tuple[Rule, ...] | None]:
    """Unit and rules of a dotted name of `array_fields`: what the innermost field on the way declares, else none; the
    rules are None of what is no parameter. Of a class a field of its own."""
    found: tuple[str, tuple[Rule, ...] | None] = "1", ()
    names = field.split(".")
    for i, name in enumerate(names):
        if dataclasses.is_dataclass(module):
            fields = {entry.name: entry for entry in dataclasses.fields(module)}
            found = fields[name].metadata.get(_KEY, found) if name in fields else found
        if i + 1 < len(names):
            module = inside(module, name)
    return found


def inside(module: Any, field: str) -> Any:
    """What a dotted name of `array_fields` stands for."""
    for name in field.split("."):
        if isinstance(module, Mapping):
            module = module[name]
        else:
            module = module[int(name)] if isinstance(module, list | tuple) and name.isdigit() else getattr(module, name)
    return module
