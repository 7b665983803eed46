"""Relative motions: pose, velocity and acceleration of one body with respect to another."""

from __future__ import annotations

from typing import NamedTuple

from jmbs.spatial.vectors import (
    Matrix,
    Vector,
    add,
    cross,
    multiply,
    scale,
    subtract,
    times,
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


def following(first: Motion, second: Motion) -> Motion:
    """C relative to A, from B relative to A and C relative to B, as in textbooks on relative motion."""
    out = lambda x: times(first.rotation, x)  # noqa: E731
    arm, spin, velocity = out(second.position), out(second.spin), out(second.velocity)
    whirl = cross(first.spin, arm)
    bent = add(cross(first.spin, add(whirl, scale(2.0, velocity))), cross(first.spin_rate, arm))
    return Motion(
        multiply(first.rotation, second.rotation),
        add(first.position, arm),
        add(first.spin, spin),
        add(first.velocity, add(whirl, velocity)),
        add(first.spin_rate, add(cross(first.spin, spin), out(second.spin_rate))),
        add(first.acceleration, add(bent, out(second.acceleration))),
    )
