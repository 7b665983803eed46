"""Poses `[R | r]` of shape (3, 4), the elements that SE(3) and SO(3)xR3 share."""

from __future__ import annotations

import jax.numpy as jnp

from jmbs.lie.quaternion import quaternion_to_rotation, rotation_to_quaternion
from jmbs.lie.so3 import nearest_rotation
from jmbs.lie.types import Coordinates7, Matrix3, Pose, Vector3, Vector6
from jmbs.lie.vectors import parts


def pose(R: Matrix3, r: Vector3) -> Pose:
    """`[R | r]`: `R` maps body to world components, `r` is the body origin in world components, m."""
    return jnp.concatenate([R, r[:, None]], axis=1)


def rotation(q: Pose) -> Matrix3:
    """The rotation `R` of a pose."""
    return q[:, :3]


def translation(q: Pose) -> Vector3:
    """The body origin `r` of a pose, world components, m."""
    return q[:, 3]


def split(u: Vector6) -> tuple[Vector3, Vector3]:
    """The angular and the linear half of a twist, or the torque and the force of a wrench."""
    angular, linear = parts(u, (3, 3))
    return angular, linear


def join(angular: Vector3, linear: Vector3) -> Vector6:
    """The inverse of `split`."""
    return jnp.concatenate([angular, linear])


def normalise_pose(q: Pose) -> Pose:
    """The pose with its rotation made orthonormal."""
    return pose(nearest_rotation(rotation(q)), translation(q))


def pose_to_coordinates(q: Pose) -> Coordinates7:
    """Position (m), then the quaternion `wxyz` with `w >= 0`."""
    return jnp.concatenate([translation(q), rotation_to_quaternion(rotation(q))])


def pose_from_coordinates(c: Coordinates7) -> Pose:
    """The pose at a position (m) with a quaternion `wxyz` of any positive length."""
    return pose(quaternion_to_rotation(c[3:]), c[:3])
