"""Linear relations between coordinates of any number of joints: wrist differentials, planetary gears, coupled tendons.

    sum_k c_k q_k = offset:      0 = -sum_k c_k u_k,    f_k = c_k lambda

Rows are negative velocities, as those of other constraints, so the multiplier times a joint's coefficient is the
generalised force on its coordinate. `Gear` is the one of two joints that is given by a ratio.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.ephs import Interface, power_port
from jmbs.library.mechanics.body import relative_momentum
from jmbs.library.mechanics.declared import unit_and_rule
from jmbs.lie import Rn


class JointRelation(eqx.Module):
    """One row between the velocities of joints; power ports `p_1`, `p_2`, ..., one for each joint.

    **Arguments:** `coefficients` of all coordinates of all joints, one after the other (in units that make the terms
    alike), and `offset`, what their sum is at position level; static: how many coordinates each joint has, `sizes`.
    """

    coefficients: Float[Array, " n"] = eqx.field(metadata=unit_and_rule("1, rad/m or m/rad", "coefficients"))
    offset: Float[Array, ""] = eqx.field(metadata=unit_and_rule("rad or m", "number"))
    sizes: tuple[int, ...] = eqx.field(static=True)
    lawful_by_construction: ClassVar[bool] = True
    measured_at: ClassVar[int] = 0
    """The end in whose unit the offset is, and the force that belongs to it the multiplier."""

    @property
    def ports(self) -> Interface:
        momenta = [relative_momentum(Rn(size)) for size in self.sizes]
        return {f"p_{i}": power_port(momentum.space, momentum.name) for i, momentum in enumerate(momenta, 1)}

    @property
    def ends(self) -> tuple[tuple[int, int], ...]:
        """The coordinates that are bound: number of the joint, among the ports, and of its coordinate."""
        return tuple((joint, number) for joint, size in enumerate(self.sizes) for number in range(size))

    def structure(self, x):
        del x
        return None, -self.coefficients[None]

    def rate(self, ends: Sequence[Float[Array, "*m"]]) -> Float[Array, "*m"]:
        """The row, from the velocities of all coordinates; of coordinates, what the offset is missing in it."""
        return -jnp.tensordot(self.coefficients, jnp.stack(ends), axes=1)
