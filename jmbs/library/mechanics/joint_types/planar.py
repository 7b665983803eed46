"""Travels across an axis and the turn about it."""

from jmbs.library.mechanics import checks
from jmbs.library.mechanics.joint_types.joint_type import Whole, with_axis
from jmbs.lie import Planar

PLANAR = with_axis(
    "planar",
    3,
    Planar,
    Whole(
        rest=(0.0, 0.0, 0.0),
        check=lambda path, value: checks.vector(path, value, 3, "3 numbers: x, y, angle"),
        rule="numbers",
        dry=((0, 1), (2,)),
    ),
)
