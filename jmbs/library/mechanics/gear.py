"""Gears: one coordinate of a joint follows one of another joint, `q = ratio q_driver + offset`.

    0 = ratio u_driver - u,    f = lambda on the joint,  -ratio lambda on its driver

Rows are negative velocities, as those of other constraints, so the multiplier is the generalised force on the joint.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.ephs import Closure, Interface, power_port
from jmbs.library.mechanics.body import relative_momentum
from jmbs.library.mechanics.declared import unit_and_rule
from jmbs.library.mechanics.gear_specification import UNITS
from jmbs.library.mechanics.velocity_constraints import negative
from jmbs.lie import Rn


class Gear(eqx.Module):
    """One row between the velocities of two joints; power ports `p_driver` and `p_joint`.

    **Arguments:** `ratio` (rad or m per rad or m) and `offset` (rad or m, used by `gear_closure`); static:
    `coordinates` of driver and joint that are bound, by number, and how many each has, `sizes`.
    """

    ratio: Float[Array, ""] = eqx.field(metadata=unit_and_rule(UNITS["ratio"], "number"))
    offset: Float[Array, ""] = eqx.field(metadata=unit_and_rule(UNITS["offset"], "number"))
    coordinates: tuple[int, int] = eqx.field(static=True)
    sizes: tuple[int, int] = eqx.field(static=True)
    lawful_by_construction: ClassVar[bool] = True
    measured_at: ClassVar[int] = 1
    """The end in whose unit the offset is, and the force that belongs to it the multiplier."""

    @property
    def ports(self) -> Interface:
        momenta = [relative_momentum(Rn(size)) for size in self.sizes]
        return {
            name: power_port(momentum.space, momentum.name)
            for name, momentum in zip(("p_driver", "p_joint"), momenta, strict=True)
        }

    @property
    def ends(self) -> tuple[tuple[int, int], ...]:
        """The coordinates that are bound: number of the joint, among the ports, and of its coordinate."""
        return tuple(enumerate(self.coordinates))

    @property
    def coefficients(self) -> Float[Array, "2"]:
        """Those of the ends in a sum that is the offset."""
        return jnp.stack([-self.ratio, jnp.ones_like(self.ratio)])

    def structure(self, x):
        del x
        ends = zip(self.sizes, self.coordinates, strict=True)
        driver, joint = (jnp.eye(n, dtype=self.ratio.dtype)[i] for n, i in ends)
        return None, jnp.concatenate([self.ratio * driver, -joint])[None]

    def rate(self, ends: Sequence[Float[Array, "*m"]]) -> Float[Array, "*m"]:
        """The row, from velocities of driver and joint; of their coordinates, what the offset is missing in it."""
        driver, joint = ends
        return self.ratio * driver - joint


def solved_for(gear: Any, end: int, joints: Sequence[Array], offset: Any) -> Array:
    """One joint's coordinates with that of an `end` set so that a `Gear` or `JointRelation` holds; unmoved by a
    coefficient of zero.

    **Arguments:** number of the `end`; coordinates of all `joints` at its ports, and its `offset`; or their velocities,
    and zero.
    """
    joint, number = gear.ends[end]
    error, own = gear_error(gear, joints, offset), gear.coefficients[end]
    still = own == 0
    return joints[joint].at[number].add(jnp.where(still, 0.0, -error / jnp.where(still, 1.0, own)))


def gear_error(gear: Any, joints: Sequence[Array], offset: Any) -> Array:
    """By how much it is missed, see `solved_for`."""
    return -gear.rate([joints[joint][number] for joint, number in gear.ends]) - offset


def gear_closure(name: str, *joints: str) -> Closure:
    """The position-level closure of the `Gear` or `JointRelation` in box `name`, between the joints in these boxes."""
    return gear_closure_between(name, *((f"{joint}/pe", "q_r") for joint in joints))


def gear_closure_between(name: str, *coordinates: tuple[str, str]) -> Closure:
    """The same, with path and port of components that have the joints' coordinates, in the order of its ports."""
    return Closure(name, name, (name,), coordinates, _error, negative)


def _error(parts, states) -> Float[Array, "1"]:
    return gear_error(parts[0], states, parts[0].offset)[None]
