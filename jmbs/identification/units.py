"""Units of recorded data: factors to SI and radians, with dimensions, so that metres are not taken for degrees."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import NamedTuple

from jmbs.errors import ModelError
from jmbs.library.mechanics import nearest, show

_BASES: tuple[str, ...] = ("m", "kg", "s", "A", "K", "rad")
"""Angles are a dimension of their own: a ratio is not taken for an angle."""
_NAMED: dict[str, tuple[float, dict[str, int]]] = {
    "m": (1.0, {"m": 1}),
    "cm": (1e-2, {"m": 1}),
    "mm": (1e-3, {"m": 1}),
    "um": (1e-6, {"m": 1}),
    "km": (1e3, {"m": 1}),
    "in": (0.0254, {"m": 1}),
    "kg": (1.0, {"kg": 1}),
    "g": (1e-3, {"kg": 1}),
    "s": (1.0, {"s": 1}),
    "ms": (1e-3, {"s": 1}),
    "us": (1e-6, {"s": 1}),
    "ns": (1e-9, {"s": 1}),
    "min": (60.0, {"s": 1}),
    "h": (3600.0, {"s": 1}),
    "rad": (1.0, {"rad": 1}),
    "mrad": (1e-3, {"rad": 1}),
    "deg": (math.pi / 180, {"rad": 1}),
    "rev": (2 * math.pi, {"rad": 1}),
    "rpm": (2 * math.pi / 60, {"rad": 1, "s": -1}),
    "g0": (9.80665, {"m": 1, "s": -2}),
    "N": (1.0, {"kg": 1, "m": 1, "s": -2}),
    "mN": (1e-3, {"kg": 1, "m": 1, "s": -2}),
    "kN": (1e3, {"kg": 1, "m": 1, "s": -2}),
    "Nm": (1.0, {"kg": 1, "m": 2, "s": -2}),
    "J": (1.0, {"kg": 1, "m": 2, "s": -2}),
    "W": (1.0, {"kg": 1, "m": 2, "s": -3}),
    "Pa": (1.0, {"kg": 1, "m": -1, "s": -2}),
    "kPa": (1e3, {"kg": 1, "m": -1, "s": -2}),
    "MPa": (1e6, {"kg": 1, "m": -1, "s": -2}),
    "bar": (1e5, {"kg": 1, "m": -1, "s": -2}),
    "A": (1.0, {"A": 1}),
    "mA": (1e-3, {"A": 1}),
    "C": (1.0, {"A": 1, "s": 1}),
    "Wb": (1.0, {"kg": 1, "m": 2, "s": -2, "A": -1}),
    "V": (1.0, {"kg": 1, "m": 2, "s": -3, "A": -1}),
    "mV": (1e-3, {"kg": 1, "m": 2, "s": -3, "A": -1}),
    "K": (1.0, {"K": 1}),
    "1": (1.0, {}),
}
_SYMBOL = re.compile(r"([A-Za-z]+0?|1)(?:\^(-?[1-9]))?")
_LONGEST = 40


class Unit(NamedTuple):
    """A unit: its `factor` to SI and radians, and `dimension`, powers of metre, kilogram, second, ampere, kelvin and
    radian."""

    factor: float
    dimension: tuple[int, ...]


def parse_unit(path: str, text: str) -> Unit:
    """The unit of a text such as `mm`, `N m`, `deg/s`, `m/s^2` or `kg m^2`: symbols by blanks or `*`, then by `/`.

    Raises `ModelError` naming `path`, with the nearest symbol.
    """
    above, *below = [part.replace("*", " ").split() for part in text[:_LONGEST].split("/")]
    if not above or not all(below) or len(text) > _LONGEST:
        raise ModelError(path, show(text), "a unit such as mm, N m, deg/s or m/s^2")
    factor, powers = 1.0, dict.fromkeys(_BASES, 0)
    for sign, symbols in ((1, above), *((-1, part) for part in below)):
        for symbol in symbols:
            scale, dimension, power = _symbol(path, text, symbol)
            factor *= scale ** (sign * power)
            for base, count in dimension.items():
                powers[base] += sign * power * count
    return Unit(factor, tuple(powers.values()))


def _symbol(path: str, text: str, symbol: str) -> tuple[float, dict[str, int], int]:
    found = _SYMBOL.fullmatch(symbol)
    if found is None or found[1] not in _NAMED:
        raise ModelError(path, f"{symbol!r} in {show(text)}", f"a known unit{_nearest_unit(symbol)}")
    return *_NAMED[found[1]], int(found[2] or 1)


def _nearest_unit(symbol: str) -> str:
    spelled = {"degree": "deg", "degrees": "deg", "radian": "rad", "radians": "rad", "meter": "m", "sec": "s"}
    if symbol.lower() in spelled:
        return f"; the nearest known is {spelled[symbol.lower()]}"
    return nearest(symbol, _NAMED)


def conversion(path: str, unit: str | None, wanted: Iterable[str]) -> float:
    """The factor from `unit` to the unit `wanted` of a quantity.

    **Arguments:** `unit`: as it was given, None for the quantity's own; `wanted`: units that the quantity may have, `m`
    or `rad`; none where any will do, which is then SI. Raises `ModelError` for an unknown unit and one of another
    dimension.
    """
    if unit is None:
        return 1.0
    found, allowed = parse_unit(path, unit), list(wanted)
    if not allowed:
        return found.factor
    for own in (parse_unit(path, text) for text in allowed):
        if own.dimension == found.dimension:
            return found.factor / own.factor
    hint = "; g is gram, g0 is the acceleration of fall" if unit == "g" else ""
    raise ModelError(path, show(unit), f"a unit of {' or '.join(allowed)}{hint}")
