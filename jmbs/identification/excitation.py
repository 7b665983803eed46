"""What a design of an experiment is asked: inputs of few coefficients, and the limits that they and the motion keep."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from jmbs.errors import ModelError
from jmbs.library.mechanics import is_number

CRITERIA = ("D", "A", "E")
"""The determinant of the information, the mean variance, the smallest singular value."""
ROWS_A_PERIOD = 32
"""Times in the shortest period at which a multisine's limits are held, and with them everywhere."""


class Basis(abc.ABC):
    """Functions of time, k of them, whose weighted sum is an input; `t` is s since the start."""

    @abc.abstractmethod
    def refuse(self, path: str) -> None:
        """Raises `ModelError` for numbers that make no basis."""

    @abc.abstractmethod
    def length(self) -> float | None:
        """Its own duration, s, None where it takes any."""

    @abc.abstractmethod
    def shortest(self, duration: float) -> float:
        """The shortest time, s, in which an input changes: rows of a table must be closer."""

    @abc.abstractmethod
    def functions(self, t: np.ndarray, duration: float) -> np.ndarray:
        """Values (n, k) at times (n,)."""

    @abc.abstractmethod
    def value_rows(self, duration: float) -> np.ndarray:
        """Rows (r, k) whose products with the coefficients bound the input, with the `margin`."""

    @abc.abstractmethod
    def rate_rows(self, duration: float) -> np.ndarray:
        """The same for its rate."""

    @property
    @abc.abstractmethod
    def margin(self) -> float:
        """The part of a limit that the rows must keep so that the input keeps the limit at all times."""


@dataclasses.dataclass(frozen=True)
class Multisine(Basis):
    """Sines and cosines of the first `harmonics` multiples of one over `period` (s); it may be repeated."""

    period: float
    harmonics: int

    def refuse(self, path):
        require_positive(f"{path}/period", self.period, "s")
        require_count(f"{path}/harmonics", self.harmonics, 1)

    def length(self):
        return self.period

    def shortest(self, duration):
        return self.period / self.harmonics

    def functions(self, t, duration):
        angles = self._angles(t)
        return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)

    def value_rows(self, duration):
        return self.functions(self._times(), duration)

    def rate_rows(self, duration):
        angles, factors = self._angles(self._times()), self._frequencies()
        return np.concatenate([factors * np.cos(angles), -factors * np.sin(angles)], axis=1)

    @property
    def margin(self):
        # Of a trigonometric polynomial of degree N at M equal distances (Ehlich and Zeller, 1964): cos(pi N / M).
        return float(np.cos(np.pi / ROWS_A_PERIOD))

    def _frequencies(self) -> np.ndarray:
        return 2 * np.pi / self.period * np.arange(1, self.harmonics + 1)

    def _angles(self, t: np.ndarray) -> np.ndarray:
        return np.outer(t, self._frequencies())

    def _times(self) -> np.ndarray:
        count = ROWS_A_PERIOD * self.harmonics
        return self.period / count * np.arange(count)


@dataclasses.dataclass(frozen=True)
class BSpline(Basis):
    """B-splines of a `degree` with so many `coefficients` over the whole duration; it begins and ends at zero."""

    coefficients: int = 20
    degree: int = 3

    def refuse(self, path):
        require_count(f"{path}/degree", self.degree, 1)
        require_count(f"{path}/coefficients", self.coefficients, max(self.degree - 1, 1))

    def length(self):
        return None

    def shortest(self, duration):
        return 4 * duration / (self.coefficients + 2 - self.degree)

    def functions(self, t, duration):
        import scipy.interpolate

        knots = self._knots(duration)
        inside = np.clip(t, 0.0, duration)
        return scipy.interpolate.BSpline.design_matrix(inside, knots, self.degree).toarray()[:, 1:-1]

    def value_rows(self, duration):
        return np.eye(self.coefficients)

    def rate_rows(self, duration):
        # The rate is a spline of one degree less, whose coefficients bound it as those of the input do the input.
        knots, steps = self._knots(duration), np.diff(np.eye(self.coefficients + 2), axis=0)
        spans = (knots[self.degree + 1 : -1] - knots[1 : -self.degree - 1]) / self.degree
        return (steps / spans[:, None])[:, 1:-1]

    @property
    def margin(self):
        return 1.0

    def _knots(self, duration: float) -> np.ndarray:
        inner = np.linspace(0.0, duration, self.coefficients + 3 - self.degree)
        return np.concatenate([np.zeros(self.degree), inner, np.full(self.degree, duration)])


@dataclasses.dataclass(frozen=True)
class Excitation:
    """An experiment to be designed.

    **Arguments:**

    - `inputs`: by port path of one entry (`elbow/actuation`) a `Multisine` or a `BSpline`.
    - `limits`: by name a pair, or one number for both signs: of an input, of its rate (`elbow/actuation/rate`, per s),
      and of any output that sensors may have (`elbow/q`, `elbow/v`), at the sample times. Every input wants a limit.
    - `duration` (s): None, the longest period; `rate` (Hz): of samples and of the rows of the inputs' tables.
    - `criterion`: `D`, `A` or `E`; `starts`: searches from inputs drawn at random; `max_iterations`: of each.
    """

    inputs: Mapping[str, Basis]
    limits: Mapping[str, float | tuple[float, float]] = dataclasses.field(default_factory=dict)
    duration: float | None = None
    rate: float = 100.0
    criterion: str = "D"
    starts: int = 3
    max_iterations: int = 60


def require_positive(path: str, value: Any, unit: str) -> None:
    """Raises `ModelError` unless a value is a positive finite number."""
    if not is_number(value) or not value > 0:
        raise ModelError(path, repr(value), f"a positive number, {unit}")


def require_count(path: str, value: object, least: int) -> None:
    """Raises `ModelError` unless a value is a whole number that is large enough."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ModelError(path, repr(value), f"a whole number, {least} or more")
