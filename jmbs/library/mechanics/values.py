"""Frames and tables: the small values that other parts of a mechanism's description hold."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from jmbs.errors import ModelError
from jmbs.library.mechanics import checks


@dataclasses.dataclass(frozen=True, eq=False)
class Frame:
    """A frame fixed in a body (or in the world, for ground).

    `position` `(3,)` m: its origin; `quaternion` `(4,)` wxyz: takes its components to the body's. The quaternion must
    be of unit norm to 1e-6 and is then normalised exactly. Raises `ModelError`.
    """

    position: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(3))
    quaternion: np.ndarray = dataclasses.field(default_factory=lambda: np.array([1.0, 0.0, 0.0, 0.0]))
    path: dataclasses.InitVar[str] = "frame"

    def __post_init__(self, path: str) -> None:
        object.__setattr__(self, "position", checks.vector(f"{path}/position", self.position, 3))
        object.__setattr__(self, "quaternion", checks.unit_quaternion(f"{path}/quaternion", self.quaternion))

    @classmethod
    def make(cls, path: str, value: Any) -> Frame:
        """From None (identity), a mapping with `position` and `quaternion`, 3 numbers (position) or 7 (then wxyz)."""
        if isinstance(value, Frame):
            return value
        if value is None:
            return cls()
        if isinstance(value, Mapping):
            unknown = [key for key in value if key not in ("position", "quaternion")]
            if unknown:
                raise ModelError(f"{path}/{unknown[0]}", "an unknown key", "position or quaternion")
            return cls(**value, path=path)
        numbers = checks.array(path, value, [(3,), (7,)], "a position (3 numbers), or position then wxyz (7 numbers)")
        return cls(numbers[:3], path=path) if numbers.size == 3 else cls(numbers[:3], numbers[3:], path=path)


@dataclasses.dataclass(frozen=True, eq=False)
class TableSpec:
    """A function of time by linear interpolation between rows; outside of them it is an error.

    `times` `(n,)` s, strictly increasing, `n >= 2`; `values` `(n, m)`. `source` names it in messages.
    Raises `ModelError`.
    """

    times: np.ndarray
    values: np.ndarray
    source: str = "a table"
    path: dataclasses.InitVar[str] = "table"

    def __post_init__(self, path: str) -> None:
        times = checks.array(f"{path}/times", self.times, None, "a list of finite times, s")
        values = checks.array(f"{path}/values", self.values, None, "rows of finite numbers, one row per time")
        if times.ndim != 1 or times.size < 2:
            raise ModelError(f"{path}/times", f"shape {times.shape} in {self.source}", "at least 2 times in one column")
        if values.ndim == 1:
            values = checks.freeze(values[:, None])
        if values.ndim != 2 or values.shape[0] != times.size:
            raise ModelError(f"{path}/values", f"shape {values.shape}", f"one row for each of the {times.size} times")
        backward = np.flatnonzero(np.diff(times) <= 0)
        if backward.size:
            first = int(backward[0])
            found = f"time {times[first + 1]:g} after {times[first]:g} (row {first + 2} of {self.source})"
            raise ModelError(f"{path}/times", found, "strictly increasing times")
        object.__setattr__(self, "times", times)
        object.__setattr__(self, "values", values)

    def require_columns(self, path: str, size: int) -> None:
        """Raises `ModelError` unless the table has `size` columns of values."""
        if self.values.shape[1] != size:
            found = f"{self.values.shape[1]} columns in {self.source}"
            raise ModelError(path, found, f"{size} column{'s' if size > 1 else ''}")

    def require_span(self, path: str, t0: float, t1: float) -> None:
        """Raises `ModelError` unless `t0..t1` (s) lies within the table, up to rounding in the file."""
        slack = 1e-9 * (t1 - t0)
        if t0 < self.times[0] - slack or t1 > self.times[-1] + slack:
            found = f"times {self.times[0]:g} to {self.times[-1]:g} s in {self.source}"
            raise ModelError(path, found, f"a table that covers the simulated time {t0:g} to {t1:g} s")


def constant_or_table(path: str, value: Any, size: int, *, broadcast: bool) -> np.ndarray | TableSpec:
    """A constant `(size,)` (a single number stands for all if `broadcast`), or a table of `size` columns."""
    if isinstance(value, TableSpec):
        value.require_columns(path, size)
        return value
    return checks.per_coordinate(path, value, size) if broadcast else checks.vector(path, value, size)
