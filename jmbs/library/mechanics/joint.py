"""Joints: kinematics as a holonomic constraint between offset frames, with spring, friction, actuation and heat.

    qdot_r = T_eL_{q_r}(u_r)
    0 = T*_eL_{q_r}(dV_r) + i*(lambda) + mu(u_r) - tau
    0 = Ad_{I(q_r)^-1} Ad_{o1^-1} u_1 - Ad_{o2^-1} u_2 + i(u_r)
    p1.f = Ad*_{o1^-1} Ad*_{I(q_r)^-1} lambda,   p2.f = -Ad*_{o2^-1} lambda

`lambda` is the wrench that the joint exerts on body 2, in its joint frame.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.ephs import Closure, Interface, Quantity, System, lossy_system, power_port, state_port
from jmbs.library.mechanics.body import PotentialKineticCoupling, momentum_quantity, relative_momentum
from jmbs.library.mechanics.declared import unit_and_rule
from jmbs.library.mechanics.friction import JointFriction
from jmbs.library.mechanics.rotor import RotorInertia, RotorRate
from jmbs.lie import SE3, AbstractGroup, SO3xR3, hat, independence, pose, quaternion_to_rotation, tangent

TWIST = momentum_quantity(SE3)


def adjoint_matrix(q: Float[Array, "3 4"]) -> Float[Array, "6 6"]:
    """`Ad_q` on SE(3) as a matrix: `[[R, 0], [hat(r) R, R]]`, angular part first."""
    R = q[:, :3]
    return jnp.block([[R, jnp.zeros_like(R)], [hat(q[:, 3]) @ R, R]])


def frame_at(position: Float[Array, "3"], quaternion: Float[Array, "4"]) -> Float[Array, "3 4"]:
    """The pose of a joint frame in its body's frame; `position` m, `quaternion` wxyz of any positive length."""
    return pose(quaternion_to_rotation(quaternion), position)


class Offset(eqx.Module):
    """A joint frame fixed to a body: `pj.e = Ad_{o^-1} p.e`, and `p.f = -Ad*_{o^-1} pj.f`.

    On SO(3)xR3 the body's velocity is first turned into body axes, `H(R) = diag(id, R^T)`: the only legal converter
    between configuration groups; then there is a state port `q` too.

    **Arguments:** `position` (3,) m and `quaternion` (4,) wxyz of the joint frame in the body frame.
    """

    position: Float[Array, "3"] = eqx.field(metadata=unit_and_rule("m", "numbers"))
    quaternion: Float[Array, "4"] = eqx.field(metadata=unit_and_rule("1", "unit quaternion"))
    group: AbstractGroup = eqx.field(static=True, default=SE3)
    output: ClassVar[str] = "pj"
    lawful_by_construction: ClassVar[bool] = True

    @property
    def ports(self) -> Interface:
        momentum = momentum_quantity(self.group)
        ports = {"p": power_port(momentum.space, momentum.name), "pj": power_port(TWIST.space, TWIST.name)}
        if self.group == SO3xR3:
            ports["q"] = state_port(self.group, "pose")
        return ports

    @property
    def frame(self) -> Float[Array, "3 4"]:
        """The joint frame's pose `o` in the body frame."""
        return frame_at(self.position, self.quaternion)

    def ratio(self, x) -> Float[Array, "6 6"]:
        back = adjoint_matrix(SE3.inverse(self.frame))
        if self.group == SO3xR3:
            to_body = x["q"][:, :3].T
            back = jnp.concatenate([back[:, :3], back[:, 3:] @ to_body], axis=1)
        return back


class Ground(eqx.Module):
    """The world as a body that never moves: `p.e = 0`, any wrench."""

    output: ClassVar[str] = "p"
    lawful_by_construction: ClassVar[bool] = True

    @property
    def ports(self) -> Interface:
        return {"p": power_port(TWIST.space, TWIST.name)}

    def ratio(self, x) -> Float[Array, "6 0"]:
        del x
        return jnp.zeros((6, 0))


