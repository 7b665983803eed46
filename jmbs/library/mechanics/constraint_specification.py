"""The validated description of constraints on the velocity of one body."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from jmbs.errors import ModelError
from jmbs.library.mechanics import checks
from jmbs.library.mechanics.constraint_types import CONSTRAINT_TYPES, ConstraintType
from jmbs.library.mechanics.surface_specification import SurfaceSpec

GEAR = "gear"
"""The type that binds joints instead of a body, see `GearSpec`."""


@dataclasses.dataclass(frozen=True, eq=False)
class ConstraintSpec:
    """A constraint on the velocity of `body`, of a `type` of `CONSTRAINT_TYPES`, by which its `values` are named and
    checked. Raises `ModelError` with paths below `constraints/<name>`.
    """

    name: str
    type: str
    body: str
    values: Mapping[str, Any]

    @classmethod
    def make(cls, name: str, type: Any, body: Any, given: Mapping[str, Any]) -> ConstraintSpec:
        """From the values of a type; those that are None count as not given."""
        path = f"constraints/{checks.name(f'constraints/{name}', name)}"
        kind = CONSTRAINT_TYPES[checks.choice(f"{path}/type", type, CONSTRAINT_TYPES)]
        if checks.reference(f"{path}/body", body) == "ground":
            raise ModelError(f"{path}/body", "ground", "a body (ground does not move)")
        required = [key.name for key in kind.keys if key.needed]
        optional = [key.name for key in kind.keys if not key.needed]
        found = checks.given(path, given, required, optional, f"a {type} constraint")
        values = {}
        for key in kind.keys:
            value = found.get(key.name, key.default)
            values[key.name] = value if value is None and key.may_lack else key.check(f"{path}/{key.name}", value)
        return cls(name, type, body, values)

    @property
    def kind(self) -> ConstraintType:
        """What its type is."""
        return CONSTRAINT_TYPES[self.type]

    @property
    def surface_key(self) -> str | None:
        """What a config calls its surface, if it has one."""
        return self.kind.surface

    @property
    def surface(self) -> SurfaceSpec:
        """The surface, one at rest where its type has none."""
        return SurfaceSpec() if self.surface_key is None else self.values[self.surface_key]

    @property
    def components(self) -> tuple[str, ...]:
        """Paths of its components, in the order of its multipliers."""
        return tuple(f"{self.name}/{box}" for box in self.kind.boxes) or (self.name,)
