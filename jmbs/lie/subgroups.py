"""Joint motions: maps `I` from a configuration group K into SE(3), among them the lower pairs, which are subgroups.

A motion says where the child's joint frame stands in the parent's: `q_parent o1 I(q) = q_child o2`. A new one states
its group, its inclusion and the names of its coordinates; the tangent follows.
"""

# Annotations stay objects in this file: equinox does not read abstract class variables from strings.
import abc
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from equinox import AbstractClassVar
from jax.core import Tracer
from jaxtyping import Array, Float

from jmbs.errors import ModelError
from jmbs.lie.group import AbstractGroup
from jmbs.lie.pose import pose
from jmbs.lie.r_n import Rn
from jmbs.lie.se2 import SE2
from jmbs.lie.se3 import SE3
from jmbs.lie.so3 import SO3, rotation_polynomial
from jmbs.lie.types import Matrix3, Pose, Scalar, Twists, Vector3
from jmbs.lie.vectors import cross, dot, multiply, rotate, rotate_back

XYZ = ("x", "y", "z")
WXYZ = ("qw", "qx", "qy", "qz")
OMEGA = ("omega_x", "omega_y", "omega_z")
LINEAR = ("velocity_x", "velocity_y", "velocity_z")


class AbstractJointMotion(eqx.Module):
    """How the child's joint frame may move relative to the parent's.

    `name` is the joint type as configs spell it, `group` the configuration group K. Array fields (axes, pitches) are
    differentiable parameters. `coordinate_names` and `coordinate_units` describe `group.to_coordinates(q)`,
    `velocity_names` and `velocity_units` the left-trivialised tangent of `group`.
    """

    name: AbstractClassVar[str]
    group: AbstractClassVar[AbstractGroup]
    coordinate_names: AbstractClassVar[tuple[str, ...]]
    coordinate_units: AbstractClassVar[tuple[str, ...]]
    velocity_names: AbstractClassVar[tuple[str, ...]]
    velocity_units: AbstractClassVar[tuple[str, ...]]

    @abc.abstractmethod
    def inclusion(self, q: Array) -> Pose:
        """`I(q)`: the pose of the child's joint frame in the parent's, for an element `q` of `group`."""


class AbstractLowerPair(AbstractJointMotion):
    """A motion that is a closed subgroup of SE(3): `I(q1 q2) = I(q1) I(q2)`, hence with a constant tangent."""

    @abc.abstractmethod
    def basis(self, dtype) -> Float[Array, "6 k"]:
        """The subalgebra: twists (angular first) of the child's joint frame per unit of each velocity, as columns."""


class AbstractExplicitMotion(AbstractJointMotion):
    """A motion with a formula for its tangent."""

    @abc.abstractmethod
    def columns(self, q: Array) -> Twists:
        """What `tangent` wants."""


def tangent(motion: AbstractJointMotion, q: Array) -> Twists:
    """The left-trivialised tangent `i(q)` of a motion, shape `(6, k)`.

    Column `k` is the twist (angular first) of the child's joint frame, in its own axes and about its origin, per unit
    of the `k`-th velocity of `motion.group`: `SE3.lower(I(q), d/ds I(q exp(s e_k)))` at `s = 0`. Some know a formula.
    """
    group = motion.group
    if isinstance(motion, AbstractLowerPair):
        return motion.basis(q.dtype)
    if isinstance(motion, AbstractExplicitMotion):
        return motion.columns(q)
    if group.dim == 0:
        return jnp.zeros((6, 0), dtype=q.dtype)

    def column(xi: Array) -> Array:
        value, rate = jax.jvp(motion.inclusion, (q,), (group.lift(q, xi),))
        return SE3.lower(value, rate)

    return jax.vmap(column, out_axes=1)(jnp.eye(group.dim, dtype=q.dtype))


