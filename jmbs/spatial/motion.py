"""Relative motions: pose, velocity and acceleration of one body with respect to another."""

from __future__ import annotations

from typing import NamedTuple

from jmbs.spatial.vectors import (
    Matrix,
    Vector,
    add,
    cross,
    scale,
    subtract,
    transpose,
    transposed_times,
)


class Motion(NamedTuple):
    """How body B moves relative to body A; all vectors in A's axes, rates as A sees them.

    `rotation` takes components from B to A; `position` (m) of B's origin from A's; `spin` rad/s, `velocity` m/s of B's
    origin; `spin_rate` rad/s^2, `acceleration` m/s^2, classical (the time derivative of `velocity`).
    """

    rotation: Matrix
    position: Vector
    spin: Vector
    velocity: Vector
    spin_rate: Vector
    acceleration: Vector


def inverse(m: Motion) -> Motion:
    """A relative to B, from B relative to A."""
    back = lambda x: transposed_times(m.rotation, x)  # noqa: E731
    relative_velocity = subtract(m.velocity, cross(m.spin, m.position))
    acceleration = subtract(m.acceleration, add(cross(m.spin_rate, m.position), cross(m.spin, m.velocity)))
    return Motion(
        transpose(m.rotation),
        back(scale(-1.0, m.position)),
        back(scale(-1.0, m.spin)),
        back(scale(-1.0, relative_velocity)),
        back(scale(-1.0, m.spin_rate)),
        back(subtract(cross(m.spin, relative_velocity), acceleration)),
    )
