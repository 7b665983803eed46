"""The validated description of a mechanism's parts: bodies, loads, elements and stores, with joints and simulation."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from jmbs.errors import ModelError
from jmbs.library.mechanics import checks
from jmbs.library.mechanics.joint_specification import JOINT_DIMENSIONS, FrictionSpec, JointSpec, SpringSpec
from jmbs.library.mechanics.mass_distribution import MassDistribution
from jmbs.library.mechanics.shapes import Shape
from jmbs.library.mechanics.simulation_specification import METHODS, SimulationSpec
from jmbs.library.mechanics.values import Frame, TableSpec, constant_or_table

__all__ = [
    "BodySpec",
    "ConductionSpec",
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
BODY_KINDS = ("rigid", "particle", "rod")
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
        raise ModelError(path, checks.show(value), wanted + _kind_of(smallest, middle, largest))
    if largest > (smallest + middle) * (1 + TRIANGLE_TOLERANCE):
        found = f"{checks.show(value)}, where the largest principal moment {largest:.6g} exceeds the sum of the others"
        raise ModelError(path, found, "principal moments that obey the triangle inequality")
    return matrix


def _kind_of(smallest: float, middle: float, largest: float) -> str:
    """A clause that names the kind of body whose inertia has these principal moments, if there is one."""
    if largest == 0 == smallest:
        return "; a body without inertia is of kind: particle"
    slender = abs(smallest) <= checks.MATRIX_TOLERANCE * largest and largest - middle <= TRIANGLE_TOLERANCE * largest
    return "; one principal moment zero, the others equal, is of kind: rod" if slender else ""


def rod_inertia(path: str, value: Any) -> tuple[np.ndarray, np.ndarray]:
    """The inertia `(3, 3)` of a thin rod and its axis `(3,)`, from 3 principal moments or 3 rows.

    Refused with `ModelError` unless one principal moment is zero and the other two are positive and equal.
    """
    wanted = "a rod's inertia: one principal moment zero, the other two positive and equal, kg m^2"
    raw = checks.array(path, value, [(3,), (3, 3)], wanted)
    matrix = checks.symmetric(path, value, np.diag(raw) if raw.ndim == 1 else raw, wanted)
    (smallest, middle, largest), axes = np.linalg.eigh(matrix)
    if largest <= 0 or max(abs(smallest), largest - middle) > TRIANGLE_TOLERANCE * largest:
        raise ModelError(path, checks.show(value), wanted)
    axis = axes[:, 0] * np.sign(axes[np.argmax(np.abs(axes[:, 0])), 0])
    moment = (middle + largest) / 2
    return checks.freeze(moment * (np.eye(3) - np.outer(axis, axis))), checks.freeze(axis)


def _no_inertia(path: str, value: Any) -> np.ndarray:
    wanted = "nothing or zeros: a particle has no inertia"
    if value is not None and np.any(checks.array(path, value, [(3,), (3, 3)], wanted)):
        raise ModelError(path, checks.show(value), wanted)
    return checks.freeze(np.zeros((3, 3)))


@dataclasses.dataclass(frozen=True, eq=False)
class BodySpec:
    """A rigid body whose frame sits at its centre of mass.

    `mass` kg; `inertia` `(3, 3)` kg m^2 about the centre of mass in body axes (3 principal values are accepted);
    `group`: the configuration group, SE3 or SO3xR3; `kind`: rigid, rod (one principal moment zero, the other two equal;
    `axis` `(3,)` is then the rod's) or particle (no inertia); `potential`: potential energy beside its weight, a module
    with `energy(pose)` in J, of the pose `[R | r]` (3, 4). Raises `ModelError` with paths below `bodies/<name>`.
    """

    name: str
    mass: float
    inertia: np.ndarray
    group: str = "SE3"
    shape: Shape | None = None
    kind: str = "rigid"
    potential: Any = None
    axis: np.ndarray | None = dataclasses.field(default=None, init=False)

    def __post_init__(self) -> None:
        path = f"bodies/{checks.name(f'bodies/{self.name}', self.name)}"
        checks.choice(f"{path}/kind", self.kind, BODY_KINDS)
        checks.choice(f"{path}/group", self.group, GROUPS)
        if self.potential is not None and not checks.is_law(self.potential):
            raise ModelError(f"{path}/potential", checks.show(self.potential), "a module with energy(pose), J")
        if self.potential is not None:
            checks.shape_made(f"{path}/potential", self.potential.energy, (3, 4))
        axis = None
        match self.kind:
            case "rod":
                inertia, axis = rod_inertia(f"{path}/inertia", self.inertia)
            case "particle":
                inertia = _no_inertia(f"{path}/inertia", self.inertia)
            case _:
                inertia = inertia_matrix(f"{path}/inertia", self.inertia)
        _set(
            self,
            mass=checks.number(f"{path}/mass", self.mass, positive=True, unit="kg"),
            inertia=inertia,
            axis=axis,
            shape=None if self.shape is None else Shape.make(f"{path}/shape", self.shape),
        )

    @property
    def moment(self) -> float:
        """The principal moment of a rod across its axis, kg m^2."""
        return float(np.trace(self.inertia)) / 2

    @property
    def inertialess(self) -> np.ndarray:
        """Directions `(3, n)`, body axes, about which the body has no inertia: none, a rod's axis, or all."""
        if self.kind == "particle":
            return np.eye(3)
        return np.zeros((3, 0)) if self.axis is None else self.axis[:, None]

    @classmethod
    def make(
        cls,
        name: str,
        *,
        mass: Any,
        inertia: Any,
        shape: Any,
        density: Any,
        distribution: Any,
        group: str,
        kind: str,
        potential: Any,
    ) -> BodySpec:
        """From mass and inertia, or from a shape and a density (kg/m^3), or from a mass distribution, with its kind."""
        path = f"bodies/{name}"
        if distribution is not None:
            for key, value in {"mass": mass, "inertia": inertia, "density": density}.items():
                if value is not None:
                    raise ModelError(f"{path}/distribution", f"both distribution and {key}", "one of them")
            spread = MassDistribution.make(f"{path}/distribution", distribution)
            if kind not in ("rigid", spread.kind):
                raise ModelError(f"{path}/kind", kind, f"{spread.kind}, the kind of its distribution")
            return cls(name, spread.mass, spread.inertia, group, shape, spread.kind, potential)
        if density is None:
            return cls(name, mass, inertia, group, shape, kind, potential)
        if kind in ("rod", "particle"):
            raise ModelError(f"{path}/density", checks.show(density), f"mass and inertia: a {kind} is no solid")
        for key, value in {"mass": mass, "inertia": inertia}.items():
            if value is not None:
                raise ModelError(f"{path}/density", f"both density and {key}", "density, or mass and inertia")
        if shape is None:
            raise ModelError(f"{path}/shape", "nothing", "a shape, since density is given")
        solid = Shape.make(f"{path}/shape", shape)
        density = checks.number(f"{path}/density", density, positive=True, unit="kg/m^3")
        return cls(name, *solid.mass_and_inertia(density), group, solid, kind, potential)


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
    environment or a thermal store. In place of `stiffness` and `length` a law: a module with `energy(length)`, J.
    Raises `ModelError` with paths below `elements/<name>`.
    """

    name: str
    a: str
    point_a: np.ndarray
    b: str
    point_b: np.ndarray
    stiffness: Any = 0.0
    damping: float = 0.0
    length: float = 0.0
    heats: str = "environment"

    def __post_init__(self) -> None:
        path = f"elements/{checks.name(f'elements/{self.name}', self.name)}"
        for key in ("a", "b"):
            checks.reference(f"{path}/{key}", getattr(self, key))
        if self.a == self.b:
            raise ModelError(f"{path}/b", self.b, f"another body than a: both ends on {self.a} exert nothing")
        checks.part_path(f"{path}/heats", self.heats)
        units = {"stiffness": "N/m", "damping": "N s/m", "length": "m"}
        if checks.is_law(self.stiffness):
            del units["stiffness"]
            checks.shape_made(f"{path}/stiffness", self.stiffness.energy, ())
            if self.length != 0:
                raise ModelError(f"{path}/length", checks.show(self.length), "none beside a law of its own")
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


@dataclasses.dataclass(frozen=True, eq=False)
class ConductionSpec:
    """Heat conduction between `a` and `b`, thermal stores or the environment: `conductance` W/K, not negative.

    Raises `ModelError` with paths below `elements/<name>`.
    """

    name: str
    a: str
    b: str
    conductance: float

    def __post_init__(self) -> None:
        path = f"elements/{checks.name(f'elements/{self.name}', self.name)}"
        for key in ("a", "b"):
            checks.part_path(f"{path}/{key}", getattr(self, key))
        if self.a == self.b:
            raise ModelError(f"{path}/b", self.b, f"another end than a: {self.a} exchanges no heat with itself")
        conductance = checks.number(f"{path}/conductance", self.conductance, non_negative=True, unit="W/K")
        _set(self, conductance=conductance)


def _moving_body(path: str, value: Any) -> None:
    if checks.reference(path, value) == "ground":
        raise ModelError(path, "ground", "a body (ground does not move)")
