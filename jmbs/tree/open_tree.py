"""Trees of bodies and joints on which nothing acts but forces of time, and springs and friction in the joints.

M(q) dv + b(q, v) = forces
"""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.arrays import total
from jmbs.ephs import Power
from jmbs.jaxext import entries_at
from jmbs.rigid_body import TreeMotion, forward_dynamics
from jmbs.tree.couplings import row_residuals
from jmbs.tree.tree_dae import Own, TreeDAE, TreeRates


class OpenTree(TreeDAE):
    """A tree without anything beside it; see the module."""

    def rates(self, t, y: Own, stabilisation: Array | None = None) -> TreeRates:
        """See `TreeDAE`; there are no rows to stabilise."""
        del stabilisation

        def free(forces: Array) -> tuple[Array, Array]:
            tree, elements = self.layout.tree, self.elements(y)
            dv = forward_dynamics(tree, self.links, elements, y[-1][0], forces, None, self.forward_only)
            return dv, jnp.zeros((), self.dtype)

        return rates_of_tree(self, t, y, free)

    def forces(self, t, y: Own) -> tuple[Float[Array, " n_v"], None]:
        """See `TreeDAE`."""
        return self.own_forces(t, y)[0], None

    def residuals(self, t, y: Own, motion: TreeMotion | None = None) -> tuple[Array, Array]:
        """See `TreeDAE`."""
        return row_residuals(self, t, y, motion)

    def projected(self, t, y: Own) -> Own:
        """See `TreeDAE`."""
        del t
        return y


def rates_of_tree(dae: TreeDAE, t, y: Own, accelerations: Callable[[Array], tuple[Array, Array]]) -> TreeRates:
    """The rates of a tree whose bodies and joints nothing but simple forces act on.

    **Arguments:** `accelerations`: a function of generalised forces for the rates of velocities, and for the power of
    multipliers, W.
    """
    layout, v = dae.layout, y[-1][0]
    forces, production, (supplied, dissipated) = dae.own_forces(jnp.asarray(t, dae.dtype), y)
    dv, work = accelerations(forces)
    velocity = dae.velocity(v, dv, production, jnp.zeros(len(layout.kept_slots), dae.dtype))
    whole = entries_at(production, layout.production_source)
    return TreeRates(velocity, Power(supplied, dissipated, total(whole), work, whole), dv)
