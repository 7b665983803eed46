"""Electric circuits: storage of charge and of flux linkage, branches, and resistors that turn power into heat.

At a `charge` junction the effort is the voltage, and currents add up: a node. At a `flux_linkage` junction the effort
is the current, and voltages add up: a series of elements. Ideal sources are drives of outer ports:

- a voltage source in a series is a flow at its flux-linkage junction, between a node and earth an effort at the node;
- a current source in a series is an effort at its flux-linkage junction, into a node a flow at the node.
"""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.ephs import ENTROPY, Interface, Quantity, System, lossy_system, power_port
from jmbs.library.mechanics.body import PotentialKineticCoupling
from jmbs.library.mechanics.friction import dissipation
from jmbs.library.scalar import Scalar, scalar
from jmbs.lie import Rn

CHARGE = Quantity(Rn(1), "charge")
FLUX_LINKAGE = Quantity(Rn(1), "flux_linkage")
ROOM_TEMPERATURE = 293.15
"""At 20 degrees Celsius resistances are tabulated."""


class Capacitor(eqx.Module):
    """Electric energy `q^2 / (2 capacitance)` of a charge `q`, C; port `q`, effort: the voltage.

    Initial values are charges, `capacitance` times the voltage. **Arguments:** `capacitance` F, positive.
    """

    capacitance: Scalar = scalar("capacitor/capacitance", "F", positive=True)
    lawful_by_construction: ClassVar[bool] = True

    @property
    def ports(self) -> Interface:
        return {"q": power_port(CHARGE.space, CHARGE.name)}

    def energy(self, x) -> Float[Array, ""]:
        return 0.5 * x["q"][0] ** 2 / self.capacitance


class Inductor(eqx.Module):
    """Magnetic energy `phi^2 / (2 inductance)` of a flux linkage `phi`, V s; port `phi`, effort: the current.

    Users' states and initial values are currents, as those of bodies are velocities: another inductance keeps them.

    **Arguments:** `inductance` H, positive.
    """

    inductance: Scalar = scalar("inductor/inductance", "H", positive=True)
    lawful_by_construction: ClassVar[bool] = True

    @property
    def ports(self) -> Interface:
        return {"phi": power_port(FLUX_LINKAGE.space, FLUX_LINKAGE.name)}

    def energy(self, x) -> Float[Array, ""]:
        return 0.5 * x["phi"][0] ** 2 / self.inductance

    def state_from_effort(self, e) -> dict[str, Array]:
        """The flux linkage at a current."""
        return {"phi": self.inductance * e["phi"]}


class Resistor(eqx.Module):
    """The voltage `R i` along a current `i`, whose power `R i^2` heats the thermal port `s`; ports `i` and `s`.

        R = resistance max(1 + temperature_coefficient (theta - reference_temperature), 0)
        M = [[theta R, -R i], [-R i, R i^2 / theta]],     f = M e / theta0 = (R i, -R i^2 / theta)

    with the absolute temperature `theta` at `s`.

    **Arguments:** `resistance` ohm at the reference temperature, not negative; `temperature_coefficient` 1/K (copper:
    0.0039); `reference_temperature` K.
    """

    resistance: Scalar = scalar("resistor/resistance", "ohm", non_negative=True)
    temperature_coefficient: Scalar = scalar("resistor/temperature_coefficient", "1/K", default=0.0)
    reference_temperature: Scalar = scalar(
        "resistor/reference_temperature", "K", positive=True, default=ROOM_TEMPERATURE
    )
    lawful_by_construction: ClassVar[bool] = True

    @property
    def ports(self) -> Interface:
        return {"i": power_port(FLUX_LINKAGE.space, FLUX_LINKAGE.name), "s": power_port(Rn(1), ENTROPY)}

    def onsager(self, x, e) -> Float[Array, "2 2"]:
        del x
        theta = e.temperature("s")
        change = self.temperature_coefficient * (theta - self.reference_temperature)
        R = self.resistance * jnp.maximum(1.0 + change, 0.0)
        return dissipation(jnp.reshape(R, (1, 1)), e["i"], theta)


class Branch(eqx.Module):
    """A branch from node `a` to node `b`: its current `i` leaves `a` and enters `b`, its voltage is `v_a - v_b`.

    Power ports `a`, `b` (charge) and `i` (flux linkage), where the branch's elements are in series.
    """

    lawful_by_construction: ClassVar[bool] = True

    @property
    def ports(self) -> Interface:
        node = power_port(CHARGE.space, CHARGE.name)
        return {"a": node, "b": node, "i": power_port(FLUX_LINKAGE.space, FLUX_LINKAGE.name)}

    def structure(self, x):
        del x
        return jnp.array([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0], [-1.0, 1.0, 0.0]]), None


def series_coupling() -> PotentialKineticCoupling:
    """Puts a charge junction `q` in series with a flux-linkage junction `i`: `q.f = -i`, `i.f = v`.

    The current `i` comes from earth and flows into the node `q`, which holds it up with its voltage `v`.
    """
    return PotentialKineticCoupling(CHARGE, FLUX_LINKAGE, ("q", "i"))


def series_rlc(resistance, inductance, capacitance, heats_environment: bool = True) -> System:
    """Resistor, inductor and capacitor in series with a source at the outer port `supply` (its flow is the voltage).

    Boxes `resistor, inductor, capacitor, coupling`, and `env` unless the heat goes to the outer port `s`; states at the
    junctions `i` (flux linkage) and `q` (charge).

    **Arguments:** `resistance` ohm, `inductance` H, `capacitance` F. Raises `ModelError`.
    """
    boxes: dict[str, Any] = {
        "resistor": Resistor(resistance),
        "inductor": Inductor(inductance),
        "capacitor": Capacitor(capacitance),
        "coupling": series_coupling(),
    }
    junctions = {"i": "inductor.phi resistor.i coupling.i", "q": "capacitor.q coupling.q", "s": "resistor.s"}
    outer = {"supply": "i"}
    return lossy_system(boxes, junctions, outer, heats_environment)
