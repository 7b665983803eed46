"""Units: what is equal is equal, and what is of another dimension is refused."""

from __future__ import annotations

import math

import pytest

from jmbs.errors import ModelError
from jmbs.identification import conversion, parse_unit

EQUAL = {
    "180 deg": (math.pi * parse_unit("", "rad").factor, 180 * parse_unit("", "deg").factor),
    "rev": (360 * parse_unit("", "deg").factor, parse_unit("", "rev").factor),
    "rpm": (60 * parse_unit("", "rpm").factor, parse_unit("", "rev/s").factor),
    "torque": (1e6 * parse_unit("", "mN mm").factor, parse_unit("", "N m").factor),
    "power": (parse_unit("", "V A").factor, parse_unit("", "N*m/s").factor),
}


@pytest.mark.parametrize("case", EQUAL)
def test_equal_things_are_equal(case: str):
    first, second = EQUAL[case]
    assert first == pytest.approx(second, rel=1e-15)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        *(("m/s^2", "m/s/s"), ("V A", "W"), ("N m", "J"), ("Pa m^2", "N"), ("rpm", "rad/s"), ("g0", "m s^-2")),
        *(("Nm", "N m"), ("kg m^2/s^2", "J"), ("A V s", "J"), ("1/s", "s^-1")),
    ],
)
def test_dimensions(one: str, other: str):
    assert parse_unit("", one).dimension == parse_unit("", other).dimension


def test_conversion_goes_to_the_unit_of_the_quantity():
    assert conversion("", "mm", ("m",)) == 1e-3
    assert conversion("", "Pa", ("kPa",)) == pytest.approx(1e-3)
    assert conversion("", None, ("m",)) == 1.0 and conversion("", "mV", ()) == 1e-3
    assert conversion("", "N", ("N m", "N")) == 1.0


@pytest.mark.parametrize(
    ("unit", "wanted", "message"),
    [
        ("deg", ("m",), "x/unit: found 'deg', wanted a unit of m"),
        ("1", ("rad",), "wanted a unit of rad"),
        ("g", ("m/s^2",), "g is gram, g0"),
        ("mN", ("N m", "rad"), "a unit of N m or rad"),
        ("degrees", ("rad",), "nearest known is deg"),
        ("Mpa", (), "nearest known is MPa"),
        ("m//s", (), "wanted a unit such as"),
        ("", (), "wanted a unit such as"),
        ("m^0", (), "a known unit"),
    ],
)
def test_refusals(unit: str, wanted: tuple[str, ...], message: str):
    with pytest.raises(ModelError, match=message):
        conversion("x/unit", unit, wanted)