class HolonomicConstraint(eqx.Module):
    """Joint kinematics: `0 = Ad_{I(q_r)^-1} p_j1.e - p_j2.e + i(p_r.e)`; the multiplier is the wrench on body 2.

    **Arguments:** `motion`: the configuration group K and the map I (see `jmbs.lie.AbstractJointMotion`); if it has an
    attribute `domain`, `(low, high)`, that is where its coordinates have meaning.
    """

    motion: Any
    lawful_by_construction: ClassVar[bool] = True
    own_rate: ClassVar[str] = "p_r"

    @property
    def ports(self) -> Interface:
        momentum = relative_momentum(self.motion.group)
        return {
            "q_r": state_port(self.motion.group, "relative_pose"),
            "p_r": power_port(momentum.space, momentum.name),
            "p_j1": power_port(TWIST.space, TWIST.name),
            "p_j2": power_port(TWIST.space, TWIST.name),
        }

    def structure(self, x):
        q = x["q_r"]
        back = SE3.inverse(self.motion.inclusion(q))
        identity = jnp.eye(6, dtype=back.dtype)
        return None, jnp.concatenate([tangent(self.motion, q), adjoint_matrix(back), -identity], axis=1)

    @property
    def domain(self) -> dict[str, Any]:
        """Where the coordinates have meaning, see `jmbs.ephs.samples`."""
        given = getattr(self.motion, "domain", None)
        return {} if given is None else {"q_r.x": given}

    @property
    def regularity(self) -> Callable[[Any], Float[Array, ""]] | None:
        """How far the joint is from where its rates mean nothing; None where there is no such place."""
        if not getattr(self.motion, "can_lock", False):
            return None
        return lambda x: independence(self.motion, x["q_r"])

    def transport(self, e, rows: Float[Array, "6"]) -> Float[Array, "6"]:
        """Turns the rate of the rows, which are in body 2's axes, into the one that an inertial observer sees.

        Without it a violation turns along with body 2, where the wrench hardly changes: their power piles up.
        """
        omega = e["p_j2"][:3]
        return jnp.concatenate([jnp.cross(omega, rows[:3]), jnp.cross(omega, rows[3:])])


class JointPotential(eqx.Module):
    """A joint spring `V = 1/2 <d | K d>`, `d = log(rest^-1 q_r)`; port `q_r`. See `NoPotential` for a joint without.

    **Arguments:** `stiffness` (k,) or (k, k), N m/rad or N/m; `rest`: coordinates of K (wxyz for rotations).
    """

    stiffness: Array = eqx.field(metadata=unit_and_rule("N m/rad or N/m", "stiffness"))
    rest: Array
    group: AbstractGroup = eqx.field(static=True)
    lawful_by_construction: ClassVar[bool] = True

    @property
    def ports(self) -> Interface:
        return {"q_r": power_port(self.group, "relative_pose")}

    def energy(self, x) -> Float[Array, ""]:
        rest = self.group.from_coordinates(self.rest)
        d = self.group.log(self.group.compose(self.group.inverse(rest), x["q_r"]))
        force = self.stiffness @ d if self.stiffness.ndim == 2 else self.stiffness * d
        return 0.5 * jnp.sum(d * force)


class JointLaw(eqx.Module):
    """A joint spring by a user's law, `V = law.energy(q)` in J; port `q_r`.

    **Arguments:** `law`: a module with `energy`, of the joint's coordinates as `Trajectory.q` gives them.
    """

    law: Any
    group: AbstractGroup = eqx.field(static=True)

    @property
    def ports(self) -> Interface:
        return {"q_r": power_port(self.group, "relative_pose")}

    def energy(self, x) -> Float[Array, ""]:
        return jnp.reshape(self.law.energy(self.group.to_coordinates(x["q_r"])), ())


class NoPotential(eqx.Module):
    """Holds the joint's state `q_r` without storing energy: the place of a spring where there is none."""

    group: AbstractGroup = eqx.field(static=True)
    lawful_by_construction: ClassVar[bool] = True
    stores_nothing: ClassVar[bool] = True

    @property
    def ports(self) -> Interface:
        return {"q_r": power_port(self.group, "relative_pose")}

    def energy(self, x) -> Float[Array, ""]:
        return jnp.zeros((), x["q_r"].dtype)


