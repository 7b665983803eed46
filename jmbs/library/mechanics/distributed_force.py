"""Forces spread over a body: discrete vector measures, their resultants, and what they reduce to.

f = sum f_k,   tau(x0) = sum (x_k - x0) x f_k

(004, section 6.1.) Points and forces are components in one frame, usually the world's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.errors import ModelError
from jmbs.library.mechanics import checks
from jmbs.library.mechanics.mass_distribution import MassDistribution
from jmbs.lie import rotate_back

Field = Callable[[Any, Float[Array, "3"], Float[Array, "3"]], Float[Array, "3"]]
"""A force field `field(t, position, velocity)`: world axes, s, m, m/s; N/kg or N as its user says."""


class ForceDistribution(eqx.Module):
    """Forces `forces` (n, 3) N at `points` (n, 3) m, in one frame. Distributions of one frame add."""

    points: Float[Array, "n 3"]
    forces: Float[Array, "n 3"]

    def __add__(self, other: ForceDistribution) -> ForceDistribution:
        return ForceDistribution(
            jnp.concatenate([self.points, other.points]), jnp.concatenate([self.forces, other.forces])
        )


class CentreOfForce(NamedTuple):
    """Where a distributed force acts as a single one: the points about which it has no torque.

    - "line": the points `point + a direction`, every real `a`;
    - "wrench": none, because the torque about every point has the part `torque` along the force. `point` and
      `direction` are the line about which this part is all that is left;
    - "couple": none, a pure torque, `torque` about every point;
    - "everywhere": no force and no torque.

    `point` (3,) m is the one nearest to the mean of the points of action, `direction` (3,) the force's unit vector
    (zero where there is no resultant force), `torque` (3,) N m.
    """

    kind: Literal["line", "wrench", "couple", "everywhere"]
    point: np.ndarray
    direction: np.ndarray
    torque: np.ndarray


def resultant_force(distribution: ForceDistribution) -> Float[Array, "3"]:
    """N, in the distribution's frame (004, definition 6.3)."""
    return jnp.sum(distribution.forces, axis=0)


def resultant_torque(distribution: ForceDistribution, about: Float[Array, "3"]) -> Float[Array, "3"]:
    """N m about a point (m), in the distribution's frame (004, definition 6.3)."""
    return jnp.sum(jnp.cross(distribution.points - about, distribution.forces), axis=0)


def central_wrench(distribution: ForceDistribution, centre: Float[Array, "3"]) -> Float[Array, "6"]:
    """Torque about the centre of mass, then force: N m and N, in the distribution's frame (004, definition 6.9)."""
    return jnp.concatenate([resultant_torque(distribution, centre), resultant_force(distribution)])


def centre_of_force(distribution: ForceDistribution, tolerance: float = 1e-9) -> CentreOfForce:
    """Classifies a distributed force (004, theorem 6.6); not for traced arrays.

    The theorem there says that a non-zero resultant always has a line of centres. In space it has one only if the
    torque is orthogonal to the force; else the distribution reduces to a wrench, a force and a torque along it.

    **Arguments:** `tolerance`: what counts as zero, relative to the sum of the forces' norms (and for torques to that
    times the distance of the farthest point from the points' mean).
    """
    points, forces = np.asarray(distribution.points, float), np.asarray(distribution.forces, float)
    middle = np.mean(points, axis=0)
    arms = points - middle
    force, torque = np.sum(forces, axis=0), np.sum(np.cross(arms, forces), axis=0)
    small_force = tolerance * np.sum(np.linalg.norm(forces, axis=1))
    small_torque = small_force * np.max(np.linalg.norm(arms, axis=1))
    size = np.linalg.norm(force)
    if size <= small_force:
        kind = "everywhere" if np.linalg.norm(torque) <= small_torque else "couple"
        return CentreOfForce(kind, middle, np.zeros(3), torque)
    direction = force / size
    along = (torque @ direction) * direction
    kind = "line" if np.linalg.norm(along) <= small_torque else "wrench"
    return CentreOfForce(kind, middle + np.cross(force, torque) / size**2, direction, along)


