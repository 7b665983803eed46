"""The validated description of gears between coordinates of two joints."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from jmbs.errors import ModelError
from jmbs.library.mechanics import checks

_REQUIRED = ("joint", "driver", "ratio")
_OPTIONAL = ("offset", "coordinate", "driver_coordinate")
UNITS = {"ratio": "rad or m per rad or m", "offset": "rad or m"}


@dataclasses.dataclass(frozen=True, eq=False)
class GearSpec:
    """`q_joint = ratio q_driver + offset` between one coordinate of each of two joints, which are turns or travels.

    `ratio` in units of the joint's coordinate per unit of the driver's; `offset` rad or m; `coordinate` and
    `driver_coordinate`: which of a joint's coordinates, from 0. Raises `ModelError` with paths below
    `constraints/<name>`.
    """

    name: str
    joint: str
    driver: str
    ratio: float
    offset: float = 0.0
    coordinate: int = 0
    driver_coordinate: int = 0

    @classmethod
    def make(cls, name: str, given: Mapping[str, Any]) -> GearSpec:
        """From the values of a config's section."""
        path = f"constraints/{checks.name(f'constraints/{name}', name)}"
        values = checks.given(path, given, _REQUIRED, _OPTIONAL, "a gear")
        for key in ("joint", "driver"):
            checks.reference(f"{path}/{key}", values[key])
        if values["joint"] == values["driver"]:
            raise ModelError(f"{path}/driver", checks.show(values["driver"]), "another joint than the one it drives")
        for key in UNITS.keys() & values.keys():
            values[key] = checks.number(f"{path}/{key}", values[key], unit=UNITS[key])
        for key in ("coordinate", "driver_coordinate"):
            value = values.get(key, 0)
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise ModelError(f"{path}/{key}", checks.show(value), "the number of a coordinate, from 0")
        return cls(name, **values)

    @property
    def ports(self) -> dict[str, str]:
        """The joint at each port of the component."""
        return {f"p_{key}": joint for key, joint, _ in self.ends}

    @property
    def ends(self) -> tuple[tuple[str, str, int], tuple[str, str, int]]:
        """Key, joint and coordinate of the driver and of what it drives."""
        return ("driver", self.driver, self.driver_coordinate), ("joint", self.joint, self.coordinate)
