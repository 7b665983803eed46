"""The manifold that is integrated: a DAE's state blocks and, beside them, the integrals of the energy account."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from jmbs.lie import dexp_inv_blocks, lift_blocks, retract_blocks

ACCOUNT = ("supplied", "dissipated", "entropy", "projection_work")
"""First entries of the account, J and J/K; then follows the entropy that each irreversible component produced."""


class StateManifold(eqx.Module):
    """Elements `(x, account)`; tangents are flat vectors `(n_stored + len(account),)`, left-trivialised.

    **Arguments:** `blocks`: static, with `space`, `junctions`, `slots` each (see `jmbs.ephs.plan.Block`).
    """

    blocks: tuple[Any, ...] = eqx.field(static=True)
    n_stored: int = eqx.field(static=True)

    @eqx.filter_jit
    def retract(self, y, step):
        """`x exp(step)` block by block; the account is added to."""
        x, account = y
        return retract_blocks(self.blocks, x, step), account + step[self.n_stored :]

    @eqx.filter_jit
    def lift(self, y, velocity):
        """Ambient tangents, in the shapes of the state."""
        x, _ = y
        return lift_blocks(self.blocks, x, velocity), velocity[self.n_stored :]

    @eqx.filter_jit
    def dexp_inv(self, step, velocity):
        """`dexp^-1_step(velocity)`, block by block."""
        parts = dexp_inv_blocks(self.blocks, step, velocity)
        return jnp.concatenate([*(part.ravel() for part in parts), velocity[self.n_stored :]])

    def zero(self, y):
        """The zero tangent in the state's dtype."""
        _, account = y
        return jnp.zeros(self.n_stored + account.shape[0], account.dtype)
