"""Relative motions: pose, velocity and acceleration of one body with respect to another, and how they compose.

This is the relative kinematics of textbooks. Motions compose associatively, so a chain can be walked from its root or
folded in any order.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array

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


def compose(a: Motion, b: Motion) -> Motion:
    """C relative to A, from B relative to A (`a`) and C relative to B (`b`)."""
    out = lambda x: times(a.rotation, x)  # noqa: E731
    arm, spin, velocity = out(b.position), out(b.spin), out(b.velocity)
    turning = cross(a.spin, add(cross(a.spin, arm), scale(2.0, velocity)))
    return Motion(
        multiply(a.rotation, b.rotation),
        add(a.position, arm),
        add(a.spin, spin),
        add(add(a.velocity, cross(a.spin, arm)), velocity),
        add(add(a.spin_rate, cross(a.spin, spin)), out(b.spin_rate)),
        add(add(a.acceleration, cross(a.spin_rate, arm)), add(turning, out(b.acceleration))),
    )


def rest(like: Array) -> Motion:
    """No motion: the neutral element, in the shape of `like`."""
    zero, one = jnp.zeros_like(like), jnp.ones_like(like)
    nothing = (zero, zero, zero)
    identity = (one, zero, zero, zero, one, zero, zero, zero, one)
    return Motion(identity, nothing, nothing, nothing, nothing, nothing)


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
