"""A piston on a gas: a storage of volume and entropy with outputs, as a user would write it."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp

import jmbs
from jmbs.ephs import ENTROPY, VOLUME, power_port
from jmbs.library.mechanics.joint import relative_momentum
from jmbs.library.thermal import Conduction
from jmbs.lie import Rn

AREA, START, GAMMA = 0.01, 0.002, 1.4
RUN: dict[str, Any] = {"t1": 0.1, "dt": 0.002, "solver": "rk4", "save_every": 0.02, "audit": False}


class Gas(eqx.Module):
    """An ideal gas of heat capacity `capacity`, at 300 K in the volume `START`."""

    capacity: float
    output_units: ClassVar[dict[str, str]] = {"pressure": "Pa", "temperature": "K", "both": "1"}

    @property
    def ports(self):
        return {"volume": power_port(Rn(1), VOLUME), "entropy": power_port(Rn(1), ENTROPY)}

    def energy(self, x):
        warm = jnp.exp(x["entropy"][0] / self.capacity)
        return 300.0 * self.capacity * warm * (START / x["volume"][0]) ** (GAMMA - 1)

    def outputs(self, x, e):
        pressure = (GAMMA - 1) * self.energy(x) / x["volume"][0]
        temperature = e.temperature("entropy")
        return {"temperature": temperature, "pressure": pressure, "both": jnp.stack([pressure, temperature])}


class Piston(eqx.Module):
    """The volume grows with the travel of a slider."""

    area: float

    @property
    def ports(self):
        momentum = relative_momentum(Rn(1))
        return {"volume": power_port(Rn(1), VOLUME), "slider": power_port(momentum.space, momentum.name)}

    def structure(self, x):
        return self.area * jnp.array([[0.0, -1.0], [1.0, 0.0]]), None


def gas_spring(gas: Any = None, **settings) -> jmbs.Mechanism:
    """A piston on a gas that loses heat to the environment."""
    m = jmbs.Mechanism("gas_spring", gravity=[0, 0, 0], **settings)
    m.add_body("piston", mass=2.0, inertia=[0.1, 0.1, 0.1])
    m.add_joint("cylinder", "prismatic", "ground", "piston", axis=[1, 0, 0])
    m.add_system("chamber", Gas(2.0) if gas is None else gas)
    m.add_system("face", Piston(AREA))
    m.add_system("wall", Conduction(0.5))
    m.connect("volume", ["chamber.volume", "face.volume"])
    m.connect("rod", ["face.slider", "cylinder.p_r"])
    m.connect("heat", ["chamber.entropy", "wall.s1"])
    m.connect("outside", ["wall.s2", "environment.s"])
    m.set_initial(states={"volume": [START]}, joints={"cylinder": {"v": [0.5]}})
    return m
