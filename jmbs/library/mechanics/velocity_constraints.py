"""Constraints on the velocity of one body: points that do not slide, rolling without slip, directions kept normal.

Every row is the negative of a velocity, so that its multiplier is the force (N) on the body along that velocity, or
for a rotation the torque (N m) about it. Surfaces may move within themselves: their velocity is prescribed at a second
power port `p_plane`, the twist (angular, then linear) of the surface about a point of it in world axes, and the work
that they do is the power there.
"""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.ephs import Closure, Interface, Quantity, System, pattern, power_port, state_port
from jmbs.library.mechanics.body import momentum_quantity
from jmbs.library.mechanics.declared import CONSTANT, unit_and_rule
from jmbs.lie import SE3, AbstractGroup, Rn, cross, dot, rotate, rotate_back, rotation_from_z

PLANE_MOMENTUM = Quantity(Rn(6), "plane_momentum")
"""Dual to the twist of a surface about a point of it, world axes."""


class NoSlide(eqx.Module):
    """The velocity of a material point along a direction vanishes, or equals that of a surface there; one row.

    **Arguments:**

    - `point` (3,) m, body frame.
    - `direction` (3,), any positive length, in body or world axes as `frame` says, static.
    - `origin` (3,) m, world: the point that the surface's twist refers to; None for a surface at rest.
    - `group` of the pose, static.
    """

    point: Float[Array, "3"] = eqx.field(metadata=unit_and_rule("m", "numbers"))
    direction: Float[Array, "3"] = eqx.field(metadata=unit_and_rule("1", "direction"))
    origin: Float[Array, "3"] | None = eqx.field(metadata=CONSTANT)
    frame: str = eqx.field(static=True)
    group: AbstractGroup = eqx.field(static=True, default=SE3)
    lawful_by_construction: ClassVar[bool] = True

    @property
    def ports(self) -> Interface:
        return _ports(self.group, moving=self.origin is not None)

    def structure(self, x):
        R, r = x["q"][:, :3], x["q"][:, 3]
        direction = _unit(self.direction)
        along = direction if self.frame == "world" else rotate(R, direction)
        row = -_point_row(self.group, R, self.point, along)
        if self.origin is not None:
            row = jnp.concatenate([row, _surface_row(r + rotate(R, self.point) - self.origin, along)])
        return None, row[None]


class Roller(eqx.Module):
    """What touches a plane: a ball, or a thin disk, centred at the centre of mass.

    **Arguments:** `radius` m; `axis` (3,) of a disk, any positive length, body axes, None for a ball; `point` (3,) m of
    the plane and its `normal` (3,), any positive length, world axes.
    """

    radius: Float[Array, ""] = eqx.field(metadata=unit_and_rule("m", "positive number"))
    axis: Float[Array, "3"] | None = eqx.field(metadata=unit_and_rule("1", "direction"))
    point: Float[Array, "3"] = eqx.field(metadata=unit_and_rule("m", "numbers"))
    normal: Float[Array, "3"] = eqx.field(metadata=unit_and_rule("1", "direction"))

    def _across(self, R: Float[Array, "3 3"]) -> tuple[Float[Array, "3"], Float[Array, ""]]:
        """The part of the normal across the disk's axis, body axes, and its length: the sine of the disk's tilt."""
        across = rotate_back(R, _unit(self.normal))
        if self.axis is None:
            return across, jnp.ones((), across.dtype)
        axis = _unit(self.axis)
        across = across - dot(across, axis) * axis
        square = dot(across, across)
        # A disk that lies flat has no lowest point: finite numbers there, `regularity` tells.
        flat = square <= jnp.finfo(square.dtype).eps ** 2
        return across, jnp.where(flat, 0.0, jnp.sqrt(jnp.where(flat, 1.0, square)))

    def contact(self, R: Float[Array, "3 3"]) -> Float[Array, "3"]:
        """The lowest point, m, from the centre in body axes."""
        across, tilt = self._across(R)
        return -self.radius * across / jnp.where(tilt == 0, 1.0, tilt)

    def height(self, q: Float[Array, "3 4"]) -> Float[Array, ""]:
        """Height of the lowest point above the plane, m."""
        _, tilt = self._across(q[:, :3])
        return dot(_unit(self.normal), q[:, 3] - self.point) - self.radius * tilt

    def regularity(self, q: Float[Array, "3 4"]) -> Float[Array, ""]:
        """The sine of the disk's tilt against the plane, zero where it lies flat; one for a ball."""
        return self._across(q[:, :3])[1]


class Contact(eqx.Module):
    """A roller's lowest point stays on its plane: one row, the rate of its height; see `contact_closure`."""

    roller: Roller
    group: AbstractGroup = eqx.field(static=True, default=SE3)
    lawful_by_construction: ClassVar[bool] = True

    @property
    def ports(self) -> Interface:
        return _ports(self.group, moving=False)

    def structure(self, x):
        R = x["q"][:, :3]
        return None, -_point_row(self.group, R, self.roller.contact(R), _unit(self.roller.normal))[None]

    def regularity(self, x) -> Float[Array, ""]:
        return self.roller.regularity(x["q"])


