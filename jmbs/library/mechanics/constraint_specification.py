"""The validated description of constraints on the velocity of one body."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from jmbs.errors import ModelError
from jmbs.library.mechanics import checks
from jmbs.library.mechanics.values import TableSpec

# Keys of each type beside type and body; those of the first tuple must be given.
_KEYS = {
    "no_slide": (("direction",), ("point", "frame", "relative_to")),
    "rolling": (("radius",), ("axis", "plane")),
    "perpendicular": (("direction",), ("normal",)),
}
GEAR = "gear"
"""The type that binds joints instead of a body, see `GearSpec`."""
CONSTRAINT_TYPES = (*_KEYS, GEAR)
_SAMPLE_TIMES = (0.0, 0.37, 1.91)
"""Times (s) at which a function of time is looked at when the model is built."""


@dataclasses.dataclass(frozen=True, eq=False)
class SurfaceSpec:
    """A surface that may move: at `x` with `velocity + angular_velocity x (x - point)`, all in world axes.

    `point` `(3,)` m; `normal` `(3,)` of a plane, unit, None for a surface without; `velocity` m/s and
    `angular_velocity` rad/s: `(3,)`, tables of 3 columns, functions of time, or None for a surface at rest. A plane
    moves within itself: its velocity is along it and its angular velocity along its normal. Raises `ModelError`.
    """

    point: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(3))
    normal: np.ndarray | None = None
    velocity: Any = None
    angular_velocity: Any = None

    @property
    def moving(self) -> bool:
        """Whether its motion is prescribed."""
        return self.velocity is not None or self.angular_velocity is not None

    def rates(self, path: str) -> dict[str, Any]:
        """The prescribed velocities by their path."""
        return {f"{path}/velocity": self.velocity, f"{path}/angular_velocity": self.angular_velocity}

    @classmethod
    def make(cls, path: str, value: Any, *, plane: bool) -> SurfaceSpec:
        """From a mapping with some of its fields, or None: at rest through the origin, normal z."""
        if isinstance(value, SurfaceSpec):
            return value
        keys = ("point", *(("normal",) if plane else ()), "velocity", "angular_velocity")
        if not isinstance(value, Mapping | None):
            raise ModelError(path, checks.show(value), f"a mapping with keys from {', '.join(keys)}")
        given = {key: entry for key, entry in (value or {}).items() if entry is not None}
        checks.require_keys(path, given, keys)
        normal = checks.direction(f"{path}/normal", given.get("normal", (0, 0, 1))) if plane else None
        rates = {key: _rate(f"{path}/{key}", given.get(key)) for key in ("velocity", "angular_velocity")}
        if normal is not None:
            for key, rate in rates.items():
                require_within(f"{path}/{key}", key, rate, normal)
        return cls(checks.vector(f"{path}/point", given.get("point", (0, 0, 0)), 3), normal, **rates)


def _rate(path: str, value: Any) -> Any:
    if value is None or callable(value):
        return value
    if isinstance(value, TableSpec):
        value.require_columns(path, 3)
        return value
    return checks.vector(path, value, 3)


def require_within(path: str, key: str, rate: Any, normal: Any) -> None:
    """Refuses a plane that would leave itself, by its `rate`, of which `key` says what it is. Raises `ModelError`."""
    along = np.asarray(normal) / np.linalg.norm(normal)
    forbidden, wanted = {
        "velocity": (along[None], "a velocity along the plane"),
        "angular_velocity": (np.eye(3) - np.outer(along, along), "an angular velocity along the plane's normal"),
    }[key]
    rows = _samples(path, rate)
    if np.max(np.abs(rows @ forbidden.T), initial=0) > checks.UNIT_TOLERANCE * np.max(np.abs(rows), initial=0):
        raise ModelError(path, checks.show(rate) if isinstance(rate, np.ndarray) else "values that leave it", wanted)


def _samples(path: str, rate: Any) -> np.ndarray:
    if rate is None:
        return np.zeros((0, 3))
    if isinstance(rate, TableSpec):
        return rate.values
    if callable(rate):
        rows = [np.asarray(rate(t), dtype=float) for t in _SAMPLE_TIMES]
        for row in rows:
            if row.shape != (3,):
                raise ModelError(path, f"a function with values of shape {row.shape}", "3 numbers, world axes")
        return np.stack(rows)
    return rate[None]


@dataclasses.dataclass(frozen=True, eq=False)
class ConstraintSpec:
    """A constraint on the velocity of `body`; fields that a type has no use for keep their defaults. By `type`:

    - `no_slide`: the velocity of the material point `point` `(3,)` m (body frame) along `direction` `(3,)`, fixed in
      the body or in the world as `frame` says, vanishes, or equals that of the surface `relative_to`.
    - `rolling`: a ball of `radius` m, or with `axis` `(3,)` (body axes) a thin disk, centred at the centre of mass,
      rolls without slip on `plane`, by default z = 0 at rest.
    - `perpendicular`: `direction` (body axes) stays perpendicular to `normal` `(3,)` (world axes).

    Directions are of unit length. Raises `ModelError` with paths below `constraints/<name>`.
    """

    name: str
    type: str
    body: str
    point: np.ndarray | None = None
    direction: np.ndarray | None = None
    frame: str = "body"
    radius: float | None = None
    axis: np.ndarray | None = None
    normal: np.ndarray | None = None
    surface: SurfaceSpec = dataclasses.field(default_factory=SurfaceSpec)

    @classmethod
    def make(cls, name: str, type: Any, body: Any, given: Mapping[str, Any]) -> ConstraintSpec:
        """From the values of a type; those that are None count as not given."""
        path = f"constraints/{checks.name(f'constraints/{name}', name)}"
        checks.choice(f"{path}/type", type, tuple(_KEYS))
        if checks.reference(f"{path}/body", body) == "ground":
            raise ModelError(f"{path}/body", "ground", "a body (ground does not move)")
        required, optional = _KEYS[type]
        values = checks.given(path, given, required, optional, f"a {type} constraint")
        return cls(name, type, body, **_FIELDS[type](path, values))

    @property
    def surface_key(self) -> str:
        """What a config calls its surface."""
        return "plane" if self.type == "rolling" else "relative_to"

    @property
    def components(self) -> tuple[str, ...]:
        """Paths of its components, in the order of its multipliers."""
        return (f"{self.name}/slip", f"{self.name}/contact") if self.type == "rolling" else (self.name,)

    @property
    def multiplier_names(self) -> tuple[str, ...]:
        """What its multipliers are: forces on the body (N), for `perpendicular` a torque (N m)."""
        names = {
            "no_slide": ("force",),
            "rolling": ("force_x", "force_y", "force_normal"),
            "perpendicular": ("torque",),
        }
        return names[self.type]


def _no_slide(path: str, values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "point": checks.vector(f"{path}/point", values.get("point", (0, 0, 0)), 3),
        "direction": checks.direction(f"{path}/direction", values["direction"]),
        "frame": checks.choice(f"{path}/frame", values.get("frame", "body"), ("body", "world")),
        "surface": SurfaceSpec.make(f"{path}/relative_to", values.get("relative_to"), plane=False),
    }


def _rolling(path: str, values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "radius": checks.number(f"{path}/radius", values["radius"], positive=True, unit="m"),
        "axis": None if "axis" not in values else checks.direction(f"{path}/axis", values["axis"]),
        "surface": SurfaceSpec.make(f"{path}/plane", values.get("plane"), plane=True),
    }


def _perpendicular(path: str, values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "direction": checks.direction(f"{path}/direction", values["direction"]),
        "normal": checks.direction(f"{path}/normal", values.get("normal", (0, 0, 1))),
    }


_FIELDS = {"no_slide": _no_slide, "rolling": _rolling, "perpendicular": _perpendicular}