def _float_array(value: object) -> Array:
    array = jnp.asarray(value)
    # The cast also strips the weak type of a python number, so that compiled functions see one type.
    return array.astype(array.dtype if jnp.issubdtype(array.dtype, jnp.floating) else jnp.zeros(()).dtype)


def _check_axis(path: str, axis: Array) -> None:
    if axis.shape != (3,):
        raise ModelError(path, f"an array of shape {axis.shape}", "three numbers")
    if not isinstance(axis, Tracer) and not bool(jnp.any(axis != 0)):
        raise ModelError(path, axis.tolist(), "a direction of positive length")


def _unit(axis: Vector3) -> Vector3:
    return axis / jnp.sqrt(dot(axis, axis))


def _columns(*twists: tuple[Vector3 | None, Vector3 | None]) -> Float[Array, "6 k"]:
    """Twists as columns, from pairs (angular, linear); None is zero."""
    part = lambda v, like: jnp.zeros_like(like) if v is None else v  # noqa: E731
    likes = [next(v for v in twist if v is not None) for twist in twists]
    columns = [jnp.concatenate([part(w, like), part(v, like)]) for (w, v), like in zip(twists, likes, strict=True)]
    return jnp.stack(columns, axis=1)


def _about(axis: Vector3, angle: Scalar) -> Matrix3:
    # Equals SO3.exp(unit * angle), without its series: sine and cosine are smooth in a signed angle.
    return rotation_polynomial(jnp.sin(angle), 1 - jnp.cos(angle), _unit(axis))


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

    axis: Vector3 = eqx.field(converter=_float_array)

    name: ClassVar[str] = "revolute"
    group: ClassVar[AbstractGroup] = Rn(1)
    coordinate_names: ClassVar[tuple[str, ...]] = ("angle",)
    coordinate_units: ClassVar[tuple[str, ...]] = ("rad",)
    velocity_names: ClassVar[tuple[str, ...]] = ("rate",)
    velocity_units: ClassVar[tuple[str, ...]] = ("rad/s",)

    def __check_init__(self):
        _check_axis("revolute/axis", self.axis)

    def inclusion(self, q: Array) -> Pose:
        return pose(_about(self.axis, q[0]), jnp.zeros(3, q.dtype))

    def basis(self, dtype) -> Float[Array, "6 1"]:
        return _columns((_unit(self.axis), None)).astype(dtype)


class Prismatic(AbstractLowerPair):
    """Translation along `axis` (joint frame, any positive length); K = R, the travel in m."""

    axis: Vector3 = eqx.field(converter=_float_array)

    name: ClassVar[str] = "prismatic"
    group: ClassVar[AbstractGroup] = Rn(1)
    coordinate_names: ClassVar[tuple[str, ...]] = ("travel",)
    coordinate_units: ClassVar[tuple[str, ...]] = ("m",)
    velocity_names: ClassVar[tuple[str, ...]] = ("speed",)
    velocity_units: ClassVar[tuple[str, ...]] = ("m/s",)

    def __check_init__(self):
        _check_axis("prismatic/axis", self.axis)

    def inclusion(self, q: Array) -> Pose:
        return pose(jnp.eye(3, dtype=q.dtype), _unit(self.axis) * q[0])

    def basis(self, dtype) -> Float[Array, "6 1"]:
        return _columns((None, _unit(self.axis))).astype(dtype)


class Screw(AbstractLowerPair):
    """Rotation about `axis` with travel `pitch` (m/rad) along it for a right-handed turn; K = R, the angle in rad."""

    axis: Vector3 = eqx.field(converter=_float_array)
    pitch: Scalar = eqx.field(converter=_float_array)

    name: ClassVar[str] = "screw"
    group: ClassVar[AbstractGroup] = Rn(1)
    coordinate_names: ClassVar[tuple[str, ...]] = ("angle",)
    coordinate_units: ClassVar[tuple[str, ...]] = ("rad",)
    velocity_names: ClassVar[tuple[str, ...]] = ("rate",)
    velocity_units: ClassVar[tuple[str, ...]] = ("rad/s",)

    def __check_init__(self):
        _check_axis("screw/axis", self.axis)
        if self.pitch.shape != ():
            raise ModelError("screw/pitch", f"an array of shape {self.pitch.shape}", "one number, m/rad")

    def inclusion(self, q: Array) -> Pose:
        return pose(_about(self.axis, q[0]), _unit(self.axis) * (self.pitch * q[0]))

    def basis(self, dtype) -> Float[Array, "6 1"]:
        axis = _unit(self.axis)
        return _columns((axis, self.pitch * axis)).astype(dtype)


