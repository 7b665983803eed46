"""Links without mass between two joints: the joints become one composite joint, with nothing in between."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from jmbs.io.models.frames import inverse
from jmbs.io.models.merge import Merged
from jmbs.io.models.tree import ModelJoint

_SIMPLE = ("revolute", "prismatic")


def without_massless(merged: Merged, notes: list[str]) -> Merged:
    """The same without bodies that have no mass and join exactly two joints of turns and travels; adds to the notes."""
    bodies, joints = dict(merged.bodies), list(merged.joints)
    for name in [name for name, body in merged.bodies.items() if body.mass == 0]:
        above = [joint for joint in joints if joint.child == name]
        below = [joint for joint in joints if merged.places[joint.parent][0] == name]
        if len(above) == len(below) == 1 and all(j.type in (*_SIMPLE, "composite") for j in (*above, *below)):
            whole = _in_series(above[0], below[0], merged.places[below[0].parent][1])
            notes.append(
                f"link {name}: without mass, so {above[0].name} and {below[0].name} are one joint, {whole.name}"
            )
            joints[joints.index(above[0])] = whole
            joints.remove(below[0])
            del bodies[name]
    return Merged(bodies, merged.places, joints)


def _in_series(above: ModelJoint, below: ModelJoint, place: np.ndarray) -> ModelJoint:
    """One joint in the frame of the first; `place` `(4, 4)`: of the second's parent in the link in between."""
    between = inverse(above.child_frame) @ place @ below.parent_frame
    motions = [*_motions(above, np.eye(4)), *_motions(below, between)]
    friction = {key: [*_friction(above, key), *_friction(below, key)] for key in ("viscous", "coulomb")}
    given = {key: values for key, values in friction.items() if any(values)}
    return dataclasses.replace(
        above,
        name=f"{above.name}_{below.name}",
        type="composite",
        child=below.child,
        child_frame=below.child_frame @ inverse(between),
        values={"motions": motions} | ({"friction": given} if given else {}),
    )


def _motions(joint: ModelJoint, place: np.ndarray) -> list[dict[str, Any]]:
    """A joint's motions, as a composite joint takes them, where its frame stands at `place`."""
    own = joint.values.get("motions", [{"type": joint.type, "axis": joint.values.get("axis"), "position": np.zeros(3)}])
    motions = []
    for motion in own:
        axis = place[:3, :3] @ np.asarray(motion["axis"], dtype=float)
        at = {"position": place[:3, :3] @ motion["position"] + place[:3, 3]} if motion["type"] == "revolute" else {}
        motions.append({"type": motion["type"], "axis": axis} | at)
    return motions


def _friction(joint: ModelJoint, key: str) -> list[float]:
    """One kind of friction of each of a joint's coordinates."""
    count = len(joint.values.get("motions", [None]))
    return np.broadcast_to(joint.values.get("friction", {}).get(key, 0.0), count).tolist()
