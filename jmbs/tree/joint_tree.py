"""Trees beyond whose own joints nothing is constrained, or gears and loop joints alone: the right-hand side of all.

    M(q) dv + b(q, v) = forces - J^T mu,      d/dt r = 0,      r = J v

What acts is found in `acting.py`; how rows are kept is what makes them one class or another (`tree_of.py`).
"""

from __future__ import annotations

import abc

import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.arrays import total
from jmbs.tree.acting import Acting, acting
from jmbs.tree.couplings import all_forces
from jmbs.tree.tree_dae import Own, TreeDAE, TreeRates


class AbstractJointTree(TreeDAE):
    """What they have in common."""

    @abc.abstractmethod
    def joint_rows(self, y: Own) -> tuple[Float[Array, " k"], Float[Array, " m"]]:
        """The rates of loop joints, and the rows `r` of these and of gears."""

    @abc.abstractmethod
    def accelerations(self, y: Own, given: Acting, drift: Float[Array, " m"]) -> tuple[Array, Array]:
        """Rates `(n_v,)` of the tree's velocities, and multipliers `(m,)`; `drift` is added to the rows' derivative."""

    def rates(self, t, y: Own, stabilisation: Array | None = None) -> TreeRates:
        """See `TreeDAE`."""
        rates, rows = self.joint_rows(y)
        given = acting(self, t, y, rates)
        drift = jnp.zeros_like(rows) if stabilisation is None else stabilisation
        dv, multipliers = self.accelerations(y, given, drift)
        power = given.power._replace(constraint=-total(multipliers * rows)) if rows.size else given.power
        return TreeRates(self.velocity(y[-1][0], dv, given.production, given.kept), power, dv)

    def forces(self, t, y: Own) -> tuple[Float[Array, " n_v"], Float[Array, "bodies 6"] | None]:
        """See `TreeDAE`."""
        if self.alone is not None and not self.layout.loops:
            return self.own_forces(t, y)[0], None
        return all_forces(self, t, y)