def material_points(
    distribution: MassDistribution, pose: Float[Array, "3 4"], velocity: Float[Array, "6"]
) -> tuple[Float[Array, "n 3"], Float[Array, "n 3"]]:
    """World positions (m) and velocities (m/s) of a body's points, at a pose and its twist in body axes."""
    X = jnp.asarray(distribution.body_points, pose.dtype)
    R, r = pose[:, :3], pose[:, 3]
    return X @ R.T + r, (jnp.cross(velocity[:3], X) + velocity[3:]) @ R.T


def gravitational_forces(
    distribution: MassDistribution, pose: Float[Array, "3 4"], gravity: Float[Array, "3"]
) -> ForceDistribution:
    """Weight in world axes, `m_k g`; `gravity` (3,) m/s^2. The centre of mass is a centre of force (004, 6.8)."""
    points, _ = material_points(distribution, pose, jnp.zeros(6, pose.dtype))
    return ForceDistribution(points, jnp.asarray(distribution.masses, pose.dtype)[:, None] * jnp.asarray(gravity))


def inertial_forces(
    distribution: MassDistribution,
    pose: Float[Array, "3 4"],
    velocity: Float[Array, "6"],
    acceleration: Float[Array, "6"],
) -> ForceDistribution:
    """Mass times acceleration of each point, `m_k d^2 x_k / dt^2`, in world axes (004, examples 6.2).

    Its central force is `m dv/dt` and its central torque `d/dt (R J R^T omega)` (004, lemma 7.1).

    **Arguments:** `velocity`, `acceleration` (6,): the twist in body axes (rad/s, m/s of the centre of mass), and the
    rates of its components.
    """
    R, omega = pose[:, :3], velocity[:3]
    X = jnp.asarray(distribution.body_points, pose.dtype)
    points, _ = material_points(distribution, pose, velocity)
    accelerations = jnp.cross(omega, jnp.cross(omega, X) + velocity[3:])
    accelerations = accelerations + jnp.cross(acceleration[:3], X) + acceleration[3:]
    return ForceDistribution(points, jnp.asarray(distribution.masses, pose.dtype)[:, None] * (accelerations @ R.T))


def field_forces(
    distribution: MassDistribution,
    field: Field,
    t: Any,
    pose: Float[Array, "3 4"],
    velocity: Float[Array, "6"],
    per: Literal["mass", "point"] = "mass",
) -> ForceDistribution:
    """A field's forces on a body's points in world axes; see `field_on`. `velocity`: the twist in body axes."""
    points, velocities = material_points(distribution, pose, velocity)
    values = jax.vmap(lambda x, v: jnp.asarray(field(t, x, v), pose.dtype))(points, velocities)
    weights = jnp.asarray(distribution.masses, pose.dtype)[:, None]
    return ForceDistribution(points, weights * values if per == "mass" else values)


def field_on(
    distribution: MassDistribution, field: Field, per: Literal["mass", "point"] = "mass"
) -> Callable[[Any, Float[Array, "3 4"], Float[Array, "6"]], Float[Array, "6"]]:
    """The function `wrench(t, pose, velocity)` for `Mechanism.add_force`: a force field summed over a body's points.

    **Arguments:**

    - `distribution`: of the body. Its centre of mass must be the body's, as after `add_body(distribution=...)`.
    - `field`: `field(t, position, velocity) -> (3,)` of a material point's position (m) and velocity (m/s), all in
      world axes, by JAX functions.
    - `per`: "mass", the field is N/kg; or "point", it is the force on each point, N.

    The wrench is the central one (004, definition 6.9) in body axes, torque first: N m, N.
    """
    checks.choice("per", per, ("mass", "point"))
    if not callable(field):
        raise ModelError("field", checks.show(field), "a function field(t, position, velocity)")

    def wrench(t, pose, velocity):
        R = pose[:, :3]
        central = central_wrench(field_forces(distribution, field, t, pose, velocity, per), pose[:, 3])
        return jnp.concatenate([rotate_back(R, central[:3]), rotate_back(R, central[3:])])

    return wrench
