"""The validated description of a mechanism's parts: bodies, loads, elements and stores, with joints and simulation."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from jmbs.errors import ModelError
from jmbs.library.mechanics import checks
from jmbs.library.mechanics.joint_specification import JOINT_DIMENSIONS, FrictionSpec, JointSpec, SpringSpec
from jmbs.library.mechanics.shapes import Shape
from jmbs.library.mechanics.simulation_specification import METHODS, SimulationSpec
from jmbs.library.mechanics.values import Frame, TableSpec, constant_or_table

__all__ = [
    "BodySpec",
    "ForceSpec",
    "Frame",
    "FrictionSpec",
    "JOINT_DIMENSIONS",
    "JointSpec",
    "LoadSpec",
    "METHODS",
    "SimulationSpec",
    "SpringDamperSpec",
    "SpringSpec",
    "StoreSpec",
    "TableSpec",
]

GROUPS = ("SE3", "SO3xR3")
BODY_KINDS, ABSENT_BODY_KINDS = ("rigid",), ("particle", "rod")
# Files round inertias to a few digits, so that a flat body may break the triangle inequality by that much.
TRIANGLE_TOLERANCE = 1e-5


def _set(instance: Any, **values: Any) -> None:
    for key, value in values.items():
        object.__setattr__(instance, key, value)


def inertia_matrix(path: str, value: Any) -> np.ndarray:
    """An inertia `(3, 3)` from 3 principal values or 3 rows of 3 (kg m^2).

    Refused with `ModelError` unless symmetric, positive definite and within the triangle inequality of principal
    moments, which every mass distribution obeys: none exceeds the sum of the other two.
    """
    wanted = "3 principal moments or 3 symmetric rows of 3, positive definite, kg m^2"
    raw = checks.array(path, value, [(3,), (3, 3)], wanted)
    matrix = checks.symmetric(path, value, np.diag(raw) if raw.ndim == 1 else raw, wanted)
    smallest, middle, largest = np.linalg.eigvalsh(matrix)
    if smallest <= checks.MATRIX_TOLERANCE * abs(largest):
        raise ModelError(path, checks.show(value), wanted)
    if largest > (smallest + middle) * (1 + TRIANGLE_TOLERANCE):
        found = f"{checks.show(value)}, where the largest principal moment {largest:.6g} exceeds the sum of the others"
        raise ModelError(path, found, "principal moments that obey the triangle inequality")
    return matrix


@dataclasses.dataclass(frozen=True, eq=False)
class BodySpec:
    """A rigid body whose frame sits at its centre of mass.

    `mass` kg; `inertia` `(3, 3)` kg m^2 about the centre of mass in body axes (3 principal values are accepted);
    `group`: the configuration group, SE3 or SO3xR3. Raises `ModelError` with paths below `bodies/<name>`.
    """

    name: str
    mass: float
    inertia: np.ndarray
    group: str = "SE3"
    shape: Shape | None = None
    kind: str = "rigid"

    def __post_init__(self) -> None:
        path = f"bodies/{checks.name(f'bodies/{self.name}', self.name)}"
        checks.choice(f"{path}/kind", self.kind, BODY_KINDS, ABSENT_BODY_KINDS)
        checks.choice(f"{path}/group", self.group, GROUPS)
        _set(
            self,
            mass=checks.number(f"{path}/mass", self.mass, positive=True, unit="kg"),
            inertia=inertia_matrix(f"{path}/inertia", self.inertia),
            shape=None if self.shape is None else Shape.make(f"{path}/shape", self.shape),
        )

    @classmethod
    def make(
        cls, name: str, *, mass: Any, inertia: Any, shape: Any, density: Any, group: str, kind: str = "rigid"
    ) -> BodySpec:
        """From mass and inertia, or instead of both from a shape and a density (kg/m^3)."""
        path = f"bodies/{name}"
        if density is None:
            return cls(name, mass, inertia, group, shape, kind)
        for key, value in {"mass": mass, "inertia": inertia}.items():
            if value is not None:
                raise ModelError(f"{path}/density", f"both density and {key}", "density, or mass and inertia")
        if shape is None:
            raise ModelError(f"{path}/shape", "nothing", "a shape, since density is given")
        solid = Shape.make(f"{path}/shape", shape)
        density = checks.number(f"{path}/density", density, positive=True, unit="kg/m^3")
        return cls(name, *solid.mass_and_inertia(density), group, solid, kind)


@dataclasses.dataclass(frozen=True, eq=False)
class LoadSpec:
    """A force (N) on a material point of a body and a torque (N m) on the body.

    `point` `(3,)` m, body frame; `force` and `torque`: `(3,)` or tables of 3 columns, components in world or body
    axes as `frame` says. Raises `ModelError` with paths below `loads/<name>`.
    """

    name: str
    body: str
    point: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(3))
    force: np.ndarray | TableSpec = dataclasses.field(default_factory=lambda: np.zeros(3))
    torque: np.ndarray | TableSpec = dataclasses.field(default_factory=lambda: np.zeros(3))
    frame: str = "world"

    def __post_init__(self) -> None:
        path = f"loads/{checks.name(f'loads/{self.name}', self.name)}"
        _moving_body(f"{path}/body", self.body)
        checks.choice(f"{path}/frame", self.frame, ("world", "body"))
        _set(
            self,
            point=checks.vector(f"{path}/point", self.point, 3),
            force=constant_or_table(f"{path}/force", self.force, 3, broadcast=False),
            torque=constant_or_table(f"{path}/torque", self.torque, 3, broadcast=False),
        )


@dataclasses.dataclass(frozen=True, eq=False)
class SpringDamperSpec:
    """A spring and damper along the line between a point of `a` and a point of `b` (bodies or ground).

    Points `(3,)` m in the body frames (ground: world), `stiffness` N/m, `damping` N s/m, `length` m at rest, `heats`:
    environment or a thermal store. Raises `ModelError` with paths below `elements/<name>`.
    """

    name: str
    a: str
    point_a: np.ndarray
    b: str
    point_b: np.ndarray
    stiffness: float = 0.0
    damping: float = 0.0
    length: float = 0.0
    heats: str = "environment"

    def __post_init__(self) -> None:
        path = f"elements/{checks.name(f'elements/{self.name}', self.name)}"
        for key in ("a", "b"):
            checks.reference(f"{path}/{key}", getattr(self, key))
        if self.a == self.b:
            raise ModelError(f"{path}/b", self.b, f"another body than a: both ends on {self.a} exert nothing")
        checks.reference(f"{path}/heats", self.heats)
        units = {"stiffness": "N/m", "damping": "N s/m", "length": "m"}
        _set(
            self,
            point_a=checks.vector(f"{path}/point_a", self.point_a, 3),
            point_b=checks.vector(f"{path}/point_b", self.point_b, 3),
            **{
                key: checks.number(f"{path}/{key}", getattr(self, key), non_negative=True, unit=unit)
                for key, unit in units.items()
            },
        )


@dataclasses.dataclass(frozen=True, eq=False)
class ForceSpec:
    """A user's force: `wrench(t, pose, velocity)` on a named body. Raises `ModelError` below `elements/<name>`."""

    name: str
    body: str
    wrench: Callable[..., Any]

    def __post_init__(self) -> None:
        path = f"elements/{checks.name(f'elements/{self.name}', self.name)}"
        _moving_body(f"{path}/body", self.body)
        if not callable(self.wrench):
            raise ModelError(f"{path}/wrench", checks.show(self.wrench), "a function wrench(t, pose, velocity)")


@dataclasses.dataclass(frozen=True, eq=False)
class StoreSpec:
    """A thermal store, `theta = temperature exp(s / capacity)`: `capacity` J/K, initial `temperature` K."""

    name: str
    capacity: float
    temperature: float = 298.15

    def __post_init__(self) -> None:
        path = f"stores/{checks.name(f'stores/{self.name}', self.name)}"
        _set(
            self,
            capacity=checks.number(f"{path}/capacity", self.capacity, positive=True, unit="J/K"),
            temperature=checks.number(f"{path}/temperature", self.temperature, positive=True, unit="K"),
        )


def _moving_body(path: str, value: Any) -> None:
    if checks.reference(path, value) == "ground":
        raise ModelError(path, "ground", "a body (ground does not move)")
