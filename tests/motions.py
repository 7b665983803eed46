"""Every motion of a joint that jmbs ships, about given axes."""

from __future__ import annotations

from jmbs.lie import (
    AbstractJointMotion,
    Composite,
    Cylindrical,
    Fixed,
    Free,
    Planar,
    Prismatic,
    Revolute,
    Screw,
    Spherical,
    Universal,
)

PITCH = 0.3


def every_motion(axis, axis2) -> tuple[AbstractJointMotion, ...]:
    """One of each type, about `axis`; `axis2` is the universal joint's second."""
    return (
        Fixed(),
        Revolute(axis),
        Prismatic(axis),
        Screw(axis, PITCH),
        Cylindrical(axis),
        Planar(axis),
        Spherical(),
        Free(),
        Universal(axis, axis2),
        Composite([axis, axis2, axis2], [[0.1, 0.2, -0.3], [0.0, 0.0, 0.0], [0.3, 0.0, 0.1]], (True, False, True)),
    )
