"""Joint motions that are rows of turns and travels: no subgroups, so that their tangents change along the motion."""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.lie.group import AbstractGroup
from jmbs.lie.joint_motion import AbstractExplicitMotion, about, as_columns, check_axis, float_array, unit
from jmbs.lie.pose import pose
from jmbs.lie.r_n import Rn
from jmbs.lie.types import Matrix3, Pose, Twists, Vector3
from jmbs.lie.vectors import cross_of_many as cross
from jmbs.lie.vectors import multiply_of_many as multiply
from jmbs.lie.vectors import rotate_back_of_many as rotate_back
from jmbs.lie.vectors import rotate_of_many as rotate


class Universal(AbstractExplicitMotion):
    """Rotation about `axis`, fixed in the parent's joint frame, then about `axis2`, fixed in the child's; K = R^2, rad.

    Not a subgroup: its tangent depends on `q2`.
    """

    axis: Vector3 = eqx.field(converter=float_array)
    axis2: Vector3 = eqx.field(converter=float_array)

    name: ClassVar[str] = "universal"
    group: ClassVar[AbstractGroup] = Rn(2)
    coordinate_names: ClassVar[tuple[str, ...]] = ("angle1", "angle2")
    coordinate_units: ClassVar[tuple[str, ...]] = ("rad", "rad")
    velocity_names: ClassVar[tuple[str, ...]] = ("rate1", "rate2")
    velocity_units: ClassVar[tuple[str, ...]] = ("rad/s", "rad/s")

    def __check_init__(self):
        check_axis("universal/axis", self.axis)
        check_axis("universal/axis2", self.axis2)

    def inclusion(self, q: Array) -> Pose:
        R = multiply(about(self.axis, q[0]), about(self.axis2, q[1]))
        return pose(R, jnp.zeros(3, q.dtype))

    def columns(self, q: Array) -> Twists:
        # The first axis, unit vector in the parent's frame, as the second rotation leaves it.
        first = rotate_back(about(self.axis2, q[1]), unit(self.axis))
        spins = jnp.stack([first, unit(self.axis2)], axis=1)
        return jnp.concatenate([spins, jnp.zeros_like(spins)])


class Composite(AbstractExplicitMotion):
    """Turns and travels in a row without anything that has mass in between: `I(q) = exp(q1 xi1) exp(q2 xi2) ...`.

    K = R^k, the angles (rad) and travels (m), the one nearest to the parent first. Where earlier motions make the axes
    of later ones dependent, as in gimbal lock, rates are not determined.

    **Arguments:** `axes` (k, 3), of any positive length, and `positions` (k, 3) m of points on them, at zero motion and
    in the joint frame; `turning` (k,): whether each is a turn.
    """

    axes: Float[Array, "k 3"] = eqx.field(converter=float_array)
    positions: Float[Array, "k 3"] = eqx.field(converter=float_array)
    turning: tuple[bool, ...] = eqx.field(static=True)

    name: ClassVar[str] = "composite"

    def __check_init__(self):
        for i in range(len(self.turning)):
            check_axis(f"composite/motions/{i}/axis", self.axes[i])

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

    @property
    def can_lock(self) -> bool:
        """Whether axes become dependent somewhere."""
        # Only a turn between two motions changes how one stands to the other.
        return any(self.turning[1:-1])

    def _each(self, of_turn: str, of_travel: str) -> tuple[str, ...]:
        return tuple(f"{of_turn if turns else of_travel}{i}" for i, turns in enumerate(self.turning, 1))

    def _single(self, q: Array) -> list[tuple[Matrix3 | None, Vector3]]:
        """Rotation and position of each motion alone; no rotation where it is a travel."""
        motions = []
        for turns, axis, point, x in zip(self.turning, self.axes, self.positions, q, strict=True):
            R = about(axis, x) if turns else None
            motions.append((R, unit(axis) * x if R is None else point - rotate(R, point)))
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
            along = rotate_back(R, unit(axis))
            columns.append((along, rotate_back(R, cross(unit(axis), p - point))) if turns else (None, along))
            R, p = (R, shift + p) if turn is None else (multiply(turn, R), shift + rotate(turn, p))
        return as_columns(*reversed(columns))
