"""The boxes of a system in redundant coordinates: energies, kinematics, gyroscopic forces, constraints, ports.

zetadot = Z(zeta) w,   Gammadot = -Z^T dV - Z^T c'^T lambda - G(Gamma) w - A^T mu - tau_d + B F,   Gamma = M w

User data (`Z`, `G`, ...) are arrays, equinox modules, or plain functions wrapped in `Function`; see `evaluate`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.ephs import Interface, Quantity, power_port, state_port
from jmbs.lie import Rn
from jmbs.linear import solve_definite

Directions = tuple[tuple[float, ...], ...]


def positions(n: int) -> Quantity:
    """The quantity of the coordinates `zeta` in R^n."""
    return Quantity(Rn(n), "redundant_position")


def momenta(n: int) -> Quantity:
    """The quantity of the momenta `Gamma` in R^n, dual to the velocities `w`."""
    return Quantity(Rn(n), "redundant_momentum")


class Function(eqx.Module):
    """A plain python function as a module without arrays."""

    function: Callable = eqx.field(static=True)

    def __call__(self, *arguments: Array) -> Any:
        return self.function(*arguments)


def evaluate(data: Any, shape: tuple[int, ...], *arguments: Array) -> Array:
    """User data at its arguments, or as they are if constant; in the arguments' dtype."""
    value = data(*arguments) if callable(data) else data
    return jnp.asarray(value, arguments[0].dtype).reshape(shape)


Near = tuple[float, ...] | None
"""Coordinates near which functions of them have meaning; None: everywhere."""
SPREAD = 0.1
"""How far from there they are sampled."""


def domain_near(near: Near) -> dict[str, Any]:
    """The domain of a component at whose port `zeta` functions have meaning near these coordinates only."""
    if near is None:
        return {}
    return {"zeta.x": ([at - SPREAD for at in near], [at + SPREAD for at in near])}


class PotentialEnergy(eqx.Module):
    """Stored energy `V(zeta)` in J; port `zeta`."""

    V: Any
    n: int = eqx.field(static=True)
    lawful_by_construction: ClassVar[bool] = True

    @property
    def ports(self) -> Interface:
        return {"zeta": power_port(Rn(self.n), positions(self.n).name)}

    def energy(self, x) -> Float[Array, ""]:
        return evaluate(self.V, (), x["zeta"])


class NoPotentialEnergy(eqx.Module):
    """Holds the coordinates without storing energy: the place of `PotentialEnergy` where there is none."""

    n: int = eqx.field(static=True)
    lawful_by_construction: ClassVar[bool] = True
    stores_nothing: ClassVar[bool] = True

    @property
    def ports(self) -> Interface:
        return {"zeta": power_port(Rn(self.n), positions(self.n).name)}

    def energy(self, x) -> Float[Array, ""]:
        return jnp.zeros((), x["zeta"].dtype)


class QuadraticKineticEnergy(eqx.Module):
    """Stored energy `1/2 <p | M^-1 p>`; port `p`. **Arguments:** `M` (r, r) symmetric positive, kg, kg m, kg m^2."""

    M: Float[Array, "r r"] | np.ndarray
    n: int = eqx.field(static=True)
    lawful_by_construction: ClassVar[bool] = True

    @property
    def ports(self) -> Interface:
        return {"p": power_port(Rn(self.n), momenta(self.n).name)}

    def energy(self, x) -> Float[Array, ""]:
        return 0.5 * x["p"] @ solve_definite(jnp.asarray(self.M), x["p"][:, None])[:, 0]

    def state_from_effort(self, e) -> dict[str, Array]:
        """The momentum at a velocity."""
        return {"p": self.M @ e["p"]}


class MassiveVelocity(eqx.Module):
    """The part of the velocities that carries mass: `p.e = U^T w.e`, for a singular mass matrix `U M_r U^T`.

    Both sides being efforts that others fix, this is a constraint row; its multiplier is the inertia force.

    **Arguments:** `directions`: the rows of `U` (n, r), static.
    """

    directions: Directions = eqx.field(static=True)
    output: ClassVar[str] = "p"
    lawful_by_construction: ClassVar[bool] = True

    @property
    def ports(self) -> Interface:
        n, r = np.shape(self.directions)
        return {"w": power_port(Rn(n), momenta(n).name), "p": power_port(Rn(r), momenta(r).name)}

    def ratio(self, x) -> Float[Array, "r n"]:
        del x
        return jnp.asarray(np.transpose(self.directions))


