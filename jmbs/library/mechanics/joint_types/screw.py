"""A turn about an axis and a travel along it in proportion, its pitch, m/rad."""

from __future__ import annotations

from typing import Any

from jmbs.library.mechanics import checks
from jmbs.library.mechanics.joint_types.joint_type import (
    AXIS,
    AXIS_PARAMETER,
    Geometry,
    GeometryParameter,
    JointType,
    Key,
)
from jmbs.lie import Screw


def _pitch(path: str, value: Any, beside: Geometry) -> float:
    del beside
    return checks.number(path, value, unit="m/rad")


SCREW = JointType(
    "screw",
    1,
    lambda geometry, array: Screw(array(geometry["axis"]), array(geometry["pitch"])),
    (AXIS, Key("pitch", "number", _pitch)),
    (AXIS_PARAMETER, GeometryParameter("pitch", "pitch", "m/rad", "number")),
)