class Cylindrical(AbstractLowerPair):
    """Rotation about `axis` and translation along it; K = R^2, the angle in rad and the travel in m."""

    axis: Vector3 = eqx.field(converter=_float_array)

    name: ClassVar[str] = "cylindrical"
    group: ClassVar[AbstractGroup] = Rn(2)
    coordinate_names: ClassVar[tuple[str, ...]] = ("angle", "travel")
    coordinate_units: ClassVar[tuple[str, ...]] = ("rad", "m")
    velocity_names: ClassVar[tuple[str, ...]] = ("rate", "speed")
    velocity_units: ClassVar[tuple[str, ...]] = ("rad/s", "m/s")

    def __check_init__(self):
        _check_axis("cylindrical/axis", self.axis)

    def inclusion(self, q: Array) -> Pose:
        return pose(_about(self.axis, q[0]), _unit(self.axis) * q[1])

    def basis(self, dtype) -> Float[Array, "6 2"]:
        axis = _unit(self.axis)
        return _columns((axis, None), (None, axis)).astype(dtype)


class Planar(AbstractLowerPair):
    """Motion in the plane with normal `axis`; K = SE(2): x, y (m) in the parent's joint axes, and the angle (rad).

    The in-plane axes are those of the smallest rotation taking z to the normal (x is kept if they are antiparallel).
    Velocities are along the child's in-plane axes.
    """

    axis: Vector3 = eqx.field(converter=_float_array)

    name: ClassVar[str] = "planar"
    group: ClassVar[AbstractGroup] = SE2
    coordinate_names: ClassVar[tuple[str, ...]] = ("x", "y", "angle")
    coordinate_units: ClassVar[tuple[str, ...]] = ("m", "m", "rad")
    velocity_names: ClassVar[tuple[str, ...]] = ("velocity_x", "velocity_y", "rate")
    velocity_units: ClassVar[tuple[str, ...]] = ("m/s", "m/s", "rad/s")

    def __check_init__(self):
        _check_axis("planar/axis", self.axis)

    def inclusion(self, q: Array) -> Pose:
        plane = rotation_from_z(_unit(self.axis))
        return pose(_about(self.axis, q[2]), plane[:, 0] * q[0] + plane[:, 1] * q[1])

    def basis(self, dtype) -> Float[Array, "6 3"]:
        plane = rotation_from_z(_unit(self.axis))
        return _columns((None, plane[:, 0]), (None, plane[:, 1]), (plane[:, 2], None)).astype(dtype)


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


class Universal(AbstractExplicitMotion):
    """Rotation about `axis`, fixed in the parent's joint frame, then about `axis2`, fixed in the child's; K = R^2, rad.

    Not a subgroup: its tangent depends on `q2`.
    """

    axis: Vector3 = eqx.field(converter=_float_array)
    axis2: Vector3 = eqx.field(converter=_float_array)

    name: ClassVar[str] = "universal"
    group: ClassVar[AbstractGroup] = Rn(2)
    coordinate_names: ClassVar[tuple[str, ...]] = ("angle1", "angle2")
    coordinate_units: ClassVar[tuple[str, ...]] = ("rad", "rad")
    velocity_names: ClassVar[tuple[str, ...]] = ("rate1", "rate2")
    velocity_units: ClassVar[tuple[str, ...]] = ("rad/s", "rad/s")

    def __check_init__(self):
        _check_axis("universal/axis", self.axis)
        _check_axis("universal/axis2", self.axis2)

    def inclusion(self, q: Array) -> Pose:
        R = multiply(_about(self.axis, q[0]), _about(self.axis2, q[1]))
        return pose(R, jnp.zeros(3, q.dtype))

    def columns(self, q: Array) -> Twists:
        # The first axis, unit vector in the parent's frame, as the second rotation leaves it.
        first = rotate_back(_about(self.axis2, q[1]), _unit(self.axis))
        spins = jnp.stack([first, _unit(self.axis2)], axis=1)
        return jnp.concatenate([spins, jnp.zeros_like(spins)])