class NoSlip(eqx.Module):
    """The material point of a roller that touches the plane has the plane's velocity; two rows, in the plane.

    The rows are along x and y of the smallest rotation that takes z to the plane's normal.

    **Arguments:** `roller`; `moving`: whether the plane moves, static.
    """

    roller: Roller
    moving: bool = eqx.field(static=True)
    group: AbstractGroup = eqx.field(static=True, default=SE3)
    lawful_by_construction: ClassVar[bool] = True

    @property
    def ports(self) -> Interface:
        return _ports(self.group, self.moving)

    def structure(self, x):
        R, r = x["q"][:, :3], x["q"][:, 3]
        contact = self.roller.contact(R)
        plane = rotation_from_z(_unit(self.roller.normal))
        rows = []
        for along in (plane[:, 0], plane[:, 1]):
            row = -_point_row(self.group, R, contact, along)
            if self.moving:
                row = jnp.concatenate([row, _surface_row(r + rotate(R, contact) - self.roller.point, along)])
            rows.append(row)
        return None, jnp.stack(rows)


class Perpendicular(eqx.Module):
    """A direction of the body stays perpendicular to one of the world; one row, see `perpendicular_closure`.

    **Arguments:** `direction` (3,) body axes, `normal` (3,) world axes, any positive length.
    """

    direction: Float[Array, "3"] = eqx.field(metadata=unit_and_rule("1", "direction"))
    normal: Float[Array, "3"] = eqx.field(metadata=unit_and_rule("1", "direction"))
    group: AbstractGroup = eqx.field(static=True, default=SE3)
    lawful_by_construction: ClassVar[bool] = True

    @property
    def ports(self) -> Interface:
        return _ports(self.group, moving=False)

    def structure(self, x):
        normal = rotate_back(x["q"][:, :3], _unit(self.normal))
        about = cross(_unit(self.direction), normal)
        return None, -jnp.concatenate([about, jnp.zeros_like(about)])[None]

    def sine(self, q: Float[Array, "3 4"]) -> Float[Array, ""]:
        """The sine of the angle by which the directions are off the perpendicular."""
        return dot(_unit(self.normal), rotate(q[:, :3], _unit(self.direction)))


class SurfaceMotion(eqx.Module):
    """A drive: the prescribed twist of a surface, `p_plane.e`, from its two parts.

    **Arguments:** `angular_velocity` rad/s and `velocity` m/s: drives of efforts (3,), world axes; the velocity is that
    of the surface at the point that its twist refers to.
    """

    angular_velocity: Any
    velocity: Any

    def effort(self, t) -> Float[Array, "6"]:
        return jnp.concatenate([self.angular_velocity.effort(t), self.velocity.effort(t)])


def rolling(roller: Roller, moving: bool, group: AbstractGroup = SE3) -> System:
    """Rolling without slip: a pattern of boxes `contact` and `slip`, with outer ports `p`, `q` (state), `p_plane`."""
    boxes = {"contact": Contact(roller, group), "slip": NoSlip(roller, moving, group)}
    junctions = {"p": "contact.p slip.p", "q": "contact.q slip.q"}
    outer = {"p": "p", "q?": "q"}
    if moving:
        junctions["p_plane"] = "slip.p_plane"
        outer["p_plane"] = "p_plane"
    return System(pattern({name: box.ports for name, box in boxes.items()}, junctions, outer), boxes)


def contact_closure(name: str, body: str) -> Closure:
    """The position-level closure of the rolling in box `name`: the height of the body's lowest point vanishes, m."""
    return Closure(name, f"{name}/contact", (f"{name}/contact",), ((f"{body}/pe", "q"),), _depth, negative)


def perpendicular_closure(name: str, body: str) -> Closure:
    """The position-level closure of the `Perpendicular` in box `name`: the sine of the angle off vanishes."""
    return Closure(name, name, (name,), ((f"{body}/pe", "q"),), _sine, negative)


def negative(error: Float[Array, "1"]) -> Float[Array, "1"]:
    """The rows of a closure from its error: rows are negative rates."""
    return -error


def _depth(parts, states) -> Float[Array, "1"]:
    return parts[0].roller.height(states[0])[None]


def _sine(parts, states) -> Float[Array, "1"]:
    return parts[0].sine(states[0])[None]


def _ports(group: AbstractGroup, moving: bool) -> Interface:
    momentum = momentum_quantity(group)
    ports = {"q": state_port(group, "pose"), "p": power_port(momentum.space, momentum.name)}
    return {**ports, "p_plane": power_port(PLANE_MOMENTUM.space, PLANE_MOMENTUM.name)} if moving else ports


def _unit(v: Float[Array, "3"]) -> Float[Array, "3"]:
    return v / jnp.sqrt(dot(v, v))


def _point_row(group: AbstractGroup, R, point: Float[Array, "3"], along: Float[Array, "3"]) -> Float[Array, "6"]:
    """The velocity of a material point (body frame) along a direction (world axes), as a row over the body's."""
    local = rotate_back(R, along)
    return jnp.concatenate([cross(point, local), local if group == SE3 else along])


def _surface_row(arm: Float[Array, "3"], along: Float[Array, "3"]) -> Float[Array, "6"]:
    """The same of a surface, over its twist; `arm` from the point that the twist refers to, world axes."""
    return jnp.concatenate([cross(arm, along), along])
