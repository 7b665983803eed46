"""Makes one joint of the joints that an MJCF body has, of which MuJoCo allows several in a row.

MuJoCo moves the body by `E_1(q_1) E_2(q_2) ...` after its place in the parent, the first joint nearest to the parent;
anchors and axes are given in the body's frame at zero motion.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from jmbs.errors import ModelError
from jmbs.io.models.frames import make_pose
from jmbs.io.models.tree import GROUND, ModelJoint
from jmbs.library.mechanics import JointSpec

# Relative to the lengths at hand: what decimal rounding does to axes that are meant to meet or to be parallel.
_TOLERANCE = 1e-9
_WANTED = "one joint, or some that make one: independent hinges and slides in a row, or 3 slides then a ball"


@dataclasses.dataclass(frozen=True, eq=False)
class MjcfJoint:
    """A joint of MuJoCo: `kind` free, ball, slide or hinge; `anchor`, `axis` `(3,)` in the body's frame.

    `damping`, `friction` (loss), `stiffness`, `armature` per coordinate; `q0`, `rest`: coordinates at zero motion and
    of the spring, as MuJoCo counts them.
    """

    name: str
    kind: str
    anchor: np.ndarray
    axis: np.ndarray
    damping: float
    friction: float
    stiffness: float
    armature: float
    q0: np.ndarray
    rest: np.ndarray


def joint_between(parent: str, child: str, place: np.ndarray, joints: list[MjcfJoint], notes: list[str]) -> ModelJoint:
    """The joint that holds the body `child` at `place` `(4, 4)` in its parent. Raises `ModelError`."""
    for joint in joints:
        notes += _reading_notes(joint)
    made = _joint_of(parent, child, place, joints, notes)
    notes += [f"joint {joint.name}: {_rotor_note(joint, made.type)}" for joint in joints if joint.armature]
    return made


def _joint_of(parent: str, child: str, place: np.ndarray, joints: list[MjcfJoint], notes: list[str]) -> ModelJoint:
    match [joint.kind for joint in joints]:
        case []:
            return ModelJoint(f"{child}_fixed", "fixed", parent, child, place)
        case ["free"]:
            return _free(child, joints[0], notes)
        case ["ball"]:
            return _at(place, parent, child, joints, "spherical", joints[0].anchor, _group_forces(joints[0]))
        case ["hinge"]:
            values = {"axis": joints[0].axis} | _forces(joints, [1.0])
            return _at(place, parent, child, joints, "revolute", joints[0].anchor, values)
        case ["slide"]:
            values = {"axis": joints[0].axis} | _forces(joints, [1.0])
            return _at(place, parent, child, joints, "prismatic", joints[0].anchor, values)
        case _:
            return _of_several(parent, child, place, joints, notes)


def _reading_notes(joint: MjcfJoint) -> list[str]:
    notes = []
    if joint.kind in ("hinge", "slide") and joint.q0[0] != 0:
        notes.append(f"ref {joint.q0[0]:g}: coordinates here count from there, q = qpos - ref")
    if joint.stiffness and joint.kind != "free":
        notes.append(f"stiffness {joint.stiffness:g}: simulated, as a spring")
    if joint.damping:
        notes.append(f"damping {joint.damping:g}: simulated, as viscous friction")
    if joint.friction:
        smooth = "smoothed below 1e-3 m/s or rad/s"
        notes.append(f"frictionloss {joint.friction:g}: simulated, as Coulomb friction {smooth}")
    return [f"joint {joint.name}: {note}" for note in notes]


def _rotor_note(joint: MjcfJoint, made: str) -> str:
    """A free joint's velocities turn with its body here; MuJoCo adds the inertia to those along the world's axes."""
    if made == "free":
        return f"ARMATURE {joint.armature:g} of a free joint: NOT simulated"
    return f"armature {joint.armature:g}: simulated, as the inertia of its rotor"


def _free(child: str, joint: MjcfJoint, notes: list[str]) -> ModelJoint:
    """A free joint, whose coordinates are the body's pose in the world, as MuJoCo's are."""
    if joint.stiffness:
        notes.append(f"joint {joint.name}: stiffness {joint.stiffness:g} of a free joint: not simulated")
    values = _group_forces(dataclasses.replace(joint, stiffness=0.0, armature=0.0))
    return ModelJoint(joint.name, "free", GROUND, child, values=values, q=joint.q0)


def _at(
    place: np.ndarray,
    parent: str,
    child: str,
    joints: list[MjcfJoint],
    kind: str,
    point: np.ndarray,
    values: dict[str, Any],
    rotation: np.ndarray | None = None,
) -> ModelJoint:
    """A joint whose frame, the same on both sides, has its origin at `point` of the body's frame."""
    frame = make_pose(point, np.eye(3) if rotation is None else rotation)
    name = "_".join(joint.name for joint in joints)
    return ModelJoint(name, kind, parent, child, place @ frame, frame, values)


