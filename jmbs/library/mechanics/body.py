"""The rigid body: storage of potential and kinetic energy, their coupling, and the gyroscopic (Lie-Poisson) structure.

qdot = T_eL_q(u),   pdot = ad*_u(p) - T*_eL_q(dV(q)) + p.f,   p.e = u = M^-1 p
"""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.ephs import Interface, Quantity, System, pattern, power_port
from jmbs.library.mechanics.declared import unit_and_rule
from jmbs.lie import SE3, AbstractGroup, Rn, cross, dot


def momentum_quantity(group: AbstractGroup) -> Quantity:
    """Momentum dual to the velocity of a pose group; momenta of different groups do not meet at a junction."""
    return Quantity(Rn(group.dim), f"momentum_{group.name}")


def relative_momentum(group: AbstractGroup) -> Quantity:
    """The momentum conjugate to a joint's velocity `u_r`."""
    return Quantity(Rn(group.dim), f"relative_momentum_{group.name}")


class Gravity(eqx.Module):
    """Potential energy `V = -m <g | r>` of a body in uniform gravity; port `q`, its pose.

    **Arguments:** `mass` kg; `gravity` (3,) m/s^2 in world axes; `group` of the pose, static.
    """

    mass: Float[Array, ""] = eqx.field(metadata=unit_and_rule("kg", "positive number"))
    gravity: Float[Array, "3"] = eqx.field(metadata=unit_and_rule("m/s^2", "numbers", "m/s^2"))
    group: AbstractGroup = eqx.field(static=True, default=SE3)
    lawful_by_construction: ClassVar[bool] = True

    @property
    def ports(self) -> Interface:
        return {"q": power_port(self.group, "pose")}

    def energy(self, x) -> Float[Array, ""]:
        return -self.mass * dot(self.gravity, x["q"][:, 3])


class BodyPotential(eqx.Module):
    """Weight and potential energy by a user's law, `V = -m <g | r> + law.energy(pose)` in J; port `q`, the body's pose.

    **Arguments:** as those of `Gravity`, and `law`: a module with `energy`, of the pose `[R | r]` (3, 4).
    """

    mass: Float[Array, ""] = eqx.field(metadata=unit_and_rule("kg", "positive number"))
    gravity: Float[Array, "3"] = eqx.field(metadata=unit_and_rule("m/s^2", "numbers", "m/s^2"))
    law: Any
    group: AbstractGroup = eqx.field(static=True, default=SE3)

    @property
    def ports(self) -> Interface:
        return {"q": power_port(self.group, "pose")}

    def energy(self, x) -> Float[Array, ""]:
        weight = Gravity(self.mass, self.gravity, self.group)
        return weight.energy(x) + jnp.reshape(self.law.energy(x["q"]), ())


def body_potential(mass, gravity, group: AbstractGroup = SE3, law: Any = None) -> Gravity | BodyPotential:
    """What a body's pose stores energy in: weight, and a user's law if one is given."""
    return Gravity(mass, gravity, group) if law is None else BodyPotential(mass, gravity, law, group)


class KineticEnergy(eqx.Module):
    """Kinetic energy `1/2 <p | M^-1 p>`, `M = diag(inertia, mass)`; port `p`, momentum (angular first).

    About the centre of mass, so that `M` is constant on SE(3) (body axes) and on SO(3)xR3 (world axes below) alike.

    **Arguments:** `mass` kg; `inertia` (3, 3) kg m^2 about the centre of mass in body axes.
    """

    mass: Float[Array, ""] = eqx.field(metadata=unit_and_rule("kg", "positive number"))
    inertia: Float[Array, "3 3"] = eqx.field(metadata=unit_and_rule("kg m^2", "inertia"))
    group: AbstractGroup = eqx.field(static=True, default=SE3)
    lawful_by_construction: ClassVar[bool] = True

    @property
    def ports(self) -> Interface:
        quantity = momentum_quantity(self.group)
        return {"p": power_port(quantity.space, quantity.name)}

    def energy(self, x) -> Float[Array, ""]:
        p = x["p"]
        return 0.5 * (dot(p[:3], solve_symmetric_3x3(self.inertia, p[:3])) + dot(p[3:], p[3:]) / self.mass)

    def state_from_effort(self, e) -> dict[str, Float[Array, "6"]]:
        """The momentum at a velocity: `p = M u`."""
        u = e["p"]
        return {"p": jnp.concatenate([self.inertia @ u[:3], self.mass * u[3:]])}