def joint(
    motion,
    offset1: Offset,
    offset2: Offset,
    potential: JointPotential | JointLaw | NoPotential,
    friction: JointFriction,
    heats_environment: bool = True,
    rotor: tuple[RotorInertia, RotorRate] | None = None,
    more: Mapping[str, tuple[Any, dict[str, str]]] | None = None,
) -> System:
    """A joint as a pattern of boxes `hc, o1, o2, pe, pkc, mf` and `env`, with a rotor also `ri, rr`.

    Outer ports: `p1`, `p2` (momenta of the bodies), `q1`, `q2` (states of bodies on SO(3)xR3 only), `p_r` (actuation),
    and `s` where friction heats something other than its own environment box. `more`: further boxes, each with the
    junctions of its ports, of which those with other names are outer ports.
    """
    group = motion.group
    boxes: dict[str, Any] = {
        "hc": HolonomicConstraint(motion),
        "o1": offset1,
        "o2": offset2,
        "pe": potential,
        "pkc": PotentialKineticCoupling(Quantity(group, "relative_pose"), relative_momentum(group), ("q_r", "p_r")),
        "mf": friction,
    }
    junctions = {
        "q_r": "pe.q_r pkc.q_r hc.q_r",
        "p_r": "pkc.p_r mf.p_r hc.p_r",
        "p_j1": "o1.pj hc.p_j1",
        "p_j2": "o2.pj hc.p_j2",
        "p1": "o1.p",
        "p2": "o2.p",
        "s": "mf.s",
    }
    if rotor is not None:
        boxes |= dict(zip(("ri", "rr"), rotor, strict=True))
        junctions["p_r"] += " rr.p_r"
        junctions["rotor"] = "ri.p rr.p"
    outer = {"p1": "p1", "p2": "p2", "p_r": "p_r"}
    for number, offset in (("1", offset1), ("2", offset2)):
        if "q" in offset.ports:
            junctions[f"q{number}"] = f"o{number}.q"
            outer[f"q{number}?"] = f"q{number}"
    for box, (component, ports) in (more or {}).items():
        boxes[box] = component
        for port, junction in ports.items():
            if junction not in junctions:
                outer[junction] = junction
            junctions[junction] = f"{junctions.get(junction, '')} {box}.{port}".strip()
    return lossy_system(boxes, junctions, outer, heats_environment)


def joint_closure(name: str, parent: str | None, child: str) -> Closure:
    """The position-level closure `q1 o1 I(q_r) = q2 o2` of the joint in box `name`.

    **Arguments:** boxes of the parent (None: ground) and of the child, rigid bodies in the same pattern.
    """
    parts = (f"{name}/hc", f"{name}/o1", f"{name}/o2")
    return joint_closure_between(name, parts, None if parent is None else (f"{parent}/pe", "q"), (f"{child}/pe", "q"))


def joint_closure_between(
    name: str, parts: tuple[str, str, str], parent: tuple[str, str] | None, child: tuple[str, str]
) -> Closure:
    """The closure of a joint from the paths of its constraint and two offsets.

    **Arguments:** path and port of components that have the poses of parent (None: ground) and child.
    """
    states = ((parts[0], "q_r"), child)
    if parent is None:
        return Closure(name, parts[0], parts, states, _ground_error, joint_residual)
    return Closure(name, parts[0], parts, (*states, parent), _error, joint_residual)


def joint_residual(error: Float[Array, "3 4"]) -> Float[Array, "6"]:
    """The rows of a closure from its error pose `X = I(q_r)^-1 o1^-1 q1^-1 q2 o2`: `-log X`, (rad, m)."""
    return -SE3.log(error)


def closure_gap(residual: Callable) -> Callable | None:
    """Of a joint's closure: the residual less what a motion of the joint would close of it, to first order.

    What is left is the gap between the bodies' poses, whatever the integrated `q_r`. Other closures keep theirs.
    """
    return _gap if residual is joint_residual else None


def _gap(parts, states, residual: Float[Array, "6"]) -> Float[Array, "6"]:
    along = tangent(parts[0].motion, states[0])
    for k in range(along.shape[1]):  # by Gram and Schmidt
        column = along[:, k]
        share = lambda x, column=column: (column @ x) / (column @ column)  # noqa: E731
        residual = residual - share(residual) * column
        along = along - jnp.outer(column, share(along))
    return residual


def _error(parts, states) -> Float[Array, "3 4"]:
    _, offset1, offset2 = parts
    q_r, q2, q1 = states
    return _closing(parts[0], q_r, SE3.compose(q1, offset1.frame), SE3.compose(q2, offset2.frame))


def _ground_error(parts, states) -> Float[Array, "3 4"]:
    _, offset1, offset2 = parts
    q_r, q2 = states
    return _closing(parts[0], q_r, offset1.frame, SE3.compose(q2, offset2.frame))


def _closing(constraint: HolonomicConstraint, q_r, frame1, frame2) -> Float[Array, "3 4"]:
    return SE3.compose(SE3.inverse(SE3.compose(frame1, constraint.motion.inclusion(q_r))), frame2)
