"""What of a mechanism is counted from each body's centre of mass, so that it can be carried along when that moves."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from jmbs.library.mechanics.mechanism import Mechanism


class BodyPoints(NamedTuple):
    """Paths of the parameters that are points of a `body`; `others`: what else acts at its centre of mass, in words."""

    body: str
    paths: tuple[str, ...]
    others: tuple[str, ...]


def body_points(mechanism: Mechanism) -> tuple[BodyPoints, ...]:
    """Those of each body of a mechanism, in order."""
    return tuple(BodyPoints(name, _points(mechanism, name), _others(mechanism, name)) for name in mechanism.bodies)


def _points(mechanism: Mechanism, body: str) -> tuple[str, ...]:
    ends = [(f"{j.name}/{s}/position", end) for j in mechanism.joints.values() for s, end in _sides(j.parent, j.child)]
    ends += [(f"{e.name}/point_{s}", end) for e in mechanism.elements.values() for s, end in (("a", e.a), ("b", e.b))]
    ends += [(f"{load.name}/point", load.body) for load in mechanism.loads.values()]
    return tuple(path for path, end in ends if end == body)


def _sides(parent: str, child: str) -> tuple[tuple[str, str], ...]:
    return ("parent_frame", parent), ("child_frame", child)


def _others(mechanism: Mechanism, body: str) -> tuple[str, ...]:
    found = [f"the constraint {c.name}" for c in mechanism.constraints.values() if c.body == body]
    found += [f"the constraint {c.name}" for c in mechanism.body_constraints.values() if body in (c.body, c.other)]
    found += [f"the force {force.name}" for force in mechanism.forces.values() if force.body == body]
    found += [
        f"the connection {connection.name}"
        for connection in mechanism.connections.values()
        if any(port.partition(".")[0] == body for port in connection.ports)
    ]
    return tuple(found if mechanism.bodies[body].potential is None else [*found, "its potential"])
