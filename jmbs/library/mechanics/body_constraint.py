"""Constraints between two bodies, or a body and ground, by a law: a gap that stays closed, or a velocity that vanishes.

    0 = -d/dt gap(pose, other)                              f = C^T lambda,   lambda along the gap
    0 = -rate(pose, velocity, other, other_velocity)        linear in the velocities

Poses are `[R | r]` (3, 4); velocities (6,) are the angular velocity and the velocity of the centre of mass in body
axes. Ground's are the identity and zero. Rows are negative velocities, so a multiplier acts on the body along its row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.ephs import Closure, Interface, power_port, state_port
from jmbs.library.mechanics.body import momentum_quantity
from jmbs.library.mechanics.velocity_constraints import negative
from jmbs.lie import SE3, AbstractGroup

ENDS = ("", "_other")
"""What the names of ports of the two bodies end with."""


class BodyConstraint(eqx.Module):
    """The rows of a law; ports `q` (state) and `p` of the body, `q_other` and `p_other` of the other.

    **Arguments:** `law`: a module with `gap(pose, other) -> (m,)`, or with `rate(pose, velocity, other, other_velocity)
    -> (m,)`; `multiplier_names` of its rows; `groups` of the two bodies' poses, None for ground; both static. A law may
    have `regularity(pose, other)`: positive as long as its rows mean something.
    """

    law: Any
    multiplier_names: tuple[str, ...] = eqx.field(static=True)
    groups: tuple[AbstractGroup, AbstractGroup | None] = eqx.field(static=True, default=(SE3, None))
    lawful_by_construction: ClassVar[bool] = True

    @property
    def _moving(self) -> list[tuple[str, AbstractGroup]]:
        return [(end, group) for end, group in zip(ENDS, self.groups, strict=True) if group is not None]

    @property
    def ports(self) -> Interface:
        ports = {}
        for end, group in self._moving:
            momentum = momentum_quantity(group)
            ports[f"q{end}"] = state_port(group, "pose")
            ports[f"p{end}"] = power_port(momentum.space, momentum.name)
        return ports

    def poses(self, x) -> list[Float[Array, "3 4"]]:
        """Of both ends, from states by port name."""
        ground = SE3.identity(x["q"].dtype)
        return [x[f"q{end}"] if group is not None else ground for end, group in zip(ENDS, self.groups, strict=True)]

    def structure(self, x):
        return None, -jnp.concatenate(jax.jacfwd(self._rate(x))([jnp.zeros(6, x["q"].dtype) for _ in self._moving]), 1)

    def _rate(self, x) -> Callable:
        """What vanishes, from the velocities of the bodies that move, dual to their momenta."""
        poses = self.poses(x)
        if hasattr(self.law, "gap"):
            # Along the motions that the velocities generate; their derivative at rest is the rows.
            return lambda steps: self.law.gap(*self._displaced(poses, steps))

        def rate(velocities):
            twists = [jnp.zeros(6, poses[0].dtype)] * 2
            for (end, group), u in zip(self._moving, velocities, strict=True):
                i = ENDS.index(end)
                twists[i] = u if group == SE3 else jnp.concatenate([u[:3], poses[i][:, :3].T @ u[3:]])
            return self.law.rate(poses[0], twists[0], poses[1], twists[1])

        return rate

    def _displaced(self, poses, steps) -> list[Float[Array, "3 4"]]:
        moved = list(poses)
        for (end, group), step in zip(self._moving, steps, strict=True):
            i = ENDS.index(end)
            moved[i] = poses[i] + group.lift(poses[i], step)
        return moved

    @property
    def regularity(self) -> Callable | None:
        """The law's, of states; None where it has none."""
        if not hasattr(self.law, "regularity"):
            return None
        return lambda x: self.law.regularity(*self.poses(x))


def body_constraint_closure(name: str, path: str, bodies: tuple[str, ...]) -> Closure:
    """The closure of the `BodyConstraint` at `path` whose law is a gap: of `bodies`, the first and if any the other."""
    return Closure(name, path, (path,), tuple((f"{body}/pe", "q") for body in bodies), _gap, negative)


def _gap(parts, states) -> Float[Array, " m"]:
    (constraint,) = parts
    return constraint.law.gap(*constraint.poses(dict(zip(("q", "q_other"), states, strict=False))))
