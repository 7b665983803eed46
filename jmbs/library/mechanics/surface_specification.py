"""The validated description of a surface that may move."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from jmbs.errors import ModelError
from jmbs.library.mechanics import checks
from jmbs.library.mechanics.values import TableSpec

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
