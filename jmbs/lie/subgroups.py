"""The lower pairs: joint motions that are subgroups of SE(3)."""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.errors import ModelError
from jmbs.lie.group import AbstractGroup
from jmbs.lie.joint_motion import AbstractLowerPair, about, as_columns, check_axis, float_array, unit
from jmbs.lie.pose import pose
from jmbs.lie.r_n import Rn
from jmbs.lie.se2 import SE2
from jmbs.lie.se3 import SE3
from jmbs.lie.so3 import SO3
from jmbs.lie.types import Matrix3, Pose, Scalar, Vector3

XYZ = ("x", "y", "z")
WXYZ = ("qw", "qx", "qy", "qz")
OMEGA = ("omega_x", "omega_y", "omega_z")
LINEAR = ("velocity_x", "velocity_y", "velocity_z")


def rotation_from_z(axis: Vector3) -> Matrix3:
    """The smallest rotation that takes z to the unit vector `axis`; where it is -z, the half turn about x."""
    x, y, z = axis[0], axis[1], axis[2]
    square = x * x + y * y
    antiparallel = (z < 0) & (square <= (8 * jnp.finfo(axis.dtype).eps) ** 2)
    # 1 / (1 + z), for z < 0 in the form that does not cancel.
    safe_square = jnp.where(antiparallel | (z >= 0), 1.0, square)
    scale = jnp.where(z >= 0, 1 / jnp.where(z >= 0, 1 + z, 1.0), (1 - z) / safe_square)
    xx = jnp.where(antiparallel, 1.0, 1 - scale * x * x)
    yy = jnp.where(antiparallel, -1.0, 1 - scale * y * y)
    xy = jnp.where(antiparallel, 0.0, -scale * x * y)
    return jnp.stack([jnp.stack([xx, xy, x]), jnp.stack([xy, yy, y]), jnp.stack([-x, -y, z])])


class Fixed(AbstractLowerPair):
    """No motion; K = R^0."""

    name: ClassVar[str] = "fixed"
    group: ClassVar[AbstractGroup] = Rn(0)
    coordinate_names: ClassVar[tuple[str, ...]] = ()
    coordinate_units: ClassVar[tuple[str, ...]] = ()
    velocity_names: ClassVar[tuple[str, ...]] = ()
    velocity_units: ClassVar[tuple[str, ...]] = ()

    def inclusion(self, q: Array) -> Pose:
        return SE3.identity(q.dtype)

    def basis(self, dtype) -> Float[Array, "6 0"]:
        return jnp.zeros((6, 0), dtype)


class Revolute(AbstractLowerPair):
    """Rotation about `axis` (joint frame, any positive length); K = R, the angle in rad, counting turns."""

    axis: Vector3 = eqx.field(converter=float_array)

    name: ClassVar[str] = "revolute"
    group: ClassVar[AbstractGroup] = Rn(1)
    coordinate_names: ClassVar[tuple[str, ...]] = ("angle",)
    coordinate_units: ClassVar[tuple[str, ...]] = ("rad",)
    velocity_names: ClassVar[tuple[str, ...]] = ("rate",)
    velocity_units: ClassVar[tuple[str, ...]] = ("rad/s",)

    def __check_init__(self):
        check_axis("revolute/axis", self.axis)

    def inclusion(self, q: Array) -> Pose:
        return pose(about(self.axis, q[0]), jnp.zeros(3, q.dtype))

    def basis(self, dtype) -> Float[Array, "6 1"]:
        return as_columns((unit(self.axis), None)).astype(dtype)


class Prismatic(AbstractLowerPair):
    """Translation along `axis` (joint frame, any positive length); K = R, the travel in m."""

    axis: Vector3 = eqx.field(converter=float_array)

    name: ClassVar[str] = "prismatic"
    group: ClassVar[AbstractGroup] = Rn(1)
    coordinate_names: ClassVar[tuple[str, ...]] = ("travel",)
    coordinate_units: ClassVar[tuple[str, ...]] = ("m",)
    velocity_names: ClassVar[tuple[str, ...]] = ("speed",)
    velocity_units: ClassVar[tuple[str, ...]] = ("m/s",)

    def __check_init__(self):
        check_axis("prismatic/axis", self.axis)

    def inclusion(self, q: Array) -> Pose:
        return pose(jnp.eye(3, dtype=q.dtype), unit(self.axis) * q[0])

    def basis(self, dtype) -> Float[Array, "6 1"]:
        return as_columns((None, unit(self.axis))).astype(dtype)


