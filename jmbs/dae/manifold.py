"""The manifold that is integrated: a DAE's state blocks and, beside them, the integrals of the energy account."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

ACCOUNT = ("supplied", "dissipated", "entropy", "projection_work")
"""First entries of the account, J and J/K; then follows the entropy that each irreversible component produced."""


class StateManifold(eqx.Module):
    """Elements `(x, account)`; tangents are flat vectors `(n_stored + len(account),)`, left-trivialised.

    **Arguments:** `blocks`: static, with `space`, `junctions`, `slots` each (see `jmbs.ephs.plan.Block`).
    """

    blocks: tuple[Any, ...] = eqx.field(static=True)
    n_stored: int = eqx.field(static=True)

    def _blockwise(self, tangent: Float[Array, " n"]) -> list[Array]:
        return [tangent[b.slots].reshape(len(b.junctions), b.space.dim) for b in self.blocks]

    @eqx.filter_jit
    def retract(self, y, step):
        """`x exp(step)` block by block; the account is added to."""
        x, account = y
        move = lambda space: lambda q, xi: space.compose(q, space.exp(xi))  # noqa: E731
        moved = (jax.vmap(move(b.space))(q, v) for b, q, v in zip(self.blocks, x, self._blockwise(step), strict=True))
        return tuple(moved), account + step[self.n_stored :]

    @eqx.filter_jit
    def lift(self, y, velocity):
        """Ambient tangents, in the shapes of the state."""
        x, _ = y
        parts = self._blockwise(velocity)
        lifted = (jax.vmap(b.space.lift)(q, v) for b, q, v in zip(self.blocks, x, parts, strict=True))
        return tuple(lifted), velocity[self.n_stored :]

    @eqx.filter_jit
    def dexp_inv(self, step, velocity):
        """`dexp^-1_step(velocity)`, block by block."""
        pairs = zip(self.blocks, self._blockwise(step), self._blockwise(velocity), strict=True)
        parts = [jax.vmap(b.space.dexp_inv)(xi, v).ravel() for b, xi, v in pairs]
        return jnp.concatenate([*parts, velocity[self.n_stored :]])

    def zero(self, y):
        """The zero tangent in the state's dtype."""
        _, account = y
        return jnp.zeros(self.n_stored + account.shape[0], account.dtype)
