"""Links without mass between joints of turns and travels: each way through them becomes one composite joint.

Where such a link forks, the joint before it is part of several composite joints; gears of ratio one keep its
coordinates equal in all of them.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from jmbs.io.models.frames import inverse
from jmbs.io.models.merge import Merged
from jmbs.io.models.tree import ModelGear, ModelJoint

_SIMPLE = ("revolute", "prismatic", "composite")


def without_massless(merged: Merged, notes: list[str]) -> Merged:
    """The same without bodies that have no mass, where turns and travels lead to them and on; adds to the notes."""
    bodies, joints, gears = dict(merged.bodies), list(merged.joints), merged.gears
    # Parents come first, so that what is below a link is still as the file has it.
    for name in [name for name, body in merged.bodies.items() if body.mass == 0]:
        above = next(joint for joint in joints if joint.child == name)
        below = [joint for joint in joints if merged.places[joint.parent][0] == name]
        if not below or not all(joint.type in _SIMPLE and "spring" not in joint.values for joint in (above, *below)):
            continue
        wholes = [_in_series(above, joint, merged.places[joint.parent][1]) for joint in below]
        wholes[1:] = [_without_shared(whole, _freedom(above)) for whole in wholes[1:]]
        place = joints.index(above)
        joints = [*joints[:place], *wholes, *(j for j in joints[place + 1 :] if j not in below)]
        shared = _freedom(above)
        for whole, after in zip(wholes, below, strict=True):
            gears = [gear.on(whole.name, {above.name: 0, after.name: shared}) for gear in gears]
        for whole in wholes[1:]:
            ends = (((whole.name, i), (wholes[0].name, i)) for i in range(shared))
            gears += [ModelGear("", *pair) for pair in ends]
        del bodies[name]
        notes.append(_note(name, above, below, wholes))
    return Merged(bodies, merged.places, joints, gears)


def _note(name: str, above: ModelJoint, below: list[ModelJoint], wholes: list[ModelJoint]) -> str:
    if len(wholes) == 1:
        return f"link {name}: without mass, so {above.name} and {below[0].name} are one joint, {wholes[0].name}"
    ways = ", ".join(whole.name for whole in wholes)
    return f"link {name}: without mass, so {above.name} is part of the joints {ways}, which gears keep equal there"


def _in_series(above: ModelJoint, below: ModelJoint, place: np.ndarray) -> ModelJoint:
    """One joint in the frame of the first; `place` `(4, 4)`: of the second's parent in the link in between."""
    between = inverse(above.child_frame) @ place @ below.parent_frame
    motions = [*_motions(above, np.eye(4)), *_motions(below, between)]
    friction = {key: [*_friction(above, key), *_friction(below, key)] for key in ("viscous", "coulomb")}
    armature = [x for joint in (above, below) for x in _each(joint, joint.values.get("armature", 0.0))]
    return dataclasses.replace(
        above,
        name=f"{above.name}_{below.name}",
        type="composite",
        child=below.child,
        child_frame=below.child_frame @ inverse(between),
        values={"motions": motions} | _given(friction, armature),
    )


def _without_shared(joint: ModelJoint, count: int) -> ModelJoint:
    """The joint without friction and rotors in its first coordinates, which another joint has already."""
    friction = joint.values.get("friction", {})
    less = lambda values: [*(0.0 for _ in range(count)), *values[count:]]  # noqa: E731
    kept = {key: less(values) for key, values in friction.items()}
    armature = less(_each(joint, joint.values.get("armature", 0.0)))
    return dataclasses.replace(joint, values={"motions": joint.values["motions"]} | _given(kept, armature))


def _given(friction: dict[str, list[float]], armature: list[float]) -> dict[str, Any]:
    given = {key: values for key, values in friction.items() if any(values)}
    return ({"friction": given} if given else {}) | ({"armature": armature} if any(armature) else {})


def _freedom(joint: ModelJoint) -> int:
    return len(joint.values.get("motions", [None]))


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
    return _each(joint, joint.values.get("friction", {}).get(key, 0.0))


def _each(joint: ModelJoint, values: Any) -> list[float]:
    """One number for each of a joint's coordinates."""
    return np.broadcast_to(values, _freedom(joint)).tolist()