class Composite(AbstractExplicitMotion):
    """Turns and travels in a row without anything that has mass in between: `I(q) = exp(q1 xi1) exp(q2 xi2) ...`.

    K = R^k, the angles (rad) and travels (m), the one nearest to the parent first. Where earlier motions make the axes
    of later ones dependent, as in gimbal lock, rates are not determined.

    **Arguments:** `axes` (k, 3), of any positive length, and `positions` (k, 3) m of points on them, at zero motion and
    in the joint frame; `turning` (k,): whether each is a turn.
    """

    axes: Float[Array, "k 3"] = eqx.field(converter=_float_array)
    positions: Float[Array, "k 3"] = eqx.field(converter=_float_array)
    turning: tuple[bool, ...] = eqx.field(static=True)

    name: ClassVar[str] = "composite"

    def __check_init__(self):
        for i in range(len(self.turning)):
            _check_axis(f"composite/motions/{i}/axis", self.axes[i])

    @property
    def group(self) -> AbstractGroup:
        return Rn(len(self.turning))

    @property
    def coordinate_names(self) -> tuple[str, ...]:
        return self._each("angle", "travel")

    @property
    def coordinate_units(self) -> tuple[str, ...]:
        return tuple("rad" if turns else "m" for turns in self.turning)

    @property
    def velocity_names(self) -> tuple[str, ...]:
        return self._each("rate", "speed")

    @property
    def velocity_units(self) -> tuple[str, ...]:
        return tuple("rad/s" if turns else "m/s" for turns in self.turning)

    def _each(self, of_turn: str, of_travel: str) -> tuple[str, ...]:
        return tuple(f"{of_turn if turns else of_travel}{i}" for i, turns in enumerate(self.turning, 1))

    def _single(self, q: Array) -> list[tuple[Matrix3 | None, Vector3]]:
        """Rotation and position of each motion alone; no rotation where it is a travel."""
        motions = []
        for turns, axis, point, x in zip(self.turning, self.axes, self.positions, q, strict=True):
            R = _about(axis, x) if turns else None
            motions.append((R, _unit(axis) * x if R is None else point - rotate(R, point)))
        return motions

    def inclusion(self, q: Array) -> Pose:
        R, p = jnp.eye(3, dtype=q.dtype), jnp.zeros(3, q.dtype)
        for turn, shift in self._single(q):
            p = p + rotate(R, shift)
            R = R if turn is None else multiply(R, turn)
        return pose(R, p)

    def columns(self, q: Array) -> Twists:
        # From the last motion back, with what follows each: the child sees its twist turned and shifted by that.
        R, p = jnp.eye(3, dtype=q.dtype), jnp.zeros(3, q.dtype)
        columns = []
        alone = list(zip(self.turning, self.axes, self.positions, self._single(q), strict=True))
        for turns, axis, point, (turn, shift) in reversed(alone):
            along = rotate_back(R, _unit(axis))
            columns.append((along, rotate_back(R, cross(_unit(axis), p - point))) if turns else (None, along))
            R, p = (R, shift + p) if turn is None else (multiply(turn, R), shift + rotate(turn, p))
        return _columns(*reversed(columns))
