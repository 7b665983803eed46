"""Smooth maps from free coordinates, of order one and without limits, to values that are physical."""

from __future__ import annotations

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.errors import ModelError
from jmbs.lie import SO3


class Transform(eqx.Module):
    """A map from coordinates (k,) to values (n,); `start` (n,) is the value at which it was set up."""

    start: eqx.AbstractVar[Float[Array, " n"]]

    @abc.abstractmethod
    def values(self, coordinates: Float[Array, " k"]) -> Float[Array, " n"]:
        """The values at coordinates."""

    @abc.abstractmethod
    def coordinates(self, values: np.ndarray) -> np.ndarray:
        """The coordinates (k,) at which a value is taken."""

    @property
    @abc.abstractmethod
    def entrywise(self) -> bool:
        """Whether each value depends on the coordinate of its own index alone, and grows with it."""


class LogTransform(Transform):
    """`exp`: for what is positive. Raises `ModelError` where it starts at zero or below."""

    start: Float[Array, " n"]

    def values(self, coordinates):
        return jnp.exp(coordinates)

    def coordinates(self, values):
        return np.log(np.maximum(np.asarray(values, float), np.finfo(float).tiny))

    @property
    def entrywise(self):
        return True


class LinearTransform(Transform):
    """Values in units of `scale` (n,), so that coordinates are of order one."""

    start: Float[Array, " n"]
    scale: Float[Array, " n"]

    def values(self, coordinates):
        return self.scale * coordinates

    def coordinates(self, values):
        return np.asarray(values, float) / np.asarray(self.scale)

    @property
    def entrywise(self):
        return True


class RotationTransform(Transform):
    """Values that end with a quaternion; coordinates: an offset (n - 4,) in units of `scale`, then a rotation vector
    from the start, rad, which turns on the right."""

    start: Float[Array, " n"]
    scale: float = 1.0

    def values(self, coordinates):
        ahead, turn = coordinates[:-3], coordinates[-3:]
        turned = SO3.compose(SO3.from_coordinates(self.start[-4:]), SO3.exp(turn))
        return jnp.concatenate([self.start[:-4] + self.scale * ahead, SO3.to_coordinates(turned)])

    def coordinates(self, values):
        values, start = np.asarray(values, float), np.asarray(self.start)
        before, after = (SO3.from_coordinates(jnp.asarray(q[-4:])) for q in (start, values))
        turn = SO3.log(SO3.compose(SO3.inverse(before), after))
        return np.concatenate([(values[:-4] - start[:-4]) / self.scale, np.asarray(turn)])

    @property
    def entrywise(self):
        return False


class PseudoInertiaTransform(Transform):
    """Ten inertial parameters of a body by the log-Cholesky factor of its pseudo-inertia, so that every coordinate is a
    body whose mass density is positive (Rucker and Wensing, IEEE RA-L 7 (2022), 2707).

    Values: mass, centre of mass (3), inertia about it: xx, yy, zz, xy, xz, yz. The pseudo-inertia
    `[[S, m c], [m c^T, m]]`, `S = tr(I) / 2 - I` about the body's present origin, is `U U^T` with `U` upper triangular.
    """

    start: Float[Array, " 10"]

    def values(self, coordinates):
        scale, d, (s12, s23, s13), t = coordinates[0], coordinates[1:4], coordinates[4:7], coordinates[7:10]
        one, zero = jnp.ones((), scale.dtype), jnp.zeros((), scale.dtype)
        e = jnp.exp(d)
        rows = [[e[0], s12, s13, t[0]], [zero, e[1], s23, t[1]], [zero, zero, e[2], t[2]], [zero, zero, zero, one]]
        factor = jnp.exp(scale) * jnp.stack([jnp.stack(row) for row in rows])
        pseudo = factor @ factor.T
        mass, second = pseudo[3, 3], pseudo[:3, :3]
        centre = pseudo[:3, 3] / mass
        about_centre = second - mass * jnp.outer(centre, centre)
        inertia = jnp.trace(about_centre) * jnp.eye(3, dtype=scale.dtype) - about_centre
        moments = inertia[jnp.array([0, 1, 2, 0, 0, 1]), jnp.array([0, 1, 2, 1, 2, 2])]
        return jnp.concatenate([mass[None], centre, moments])

    def coordinates(self, values):
        mass, centre, inertia = values[0], np.asarray(values[1:4], float), symmetric(values[4:])
        second = np.trace(inertia) / 2 * np.eye(3) - inertia + mass * np.outer(centre, centre)
        pseudo = np.block([[second, mass * centre[:, None]], [mass * centre[None], np.full((1, 1), mass)]])
        try:
            factor = upper_factor(pseudo)
        except np.linalg.LinAlgError:
            raise ModelError("inertial", f"mass {mass:g} and inertia {inertia.tolist()}", PHYSICAL) from None
        scale = np.log(factor[3, 3])
        factor = factor / factor[3, 3]
        shears = [factor[0, 1], factor[1, 2], factor[0, 2]]
        return np.concatenate([[scale], np.log(np.diag(factor)[:3]), shears, factor[:3, 3]])

    @property
    def entrywise(self):
        return False


