"""Three systems in redundant coordinates (001, section 6): a robot, a gyroscope, and a slider-crank of two parts."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.ephs import System, pattern
from jmbs.library.redundant.system import redundant_system


def planar_kinematics(zeta: Float[Array, "3"]) -> Float[Array, "3 3"]:
    """`Z` of a body moving in a plane: `zeta = (x, y, angle)`, `w` its velocity in body axes and its angular rate."""
    cos, sin = jnp.cos(zeta[2]), jnp.sin(zeta[2])
    return jnp.array([[cos, -sin, 0], [sin, cos, 0], [0, 0, 1]], zeta.dtype)


def planar_gyroscopic_matrix(gamma: Float[Array, "3"]) -> Float[Array, "3 3"]:
    """`G` of such a body, of its linear momentum in body axes and its angular momentum."""
    return jnp.array([[0, 0, -gamma[1]], [0, 0, gamma[0]], [gamma[1], -gamma[0], 0]], gamma.dtype)


def planar_mass_matrix(mass: float, centre: float, inertia: float) -> list[list[float]]:
    """`M` of such a body: `mass` kg, its centre at `centre` (m) on the x axis, `inertia` kg m^2 about the origin."""
    return [[mass, 0, 0], [0, mass, mass * centre], [0, mass * centre, inertia]]


def differential_drive(mass: float = 12.0, inertia: float = 0.87, centre: float = 0.15, track: float = 0.5) -> System:
    """A robot in the plane whose two driven wheels do not slip sideways.

    `zeta = (x, y, angle)` of the axle's mid-point, m, rad; `w = (v_x, v_y, omega)` there in the robot's axes, m/s,
    rad/s, with the nonholonomic constraint `v_y = 0`. Ports `F_l`, `F_r`: driving force (N) and forward velocity (m/s)
    at the left and the right wheel.

    **Arguments:** `mass` kg; `inertia` kg m^2 about the axle's mid-point; `centre`: of mass, ahead of it, m; `track`
    between the wheels, m.
    """
    return redundant_system(
        planar_mass_matrix(mass, centre, inertia),
        planar_kinematics,
        planar_gyroscopic_matrix,
        A=[0, 1, 0],
        B={"F_l": [1, 0, -track / 2], "F_r": [1, 0, track / 2]},
    )


def gimbal_gyroscope(spin_inertia: float = 0.03, inertia: float = 0.0153125) -> System:
    """A symmetric disc in massless gimbals, in Euler angles: `R = Rz(gamma) Ry(beta) Rx(alpha)`.

    `zeta = (alpha, beta, gamma)`, rad, singular at `cos(beta) = 0`; `w` the angular velocity in body axes, rad/s, x
    along the spin axis. Port `M`: torque (N m) about the second gimbal's axis and its rate, that of beta (rad/s).

    **Arguments:** moments of inertia about the spin axis and across it, kg m^2.
    """
    return redundant_system(
        [[spin_inertia, 0, 0], [0, inertia, 0], [0, 0, inertia]],
        _euler_kinematics,
        _rotational_gyroscopic_matrix,
        B={"M": _second_gimbal_axis},
        regularity=_distance_from_gimbal_lock,
    )


def _euler_kinematics(zeta: Float[Array, "3"]) -> Float[Array, "3 3"]:
    (sin_a, sin_b, _), (cos_a, cos_b, _) = jnp.sin(zeta), jnp.cos(zeta)
    tan_b = sin_b / cos_b
    return jnp.array([[1, sin_a * tan_b, cos_a * tan_b], [0, cos_a, -sin_a], [0, sin_a / cos_b, cos_a / cos_b]])


def _distance_from_gimbal_lock(zeta: Float[Array, "3"]) -> Float[Array, ""]:
    return jnp.cos(zeta[1])


def _second_gimbal_axis(zeta: Float[Array, "3"]) -> Float[Array, "3"]:
    return jnp.stack([jnp.zeros_like(zeta[0]), jnp.cos(zeta[0]), -jnp.sin(zeta[0])])


def _rotational_gyroscopic_matrix(gamma: Float[Array, "3"]) -> Float[Array, "3 3"]:
    x, y, z = gamma
    return jnp.array([[0, z, -y], [-z, 0, x], [y, -x, 0]], gamma.dtype)


class CrankPin(eqx.Module):
    """`B` of the crank's pin: its velocity in world axes is `B^T omega`. **Arguments:** `length` m."""

    length: float

    def __call__(self, zeta: Float[Array, "1"]) -> Float[Array, "1 2"]:
        return self.length * jnp.stack([-jnp.sin(zeta), jnp.cos(zeta)], axis=1)


class RodPoint(eqx.Module):
    """`B` of a point on the rod: its velocity in world axes is `B^T (v_x, v_y, omega)`.

    **Arguments:** `distance` from B along the rod, m.
    """

    distance: float

    def __call__(self, zeta: Float[Array, "3"]) -> Float[Array, "3 2"]:
        cos, sin = jnp.cos(zeta[2]), jnp.sin(zeta[2])
        return jnp.stack([jnp.stack([cos, -sin, -self.distance * sin]), jnp.stack([sin, cos, self.distance * cos])], 1)


def crank(inertia: float = 0.02, length: float = 0.1) -> System:
    """A crank that turns about A, the world's origin: `zeta` its angle (rad), `w` its rate.

    Ports: `M`, torque (N m) about A; `C`, force (N) on its pin and the pin's velocity in world axes (2,).

    **Arguments:** `inertia` about A, kg m^2; `length` from A to C, m.
    """
    return redundant_system([[inertia]], B={"M": [[1.0]], "C": CrankPin(length)})


