"""Trees that gears alone constrain, by constant rows between velocities.

    M(q) dv + b(q, v) = forces - J^T mu,      J dv = 0,      J dv of one by ratio = ratio dv_driver - dv_joint

Solved in `jmbs.constraints.bound_dynamics`.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.constraints import BindingRows, bound_dynamics, bound_impulse
from jmbs.rigid_body import TreeMotion
from jmbs.tree.acting import Acting
from jmbs.tree.couplings import row_residuals
from jmbs.tree.friction import no_production
from jmbs.tree.gears import gear_gaps, gear_matrix, gear_rates
from jmbs.tree.joint_tree import AbstractJointTree
from jmbs.tree.tree_dae import Own


class TreeWithGears(AbstractJointTree):
    """See the module."""

    def joint_rows(self, y: Own) -> tuple[Float[Array, " 0"], Float[Array, " m"]]:
        """See `AbstractJointTree`."""
        return jnp.zeros(0, self.dtype), gear_rates(self, y[-1][0])

    def accelerations(self, y: Own, given: Acting, drift: Float[Array, " m"]) -> tuple[Array, Array]:
        """See `AbstractJointTree`."""
        tree, elements, rows = self.layout.tree, self.elements(y), BindingRows(gear_matrix(self), drift)
        forces, loads = given.forces, given.loads
        return bound_dynamics(tree, self.links, elements, y[-1][0], forces, rows, loads, self.forward_only)

    def residuals(self, t, y: Own, motion: TreeMotion | None = None) -> tuple[Array, Array]:
        """See `TreeDAE`."""
        return row_residuals(self, t, y, motion)

    def projected(self, t, y: Own) -> Own:
        """See `TreeDAE`; one step, since gears bind coordinates as they bind velocities."""
        del t
        tree, elements, J = self.layout.tree, self.elements(y), gear_matrix(self)

        def corrected(violation: Float[Array, " m"]) -> Float[Array, " n_v"]:
            return bound_impulse(tree, self.links, elements, BindingRows(J, violation), self.forward_only)

        step, change = jax.vmap(corrected)(jnp.stack([gear_gaps(self, y), gear_rates(self, y[-1][0])]))
        none, kept = no_production(self.layout.friction, self.dtype), jnp.zeros(len(self.layout.kept_slots), self.dtype)
        return self.retract(y, self.velocity(step, change, none, kept))
