"""Rigid bodies as measures: mass spread over points or over a shape, with what follows from it.

m = sum m_k,   c = 1/m sum m_k X_k,   J = sum m_k (|X_k - c|^2 id - (X_k - c)(X_k - c)^T)

(004, definitions 3.1, 3.2, 3.5.) A density over a shape becomes a product Gauss rule, so all distributions are points.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from jmbs.errors import ModelError
from jmbs.library.mechanics import checks
from jmbs.library.mechanics.quadrature import quadrature
from jmbs.library.mechanics.shapes import Shape
from jmbs.library.mechanics.values import Frame

PARTICLE_TOLERANCE = 1e-9
"""Radius of gyration about the centre, relative to the one about the origin, up to which a body is a particle."""
ROD_TOLERANCE = checks.MATRIX_TOLERANCE
"""Smallest principal moment relative to the largest up to which a body is a rod: a width of 3e-5 of the length."""


@dataclasses.dataclass(frozen=True, eq=False)
class MassDistribution:
    """A rigid body as a discrete mass measure: `points` `(n, 3)` m in any frame of the body, `masses` `(n,)` kg.

    What follows from them:

    - `mass`: kg; `centre` `(3,)`: of mass, m, in the same frame.
    - `inertia` `(3, 3)`: about the centre of mass in the frame's axes, kg m^2, exactly singular for degenerate bodies.
    - `kind`: "particle" where all mass is in one point (radius of gyration below 1e-9 of the distance from the
      origin), "rod" where it is on one line (smallest principal moment below 1e-9 of the largest), else "rigid"
      (004, lemma 4.1 and corollary 4.2).
    - `axis` `(3,)`: a unit vector along a rod, None for other kinds.

    Raises `ModelError` for values that are not finite, negative masses, and where there is no mass at all.
    """

    points: np.ndarray
    masses: np.ndarray
    path: dataclasses.InitVar[str] = "distribution"
    mass: float = dataclasses.field(init=False)
    centre: np.ndarray = dataclasses.field(init=False)
    inertia: np.ndarray = dataclasses.field(init=False)
    kind: str = dataclasses.field(init=False)
    axis: np.ndarray | None = dataclasses.field(init=False)

    def __post_init__(self, path: str) -> None:
        points = checks.array(f"{path}/points", self.points, None, "rows of 3 finite numbers, m")
        if points.ndim != 2 or points.shape[1] != 3 or points.shape[0] == 0:
            raise ModelError(f"{path}/points", f"shape {points.shape}", "at least one row of 3 numbers, m")
        wanted = f"{len(points)} finite non-negative numbers, kg, one per point and not all zero"
        masses = checks.array(f"{path}/masses", self.masses, [(len(points),)], wanted)
        if np.any(masses < 0) or not np.any(masses > 0):
            raise ModelError(f"{path}/masses", checks.show(self.masses), wanted)
        mass = float(np.sum(masses))
        centre = masses @ points / mass
        kind, inertia, axis = _degeneracy(mass, centre, second_moments(points - centre, masses))
        values = {"points": points, "masses": masses, "mass": mass, "centre": checks.freeze(centre), "kind": kind}
        values |= {"inertia": checks.freeze(inertia), "axis": None if axis is None else checks.freeze(axis)}
        for key, value in values.items():
            object.__setattr__(self, key, value)

    @classmethod
    def make(cls, path: str, value: Any) -> MassDistribution:
        """From a mapping with `points` and `masses`, or a `MassDistribution` as it is. Raises `ModelError`."""
        if isinstance(value, MassDistribution):
            return value
        if not isinstance(value, dict) or set(value) != {"points", "masses"}:
            raise ModelError(path, checks.show(value), "a mapping with the keys points and masses")
        return cls(value["points"], value["masses"], path)

    def __add__(self, other: MassDistribution) -> MassDistribution:
        """A body composed of two, both in one frame (see `placed`): measures add."""
        return MassDistribution(
            np.concatenate([self.points, other.points]), np.concatenate([self.masses, other.masses])
        )

    @property
    def body_points(self) -> np.ndarray:
        """The points `(n, 3)` m from the centre of mass, where the frame of a body sits."""
        return self.points - self.centre

    def placed(self, frame: Any) -> MassDistribution:
        """The same distribution in a body's frame, given its own frame there: 3 numbers, a mapping or a `Frame`."""
        where = Frame.make("frame", frame)
        return MassDistribution(self.points @ _rotation(where.quaternion).T + where.position, self.masses)


def point_masses(points: Any, masses: Any) -> MassDistribution:
    """Masses `(n,)` kg in points `(n, 3)` m. Raises `ModelError`."""
    return MassDistribution(points, masses)


def density_over(
    shape: Any, density: float | Callable[[np.ndarray], float], degree: int = 4, path: str = "distribution"
) -> MassDistribution:
    """Mass spread over a solid.

    **Arguments:**

    - `shape`: a `Shape`, or `{kind: dimensions}`, m.
    - `density`: kg/m^3, a number or a function of a position `(3,)` m in the shape's frame.
    - `degree`: mass, centre and inertia are exact, to rounding, for densities that are polynomials up to this degree
      in the position; the quadrature rule's own degree is two more.

    Raises `ModelError` for a negative density.
    """
    if isinstance(degree, bool) or not isinstance(degree, int) or degree < 0:
        raise ModelError(f"{path}/degree", checks.show(degree), "a whole number, not negative")
    points, volumes = quadrature(Shape.make(f"{path}/shape", shape), degree + 2)
    wanted = "a finite non-negative number, kg/m^3, or a function of position with such values"
    values = np.array([density(point) for point in points]) if callable(density) else density
    values = checks.array(f"{path}/density", values, [(), (len(points),)], wanted)
    if np.any(values < 0) or not np.any(values > 0):
        raise ModelError(f"{path}/density", f"values from {np.min(values):g} to {np.max(values):g}", wanted)
    return MassDistribution(points, values * volumes, path)


def second_moments(points: np.ndarray, masses: np.ndarray) -> np.ndarray:
    """The inertia `(3, 3)` of masses `(n,)` in points `(n, 3)` about the origin."""
    spread = np.einsum("k,ki,kj->ij", masses, points, points)
    return np.trace(spread) * np.eye(3) - spread


def _degeneracy(mass: float, centre: np.ndarray, inertia: np.ndarray) -> tuple[str, np.ndarray, np.ndarray | None]:
    """Kind, inertia without rounding in the directions that have none, and the axis of a rod."""
    moments, axes = np.linalg.eigh(inertia)
    squared_distance = centre @ centre + np.trace(inertia) / (2 * mass)
    if moments[2] <= mass * PARTICLE_TOLERANCE**2 * squared_distance:
        return "particle", np.zeros((3, 3)), None
    if moments[0] <= ROD_TOLERANCE * moments[2]:
        axis = axes[:, 0] * np.sign(axes[np.argmax(np.abs(axes[:, 0])), 0])
        return "rod", (moments[1] + moments[2]) / 2 * (np.eye(3) - np.outer(axis, axis)), axis
    return "rigid", inertia, None


def _rotation(wxyz: np.ndarray) -> np.ndarray:
    w, x, y, z = wxyz
    hat = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + 2 * w * hat + 2 * hat @ hat