def solve_symmetric_3x3(matrix: Float[Array, "3 3"], rhs: Float[Array, "3"]) -> Float[Array, "3"]:
    """`matrix^-1 rhs` by cofactors, which compilers fuse; the trace is not zero."""
    # In units of its own, so that products of three moments of a grain of sand do not underflow in float32.
    unit = matrix[0, 0] + matrix[1, 1] + matrix[2, 2]
    a, b, c = matrix[0] / unit, matrix[1] / unit, matrix[2] / unit
    bc = cross(b, c)
    cofactors = jnp.stack([dot(bc, rhs), dot(cross(c, a), rhs), dot(cross(a, b), rhs)])
    return cofactors / (dot(a, bc) * unit)


class PotentialKineticCoupling(eqx.Module):
    """Lossless coupling of a configuration `q` and its momentum `p`: `q.f = -p.e`, `p.f = q.e`, left-trivialised."""

    configuration: Quantity = eqx.field(static=True)
    momentum: Quantity = eqx.field(static=True)
    names: tuple[str, str] = eqx.field(static=True, default=("q", "p"))
    lawful_by_construction: ClassVar[bool] = True

    @property
    def ports(self) -> Interface:
        q, p = self.names
        return {
            q: power_port(self.configuration.space, self.configuration.name),
            p: power_port(self.momentum.space, self.momentum.name),
        }

    def structure(self, x):
        # [[0, -1], [1, 0]], of blocks.
        return jnp.asarray(np.kron([[0, -1], [1, 0]], np.eye(self.configuration.space.dim)), _dtype(x)), None


class LiePoisson(eqx.Module):
    """Gyroscopic effects `p.f = -ad*_u(p)`; port `p`."""

    group: AbstractGroup = eqx.field(static=True, default=SE3)
    lawful_by_construction: ClassVar[bool] = True

    @property
    def ports(self) -> Interface:
        quantity = momentum_quantity(self.group)
        return {"p": power_port(quantity.space, quantity.name)}

    def structure(self, x):
        p = x["p"]
        basis = jnp.eye(self.group.dim, dtype=p.dtype)
        return -jax.vmap(lambda u: self.group.ad_dual(u, p), out_axes=1)(basis), None


def rigid_body(mass, inertia, gravity, group: AbstractGroup = SE3, law: Any = None) -> System:
    """The rigid body as a pattern of boxes `pe, pkc, ke, lp`, with outer ports `p` (power) and `q` (state).

    **Arguments:** `mass` kg, `inertia` (3, 3) kg m^2 about the centre of mass in body axes, `gravity` (3,) m/s^2,
    `group` SE3 or SO3xR3; `law`: a potential energy of its own, a module with `energy(pose)`.
    """
    boxes = {
        "pe": body_potential(mass, gravity, group, law),
        "pkc": PotentialKineticCoupling(Quantity(group, "pose"), momentum_quantity(group)),
        "ke": KineticEnergy(mass, inertia, group),
        "lp": LiePoisson(group),
    }
    interconnection = pattern(
        {name: box.ports for name, box in boxes.items()},
        {"q": "pe.q pkc.q", "p": "pkc.p ke.p lp.p"},
        outer={"p": "p", "q?": "q"},
    )
    return System(interconnection, boxes)


def _dtype(x):
    return next(iter(x.values())).dtype if x else None
