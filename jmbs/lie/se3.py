"""SE(3): rigid motions, the semidirect product."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from jmbs.lie.group import AbstractGroup, ad_polynomial
from jmbs.lie.pose import (
    join,
    normalise_pose,
    pose,
    pose_from_coordinates,
    pose_to_coordinates,
    rotation,
    split,
    translation,
)
from jmbs.lie.series import stumpffs
from jmbs.lie.so3 import SO3
from jmbs.lie.types import Coordinates7, Pose, Vector3, Vector6
from jmbs.lie.vectors import cross, dot, multiply, rotate, rotate_back, rotation_polynomial, rows_cross, transpose


class SpecialEuclidean3(AbstractGroup):
    """SE(3): elements `[R | r]` of shape (3, 4), tangents `(omega, v)` of shape (6,), both in body axes.

    `v` is the velocity of the body origin; cotangents are `(torque about that origin, force)` in body axes.
    Coordinates are the position (m) and the unit quaternion `wxyz` with `w >= 0`.
    """

    @property
    def name(self) -> str:
        return "SE3"

    @property
    def dim(self) -> int:
        return 6

    @property
    def shape(self) -> tuple[int, ...]:
        return (3, 4)

    @property
    def coordinate_size(self) -> int:
        return 7

    def identity(self, dtype=None) -> Pose:
        return jnp.eye(3, 4, dtype=dtype)

    def compose(self, a: Pose, b: Pose) -> Pose:
        R = rotation(a)
        return pose(multiply(R, rotation(b)), translation(a) + rotate(R, translation(b)))

    def inverse(self, a: Pose) -> Pose:
        R = rotation(a)
        return pose(transpose(R), -rotate_back(R, translation(a)))

    def lift(self, q: Pose, xi: Vector6) -> Pose:
        omega, v = split(xi)
        R = rotation(q)
        return pose(rows_cross(R, omega), rotate(R, v))

    def lower(self, q: Pose, dq: Pose) -> Vector6:
        R = rotation(q)
        return join(SO3.lower(R, rotation(dq)), rotate_back(R, translation(dq)))

    def exp(self, xi: Vector6) -> Pose:
        omega, v = split(xi)
        s1, s2, s3 = stumpffs(1, 3, dot(omega, omega))
        return pose(rotation_polynomial(s1, s2, omega), ad_polynomial(SO3, (s2, s3), omega, v))

    def log(self, q: Pose) -> Vector6:
        omega = SO3.log(rotation(q))
        return join(omega, SO3.dexp_inv(omega, translation(q)))

    def Ad(self, q: Pose, xi: Vector6) -> Vector6:
        omega, v = split(xi)
        R = rotation(q)
        angular = rotate(R, omega)
        return join(angular, rotate(R, v) + cross(translation(q), angular))

    def Ad_dual(self, q: Pose, f: Vector6) -> Vector6:
        torque, force = split(f)
        R = rotation(q)
        return join(rotate_back(R, torque - cross(translation(q), force)), rotate_back(R, force))

    def ad(self, xi: Vector6, eta: Vector6) -> Vector6:
        omega, v = split(xi)
        angular, linear = split(eta)
        return join(cross(omega, angular), cross(omega, linear) + cross(v, angular))

    def ad_dual(self, xi: Vector6, p: Vector6) -> Vector6:
        omega, v = split(xi)
        angular, linear = split(p)
        return join(cross(angular, omega) + cross(linear, v), cross(linear, omega))

    def dexp(self, xi: Vector6, eta: Vector6) -> Vector6:
        return _with_rates(SO3.dexp, xi, eta)

    def dexp_inv(self, xi: Vector6, eta: Vector6) -> Vector6:
        return _with_rates(SO3.dexp_inv, xi, eta)

    def cay(self, xi: Vector6) -> Pose:
        """`(I - X/2)^-1 (I + X/2)` of the 4x4 matrix `X` of `xi`."""
        omega, v = split(xi)
        R = SO3.cay(omega)
        # (I - hat/2)^-1 = (I + R)/2
        return pose(R, 0.5 * (v + rotate(R, v)))

    def dcay(self, xi: Vector6, eta: Vector6) -> Vector6:
        omega, v = split(xi)
        angular, linear = split(eta)
        angular = SO3.dcay(omega, angular)
        return join(angular, 0.5 * (linear + rotate(SO3.cay(omega), linear)) - 0.5 * cross(angular, v))

    def dcay_inv(self, xi: Vector6, eta: Vector6) -> Vector6:
        omega, v = split(xi)
        angular, linear = split(eta)
        moved = linear + 0.5 * cross(angular, v)
        return join(SO3.dcay_inv(omega, angular), moved - 0.5 * cross(omega, moved))

    def normalise(self, q: Pose) -> Pose:
        return normalise_pose(q)

    def to_coordinates(self, q: Pose) -> Coordinates7:
        return pose_to_coordinates(q)

    def from_coordinates(self, c: Coordinates7) -> Pose:
        return pose_from_coordinates(c)


def _with_rates(function: Callable[[Vector3, Vector3], Vector3], xi: Vector6, eta: Vector6) -> Vector6:
    """What `function` of SO(3) becomes in SE(3), of which the brackets are those of SO(3) in dual numbers: the angular
    half is its value, the linear half its derivative where linear halves are rates of angular ones."""
    (omega, v), (angular, linear) = split(xi), split(eta)
    return join(*jax.jvp(function, (omega, angular), (v, linear)))


SE3 = SpecialEuclidean3()
