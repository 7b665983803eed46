"""Inertia of rotors that turn with a joint: kinetic energy of its own on the joint's velocity `u_r`.

    p = a u_r,   H = 1/2 <p | p / a>,   pdot = the torque that the joint gives to its rotors

There is one rotor per coordinate of inertia, which sees nothing but the rate of that coordinate: `diag(a)` joins the
mass matrix, without gyroscopic terms, and no momentum of the bodies changes. The rotor of a motor on the joint's shaft
does the same; it has the joint's rate as its own effort.
"""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.ephs import Interface, Quantity, power_port
from jmbs.jaxext import entries_at
from jmbs.library.mechanics.body import relative_momentum
from jmbs.library.scalar import Scalar, scalar
from jmbs.lie import AbstractGroup, Rn

SHAFT = relative_momentum(Rn(1))
"""The quantity of the actuation ports of revolute joints: its effort is the angular velocity, its flow a torque."""


def rotor_momentum(size: int) -> Quantity:
    """The momentum of `size` rotors, kg m^2/s of turns and kg m/s of travels."""
    return Quantity(Rn(size), "rotor_momentum")


class RotorInertia(eqx.Module):
    """Kinetic energy `1/2 sum p_i^2 / a_i` of the rotors of a joint; port `p`.

    **Arguments:** `armature` (k,) kg m^2 or kg, by coordinate of the joint; static: `coordinates`, by number, that have
    a rotor, in rising order. The others' entries play no part.
    """

    armature: Float[Array, " k"]
    coordinates: tuple[int, ...] = eqx.field(static=True)
    lawful_by_construction: ClassVar[bool] = True

    @property
    def ports(self) -> Interface:
        momentum = rotor_momentum(len(self.coordinates))
        return {"p": power_port(momentum.space, momentum.name)}

    @property
    def inertia(self) -> Float[Array, " m"]:
        """Of the coordinates that have a rotor."""
        return entries_at(self.armature, np.array(self.coordinates))

    def energy(self, x) -> Float[Array, ""]:
        return 0.5 * jnp.sum(x["p"] ** 2 / self.inertia)

    def state_from_effort(self, e) -> dict[str, Float[Array, " m"]]:
        """The momentum at the rotors' rates."""
        return {"p": self.inertia * e["p"]}


class RotorRate(eqx.Module):
    """Rotors turn with the joint: `p.e = S p_r.e`, `S` the rows of the identity for the coordinates with a rotor.

    Since rotors have states of their own this is a constraint, whose multiplier is the torque on each rotor.

    **Arguments:** static: `coordinates`, by number, of a joint on `group`.
    """

    coordinates: tuple[int, ...] = eqx.field(static=True)
    group: AbstractGroup = eqx.field(static=True)
    output: ClassVar[str] = "p"
    lawful_by_construction: ClassVar[bool] = True

    @property
    def ports(self) -> Interface:
        joint, rotor = relative_momentum(self.group), rotor_momentum(len(self.coordinates))
        return {"p_r": power_port(joint.space, joint.name), "p": power_port(rotor.space, rotor.name)}

    def ratio(self, x) -> Float[Array, "m k"]:
        del x
        return jnp.asarray(np.eye(self.group.dim)[list(self.coordinates)])


class Rotor(eqx.Module):
    """Kinetic energy `p^2 / (2 inertia)` of what turns with the shaft; port `shaft`, angular momentum, N m s.

    **Arguments:** `inertia` kg m^2 about the shaft, positive.
    """

    inertia: Scalar = scalar("rotor/inertia", "kg m^2", positive=True)
    lawful_by_construction: ClassVar[bool] = True

    @property
    def ports(self) -> Interface:
        return {"shaft": power_port(SHAFT.space, SHAFT.name)}

    def energy(self, x) -> Float[Array, ""]:
        return 0.5 * x["shaft"][0] ** 2 / self.inertia

    def state_from_effort(self, e) -> dict[str, Array]:
        """The angular momentum at an angular velocity."""
        return {"shaft": self.inertia * e["shaft"]}
