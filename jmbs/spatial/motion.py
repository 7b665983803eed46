"""Relative motions: pose, velocity and acceleration of one body with respect to another."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

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


class RelativeMotion(NamedTuple):
    """The same of neighbours, with velocities and their rates in B's axes, where those of a joint with a constant
    tangent are constant.

    `rotation` and `position` as in `Motion`; `rates` (rad/s^2, m/s^2) are those of the components of `spin` and
    `velocity`; None: zero.
    """

    rotation: Matrix
    position: Vector
    spin: Vector
    velocity: Vector
    rates: tuple[Vector, Vector] | None


def inverse(m: RelativeMotion) -> RelativeMotion:
    """A relative to B, from B relative to A."""

    def at_other(angular: Vector, linear: Vector) -> tuple[Vector, Vector]:
        angular, linear = times(m.rotation, angular), times(m.rotation, linear)
        return scale(-1.0, angular), subtract(cross(angular, m.position), linear)

    rates = None if m.rates is None else at_other(*m.rates)
    position = transposed_times(m.rotation, scale(-1.0, m.position))
    return RelativeMotion(transpose(m.rotation), position, *at_other(m.spin, m.velocity), rates)


def following(first: Motion, second: RelativeMotion) -> Motion:
    """C relative to A, from B relative to A and C relative to B, as in textbooks on relative motion."""
    rotation, arm = multiply(first.rotation, second.rotation), times(first.rotation, second.position)
    spin, velocity = times(rotation, second.spin), times(rotation, second.velocity)
    whirl = cross(first.spin, arm)
    turned = cross(first.spin, spin)
    bent = add(cross(first.spin, add(whirl, add(velocity, velocity))), cross(first.spin_rate, arm))
    bent = add(bent, cross(spin, velocity))
    if second.rates is not None:
        turned, bent = (add(x, times(rotation, r)) for x, r in zip((turned, bent), second.rates, strict=True))
    return Motion(
        rotation,
        add(first.position, arm),
        add(first.spin, spin),
        add(first.velocity, add(whirl, velocity)),
        add(first.spin_rate, turned),
        add(first.acceleration, bent),
    )


def from_rest(second: RelativeMotion) -> Motion:
    """The same where B is at rest at A's origin, with A's axes."""
    rotation, position = second.rotation, second.position
    spin, velocity = times(rotation, second.spin), times(rotation, second.velocity)
    turned, bent = jax.tree.map(jnp.zeros_like, spin), cross(spin, velocity)
    if second.rates is not None:
        turned, bent = times(rotation, second.rates[0]), add(bent, times(rotation, second.rates[1]))
    return Motion(rotation, position, spin, velocity, turned, bent)
