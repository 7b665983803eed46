"""What users' drives look at, by the names of the config: `view.q["elbow"]`, `view.velocity["cart"]`."""

from __future__ import annotations

from typing import Any

import equinox as eqx
from jaxtyping import Array, Float

from jmbs.ephs import ConstantFlow, FlatSystem, NestedFlow, ReferenceDAE, StateView, TableFlow
from jmbs.library.mechanics import FoundBody, FoundJoint, MechanicalParts, PointLoad, UserForce
from jmbs.lie import SE3, rotate, rotation_to_quaternion
from jmbs.simulation.named_values import NamedValues


class MotionView:
    """The state of a system at one instant, by names.

    - By joint: `q` its coordinates and `v` its velocities, as `Trajectory.q` and `v` give them.
    - By body: `position` (3,) m, `quaternion` (4,) wxyz, `angular_velocity` (3,) rad/s in body axes, `velocity` (3,)
      m/s in world axes.
    - By `<path>/<name>`: `output`, what components declare, as `Trajectory.outputs` gives it.
    - `state(path, port)` and `effort(path, port)` at any component's port; `own_effort` at the driven one.
    """

    def __init__(self, view: Any, parts: MechanicalParts):
        self.state, self.effort, self.own_effort = view.state, view.effort, getattr(view, "own_effort", None)
        self.output = NamedValues("view", "output", {name: name for name in view.output}, view.output.__getitem__)
        joints, bodies = {j.name: j for j in parts.joints}, {b.name: b for b in parts.bodies}
        self.q = NamedValues("view", "joint", joints, self._q)
        self.v = NamedValues("view", "joint", joints, lambda joint: self.effort(joint.constraint, "p_r"))
        self.position = NamedValues("view", "body", bodies, lambda body: self._pose(body)[:, 3])
        self.quaternion = NamedValues("view", "body", bodies, self._quaternion)
        self.angular_velocity = NamedValues("view", "body", bodies, lambda body: self._twist(body)[:3])
        self.velocity = NamedValues("view", "body", bodies, self._velocity)

    def _q(self, joint: FoundJoint) -> Array:
        return joint.group.to_coordinates(self.state(joint.constraint, "q_r"))

    def _pose(self, body: FoundBody) -> Float[Array, "3 4"]:
        return self.state(*body.pose_port)

    def _quaternion(self, body: FoundBody) -> Float[Array, "4"]:
        return rotation_to_quaternion(self._pose(body)[:, :3])

    def _twist(self, body: FoundBody) -> Float[Array, "6"]:
        return self.effort(body.inclusion or body.kinetic, "p")

    def _velocity(self, body: FoundBody) -> Float[Array, "3"]:
        v = self._twist(body)[3:]
        return rotate(self._pose(body)[:, :3], v) if body.group == SE3 else v


def view_of(dae: ReferenceDAE, parts: MechanicalParts, x: tuple[Array, ...], e: Array) -> MotionView:
    """The view of a state `x` of the reference semantics, at which all efforts are `e`."""
    return MotionView(StateView(dae.plan, x, e, dae.output_view(x, e)), parts)


class NamedFlow(eqx.Module):
    """A user's drive that looks things up by the names of mechanical `parts`."""

    drive: Any
    parts: MechanicalParts = eqx.field(static=True)

    def flow(self, t, view) -> Float[Array, " n"]:
        return self.drive.flow(t, MotionView(view, self.parts))


def with_names(flat: FlatSystem, parts: MechanicalParts) -> dict[str, Any]:
    """The drives of a system, those of users with the names of its parts, seen from where each drive stands."""
    return {port: named(drive, parts) for port, drive in flat.drives.items()}


def named(drive: Any, parts: MechanicalParts) -> Any:
    """A drive with names, where it is a user's."""
    if isinstance(drive, NestedFlow):
        return NestedFlow(named(drive.drive, parts.below(drive.prefix)), drive.prefix)
    own = isinstance(drive, ConstantFlow | TableFlow | PointLoad | UserForce | NamedFlow)
    return NamedFlow(drive, parts) if hasattr(drive, "flow") and not own else drive
