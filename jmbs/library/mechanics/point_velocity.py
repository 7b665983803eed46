"""The velocity of a material point of a body as a port, through which other systems push and pull it."""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.ephs import Interface, power_port, state_port
from jmbs.library.mechanics.body import momentum_quantity, relative_momentum
from jmbs.lie import SE3, AbstractGroup, Rn, hat

WORLD_AXES = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


def _rows(matrix) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(float(entry) for entry in row) for row in matrix)


class PointVelocity(eqx.Module):
    """The velocity of a body's material point in world axes: `v.e = axes R (v + omega x point)`.

    Ports: `p` (the body's momentum), `q` (its pose, a state port) and `v`, whose flow is a force on the point (N) along
    `axes` and whose effort is the velocity (m/s); its quantity is that of a joint's actuation port.

    **Arguments:**

    - `point` (3,) m in the body frame.
    - `axes` (k, 3): world directions whose components are taken, static; all three, or `((1, 0, 0), (0, 1, 0))`.
    - `group`: of the body's pose, static.
    """

    point: Float[Array, "3"] = eqx.field(converter=lambda point: jnp.asarray(point, float))
    axes: tuple[tuple[float, ...], ...] = eqx.field(static=True, default=WORLD_AXES, converter=_rows)
    group: AbstractGroup = eqx.field(static=True, default=SE3)
    output: ClassVar[str] = "v"
    lawful_by_construction: ClassVar[bool] = True

    @property
    def ports(self) -> Interface:
        momentum, force = momentum_quantity(self.group), relative_momentum(Rn(len(self.axes)))
        return {
            "p": power_port(momentum.space, momentum.name),
            "q": state_port(self.group, "pose"),
            "v": power_port(force.space, force.name),
        }

    def output_position(self, x) -> Float[Array, " k"]:
        """Where the point is along the axes, m."""
        q = x["q"]
        return jnp.asarray(self.axes, q.dtype) @ (q[:, :3] @ self.point + q[:, 3])

    def ratio(self, x) -> Float[Array, "k 6"]:
        R = x["q"][:, :3]
        # On SO(3)xR3 the velocity of the centre of mass is in world axes already.
        translation = R if self.group == SE3 else jnp.eye(3, dtype=R.dtype)
        return jnp.asarray(self.axes, R.dtype) @ jnp.concatenate([-R @ hat(self.point), translation], axis=1)