def rod_with_slider(mass: float = 1.2, inertia: float = 0.03, centre: float = 0.12, length: float = 0.3) -> System:
    """A rod whose end B slides along the world's x axis: `zeta = (x_B, y_B, angle)`, m, rad.

    Its x axis points from B to C. `w`: the velocity of B in rod axes (m/s) and the angular rate (rad/s). Ports: `F`,
    force (N) on B along the world's x axis; `C`, force (N) on C and its velocity in world axes (2,).

    **Arguments:** `mass` of rod and slider, kg; `inertia` about B, kg m^2; `centre` of mass from B, m; `length` from B
    to C, m.
    """
    return redundant_system(
        planar_mass_matrix(mass, centre, inertia),
        planar_kinematics,
        planar_gyroscopic_matrix,
        B={"F": _slider_velocity, "C": RodPoint(length)},
        c=_slider_height,
    )


def _slider_velocity(zeta: Float[Array, "3"]) -> Float[Array, "3"]:
    return RodPoint(0.0)(zeta)[:, 0]


def _slider_height(zeta: Float[Array, "3"]) -> Float[Array, ""]:
    return zeta[1]


def slider_crank(crank: System, rod: System) -> System:
    """Crank and rod joined at C, by the velocity of the pin; outer ports `M` (torque on the crank) and `F`.

    The positions at C agree as long as they agree at the start; see `slider_crank_positions`.
    """
    boxes = {"crank": crank, "rod": rod}
    junctions = {"C": "crank.C rod.C", "M": "crank.M", "F": "rod.F"}
    return System(pattern({name: box.ports for name, box in boxes.items()}, junctions, outer=["M", "F"]), boxes)


def slider_crank_positions(angle: float, crank: float = 0.1, rod: float = 0.3) -> dict[str, Float[Array, " _"]]:
    """Initial coordinates at which crank and rod meet at C, the slider on the right of A.

    **Arguments:** the crank's `angle`, rad; lengths, m, `crank` shorter than `rod`.
    """
    height = crank * jnp.sin(angle)
    tilt = jnp.arcsin(height / rod)
    x_B = crank * jnp.cos(angle) + rod * jnp.cos(tilt)
    return {"crank/zeta": jnp.array([angle]), "rod/zeta": jnp.array([x_B, 0.0, jnp.pi - tilt])}


class TrailerKinematics(eqx.Module):
    """`Z` of a truck with trailers: `zeta = (x, y, angles...)`, `w = (speeds..., angular rates...)`, truck first."""

    def __call__(self, zeta: Float[Array, " 2+n"]) -> Float[Array, "2+n 2n"]:
        n = zeta.shape[0] - 2
        Z = jnp.zeros((n + 2, 2 * n), zeta.dtype).at[2:, n:].set(jnp.eye(n, dtype=zeta.dtype))
        return Z.at[0, 0].set(jnp.cos(zeta[2])).at[1, 0].set(jnp.sin(zeta[2]))


class HitchRows(eqx.Module):
    """`A` of such a train: each trailer follows the axle before it, whose mid-point carries the hitch.

    Two rows per trailer, `d` the angle at its hitch: `v_i = v_{i-1} cos d`, and `l omega_i = v_{i-1} sin d` or, with
    `v_{i-1}` eliminated, `l omega_i cos d = v_i sin d`: equivalent, except that those rows are dependent at 90 degrees.

    **Arguments:** `length` from hitch to axle, m; `eliminated`: which form of the second row, static.
    """

    length: float
    eliminated: bool = eqx.field(static=True)

    def __call__(self, zeta: Float[Array, " 2+n"]) -> Float[Array, "2n-2 2n"]:
        n = zeta.shape[0] - 2
        rows = jnp.zeros((2 * (n - 1), 2 * n), zeta.dtype)
        for i in range(1, n):
            d = zeta[1 + i] - zeta[2 + i]
            cos, sin, k = jnp.cos(d), jnp.sin(d), 2 * (i - 1)
            rows = rows.at[k, i - 1].set(cos).at[k, i].set(-1.0)
            if self.eliminated:
                rows = rows.at[k + 1, i].set(sin).at[k + 1, n + i].set(-self.length * cos)
            else:
                rows = rows.at[k + 1, i - 1].set(sin).at[k + 1, n + i].set(-self.length)
        return rows


def truck_with_trailers(
    trailers: int = 1, mass: float = 1.0, inertia: float = 0.1, length: float = 1.0, eliminated: bool = False
) -> System:
    """A truck that pulls trailers in the plane: one axle each, whose wheels do not slip sideways.

    `zeta = (x, y, angles...)` of the truck's axle, m, rad; `w = (speeds..., angular rates...)`, truck first. Ports `F`:
    force (N) that drives the truck, and `M`: torque (N m) that turns it.

    **Arguments:** number of `trailers`; `mass` kg, `inertia` kg m^2 of each vehicle about its axle's mid-point, where
    its centre of mass lies; `length` from hitch to axle, m; `eliminated`: see `HitchRows`.
    """
    n = trailers + 1
    unit = [[float(i == j) for i in range(2 * n)] for j in (0, n)]
    M = [[(mass if i < n else inertia) * (i == j) for i in range(2 * n)] for j in range(2 * n)]
    rows = HitchRows(length, eliminated)
    return redundant_system(M, TrailerKinematics(), A=rows, B={"F": unit[0], "M": unit[1]}, n_positions=n + 2)