def _forces(joints: list[MjcfJoint], signs: list[float]) -> dict[str, Any]:
    """Spring, friction and rotors of coordinates that are those of `joints`, each times its sign."""
    values: dict[str, Any] = {}
    if any(joint.armature for joint in joints):
        values["armature"] = [joint.armature for joint in joints]
    if any(joint.stiffness for joint in joints):
        rest = [sign * float(joint.rest[0] - joint.q0[0]) for sign, joint in zip(signs, joints, strict=True)]
        values["spring"] = {"stiffness": [joint.stiffness for joint in joints], "rest": rest}
    friction = {"viscous": [joint.damping for joint in joints], "coulomb": [joint.friction for joint in joints]}
    given = {key: value for key, value in friction.items() if any(value)}
    return values | ({"friction": given} if given else {})


def _group_forces(joint: MjcfJoint) -> dict[str, Any]:
    """Spring, friction and rotor of a ball or free joint, equal in all directions."""
    values: dict[str, Any] = {"armature": joint.armature} if joint.armature else {}
    if joint.stiffness:
        values["spring"] = {"stiffness": joint.stiffness, "rest": joint.rest}
    friction = {"viscous": joint.damping, "coulomb": joint.friction}
    given = {key: value for key, value in friction.items() if value}
    return values | ({"friction": given} if given else {})


def _of_several(parent: str, child: str, place: np.ndarray, joints: list[MjcfJoint], notes: list[str]) -> ModelJoint:
    kinds = [joint.kind for joint in joints]
    made, loaded = None, any(j.damping or j.friction or j.stiffness or j.armature for j in joints)
    match kinds:
        case ["hinge", "hinge"]:
            point = _meeting_point(joints)
            if point is not None and not _parallel(joints[0].axis, joints[1].axis):
                values = {"axis": joints[0].axis, "axis2": joints[1].axis} | _forces(joints, [1.0, 1.0])
                made = _at(place, parent, child, joints, "universal", point, values)
        case ["hinge", "slide"] | ["slide", "hinge"]:
            made = _cylindrical(parent, child, place, joints)
        case ["slide", "slide", "hinge"] if not loaded:
            made = _planar(parent, child, place, joints)
        case ["hinge", "hinge", "hinge"] if not loaded:
            point = _meeting_point(joints)
            if point is not None and _independent(joints):
                made = _at(place, parent, child, joints, "spherical", point, {})
        case ["slide", "slide", "slide", "ball"]:
            if _independent(joints[:3]):
                _require_no_forces(child, joints)
                made = _at(place, parent, child, joints, "free", joints[3].anchor, {})
        case ["slide", "slide", "slide", "hinge", "hinge", "hinge"] if not loaded:
            point = _meeting_point(joints[3:])
            if point is not None and _independent(joints[:3]) and _independent(joints[3:]):
                made = _at(place, parent, child, joints, "free", point, {})
    listed = ", ".join(f"{joint.name} ({joint.kind})" for joint in joints)
    made = made or _composite(parent, child, place, joints)
    if made is None:
        raise ModelError(f"body/{child}", f"the joints {listed}", _WANTED)
    notes.append(f"body {child}: its joints {listed} are one {made.type} joint here{_order(made, joints)}")
    return made


