"""Point-to-point springs and dampers: the length between two body points as a coordinate of its own.

l = |x_b - x_a|,   ldot = A(q_a, q_b) (u_a, u_b),   force pair A^T (stiffness (l - length) + damping ldot)
"""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.ephs import Interface, Quantity, System, lossy_system, power_port, state_port
from jmbs.library.mechanics.body import PotentialKineticCoupling, momentum_quantity
from jmbs.library.mechanics.checks import is_law
from jmbs.library.mechanics.declared import unit_and_rule
from jmbs.library.mechanics.friction import viscous_friction
from jmbs.lie import SE3, AbstractGroup, Rn, dot, rotate

LENGTH = Quantity(Rn(1), "length")
LINE_MOMENTUM = Quantity(Rn(1), "line_momentum")


class LineOfAction(eqx.Module):
    """The rate of the distance between two points: `p_l.e = A (p_a.e, p_b.e)`, forces by the transpose.

    **Arguments:** `point_a`, `point_b` (3,) m in the body frames (ground: world); `groups`: of the two bodies, None
    for ground, static.
    """

    point_a: Float[Array, "3"] = eqx.field(metadata=unit_and_rule("m", "numbers"))
    point_b: Float[Array, "3"] = eqx.field(metadata=unit_and_rule("m", "numbers"))
    groups: tuple[AbstractGroup | None, AbstractGroup | None] = eqx.field(static=True)
    output: ClassVar[str] = "p_l"
    lawful_by_construction: ClassVar[bool] = True

    @property
    def ports(self) -> Interface:
        ports = {}
        for end, group in zip("ab", self.groups, strict=True):
            if group is not None:
                momentum = momentum_quantity(group)
                ports[f"p_{end}"] = power_port(momentum.space, momentum.name)
        for end, group in zip("ab", self.groups, strict=True):
            if group is not None:
                ports[f"q_{end}"] = state_port(group, "pose")
        return {**ports, "p_l": power_port(LINE_MOMENTUM.space, LINE_MOMENTUM.name)}

    def length(self, poses: dict[str, Float[Array, "3 4"]]) -> Float[Array, ""]:
        """The distance in m, from poses by port name (`q_a`, `q_b`; ground's is not needed)."""
        ends = [
            rotate(poses[f"q_{end}"][:, :3], point) + poses[f"q_{end}"][:, 3] if group is not None else point
            for end, group, point in zip("ab", self.groups, (self.point_a, self.point_b), strict=True)
        ]
        d = ends[1] - ends[0]
        return jnp.sqrt(dot(d, d))

    def ratio(self, x) -> Float[Array, "1 n"]:
        moving = [(f"q_{end}", group) for end, group in zip("ab", self.groups, strict=True) if group is not None]

        def displaced(steps):
            return self.length(
                {name: x[name] + group.lift(x[name], step) for (name, group), step in zip(moving, steps, strict=True)}
            )

        zeros = [jnp.zeros(group.dim, self.point_a.dtype) for _, group in moving]
        return jnp.concatenate(jax.grad(displaced)(zeros))[None, :]


class LineSpring(eqx.Module):
    """Elastic energy `1/2 stiffness (l - length)^2`; port `l`. **Arguments:** `stiffness` N/m, `length` m at rest."""

    stiffness: Float[Array, ""] = eqx.field(metadata=unit_and_rule("N/m", "non-negative number"))
    length: Float[Array, ""] = eqx.field(metadata=unit_and_rule("m", "non-negative number"))
    lawful_by_construction: ClassVar[bool] = True

    @property
    def ports(self) -> Interface:
        return {"l": power_port(LENGTH.space, LENGTH.name)}

    def energy(self, x) -> Float[Array, ""]:
        return 0.5 * self.stiffness * (x["l"][0] - self.length) ** 2


class LineLaw(eqx.Module):
    """Elastic energy by a user's law, `law.energy(length)` in J of a length in m; port `l`."""

    law: Any

    @property
    def ports(self) -> Interface:
        return {"l": power_port(LENGTH.space, LENGTH.name)}

    def energy(self, x) -> Float[Array, ""]:
        return jnp.reshape(self.law.energy(x["l"][0]), ())