class Screw(AbstractLowerPair):
    """Rotation about `axis` with travel `pitch` (m/rad) along it for a right-handed turn; K = R, the angle in rad."""

    axis: Vector3 = eqx.field(converter=float_array)
    pitch: Scalar = eqx.field(converter=float_array)

    name: ClassVar[str] = "screw"
    group: ClassVar[AbstractGroup] = Rn(1)
    coordinate_names: ClassVar[tuple[str, ...]] = ("angle",)
    coordinate_units: ClassVar[tuple[str, ...]] = ("rad",)
    velocity_names: ClassVar[tuple[str, ...]] = ("rate",)
    velocity_units: ClassVar[tuple[str, ...]] = ("rad/s",)

    def __check_init__(self):
        check_axis("screw/axis", self.axis)
        if self.pitch.shape != ():
            raise ModelError("screw/pitch", f"an array of shape {self.pitch.shape}", "one number, m/rad")

    def inclusion(self, q: Array) -> Pose:
        return pose(about(self.axis, q[0]), unit(self.axis) * (self.pitch * q[0]))

    def basis(self, dtype) -> Float[Array, "6 1"]:
        axis = unit(self.axis)
        return as_columns((axis, self.pitch * axis)).astype(dtype)


class Cylindrical(AbstractLowerPair):
    """Rotation about `axis` and translation along it; K = R^2, the angle in rad and the travel in m."""

    axis: Vector3 = eqx.field(converter=float_array)

    name: ClassVar[str] = "cylindrical"
    group: ClassVar[AbstractGroup] = Rn(2)
    coordinate_names: ClassVar[tuple[str, ...]] = ("angle", "travel")
    coordinate_units: ClassVar[tuple[str, ...]] = ("rad", "m")
    velocity_names: ClassVar[tuple[str, ...]] = ("rate", "speed")
    velocity_units: ClassVar[tuple[str, ...]] = ("rad/s", "m/s")

    def __check_init__(self):
        check_axis("cylindrical/axis", self.axis)

    def inclusion(self, q: Array) -> Pose:
        return pose(about(self.axis, q[0]), unit(self.axis) * q[1])

    def basis(self, dtype) -> Float[Array, "6 2"]:
        axis = unit(self.axis)
        return as_columns((axis, None), (None, axis)).astype(dtype)


class Planar(AbstractLowerPair):
    """Motion in the plane with normal `axis`; K = SE(2): x, y (m) in the parent's joint axes, and the angle (rad).

    The in-plane axes are those of the smallest rotation taking z to the normal (x is kept if they are antiparallel).
    Velocities are along the child's in-plane axes.
    """

    axis: Vector3 = eqx.field(converter=float_array)

    name: ClassVar[str] = "planar"
    group: ClassVar[AbstractGroup] = SE2
    coordinate_names: ClassVar[tuple[str, ...]] = ("x", "y", "angle")
    coordinate_units: ClassVar[tuple[str, ...]] = ("m", "m", "rad")
    velocity_names: ClassVar[tuple[str, ...]] = ("velocity_x", "velocity_y", "rate")
    velocity_units: ClassVar[tuple[str, ...]] = ("m/s", "m/s", "rad/s")

    def __check_init__(self):
        check_axis("planar/axis", self.axis)

    def inclusion(self, q: Array) -> Pose:
        plane = rotation_from_z(unit(self.axis))
        return pose(about(self.axis, q[2]), plane[:, 0] * q[0] + plane[:, 1] * q[1])

    def basis(self, dtype) -> Float[Array, "6 3"]:
        plane = rotation_from_z(unit(self.axis))
        return as_columns((None, plane[:, 0]), (None, plane[:, 1]), (plane[:, 2], None)).astype(dtype)


class Spherical(AbstractLowerPair):
    """Rotation about the common origin; K = SO(3), velocities in the child's joint axes."""

    name: ClassVar[str] = "spherical"
    group: ClassVar[AbstractGroup] = SO3
    coordinate_names: ClassVar[tuple[str, ...]] = WXYZ
    coordinate_units: ClassVar[tuple[str, ...]] = ("1",) * 4
    velocity_names: ClassVar[tuple[str, ...]] = OMEGA
    velocity_units: ClassVar[tuple[str, ...]] = ("rad/s",) * 3

    def inclusion(self, q: Array) -> Pose:
        return pose(q, jnp.zeros(3, q.dtype))

    def basis(self, dtype) -> Float[Array, "6 3"]:
        return jnp.eye(6, 3, dtype=dtype)


class Free(AbstractLowerPair):
    """Any motion; K = SE(3), velocities in the child's joint axes."""

    name: ClassVar[str] = "free"
    group: ClassVar[AbstractGroup] = SE3
    coordinate_names: ClassVar[tuple[str, ...]] = (*XYZ, *WXYZ)
    coordinate_units: ClassVar[tuple[str, ...]] = ("m",) * 3 + ("1",) * 4
    velocity_names: ClassVar[tuple[str, ...]] = OMEGA + LINEAR
    velocity_units: ClassVar[tuple[str, ...]] = ("rad/s",) * 3 + ("m/s",) * 3

    def inclusion(self, q: Array) -> Pose:
        return q

    def basis(self, dtype) -> Float[Array, "6 6"]:
        return jnp.eye(6, dtype=dtype)
