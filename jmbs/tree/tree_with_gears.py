"""Trees that gears alone constrain, by constant rows between velocities; with or without other components that act on
them.

    M(q) dv + b(q, v) = forces - J^T mu,      J dv = 0,      J dv of one by ratio = ratio dv_driver - dv_joint

Solved in `jmbs.constraints.bound_dynamics`.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.arrays import total
from jmbs.constraints import BindingRows, bound_dynamics, bound_impulse
from jmbs.rigid_body import TreeMotion
from jmbs.tree.couplings import acting, all_forces, row_residuals
from jmbs.tree.friction import no_production
from jmbs.tree.gears import gear_gaps, gear_matrix, gear_rates
from jmbs.tree.open_tree import rates_of_tree
from jmbs.tree.tree_dae import Own, TreeDAE, TreeRates


class AbstractTreeWithGears(TreeDAE):
    """What both have in common."""

    def forces(self, t, y: Own) -> tuple[Float[Array, " n_v"], Float[Array, "bodies 6"]]:
        """See `TreeDAE`."""
        return all_forces(self, t, y)

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


class TreeWithGears(AbstractTreeWithGears):
    """A tree with gears on which nothing acts but forces of time, and springs and friction of its joints."""

    def rates(self, t, y: Own, stabilisation: Array | None = None) -> TreeRates:
        """See `TreeDAE`."""
        return rates_of_tree(self, t, y, lambda forces: _bound(self, y, forces, None, stabilisation))


class TreeWithGearsAndComponents(AbstractTreeWithGears):
    """The same where other components act on bodies or joints, or have states of their own."""

    def rates(self, t, y: Own, stabilisation: Array | None = None) -> TreeRates:
        """See `TreeDAE`."""
        given = acting(self, t, y)
        dv, work = _bound(self, y, given.forces, given.loads, stabilisation)
        velocity = self.velocity(y[-1][0], dv, given.production, given.kept)
        return TreeRates(velocity, given.power._replace(constraint=work), dv)


def _bound(
    dae: AbstractTreeWithGears,
    y: Own,
    forces: Float[Array, " n_v"],
    loads: Float[Array, "bodies 6"] | None,
    stabilisation: Array | None,
) -> tuple[Float[Array, " n_v"], Float[Array, ""]]:
    """Accelerations, and the power of multipliers, W."""
    v, elements = y[-1][0], dae.elements(y)
    violation = gear_rates(dae, v)
    rows = BindingRows(gear_matrix(dae), jnp.zeros_like(violation) if stabilisation is None else stabilisation)
    dv, multipliers = bound_dynamics(dae.layout.tree, dae.links, elements, v, forces, rows, loads, dae.forward_only)
    return dv, -total(multipliers * violation)
