"""How a varied value is spread: each distribution maps points of the unit cube to values, by its quantiles."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.special import ndtri

from jmbs.errors import ModelError
from jmbs.library.mechanics import array, is_number, nearest, show

Shape = tuple[int, ...]

MOST_NUMBERS = 10**8
"""Held at once: the values of an axis, or the members of a Latin hypercube."""
FINITE = "finite numbers"


class AbstractDistribution(abc.ABC):
    """The values of one varied path. Abstract or final, as all classes of jmbs."""

    @abc.abstractmethod
    def size(self, shape: Shape) -> int:
        """How many coordinates of the unit cube a value of the shape takes."""

    @abc.abstractmethod
    def at(self, points: np.ndarray, shape: Shape) -> np.ndarray:
        """Values (n, *shape) at points (n, size), whose coordinates lie between 0 and 1, without these."""

    @abc.abstractmethod
    def shaped(self, shape: Shape) -> None:
        """Refuses numbers that do not fit a value of the shape. Raises `ModelError`, with paths below this one."""


@dataclasses.dataclass(frozen=True, eq=False)
class Quantiles(AbstractDistribution):
    """Independent entries, each by its quantile function.

    **Arguments:** `function`: `(u, *numbers) -> values`, entry by entry; `numbers`: what it takes, by name, each a
    number or an array of a value's shape.
    """

    function: Callable[..., np.ndarray]
    numbers: Mapping[str, np.ndarray]

    def size(self, shape: Shape) -> int:
        return int(np.prod(shape))

    def at(self, points: np.ndarray, shape: Shape) -> np.ndarray:
        return self.function(points.reshape(len(points), *shape), *self.numbers.values())

    def shaped(self, shape: Shape) -> None:
        for name, number in self.numbers.items():
            if number.shape not in ((), shape):
                raise ModelError(name, f"shape {number.shape}", _of_shape(shape))


@dataclasses.dataclass(frozen=True, eq=False)
class Choices(AbstractDistribution):
    """One of the given values, each as likely as the others; the axis of a grid. `values` (n, ...)."""

    values: np.ndarray

    def size(self, shape: Shape) -> int:
        return 1

    def at(self, points: np.ndarray, shape: Shape) -> np.ndarray:
        return self.take((points[:, 0] * len(self.values)).astype(int), shape)

    def take(self, numbers: np.ndarray, shape: Shape) -> np.ndarray:
        """The values (n, *shape) of these numbers (n,)."""
        return self.values[numbers].reshape(len(numbers), *shape)

    def shaped(self, shape: Shape) -> None:
        if np.prod(self.values.shape[1:], dtype=int) != np.prod(shape, dtype=int):
            raise ModelError("", f"values of shape {self.values.shape[1:]}", _of_shape(shape))


def _of_shape(shape: Shape) -> str:
    return f"numbers of shape {shape}, or one for all entries" if shape else "one number"


def _uniform(u: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    return lower + (upper - lower) * u


def _log_uniform(u: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    return np.exp(_uniform(u, np.log(lower), np.log(upper)))


def _normal(u: np.ndarray, mean: np.ndarray, std: np.ndarray) -> np.ndarray:
    return mean + std * ndtri(u)


def _log_normal(u: np.ndarray, median: np.ndarray, std: np.ndarray) -> np.ndarray:
    return median * np.exp(std * ndtri(u))


def _integer(u: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    return lower + np.floor((upper - lower + 1) * u)


def _range(kind: str, function: Callable[..., np.ndarray], given: Any) -> Quantiles:
    if not isinstance(given, list | tuple) or len(given) != 2:
        raise ModelError(kind, show(given), "two numbers, lower and upper")
    lower, upper = (array(kind, entry, None, FINITE) for entry in given)
    if not np.all(lower < upper):
        raise ModelError(kind, show(given), "a lower number below the upper one")
    if kind == "log_uniform" and not np.all(lower > 0):
        raise ModelError(kind, show(given), "positive numbers")
    if kind == "integer" and not all(np.all(bound == np.round(bound)) for bound in (lower, upper)):
        raise ModelError(kind, show(given), "whole numbers")
    return Quantiles(function, {f"{kind}/0": lower, f"{kind}/1": upper})


def _spread(kind: str, function: Callable[..., np.ndarray], given: Any, centre: str) -> Quantiles:
    if not isinstance(given, Mapping) or set(given) != {centre, "std"}:
        raise ModelError(kind, show(given), f"a mapping with {centre} and std")
    numbers = {f"{kind}/{key}": array(f"{kind}/{key}", given[key], None, FINITE) for key in (centre, "std")}
    if not np.all(numbers[f"{kind}/std"] > 0):
        raise ModelError(f"{kind}/std", show(given["std"]), "a positive standard deviation")
    if centre == "median" and not np.all(numbers[f"{kind}/median"] > 0):
        raise ModelError(f"{kind}/median", show(given[centre]), "a positive number")
    return Quantiles(function, numbers)


def _values(given: Any) -> Choices:
    values = array("values", given, None, FINITE)
    if values.ndim == 0 or len(values) == 0:
        raise ModelError("values", show(given), "a list of values, one or more")
    return Choices(values)


_SPACED = "two numbers and how many values there shall be, such as [0.0, 1.0, 11]"


def _spaced(kind: str, given: Any) -> Choices:
    if not isinstance(given, list | tuple) or len(given) != 3 or not all(is_number(entry) for entry in given):
        raise ModelError(kind, show(given), _SPACED)
    first, last, count = given
    if not isinstance(count, int) or count < 1:
        raise ModelError(kind, show(given), _SPACED)
    if kind == "geomspace" and not (first > 0 and last > 0):
        raise ModelError(kind, show(given), "positive numbers")
    if count > MOST_NUMBERS:
        raise ModelError(kind, show(given), f"at most {MOST_NUMBERS:g} values")
    array(kind, [first, last], None, FINITE)
    return Choices(np.linspace(first, last, count) if kind == "linspace" else np.geomspace(first, last, count))


SPACED: dict[str, Callable[[Any], Choices]] = {
    "values": _values,
    "linspace": lambda given: _spaced("linspace", given),
    "geomspace": lambda given: _spaced("geomspace", given),
}
"""What says its values one by one, and so can be the axis of a grid."""
KINDS: dict[str, Callable[[Any], AbstractDistribution]] = {
    "uniform": lambda given: _range("uniform", _uniform, given),
    "log_uniform": lambda given: _range("log_uniform", _log_uniform, given),
    "normal": lambda given: _spread("normal", _normal, given, "mean"),
    "log_normal": lambda given: _spread("log_normal", _log_normal, given, "median"),
    "integer": lambda given: _range("integer", _integer, given),
    **SPACED,
}
"""Distributions by the names that studies call them by; `std` of log_normal is that of the logarithm."""


def distribution(given: Any) -> AbstractDistribution:
    """What a mapping with one key says, such as `{"uniform": [0.5, 2.0]}`. Raises `ModelError` with a path below."""
    if isinstance(given, AbstractDistribution):
        return given
    if not isinstance(given, Mapping) or len(given) != 1:
        raise ModelError("", show(given), f"a mapping with one of {', '.join(KINDS)}, such as {{uniform: [0.5, 2.0]}}")
    ((kind, numbers),) = given.items()
    if kind not in KINDS:
        raise ModelError(str(kind), "no such distribution", f"one of {', '.join(KINDS)}{nearest(str(kind), KINDS)}")
    return KINDS[kind](numbers)
