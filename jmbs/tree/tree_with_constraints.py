"""Trees with constraints of any kind beside them, and with components that act on bodies or joints."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.rigid_body import TreeMotion
from jmbs.tree.constrained_rates import coupled_rates
from jmbs.tree.couplings import all_forces, row_residuals
from jmbs.tree.projection import coupled_projection
from jmbs.tree.tree_dae import Own, TreeDAE, TreeRates


class TreeWithConstraints(TreeDAE):
    """The general case; see the module."""

    def rates(self, t, y: Own, stabilisation: Array | None = None) -> TreeRates:
        """See `TreeDAE`."""
        return coupled_rates(self, jnp.asarray(t, self.dtype), y, stabilisation)

    def forces(self, t, y: Own) -> tuple[Float[Array, " n_v"], Float[Array, "bodies 6"]]:
        """See `TreeDAE`."""
        return all_forces(self, t, y)

    def residuals(self, t, y: Own, motion: TreeMotion | None = None) -> tuple[Array, Array]:
        """See `TreeDAE`."""
        return row_residuals(self, t, y, motion)

    def projected(self, t, y: Own) -> Own:
        """See `TreeDAE`."""
        return coupled_projection(self, t, y)
