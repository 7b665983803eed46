"""The one-dimensional oscillator, alone and with friction and environment: the language's smallest worked example."""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.ephs import Environment, Interface, Quantity, System, pattern, power_port
from jmbs.library.mechanics.body import PotentialKineticCoupling
from jmbs.library.mechanics.friction import viscous_friction
from jmbs.lie import Rn

DISPLACEMENT = Quantity(Rn(1), "displacement")
MOMENTUM = Quantity(Rn(1), "momentum")


class Spring(eqx.Module):
    """Elastic energy `1/2 k q^2`; port `q`. **Arguments:** `stiffness` N/m."""

    stiffness: Float[Array, ""]
    lawful_by_construction: ClassVar[bool] = True

    @property
    def ports(self) -> Interface:
        return {"q": power_port(DISPLACEMENT.space, DISPLACEMENT.name)}

    def energy(self, x) -> Float[Array, ""]:
        return 0.5 * self.stiffness * x["q"][0] ** 2


class Mass(eqx.Module):
    """Kinetic energy `p^2 / (2 m)`; port `p`. **Arguments:** `mass` kg."""

    mass: Float[Array, ""]
    lawful_by_construction: ClassVar[bool] = True

    @property
    def ports(self) -> Interface:
        return {"p": power_port(MOMENTUM.space, MOMENTUM.name)}

    def energy(self, x) -> Float[Array, ""]:
        return 0.5 * x["p"][0] ** 2 / self.mass

    def state_from_effort(self, e) -> dict[str, Array]:
        """The momentum at a velocity."""
        return {"p": self.mass * e["p"]}


def oscillator(mass: float, stiffness: float) -> System:
    """Mass and spring, boxes `pe, ke, pkc`; the outer port `p` exposes the kinetic energy domain."""
    boxes = {
        "pe": Spring(jnp.asarray(stiffness)),
        "ke": Mass(jnp.asarray(mass)),
        "pkc": PotentialKineticCoupling(DISPLACEMENT, MOMENTUM),
    }
    interfaces = {name: box.ports for name, box in boxes.items()}
    return System(pattern(interfaces, {"q": "pe.q pkc.q", "p": "pkc.p ke.p"}, outer=["p"]), boxes)


def damped_oscillator(mass: float, stiffness: float, damping: float, nested: bool = True) -> System:
    """The oscillator in a box of its own with friction `mf` and environment `env`, or all boxes in one pattern."""
    inner = oscillator(mass, stiffness)
    around = {"mf": viscous_friction([damping], MOMENTUM), "env": Environment()}
    if nested:
        boxes = {"osc": inner, **around}
        junctions = {"p": "osc.p mf.p_r", "s": "mf.s env.s"}
    else:
        boxes = {**inner.boxes, **around}
        junctions = {"q": "pe.q pkc.q", "p": "pkc.p ke.p mf.p_r", "s": "mf.s env.s"}
    return System(pattern({name: box.ports for name, box in boxes.items()}, junctions), boxes)
