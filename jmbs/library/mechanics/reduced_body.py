"""Particles and thin rods: rigid bodies whose momentum has only the entries that carry inertia.

A rotation without inertia (any rotation of a particle, the one of a thin rod about its axis) is no motion of the body
(Lewis, The physical foundations of geometric mechanics, section 4.2). The momentum `p` is that of the other velocities
`w`, `u = iota w`, with orthonormal columns of `iota`. The pose stays a whole one, whose rotation is carried along
without ever spinning about a direction without inertia:

    qdot = T_eL_q(iota w),   pdot = iota^T (ad*_{iota w}(iota p) - T*_eL_q(dV(q)) + p6.f),   p6.e = iota w,   w = M^-1 p
"""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.ephs import Interface, Quantity, System, pattern, power_port
from jmbs.library.mechanics.body import LiePoisson, body_potential, momentum_quantity
from jmbs.library.mechanics.declared import CONSTANT, unit_and_rule
from jmbs.lie import SE3, AbstractGroup, Rn, dot


def reduced_momentum(group: AbstractGroup, size: int) -> Quantity:
    """The momentum of `size` entries of a body without some rotations, its pose in `group`."""
    return Quantity(Rn(size), f"reduced_momentum_{group.name}")


class Inclusion(eqx.Module):
    """The velocity of the whole body from the one that carries inertia: `p.e = iota p_red.e`.

    **Arguments:** `iota` (6, k), orthonormal columns, angular rows first; `group` of the pose, static.
    """

    iota: Float[Array, "6 k"] = eqx.field(metadata=CONSTANT)
    group: AbstractGroup = eqx.field(static=True, default=SE3)
    output: ClassVar[str] = "p"
    lawful_by_construction: ClassVar[bool] = True

    @property
    def ports(self) -> Interface:
        whole, reduced = momentum_quantity(self.group), reduced_momentum(self.group, self.iota.shape[-1])
        return {"p": power_port(whole.space, whole.name), "p_red": power_port(reduced.space, reduced.name)}

    def ratio(self, x) -> Float[Array, "6 k"]:
        del x
        return self.iota


class ReducedCoupling(eqx.Module):
    """Lossless coupling of the pose and the reduced momentum: `q.f = -iota p.e`, `p.f = iota^T q.e`.

    **Arguments:** as those of `Inclusion`.
    """

    iota: Float[Array, "6 k"] = eqx.field(metadata=CONSTANT)
    group: AbstractGroup = eqx.field(static=True, default=SE3)
    lawful_by_construction: ClassVar[bool] = True

    @property
    def ports(self) -> Interface:
        reduced = reduced_momentum(self.group, self.iota.shape[-1])
        return {"q": power_port(self.group, "pose"), "p": power_port(reduced.space, reduced.name)}

    def structure(self, x):
        n, k = self.iota.shape
        zero = lambda m: jnp.zeros((m, m), self.iota.dtype)  # noqa: E731
        return jnp.block([[zero(n), -self.iota], [self.iota.T, zero(k)]]), None


class ReducedKineticEnergy(eqx.Module):
    """Kinetic energy `|p_w|^2 / (2 moment) + |p_v|^2 / (2 mass)` of a rod, the second term alone for a particle.

    **Arguments:** `mass` kg; `moment` kg m^2, the rod's principal moment across its axis, None for a particle.
    """

    mass: Float[Array, ""] = eqx.field(metadata=unit_and_rule("kg", "positive number"))
    moment: Float[Array, ""] | None = eqx.field(metadata=unit_and_rule("kg m^2", "positive number"))
    group: AbstractGroup = eqx.field(static=True, default=SE3)
    lawful_by_construction: ClassVar[bool] = True

    @property
    def ports(self) -> Interface:
        quantity = reduced_momentum(self.group, 3 if self.moment is None else 5)
        return {"p": power_port(quantity.space, quantity.name)}

    def energy(self, x) -> Float[Array, ""]:
        angular, linear = x["p"][:-3], x["p"][-3:]
        translation = 0.5 * dot(linear, linear) / self.mass
        return translation if self.moment is None else translation + 0.5 * dot(angular, angular) / self.moment

    def state_from_effort(self, e) -> dict[str, Float[Array, " k"]]:
        """The momentum at a velocity."""
        angular, linear = e["p"][:-3], e["p"][-3:]
        return {"p": jnp.concatenate([angular if self.moment is None else self.moment * angular, self.mass * linear])}


class ReducedLiePoisson(eqx.Module):
    """Gyroscopic effects `p.f = -iota^T ad*_{iota w}(iota p)`; port `p`. **Arguments:** as those of `Inclusion`."""

    iota: Float[Array, "6 k"] = eqx.field(metadata=CONSTANT)
    group: AbstractGroup = eqx.field(static=True, default=SE3)
    lawful_by_construction: ClassVar[bool] = True

    @property
    def ports(self) -> Interface:
        reduced = reduced_momentum(self.group, self.iota.shape[-1])
        return {"p": power_port(reduced.space, reduced.name)}

    def structure(self, x):
        whole, _ = LiePoisson(self.group).structure({"p": self.iota @ x["p"]})
        return self.iota.T @ whole @ self.iota, None


def reduced_body(
    mass, moment, iota: Float[Array, "6 k"], gravity, group: AbstractGroup = SE3, law: Any = None
) -> System:
    """A particle or rod as a pattern of boxes `pe, pkc, ke, lp, in`, with outer ports `p` (power) and `q` (state).

    Port `p` is that of a rigid body, so that joints, loads and elements attach to it as to any other.

    **Arguments:** `mass` kg; `moment` kg m^2 of a rod, None for a particle; `iota` (6, k), k = 5 or 3; `gravity` (3,)
    m/s^2; `group` SE3 or SO3xR3; `law` as that of `rigid_body`.
    """
    boxes = {
        "pe": body_potential(mass, gravity, group, law),
        "pkc": ReducedCoupling(iota, group),
        "ke": ReducedKineticEnergy(mass, moment, group),
        "lp": ReducedLiePoisson(iota, group),
        "in": Inclusion(iota, group),
    }
    interconnection = pattern(
        {name: box.ports for name, box in boxes.items()},
        {"q": "pe.q pkc.q", "p_red": "pkc.p ke.p lp.p in.p_red", "p": "in.p"},
        outer={"p": "p", "q?": "q"},
    )
    return System(interconnection, boxes)
