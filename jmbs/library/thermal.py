"""Heat conduction between thermal stores, and convection to the environment."""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.ephs import ENTROPY, Environment, Interface, System, pattern, power_port
from jmbs.library.scalar import Scalar, scalar
from jmbs.lie import Rn


class Conduction(eqx.Module):
    """The heat flow `conductance (theta_1 - theta_2)`, W, from the thermal port `s1` to the thermal port `s2`.

        M = conductance [[theta_2 / theta_1, -1], [-1, theta_1 / theta_2]]
        f = M e / theta0 = conductance (theta_1 - theta_2) (1 / theta_1, -1 / theta_2)

    It produces the entropy `conductance (theta_1 - theta_2)^2 / (theta_1 theta_2)` per second.

    **Arguments:** `conductance` W/K, not negative. Raises `ModelError`.
    """

    conductance: Scalar = scalar("conduction/conductance", "W/K", non_negative=True)
    lawful_by_construction: ClassVar[bool] = True

    @property
    def ports(self) -> Interface:
        return {"s1": power_port(Rn(1), ENTROPY), "s2": power_port(Rn(1), ENTROPY)}

    def onsager(self, x, e) -> Float[Array, "2 2"]:
        del x
        ratio = e.temperature("s2") / e.temperature("s1")
        one = jnp.ones_like(ratio)
        return self.conductance * jnp.stack([jnp.stack([ratio, -one]), jnp.stack([-one, 1 / ratio])])


def convection(conductance) -> System:
    """Cooling to the environment: boxes `conduction` and `env`, outer port `s`.

    **Arguments:** `conductance` W/K, heat transfer coefficient times area. Raises `ModelError`.
    """
    boxes = {"conduction": Conduction(conductance), "env": Environment()}
    junctions = {"s": "conduction.s1", "environment": "conduction.s2 env.s"}
    return System(pattern({name: box.ports for name, box in boxes.items()}, junctions, outer=["s"]), boxes)
