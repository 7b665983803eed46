"""Laws of constraints on surfaces of bodies that move themselves: a roller on a plane, a point that slides in one."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.library.mechanics.declared import unit_and_rule
from jmbs.library.mechanics.velocity_constraints import Roller
from jmbs.lie import SE3, cross, dot, rotate, rotate_back, rotation_from_z

Pose = Float[Array, "3 4"]
Twist = Float[Array, "6"]


def relative_pose(pose: Pose, other: Pose) -> Pose:
    """The pose of a body in the frame of the other."""
    return SE3.compose(SE3.inverse(other), pose)


def relative_velocity(at: Pose, point: Float[Array, "3"], velocity: Twist, other_velocity: Twist) -> Float[Array, "3"]:
    """The velocity, in the other's axes, of a material point (body frame) against the other's point that it is at.

    **Arguments:** `at`: the body's pose in the other's frame.
    """
    own = rotate(at[:, :3], velocity[3:] + cross(velocity[:3], point))
    place = at[:, 3] + rotate(at[:, :3], point)
    return own - other_velocity[3:] - cross(other_velocity[:3], place)


class RollerContact(eqx.Module):
    """The height, m, of a roller's lowest point above a plane of the other body (point and normal in its frame)."""

    roller: Roller

    def gap(self, pose: Pose, other: Pose) -> Float[Array, "1"]:
        return self.roller.height(relative_pose(pose, other))[None]

    def regularity(self, pose: Pose, other: Pose) -> Float[Array, ""]:
        """See `Roller.regularity`."""
        return self.roller.regularity(relative_pose(pose, other))


class RollerSlip(eqx.Module):
    """The velocity, m/s, in the plane of the point that touches it: along x and y of the smallest rotation that takes z
    to the plane's normal, in the other's axes."""

    roller: Roller

    def rate(self, pose: Pose, velocity: Twist, other: Pose, other_velocity: Twist) -> Float[Array, "2"]:
        at = relative_pose(pose, other)
        slip = relative_velocity(at, self.roller.contact(at[:, :3]), velocity, other_velocity)
        normal = self.roller.normal
        return rotate_back(rotation_from_z(normal / jnp.sqrt(dot(normal, normal))), slip)[:2]


class PointSlide(eqx.Module):
    """The velocity, m/s, of a material point against the other body there, along a direction.

    **Arguments:** `point` (3,) m, body frame; `direction` (3,), any positive length, in the axes of the body, the
    other or the world as `frame` says.
    """

    point: Float[Array, "3"] = eqx.field(metadata=unit_and_rule("m", "numbers"))
    direction: Float[Array, "3"] = eqx.field(metadata=unit_and_rule("1", "direction"))
    frame: str = eqx.field(static=True)

    def rate(self, pose: Pose, velocity: Twist, other: Pose, other_velocity: Twist) -> Float[Array, "1"]:
        at = relative_pose(pose, other)
        along = self.direction / jnp.sqrt(dot(self.direction, self.direction))
        if self.frame == "body":
            along = rotate(at[:, :3], along)
        elif self.frame == "world":
            along = rotate_back(other[:, :3], along)
        return dot(along, relative_velocity(at, self.point, velocity, other_velocity))[None]
