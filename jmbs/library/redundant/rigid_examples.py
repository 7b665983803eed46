"""The examples a second time, from rigid bodies and joints: the same motions without any choice of coordinates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.library.mechanics.mechanism import Mechanism
from jmbs.library.mechanics.point_velocity import PointVelocity
from jmbs.library.redundant.examples import rod_with_slider, slider_crank_positions
from jmbs.lie import AbstractGroup, AbstractJointMotion, Rn, pose

IN_PLANE = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0))


def differential_drive_mechanism(
    mass: float = 12.0, inertia: float = 0.87, centre: float = 0.15, track: float = 0.5
) -> Mechanism:
    """`differential_drive` as a body `robot` on a planar joint `floor`, with the no-slip constraint `axle`.

    The joint's coordinates and velocities are `zeta` and `w`. Loads `left`, `right`: driving forces, body axes.
    """
    mechanism = Mechanism("differential_drive", gravity=[0, 0, 0])
    about_centre = inertia - mass * centre**2
    mechanism.add_body("robot", mass=mass, inertia=[0.5 * about_centre, 0.7 * about_centre, about_centre])
    mechanism.add_joint("floor", "planar", "ground", "robot", child_frame={"position": [-centre, 0, 0]})
    mechanism.add_constraint("axle", "no_slide", "robot", point=[-centre, 0, 0], direction=[0, 1, 0], frame="body")
    for name, side in (("left", track / 2), ("right", -track / 2)):
        mechanism.add_load(name, "robot", point=[-centre, side, 0], force=[0, 0, 0], frame="body")
    return mechanism


def gyroscope_mechanism(
    torque: Callable[[Any], Any], spin_inertia: float = 0.03, inertia: float = 0.0153125, mass: float = 1.5
) -> Mechanism:
    """`gimbal_gyroscope` as a body `disc` on a spherical joint `centre`; no orientation is singular.

    **Arguments:** `torque`: N m about the second gimbal's axis, of time; moments of inertia kg m^2; `mass` kg.
    """
    mechanism = Mechanism("gyroscope", gravity=[0, 0, 0])
    mechanism.add_body("disc", mass=mass, inertia=[spin_inertia, inertia, inertia])
    mechanism.add_joint("centre", "spherical", "ground", "disc")

    def wrench(t: Array, pose: Float[Array, "3 4"], velocity: Float[Array, "6"]) -> Float[Array, "6"]:
        del velocity
        # The second axis is horizontal and normal to the spin axis, the disc's x axis.
        gamma = jnp.arctan2(pose[1, 0], pose[0, 0])
        axis = jnp.stack([-jnp.sin(gamma), jnp.cos(gamma), jnp.zeros_like(gamma)])
        return jnp.concatenate([torque(t) * (pose[:, :3].T @ axis), jnp.zeros(3, pose.dtype)])

    mechanism.add_force("second_gimbal", "disc", wrench)
    return mechanism


class PinOnTrack(AbstractJointMotion):
    """A pin about z that slides along the parent's x axis: coordinates travel (m) and angle (rad)."""

    name: ClassVar[str] = "pin_on_track"
    group: ClassVar[AbstractGroup] = Rn(2)
    coordinate_names: ClassVar[tuple[str, ...]] = ("travel", "angle")
    coordinate_units: ClassVar[tuple[str, ...]] = ("m", "rad")
    velocity_names: ClassVar[tuple[str, ...]] = ("travel_rate", "angle_rate")
    velocity_units: ClassVar[tuple[str, ...]] = ("m/s", "rad/s")

    def inclusion(self, q: Float[Array, "2"]) -> Float[Array, "3 4"]:
        cos, sin, zero, one = jnp.cos(q[1]), jnp.sin(q[1]), jnp.zeros_like(q[0]), jnp.ones_like(q[0])
        rotation = jnp.array([[cos, -sin, zero], [sin, cos, zero], [zero, zero, one]])
        return pose(rotation, jnp.stack([q[0], zero, zero]))


def slider_crank_mechanism(
    angle: float = 0.3,
    rate: float = 10.0,
    crank_inertia: float = 0.02,
    crank_length: float = 0.1,
    mass: float = 1.2,
    inertia: float = 0.03,
    centre: float = 0.12,
    length: float = 0.3,
) -> Mechanism:
    """`slider_crank` as bodies `crank` and `rod`, joints `A`, `C` (revolute) and `B` (a pin on a track).

    The crank is balanced: its centre of mass lies on A. Actuation of `A` is the port `M`, the first of `B` the port
    `F`.

    **Arguments:** the crank's initial `angle`, rad, and `rate`, rad/s; the others as `crank` and `rod_with_slider`
    have them.
    """
    mechanism = _crank_mechanism("slider_crank", crank_inertia, angle, rate)
    mechanism.add_body("rod", mass=mass, inertia=_flat(inertia - mass * centre**2))
    mechanism.add_joint("B", PinOnTrack(), "ground", "rod", child_frame={"position": [-centre, 0, 0]})
    in_crank, in_rod = {"position": [crank_length, 0, 0]}, {"position": [length - centre, 0, 0]}
    mechanism.add_joint("C", "revolute", "crank", "rod", parent_frame=in_crank, child_frame=in_rod)
    x_B, _, rod_angle = np.asarray(slider_crank_positions(angle, crank_length, length)["rod/zeta"])
    mechanism.set_initial(joints={"B": {"q": [x_B, rod_angle]}, "C": {"q": [rod_angle - angle]}})
    return mechanism


def mixed_slider_crank(
    angle: float = 0.3, rate: float = 10.0, crank_inertia: float = 0.02, crank_length: float = 0.1, **rod: float
) -> Mechanism:
    """A rigid crank on a revolute joint `A` that drives a rod in redundant coordinates through the pin's velocity.

    The system `pin` shows the velocity of C on the crank, joined to port `C` of the system `rod`. Driven at
    `A/actuation` (N m) and `F` (N).

    **Arguments:** as `slider_crank_mechanism` has them; `rod`: those of `rod_with_slider`.
    """
    mechanism = _crank_mechanism("mixed_slider_crank", crank_inertia, angle, rate)
    mechanism.add_system("pin", PointVelocity([crank_length, 0, 0], IN_PLANE))
    mechanism.add_system("rod", rod_with_slider(**rod))
    mechanism.connect("crank_momentum", ["crank.p", "pin.p"])
    mechanism.connect("crank_pose", ["crank.q", "pin.q"])
    mechanism.connect("C", ["pin.v", "rod.C"])
    mechanism.connect("F", ["rod.F"])
    positions = slider_crank_positions(angle, crank_length, rod.get("length", 0.3))
    mechanism.set_initial(states={"rod/zeta": np.asarray(positions["rod/zeta"])})
    return mechanism


def _crank_mechanism(name: str, inertia: float, angle: float, rate: float) -> Mechanism:
    mechanism = Mechanism(name, gravity=[0, 0, 0])
    mechanism.add_body("crank", mass=1.0, inertia=_flat(inertia))
    mechanism.add_joint("A", "revolute", "ground", "crank")
    mechanism.set_initial(joints={"A": {"q": [angle], "v": [rate]}})
    return mechanism


def _flat(inertia: float) -> list[float]:
    """Principal moments of a body in the xy plane, all that matters of which is the last."""
    return [0.5 * inertia, 0.7 * inertia, inertia]
