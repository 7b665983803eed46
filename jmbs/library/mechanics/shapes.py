"""Solid shapes: what is drawn for a body, and mass and inertia from a density."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from jmbs.errors import ModelError
from jmbs.library.mechanics import checks

# Each kind with what its numbers mean; lengths in m.
SHAPES = {
    "box": "lengths lx, ly, lz",
    "sphere": "radius",
    "cylinder": "radius, height",
    "capsule": "radius, height of the cylindrical part",
}
_SIZES = {"box": 3, "sphere": 1, "cylinder": 2, "capsule": 2}


@dataclasses.dataclass(frozen=True, eq=False)
class Shape:
    """A homogeneous solid centred at the body's origin, its symmetry axis (cylinder, capsule) along body z.

    `dimensions` (m): box `[lx, ly, lz]`, sphere `[r]`, cylinder `[r, h]`, capsule `[r, h]` with `h` the height of
    the part between the two half balls. Raises `ModelError` for an unknown kind or lengths that are not positive.
    """

    kind: str
    dimensions: np.ndarray
    path: dataclasses.InitVar[str] = "shape"

    def __post_init__(self, path: str) -> None:
        kind = checks.choice(path, self.kind, SHAPES)
        size = _SIZES[kind]
        value = [self.dimensions] if kind == "sphere" and checks.is_number(self.dimensions) else self.dimensions
        wanted = f"{size} positive number{'s' if size > 1 else ''}, m ({SHAPES[kind]})"
        dimensions = checks.vector(f"{path}/{kind}", value, size, wanted)
        if np.any(dimensions <= 0):
            raise ModelError(f"{path}/{kind}", checks.show(self.dimensions), wanted)
        object.__setattr__(self, "dimensions", dimensions)

    @classmethod
    def make(cls, path: str, value: Any) -> Shape:
        """From `{kind: dimensions}`, or a `Shape` as it is. Raises `ModelError`."""
        if isinstance(value, Shape):
            return value
        if not isinstance(value, Mapping) or len(value) != 1:
            raise ModelError(path, checks.show(value), f"a mapping with one of the keys {', '.join(SHAPES)}")
        ((kind, dimensions),) = value.items()
        return cls(kind, dimensions, path)

    @property
    def volume(self) -> float:
        """Volume, m^3."""
        match self.kind:
            case "box":
                return float(np.prod(self.dimensions))
            case "sphere":
                return float(4 / 3 * np.pi * self.dimensions[0] ** 3)
            case _:
                r, h = self.dimensions
                caps = 4 / 3 * np.pi * r**3 if self.kind == "capsule" else 0.0
                return float(np.pi * r**2 * h + caps)

    @property
    def inertia_per_density(self) -> np.ndarray:
        """Principal second moments `(3,)` about the centre of mass divided by the density, m^5."""
        match self.kind:
            case "box":
                squares = self.dimensions**2
                return self.volume * (np.sum(squares) - squares) / 12
            case "sphere":
                return np.full(3, self.volume * 2 / 5 * self.dimensions[0] ** 2)
            case _:
                r, h = self.dimensions
                tube = np.pi * r**2 * h
                transverse, axial = tube * (3 * r**2 + h**2) / 12, tube * r**2 / 2
                if self.kind == "capsule":
                    # Two half balls whose centres of mass lie 3 r / 8 outside the ends of the cylinder.
                    caps = 4 / 3 * np.pi * r**3
                    transverse += caps * (2 / 5 * r**2 + h**2 / 4 + 3 / 8 * h * r)
                    axial += caps * 2 / 5 * r**2
                return np.array([transverse, transverse, axial])

    def mass_and_inertia(self, density: float) -> tuple[float, np.ndarray]:
        """Mass (kg) and inertia `(3, 3)` (kg m^2, about the centre of mass, body axes) at a density (kg/m^3)."""
        return density * self.volume, np.diag(density * self.inertia_per_density)