class Kinematics(eqx.Module):
    """Lossless coupling `zeta.f = -Z w.e`, `w.f = Z^T zeta.e`; with a `c` also the constraint `0 = c'(zeta) Z w.e`.

    **Arguments:** `Z` (n_positions, n); `c` (n_constraints,) or None; sizes and `near` static.
    """

    Z: Any
    c: Any
    n_positions: int = eqx.field(static=True)
    n: int = eqx.field(static=True)
    n_constraints: int = eqx.field(static=True, default=0)
    near: Near = eqx.field(static=True, default=None)
    lawful_by_construction: ClassVar[bool] = True

    @property
    def ports(self) -> Interface:
        return {
            "zeta": power_port(Rn(self.n_positions), positions(self.n_positions).name),
            "w": power_port(Rn(self.n), momenta(self.n).name),
        }

    @property
    def domain(self) -> dict[str, Any]:
        """See `domain_near`."""
        return domain_near(self.near)

    def gap(self, zeta: Float[Array, " n_positions"]) -> Float[Array, " n_constraints"]:
        """`c(zeta)`."""
        return evaluate(self.c, (self.n_constraints,), zeta)

    def structure(self, x):
        zeta = x["zeta"]
        Z = evaluate(self.Z, (self.n_positions, self.n), zeta)
        zero = lambda rows, columns: jnp.zeros((rows, columns), zeta.dtype)  # noqa: E731
        J = jnp.block([[zero(self.n_positions, self.n_positions), -Z], [Z.T, zero(self.n, self.n)]])
        if self.c is None:
            return J, None
        return J, jnp.concatenate([zero(self.n_constraints, self.n_positions), jax.jacfwd(self.gap)(zeta) @ Z], axis=1)


def position_gap(parts, states) -> Float[Array, " n_constraints"]:
    """The error of the closure `c(zeta) = 0`; parts: the kinematics, states: `zeta`."""
    return parts[0].gap(states[0])


class GyroscopicForces(eqx.Module):
    """Power-conserving forces `w.f = G(Gamma) w.e`, `G` skew; ports `w` and the state `p`, `Gamma = U p`.

    **Arguments:** `G` (n, n); `directions`: the rows of `U`, static.
    """

    G: Any
    directions: Directions = eqx.field(static=True)
    lawful_by_construction: ClassVar[bool] = True

    @property
    def ports(self) -> Interface:
        n, r = np.shape(self.directions)
        return {"w": power_port(Rn(n), momenta(n).name), "p": state_port(Rn(r), momenta(r).name)}

    def structure(self, x):
        n = len(self.directions)
        return evaluate(self.G, (n, n), jnp.asarray(self.directions, x["p"].dtype) @ x["p"]), None


class VelocityConstraint(eqx.Module):
    """Constraint rows `0 = A(zeta) w.e`; ports `w` and the state `zeta`.

    **Arguments:** `A` (m, n); sizes and `near` static.
    """

    A: Any
    n_rows: int = eqx.field(static=True)
    n_positions: int = eqx.field(static=True)
    n: int = eqx.field(static=True)
    near: Near = eqx.field(static=True, default=None)
    lawful_by_construction: ClassVar[bool] = True

    @property
    def ports(self) -> Interface:
        return modulated(self.n_positions, self.n)

    @property
    def domain(self) -> dict[str, Any]:
        """See `domain_near`."""
        return domain_near(self.near)

    def structure(self, x):
        return None, evaluate(self.A, (self.n_rows, self.n), x["zeta"])


class ExternalVelocity(eqx.Module):
    """An external port `ext.e = B(zeta)^T w.e`; ports `w`, the state `zeta`, and `ext`.

    **Arguments:** `B` (n, m); `quantity` of the port, sizes and `near`, static; `X`: the port's position (m,), a
    function of `zeta` whose rate the velocity is, or None.
    """

    B: Any
    quantity: Quantity = eqx.field(static=True)
    n_positions: int = eqx.field(static=True)
    n: int = eqx.field(static=True)
    near: Near = eqx.field(static=True, default=None)
    X: Any = None
    output: ClassVar[str] = "ext"
    output_units: ClassVar[dict[str, str]] = {"velocity": "m/s or rad/s"}
    lawful_by_construction: ClassVar[bool] = True

    @property
    def ports(self) -> Interface:
        return {**modulated(self.n_positions, self.n), "ext": power_port(self.quantity.space, self.quantity.name)}

    @property
    def domain(self) -> dict[str, Any]:
        """See `domain_near`."""
        return domain_near(self.near)

    def ratio(self, x) -> Float[Array, "m n"]:
        return evaluate(self.B, (self.n, self.quantity.space.dim), x["zeta"]).T

    @property
    def output_position(self) -> Callable | None:
        """Where the port is, of states by port; None where that is not known."""
        return None if self.X is None else lambda x: evaluate(self.X, (self.quantity.space.dim,), x["zeta"])

    def outputs(self, x, e) -> dict[str, Array]:
        """The velocity of the port."""
        del x
        return {"velocity": e["ext"]}


class CoordinateDomain(eqx.Module):
    """Says where the coordinates are regular; exchanges nothing. Port: the state `zeta`.

    **Arguments:** `function`: positive inside the domain, of order one, zero at its edge (gimbal lock: `cos(beta)`).
    """

    function: Any
    n_positions: int = eqx.field(static=True)
    lawful_by_construction: ClassVar[bool] = True

    @property
    def ports(self) -> Interface:
        return {"zeta": state_port(Rn(self.n_positions), positions(self.n_positions).name)}

    def structure(self, x):
        del x
        return None, None

    def regularity(self, x) -> Float[Array, ""]:
        return evaluate(self.function, (), x["zeta"])


def modulated(n_positions: int, n: int) -> Interface:
    """The ports of a box that acts on the velocities and looks at the coordinates."""
    return {
        "w": power_port(Rn(n), momenta(n).name),
        "zeta": state_port(Rn(n_positions), positions(n_positions).name),
    }
