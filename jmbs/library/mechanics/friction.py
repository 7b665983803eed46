"""Friction in joints and dampers: viscous, Coulomb and Stribeck, as an Onsager structure that conserves energy."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.arrays import total
from jmbs.ephs import ENTROPY, Interface, Quantity, power_port
from jmbs.library.mechanics.declared import unit_and_rule
from jmbs.library.mechanics.rules import Rule
from jmbs.lie import Rn

SMALL = 1e-3
"""Below this `(u / u_reg)^2` the series of `tanh(sqrt(y)) / sqrt(y)` is used; the first omitted term is 1e-17."""


class Friction(eqx.Module):
    """Generalised friction force `mu(u) = D(u) u` with symmetric non-negative `D`; ports `p_r` and `s`.

    Per group of velocity coordinates, `mu = viscous u + s(|u|) (coulomb + (static - coulomb) exp(-(|u|/v_s)^2)) u/|u|`
    with `s = tanh(|u| / v_reg)`; then

        M = [[theta D, -D u], [-(D u)^T, <u | D u> / theta]],      f = M e / theta0 = (D u, -<u | D u> / theta).

    **Arguments:**

    - `viscous`: (k,) or symmetric non-negative (k, k), N m s/rad or N s/m.
    - `coulomb`, `static`: (g,) N m or N, one per group.
    - `stribeck_velocity`, `regularisation_velocity`: (g,) rad/s or m/s.
    - `momentum`: quantity of the port `p_r`, static.
    - `groups`: which coordinates have a common magnitude, static; a partition of `range(k)`.
    """

    viscous: Array = eqx.field(metadata=unit_and_rule("N m s/rad or N s/m", "damping"))
    coulomb: Float[Array, " g"] = eqx.field(metadata=unit_and_rule("N m or N", "non-negative numbers"))
    static: Float[Array, " g"] = eqx.field(
        metadata=unit_and_rule("N m or N", "non-negative numbers", more=(Rule("at least coulomb", ("coulomb",)),))
    )
    stribeck_velocity: Float[Array, " g"] = eqx.field(metadata=unit_and_rule("rad/s or m/s", "positive numbers"))
    regularisation_velocity: Float[Array, " g"] = eqx.field(metadata=unit_and_rule("rad/s or m/s", "positive numbers"))
    momentum: Quantity = eqx.field(static=True)
    groups: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    lawful_by_construction: ClassVar[bool] = True

    @property
    def ports(self) -> Interface:
        return {
            "p_r": power_port(self.momentum.space, self.momentum.name),
            "s": power_port(Rn(1), ENTROPY),
        }

    def damping(self, u: Float[Array, " k"]) -> Float[Array, "k k"]:
        """`D(u)`."""
        viscous = self.viscous if self.viscous.ndim == 2 else jnp.diag(self.viscous)
        dry = jnp.zeros_like(u)
        for g, members in enumerate(self.groups):
            index = jnp.asarray(members)
            square = total(u[index] ** 2)
            regular = self.regularisation_velocity[g]
            level = self.coulomb[g] + (self.static[g] - self.coulomb[g]) * jnp.exp(
                -square / self.stribeck_velocity[g] ** 2
            )
            share = level * tanh_ratio(square / regular**2) / regular
            dry = jnp.where(np.isin(np.arange(len(u)), members), share, dry)
        return viscous + jnp.diag(dry)

    def force(self, u: Float[Array, " k"]) -> Float[Array, " k"]:
        """`mu(u)`."""
        return _times(self.damping(u), u)

    def onsager(self, x, e) -> Float[Array, "k+1 k+1"]:
        del x
        return dissipation(self.damping(e["p_r"]), e["p_r"], e.temperature("s"))


class ViscousFriction(eqx.Module):
    """Friction proportional to velocity, `mu(u) = D u`; ports and structure as those of `Friction`.

    **Arguments:** `viscous` (k,) or symmetric non-negative (k, k), N m s/rad or N s/m; `momentum`: static.
    """

    viscous: Array = eqx.field(metadata=unit_and_rule("N m s/rad or N s/m", "damping"))
    momentum: Quantity = eqx.field(static=True)
    lawful_by_construction: ClassVar[bool] = True

    @property
    def ports(self) -> Interface:
        return {
            "p_r": power_port(self.momentum.space, self.momentum.name),
            "s": power_port(Rn(1), ENTROPY),
        }

    def force(self, u: Float[Array, " k"]) -> Float[Array, " k"]:
        """`mu(u)`."""
        return _times(self.viscous, u) if self.viscous.ndim == 2 else self.viscous * u

    def onsager(self, x, e) -> Float[Array, "k+1 k+1"]:
        del x
        D = self.viscous if self.viscous.ndim == 2 else jnp.diag(self.viscous)
        return dissipation(D, e["p_r"], e.temperature("s"))


class LawFriction(eqx.Module):
    """Friction by a law, `mu(u) = D(u) u`; ports and structure as those of `Friction`.

    **Arguments:** `law`: a module with `damping(u)`, of the joint's velocities (k,): (k,) not negative, or a symmetric
    non-negative matrix (k, k), N m s/rad or N s/m; `momentum`: static.
    """

    law: Any
    momentum: Quantity = eqx.field(static=True)
    lawful_by_construction: ClassVar[bool] = True

    @property
    def ports(self) -> Interface:
        return {
            "p_r": power_port(self.momentum.space, self.momentum.name),
            "s": power_port(Rn(1), ENTROPY),
        }

    def force(self, u: Float[Array, " k"]) -> Float[Array, " k"]:
        """`mu(u)`."""
        D = self.law.damping(u)
        return _times(D, u) if D.ndim == 2 else D * u

    def onsager(self, x, e) -> Float[Array, "k+1 k+1"]:
        del x
        D = self.law.damping(e["p_r"])
        return dissipation(D if D.ndim == 2 else jnp.diag(D), e["p_r"], e.temperature("s"))


class TemperatureDependentFriction(eqx.Module):
    """Friction that its own heat changes: `exp(-coefficient (theta - reference_temperature))` times `friction`.

    `theta` is the absolute temperature at the port `s`; the factor is positive at every temperature, so both laws hold
    as they do for `friction`. A lubricant that thins when it is warm has a positive coefficient.

    **Arguments:** `friction`; `temperature_coefficient` 1/K; `reference_temperature` K, where the factor is one.
    """

    friction: Friction | ViscousFriction
    temperature_coefficient: Float[Array, ""] = eqx.field(metadata=unit_and_rule("1/K", "number"))
    reference_temperature: Float[Array, ""] = eqx.field(metadata=unit_and_rule("K", "positive number"))
    lawful_by_construction: ClassVar[bool] = True

    @property
    def ports(self) -> Interface:
        return self.friction.ports

    def onsager(self, x, e) -> Float[Array, "k+1 k+1"]:
        warming = e.temperature("s") - self.reference_temperature
        return jnp.exp(-self.temperature_coefficient * warming) * self.friction.onsager(x, e)


JointFriction = Friction | ViscousFriction | LawFriction | TemperatureDependentFriction


def dissipation(D: Float[Array, "k k"], u: Float[Array, " k"], theta: Float[Array, ""]) -> Float[Array, "k+1 k+1"]:
    """The Onsager matrix `[[theta D, -D u], [-(D u)^T, <u | D u> / theta]]` of a force `D u` that heats a port."""
    force = _times(D, u)
    return jnp.block([[theta * D, -force[:, None]], [-force[None, :], jnp.reshape(total(u * force) / theta, (1, 1))]])


def _times(D: Float[Array, "k k"], u: Float[Array, " k"]) -> Float[Array, " k"]:
    """`D @ u` without a product of matrices, of which compilers on CPUs make calls of a library."""
    return total((D * u).T)


def tanh_ratio(y: Float[Array, ""]) -> Float[Array, ""]:
    """`tanh(sqrt(y)) / sqrt(y)`, smooth at zero."""
    small = y < SMALL
    root = jnp.sqrt(jnp.where(small, jnp.ones_like(y), y))
    series = 1.0 + y * (-1 / 3 + y * (2 / 15 + y * (-17 / 315 + y * (62 / 2835 - y * 1382 / 155925))))
    return jnp.where(small, series, jnp.tanh(root) / root)


def viscous_friction(damping, momentum: Quantity) -> ViscousFriction:
    """Purely viscous friction, `mu(u) = damping u`; `damping` (k,) or (k, k)."""
    return ViscousFriction(jnp.asarray(damping), momentum)