class InertiaTransform(Transform):
    """A whole inertia about the centre of mass, row by row, by the log-Cholesky factor of the second moments of mass
    `S = tr(I) / 2 - I`, so that every coordinate is the inertia of a body whose mass density is positive.

    Coordinates: logarithms of the diagonal of the upper triangular `U`, `S = U U^T`; then entries 12, 23, 13 of `U`, in
    units of `scale`, the square root of the largest moment of the start.
    """

    start: Float[Array, " 9"]
    scale: float

    def values(self, coordinates):
        e, zero = jnp.exp(coordinates[:3]), jnp.zeros((), coordinates.dtype)
        s12, s23, s13 = self.scale * coordinates[3:]
        rows = [[e[0], s12, s13], [zero, e[1], s23], [zero, zero, e[2]]]
        factor = jnp.stack([jnp.stack(row) for row in rows])
        second = factor @ factor.T
        return (jnp.trace(second) * jnp.eye(3, dtype=e.dtype) - second).reshape(9)

    def coordinates(self, values):
        inertia = np.asarray(values, float).reshape(3, 3)
        try:
            factor = upper_factor(np.trace(inertia) / 2 * np.eye(3) - (inertia + inertia.T) / 2)
        except np.linalg.LinAlgError:
            wanted = f"{PHYSICAL}; or transform: linear"
            raise ModelError("inertia", f"{inertia.tolist()}", wanted) from None
        shears = np.array([factor[0, 1], factor[1, 2], factor[0, 2]])
        return np.concatenate([np.log(np.diag(factor)), shears / self.scale])

    @property
    def entrywise(self):
        return False


def inertia_bounds(transform: PseudoInertiaTransform | InertiaTransform) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bounds (k,) of coordinates: a body gets no thinner than THINNEST beside its largest extent at the
    start, where it is a plate or a rod to every rule, and no less visible."""
    first = transform.coordinates(np.asarray(transform.start))
    thin = slice(1, 4) if isinstance(transform, PseudoInertiaTransform) else slice(0, 3)
    lower = np.full(len(first), -np.inf)
    lower[thin] = np.max(first[thin]) + np.log(THINNEST)
    return lower, np.full(len(first), np.inf)


THINNEST = 1e-4
PHYSICAL = "a physical inertia: each principal moment less than the sum of the others"


def upper_factor(matrix: np.ndarray) -> np.ndarray:
    """The upper triangular `U`, `U U^T` being a positive definite matrix: the lower one of the matrix with rows and
    columns turned around. Raises `LinAlgError`."""
    return np.linalg.cholesky(matrix[::-1, ::-1])[::-1, ::-1]


def symmetric(moments: np.ndarray) -> np.ndarray:
    """A symmetric matrix (3, 3) from xx, yy, zz, xy, xz, yz."""
    xx, yy, zz, xy, xz, yz = np.asarray(moments, float)
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def jacobian(transform: Transform, coordinates: np.ndarray) -> np.ndarray:
    """Derivative (n, k) of the values by the coordinates."""
    return np.asarray(jax.jacfwd(transform.values)(jnp.asarray(coordinates)))
