"""SO(3) x R3: poses as a direct product, rotation and position each by itself."""

from __future__ import annotations

import jax.numpy as jnp

from jmbs.lie.group import AbstractGroup
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
from jmbs.lie.so3 import SO3
from jmbs.lie.types import Coordinates7, Pose, Vector6
from jmbs.lie.vectors import rows_cross, transpose


class DirectProductSO3R3(AbstractGroup):
    """SO(3) x R3: elements `[R | r]` of shape (3, 4), tangents `(omega, v)` of shape (6,).

    `omega` is in body axes, `v` in **world** axes; cotangents are `(torque in body axes, force in world axes)`,
    the torque about the body origin. Coordinates are the position (m) and the unit quaternion `wxyz` with `w >= 0`.
    """

    @property
    def name(self) -> str:
        return "SO3xR3"

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
        return pose(SO3.compose(rotation(a), rotation(b)), translation(a) + translation(b))

    def inverse(self, a: Pose) -> Pose:
        return pose(transpose(rotation(a)), -translation(a))

    def lift(self, q: Pose, xi: Vector6) -> Pose:
        omega, v = split(xi)
        return pose(rows_cross(rotation(q), omega), v)

    def lower(self, q: Pose, dq: Pose) -> Vector6:
        return join(SO3.lower(rotation(q), rotation(dq)), translation(dq))

    def exp(self, xi: Vector6) -> Pose:
        omega, v = split(xi)
        return pose(SO3.exp(omega), v)

    def log(self, q: Pose) -> Vector6:
        return join(SO3.log(rotation(q)), translation(q))

    def Ad(self, q: Pose, xi: Vector6) -> Vector6:
        omega, v = split(xi)
        return join(SO3.Ad(rotation(q), omega), v)

    def Ad_dual(self, q: Pose, f: Vector6) -> Vector6:
        torque, force = split(f)
        return join(SO3.Ad_dual(rotation(q), torque), force)

    def ad(self, xi: Vector6, eta: Vector6) -> Vector6:
        return join(SO3.ad(xi[:3], eta[:3]), jnp.zeros_like(eta[3:]))

    def ad_dual(self, xi: Vector6, p: Vector6) -> Vector6:
        return join(SO3.ad_dual(xi[:3], p[:3]), jnp.zeros_like(p[3:]))

    def dexp(self, xi: Vector6, eta: Vector6) -> Vector6:
        return join(SO3.dexp(xi[:3], eta[:3]), eta[3:])

    def dexp_inv(self, xi: Vector6, eta: Vector6) -> Vector6:
        return join(SO3.dexp_inv(xi[:3], eta[:3]), eta[3:])

    def cay(self, xi: Vector6) -> Pose:
        omega, v = split(xi)
        return pose(SO3.cay(omega), v)

    def dcay(self, xi: Vector6, eta: Vector6) -> Vector6:
        return join(SO3.dcay(xi[:3], eta[:3]), eta[3:])

    def dcay_inv(self, xi: Vector6, eta: Vector6) -> Vector6:
        return join(SO3.dcay_inv(xi[:3], eta[:3]), eta[3:])

    def normalise(self, q: Pose) -> Pose:
        return normalise_pose(q)

    def to_coordinates(self, q: Pose) -> Coordinates7:
        return pose_to_coordinates(q)

    def from_coordinates(self, c: Coordinates7) -> Pose:
        return pose_from_coordinates(c)


SO3xR3 = DirectProductSO3R3()
