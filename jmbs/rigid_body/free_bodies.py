"""Bodies that no joint connects: each moves by its own twist, as Newton's and Euler's equations say.

The mass matrix is the bodies' own inertia, in their axes, so that nothing is eliminated: the recursion over single
degrees of freedom takes six steps for each. See `docs/decisions/recursions.md`.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array

from jmbs.rigid_body.joints import Column, FreeBodies, twist_of
from jmbs.rigid_body.kinematics import TreeMotion
from jmbs.rigid_body.topology import Links, Tree
from jmbs.spatial import Symmetric, dot, scale, subtract, symmetric_times, times, transposed_times


class FreeFactor(NamedTuple):
    """By body: the inverse of the `inertia`, body axes, and of the `mass`."""

    inertia: Symmetric
    mass: Array


def are_free(tree: Tree, links: Links) -> bool:
    """Whether all of the tree are bodies that no joint connects."""
    free = all(isinstance(joints, FreeBodies) for joints in links.joints)
    return free and not tree.forest.has_edges and links.armature is None


def free_accelerations(
    links: Links, kin: TreeMotion, forces: Array, wrench: Column | None
) -> tuple[Array, Column, FreeFactor]:
    """As `articulated_accelerations`."""
    factor, R = free_factor(links, kin), kin.bodies.rotation
    torque, force = _by_body(forces)
    if wrench is not None:
        torque = subtract(torque, transposed_times(R, wrench[0]))
        force = subtract(force, transposed_times(R, wrench[1]))
    angular, linear = _solved(factor, (torque, force))
    return _by_velocity((angular, linear)), (times(R, angular), times(R, linear)), factor


def free_factor(links: Links, kin: TreeMotion) -> FreeFactor:
    """The inverse of the mass matrix, of all members of the motion's batch."""
    shape = kin.bodies.position[0].shape
    moments = links.inertias(components=True)
    # In units of their own, so that products of three moments of a grain of sand do not underflow in float32.
    unit = moments[0] + moments[3] + moments[5]
    xx, xy, xz, yy, yz, zz = (x / unit for x in moments)
    cofactors = yy * zz - yz * yz, xz * yz - xy * zz, xy * yz - xz * yy
    inverse = 1 / (dot((xx, xy, xz), cofactors) * unit)
    cofactors += xx * zz - xz * xz, xy * xz - xx * yz, xx * yy - xy * xy
    return FreeFactor(
        tuple(jnp.broadcast_to(inverse * x, shape) for x in cofactors), jnp.broadcast_to(1 / links.mass, shape)
    )


def free_solve(factor: FreeFactor, forces: Array) -> Array:
    """As `articulated_solve`."""
    more = forces.ndim - factor.mass.ndim
    wide = lambda x: jnp.expand_dims(x, tuple(range(1, 1 + more)))  # noqa: E731
    return _by_velocity(_solved(FreeFactor(tuple(map(wide, factor.inertia)), wide(factor.mass)), _by_body(forces)))


def _solved(factor: FreeFactor, wrench: Column) -> Column:
    return symmetric_times(factor.inertia, wrench[0]), scale(factor.mass, wrench[1])


def _by_body(x: Array) -> Column:
    return twist_of(x.reshape(-1, 6, *x.shape[1:]), components=True)


def _by_velocity(twist: Column) -> Array:
    entries = jnp.stack([*twist[0], *twist[1]], axis=1)
    return entries.reshape(-1, *entries.shape[2:])
