"""The validated description of linear relations between coordinates of several joints."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from jmbs.errors import ModelError
from jmbs.library.mechanics import checks
from jmbs.library.mechanics.gear_specification import GearSpec

SOME_COEFFICIENT = "finite numbers, not all zero"


@dataclasses.dataclass(frozen=True, eq=False)
class RelationSpec:
    """`sum coefficient q = offset` over coordinates of joints, which are turns or travels.

    `joints`: by name, one coefficient `(k,)` for each coordinate of the joint; `offset` in the unit of the terms.
    Raises `ModelError` with paths below `constraints/<name>`.
    """

    name: str
    joints: dict[str, np.ndarray]
    offset: float = 0.0

    @classmethod
    def make(cls, name: str, given: Mapping[str, Any]) -> RelationSpec:
        """From the values of a config's section; a number stands for the coefficient of a joint of one coordinate."""
        path = f"constraints/{checks.name(f'constraints/{name}', name)}"
        values = checks.given(path, given, ("joints",), ("offset",), "a gear of several joints")
        joints, where = values["joints"], f"{path}/joints"
        if not isinstance(joints, Mapping) or len(joints) < 2:
            raise ModelError(where, checks.show(joints), "at least two joints, each with its coefficient")
        coefficients = {
            checks.reference(f"{where}/{joint}", joint): _coefficients(f"{where}/{joint}", value)
            for joint, value in joints.items()
        }
        require_some(where, np.concatenate(list(coefficients.values())))
        return cls(name, coefficients, checks.number(f"{path}/offset", values.get("offset", 0.0)))

    @property
    def coefficients(self) -> np.ndarray:
        """Those of all joints, one after the other."""
        return np.concatenate(list(self.joints.values()))

    @property
    def ports(self) -> dict[str, str]:
        """The joint at each port of the component."""
        return {f"p_{number}": joint for number, joint in enumerate(self.joints, 1)}


def make_gear(name: str, given: Mapping[str, Any]) -> GearSpec | RelationSpec:
    """The gear of a config's section: of several joints where it has `joints`, else of a joint and its driver."""
    return GearSpec.make(name, given) if given.get("joints") is None else RelationSpec.make(name, given)


def require_some(path: str, coefficients: Any) -> np.ndarray:
    """Coefficients that bind something. Raises `ModelError`."""
    found = checks.array(path, coefficients, None, SOME_COEFFICIENT)
    if not np.any(found):
        raise ModelError(path, checks.show(coefficients), SOME_COEFFICIENT)
    return found


def _coefficients(path: str, value: Any) -> np.ndarray:
    array = checks.array(path, value, None, "a coefficient, or one for each coordinate of the joint")
    if array.ndim > 1 or not array.size:
        raise ModelError(path, checks.show(value), "a coefficient, or one for each coordinate of the joint")
    return checks.freeze(array.reshape(-1))