def spring_damper(line: LineOfAction, stiffness, length, damping, heats_environment: bool = True) -> System:
    """A pattern of boxes `line, pe, pkc, mf` and `env`; outer ports `p_a, p_b`, states `q_a, q_b`, maybe `s`.

    **Arguments:** `stiffness` N/m and `length` m, or a law in place of the first, which has no use for the other;
    `damping` N s/m.
    """
    boxes: dict[str, Any] = {
        "line": line,
        "pe": LineLaw(stiffness) if is_law(stiffness) else LineSpring(stiffness, length),
        "pkc": PotentialKineticCoupling(LENGTH, LINE_MOMENTUM, ("l", "p_l")),
        "mf": viscous_friction(jnp.reshape(jnp.asarray(damping), (1,)), LINE_MOMENTUM),
    }
    junctions = {"l": "pe.l pkc.l", "p_l": "line.p_l pkc.p_l mf.p_r", "s": "mf.s"}
    outer = {}
    for name in line.ports:
        if name != "p_l":
            junctions[name] = f"line.{name}"
            outer[name if name.startswith("p") else f"{name}?"] = name
    return lossy_system(boxes, junctions, outer, heats_environment)


class ThermalStore(eqx.Module):
    """A thermal store `U(s) = capacity temperature exp(s / capacity)`, so `theta = temperature exp(s / capacity)`.

    Port `s`, entropy counted from the initial temperature. **Arguments:** `capacity` J/K, `temperature` K at `s = 0`.
    """

    capacity: Float[Array, ""] = eqx.field(metadata=unit_and_rule("J/K", "positive number"))
    temperature: Float[Array, ""] = eqx.field(metadata=unit_and_rule("K", "positive number"))
    lawful_by_construction: ClassVar[bool] = True

    @property
    def ports(self) -> Interface:
        return {"s": power_port(Rn(1), "entropy")}

    def energy(self, x) -> Float[Array, ""]:
        return self.capacity * self.temperature * jnp.exp(x["s"][0] / self.capacity)


class PointLoad(eqx.Module):
    """A drive: a force on a body point and a torque, constant or tabulated, in world or body axes.

    **Arguments:** `point` (3,) m, body frame; `force`, `torque`: drives with values (3,), N and N m (`ConstantFlow`,
    `TableFlow`); `body`: path of the body's box; `frame`: "world" or "body"; `group`: of the body's pose.
    """

    point: Float[Array, "3"]
    force: Any
    torque: Any
    body: str = eqx.field(static=True)
    frame: str = eqx.field(static=True)
    group: AbstractGroup = eqx.field(static=True, default=SE3)

    def flow(self, t, view) -> Float[Array, "6"]:
        R = view.state(f"{self.body}/pe", "q")[:, :3]
        force, torque = self.force.flow(t, view), self.torque.flow(t, view)
        if self.frame == "world":
            force, torque = R.T @ force, R.T @ torque
        return body_wrench(self.group, R, torque + jnp.cross(self.point, force), force)


class UserForce(eqx.Module):
    """A drive: a user's `wrench(t, pose, velocity) -> (6,)` about the centre of mass in body axes, torque first.

    `pose` (3, 4) is `[R | r]`, `velocity` (6,) the angular velocity and the velocity of the centre of mass, body axes.
    `body`: path of the body's box; `velocity`: path of the component whose effort at `p` is the body's velocity, None:
    that of a rigid body.
    """

    wrench: Any
    body: str = eqx.field(static=True)
    group: AbstractGroup = eqx.field(static=True, default=SE3)
    velocity: str | None = eqx.field(static=True, default=None)

    def flow(self, t, view) -> Float[Array, "6"]:
        pose = view.state(f"{self.body}/pe", "q")
        R, u = pose[:, :3], view.effort(self.velocity or f"{self.body}/ke", "p")
        twist = u if self.group == SE3 else jnp.concatenate([u[:3], R.T @ u[3:]])
        wrench = self.wrench(t, pose, twist)
        return body_wrench(self.group, R, wrench[:3], wrench[3:])


def body_wrench(group: AbstractGroup, R, torque, force) -> Float[Array, "6"]:
    """A wrench in body axes as the dual of the body's velocity: on SO(3)xR3 the force in world axes."""
    return jnp.concatenate([torque, force if group == SE3 else R @ force])