def _cylindrical(parent: str, child: str, place: np.ndarray, joints: list[MjcfJoint]) -> ModelJoint | None:
    """Turn and travel along one axis commute, so their order does not matter."""
    hinge, slide = sorted(joints, key=lambda joint: joint.kind)
    if not _parallel(hinge.axis, slide.axis):
        return None
    sign = float(np.sign(hinge.axis @ slide.axis))
    values = {"axis": hinge.axis} | _forces([hinge, slide], [1.0, sign])
    return _at(place, parent, child, [hinge, slide], "cylindrical", hinge.anchor, values)


def _planar(parent: str, child: str, place: np.ndarray, joints: list[MjcfJoint]) -> ModelJoint | None:
    """The joint frame's z is the hinge's axis and its x a slide's, so that the other slide's is y."""
    first, second, hinge = joints
    right_handed = hinge.axis @ np.cross(first.axis, second.axis) > 0
    x, y = (first, second) if right_handed else (second, first)
    axes = np.column_stack([x.axis, y.axis, hinge.axis])
    if np.max(np.abs(axes.T @ axes - np.eye(3))) > _TOLERANCE:
        return None
    return _at(place, parent, child, [x, y, hinge], "planar", hinge.anchor, {"axis": [0.0, 0.0, 1.0]}, axes)


def _composite(parent: str, child: str, place: np.ndarray, joints: list[MjcfJoint]) -> ModelJoint | None:
    """The row as it is, in the body's frame; None where it is not one of independent hinges and slides."""
    types = {"hinge": "revolute", "slide": "prismatic"}
    if any(joint.kind not in types for joint in joints):
        return None
    points = [{"position": joint.anchor} if joint.kind == "hinge" else {} for joint in joints]
    motions = [{"type": types[j.kind], "axis": j.axis} | at for j, at in zip(joints, points, strict=True)]
    try:
        JointSpec("row", "composite", "a", "b", geometry={"motions": motions})
    except ModelError:
        return None
    values = {"motions": motions} | _forces(joints, [1.0] * len(joints))
    return _at(place, parent, child, joints, "composite", np.zeros(3), values)


def _require_no_forces(child: str, joints: list[MjcfJoint]) -> None:
    """Refuses forces on coordinates that the free joint which was made of them does not have."""
    for joint in joints:
        given = {"damping": joint.damping, "frictionloss": joint.friction, "stiffness": joint.stiffness}
        for key, value in given.items():
            if value:
                found = f"{key} {value:g} on a joint that is part of a free one"
                raise ModelError(
                    f"body/{child}/joint/{joint.name}/{key}", found, "zero: it acts on one coordinate only"
                )


def _order(made: ModelJoint, joints: list[MjcfJoint]) -> str:
    """A clause about coordinates where they are not those of the file, in its order."""
    if made.type in ("spherical", "free"):
        return ", with a quaternion for the turns"
    if made.type not in ("universal", "composite"):
        return f", {made.name}: its coordinates are in the order of this name"
    return ""


def _parallel(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(np.linalg.norm(np.cross(a, b)) <= _TOLERANCE)


def _independent(joints: list[MjcfJoint]) -> bool:
    return abs(np.linalg.det([joint.axis for joint in joints])) > _TOLERANCE


def _meeting_point(hinges: list[MjcfJoint]) -> np.ndarray | None:
    """The point `(3,)` on all the hinges' axes, None if there is none; the least distant one from the origin."""
    across = [np.eye(3) - np.outer(joint.axis, joint.axis) for joint in hinges]
    anchors = [part @ joint.anchor for part, joint in zip(across, hinges, strict=True)]
    matrix, right = np.concatenate(across), np.concatenate(anchors)
    point = np.linalg.lstsq(matrix, right, rcond=None)[0]
    scale = max(1.0, *(float(np.linalg.norm(joint.anchor)) for joint in hinges))
    return point if np.linalg.norm(matrix @ point - right) <= _TOLERANCE * scale else None
