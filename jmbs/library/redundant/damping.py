"""Damping of systems in redundant coordinates: a dissipative force as an Onsager structure that conserves energy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.ephs import ENTROPY, Interface, power_port
from jmbs.library.mechanics.friction import dissipation
from jmbs.library.redundant.components import Near, domain_near, evaluate, modulated
from jmbs.lie import Rn


class Damping(eqx.Module):
    """Dissipative forces `tau_d(zeta, w)` as an Onsager structure; ports `w`, `s` and the state `zeta`.

    **Arguments:**

    - `tau_d`: coefficients (n,) or a matrix (n, n), or a function of `(zeta, w)` with the force (n,) or a symmetric
      non-negative matrix `D` (n, n) for `tau_d = D w`; N and N m.
    - `is_force`: whether `tau_d` gives the force, static.
    - sizes, and `near`, static.
    """

    tau_d: Any
    is_force: bool = eqx.field(static=True)
    n_positions: int = eqx.field(static=True)
    n: int = eqx.field(static=True)
    near: Near = eqx.field(static=True, default=None)
    lawful_by_construction: ClassVar[bool] = True

    @property
    def ports(self) -> Interface:
        return {**modulated(self.n_positions, self.n), "s": power_port(Rn(1), ENTROPY)}

    @property
    def domain(self) -> dict[str, Any]:
        """See `domain_near`."""
        return domain_near(self.near)

    def onsager(self, x, e) -> Float[Array, "n+1 n+1"]:
        zeta, w = x["zeta"], e["w"]
        if self.is_force:
            D = damping_matrix(lambda w: evaluate(self.tau_d, (self.n,), zeta, w), w)
        elif callable(self.tau_d) or self.tau_d.ndim == 2:
            D = evaluate(self.tau_d, (self.n, self.n), zeta, w)
        else:
            D = jnp.diag(self.tau_d)
        return dissipation(D, w, e.temperature("s"))


def damping_matrix(force: Callable[[Array], Array], w: Float[Array, " n"]) -> Float[Array, "n n"]:
    """A symmetric matrix `D` with `D w = force(w)`: `tau tau^T / <tau | w>`, non-negative where power is lost.

    Where there is no power that quotient says nothing: while moving, another symmetric `D` with `D w = tau` takes its
    place (zero where the force is), and at rest the symmetric part of the force's derivative. So `D w` has the value
    and the derivative of the force everywhere, at rest too where that derivative is symmetric.
    """
    tau = force(w)
    power, square = tau @ w, w @ w
    lossy, moving = power > 0, square > 0
    rank_one = jnp.outer(tau, tau) / jnp.where(lossy, power, jnp.ones_like(power))
    square = jnp.where(moving, square, jnp.ones_like(square))
    crossed = jnp.outer(tau, w) / square
    idle = crossed + crossed.T - power / square**2 * jnp.outer(w, w)
    slope = jax.jacfwd(force)(jnp.zeros_like(w))
    return jnp.where(lossy, rank_one, jnp.where(moving, idle, 0.5 * (slope + slope.T)))
