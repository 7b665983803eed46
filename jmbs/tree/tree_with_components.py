"""Trees on which other components act, and which nothing beside the tree constrains."""

from __future__ import annotations

from jaxtyping import Array, Float

from jmbs.rigid_body import TreeMotion, forward_dynamics
from jmbs.tree.couplings import acting, all_forces, row_residuals
from jmbs.tree.tree_dae import Own, TreeDAE, TreeRates


class TreeWithComponents(TreeDAE):
    """Springs between points, loads, motors, whatever acts on bodies or joints and has states of its own."""

    def rates(self, t, y: Own, stabilisation: Array | None = None) -> TreeRates:
        """See `TreeDAE`; there are no rows to stabilise."""
        del stabilisation
        given, v = acting(self, t, y), y[-1][0]
        tree, elements = self.layout.tree, self.elements(y)
        dv = forward_dynamics(tree, self.links, elements, v, given.forces, given.loads, self.forward_only)
        return TreeRates(self.velocity(v, dv, given.production, given.kept), given.power, dv)

    def forces(self, t, y: Own) -> tuple[Float[Array, " n_v"], Float[Array, "bodies 6"]]:
        """See `TreeDAE`."""
        return all_forces(self, t, y)

    def residuals(self, t, y: Own, motion: TreeMotion | None = None) -> tuple[Array, Array]:
        """See `TreeDAE`."""
        return row_residuals(self, t, y, motion)

    def projected(self, t, y: Own) -> Own:
        """See `TreeDAE`."""
        del t
        return y
