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


class RelativeMotion(NamedTuple):
    """The same of neighbours, with rates as B sees them: a joint with a constant tangent has none at constant rates.

    `rates` of spin (rad/s^2) and velocity (m/s^2) are those of their components in B's axes, here in A's; None: zero.
    """

    rotation: Matrix
    position: Vector
    spin: Vector
    velocity: Vector
    rates: tuple[Vector, Vector] | None


def inverse(m: RelativeMotion) -> RelativeMotion:
    """A relative to B, from B relative to A."""
    back = lambda x: transposed_times(m.rotation, scale(-1.0, x))  # noqa: E731

    def at_other(angular: Vector, linear: Vector) -> tuple[Vector, Vector]:
        return back(angular), back(subtract(linear, cross(angular, m.position)))

    rates = None if m.rates is None else at_other(*m.rates)
    return RelativeMotion(transpose(m.rotation), back(m.position), *at_other(m.spin, m.velocity), rates)


def following(first: Motion, second: RelativeMotion) -> Motion:
    """C relative to A, from B relative to A and C relative to B, as in textbooks on relative motion."""
    out = lambda x: times(first.rotation, x)  # noqa: E731
    arm, spin, velocity = out(second.position), out(second.spin), out(second.velocity)
    whirl = cross(first.spin, arm)
    turned = cross(first.spin, spin)
    bent = add(cross(first.spin, add(whirl, scale(2.0, velocity))), cross(first.spin_rate, arm))
    bent = add(bent, cross(spin, velocity))
    if second.rates is not None:
        turned, bent = (add(x, out(rate)) for x, rate in zip((turned, bent), second.rates, strict=True))
    return Motion(
        multiply(first.rotation, second.rotation),
        add(first.position, arm),
        add(first.spin, spin),
        add(first.velocity, add(whirl, velocity)),
        add(first.spin_rate, turned),
        add(first.acceleration, bent),
    )
