"""Electric motors: where a circuit and a shaft meet.

L di/dt = v - R i - k omega,   torque on the shaft = k i
"""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp

from jmbs.ephs import Interface, System, lossy_system, power_port
from jmbs.library.electric import FLUX_LINKAGE, ROOM_TEMPERATURE, Inductor, Resistor
from jmbs.library.mechanics import SHAFT, Rotor
from jmbs.library.scalar import Scalar, scalar


class MotorCoupling(eqx.Module):
    """A lossless gyrator between a current and a shaft: torque `k i` on the shaft, back-emf `k omega` in the circuit.

        f = J e,    J = [[0, k], [-k, 0]],    ports `i` (flux linkage) and `shaft`

    **Arguments:** `torque_constant` N m/A, which is the back-emf's V s/rad.
    """

    torque_constant: Scalar = scalar("motor_coupling/torque_constant", "N m/A")
    lawful_by_construction: ClassVar[bool] = True

    @property
    def ports(self) -> Interface:
        return {"i": power_port(FLUX_LINKAGE.space, FLUX_LINKAGE.name), "shaft": power_port(SHAFT.space, SHAFT.name)}

    def structure(self, x):
        del x
        k = jnp.asarray(self.torque_constant)
        zero = jnp.zeros_like(k)
        return jnp.stack([jnp.stack([zero, k]), jnp.stack([-k, zero])]), None


def dc_motor(
    resistance,
    inductance,
    torque_constant,
    rotor_inertia=None,
    temperature_coefficient=0.0,
    reference_temperature=ROOM_TEMPERATURE,
    heats_environment: bool = True,
) -> System:
    """A direct-current motor with outer ports `supply` (its flow is the voltage) and `shaft` (its flow is a torque).

    Boxes `resistor, inductor, coupling`, `rotor` where the rotor has inertia, and `env` unless the copper losses heat
    the outer port `s`. The current is the state at the junction `i`. Torque and angular velocity are relative to what
    the motor is mounted on, so the rotor's own gyroscopic effect on that body is left out.

    **Arguments:** `resistance` ohm, `temperature_coefficient` 1/K, `reference_temperature` K as in `Resistor`;
    `inductance` H; `torque_constant` N m/A; `rotor_inertia` kg m^2, None for a rotor that is counted elsewhere.
    Raises `ModelError`.
    """
    boxes: dict[str, Any] = {
        "resistor": Resistor(resistance, temperature_coefficient, reference_temperature),
        "inductor": Inductor(inductance),
        "coupling": MotorCoupling(torque_constant),
    }
    junctions = {"i": "inductor.phi resistor.i coupling.i", "shaft": "coupling.shaft", "s": "resistor.s"}
    outer = {"supply": "i", "shaft": "shaft"}
    if rotor_inertia is not None:
        boxes["rotor"] = Rotor(rotor_inertia)
        junctions["shaft"] += " rotor.shaft"
    return lossy_system(boxes, junctions, outer, heats_environment)
