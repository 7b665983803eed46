"""Trees that nothing beside their own joints constrains.

M(q) dv + b(q, v) = forces
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.rigid_body import TreeMotion, forward_dynamics
from jmbs.tree.acting import Acting
from jmbs.tree.couplings import row_residuals
from jmbs.tree.joint_tree import AbstractJointTree
from jmbs.tree.tree_dae import Own


class OpenTree(AbstractJointTree):
    """See the module."""

    def joint_rows(self, y: Own) -> tuple[Float[Array, " 0"], Float[Array, " 0"]]:
        """See `AbstractJointTree`; there are none."""
        del y
        return jnp.zeros(0, self.dtype), jnp.zeros(0, self.dtype)

    def accelerations(self, y: Own, given: Acting, drift: Float[Array, " 0"]) -> tuple[Array, Array]:
        """See `AbstractJointTree`."""
        tree, elements = self.layout.tree, self.elements(y)
        forces, loads = given.forces, given.loads
        dv = forward_dynamics(tree, self.links, elements, y[-1][0], forces, loads, self.forward_only)
        return dv, jnp.zeros_like(drift)

    def residuals(self, t, y: Own, motion: TreeMotion | None = None) -> tuple[Array, Array]:
        """See `TreeDAE`."""
        return row_residuals(self, t, y, motion)

    def projected(self, t, y: Own) -> Own:
        """See `TreeDAE`."""
        del t
        return y
