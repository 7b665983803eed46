"""From a model's links and joints to a mechanism, whose body frames sit at the centres of mass."""

from __future__ import annotations

from typing import Any

import numpy as np

from jmbs.errors import ModelError
from jmbs.io.models.frames import make_pose, quaternion_from_rotation
from jmbs.io.models.massless import without_massless
from jmbs.io.models.merge import Merged, MergedBody, merge
from jmbs.io.models.names import Names
from jmbs.io.models.tree import GROUND, ModelGear, ModelJoint, ModelRelation, ModelTree
from jmbs.library.mechanics import STANDARD_GRAVITY, Mechanism


def build_mechanism(tree: ModelTree, keep_fixed: bool) -> Mechanism:
    """The mechanism of a model; adds to the tree's notes. Raises `ModelError` with the paths of the file."""
    merged = without_massless(merge(tree, keep_fixed), tree.notes)
    name = tree.name.replace("/", "_").replace("\\", "_")
    mechanism = Mechanism(name, STANDARD_GRAVITY if tree.gravity is None else tree.gravity)
    if not merged.bodies:
        raise ModelError("", "nothing that moves", "a link that a joint other than a fixed one holds")
    names = Names(tree.notes)
    body_names = {link: names.new("body", link) for link in merged.bodies} | {GROUND: GROUND}
    for link, body in merged.bodies.items():
        _add_body(mechanism, body_names[link], body)
    joint_names = {joint.name: names.new("joint", joint.name) for joint in merged.joints}
    for joint in merged.joints:
        _add_joint(mechanism, joint_names[joint.name], joint, merged, body_names)
    for gear in merged.gears:
        if isinstance(gear, ModelRelation):
            _add_relation(mechanism, names.new("gear", gear.name), gear, joint_names)
            continue
        wanted = gear.name or f"{joint_names[gear.joint[0]]}_{gear.joint[1]}"
        _add_gear(mechanism, names.new("gear", wanted), gear, joint_names)
    for joint in tree.loops:
        parent, child = merged.places[joint.parent][0], merged.places[joint.child][0]
        if parent == child:
            tree.notes.append(f"equality {joint.name}: both ends are on {body_names[parent]}, so it has no effect")
            continue
        _add_joint(mechanism, names.new("joint", joint.name), joint, merged, body_names)
    return mechanism


def _add_body(mechanism: Mechanism, name: str, body: MergedBody) -> None:
    """Adds a body; one without mass is refused."""
    if body.mass == 0:
        wanted = (
            "a mass for each link that moves (only those can be without that a fixed joint merges into another, "
            "or whose joints are turns or travels and lead on)"
        )
        raise ModelError(body.link.path, "a moving link without mass", wanted)
    try:
        mechanism.add_body(name, mass=body.mass, inertia=body.inertia)
    except ModelError as error:
        key = error.path.rsplit("/", 1)[-1]
        raise ModelError(f"{body.link.path}/{key}", error.found, error.wanted) from error


def _add_joint(mechanism: Mechanism, name: str, joint: ModelJoint, merged: Merged, body_names: dict[str, str]) -> None:
    parent, parent_frame = _on_body(joint.parent, joint.parent_frame, merged)
    child, child_frame = _on_body(joint.child, joint.child_frame, merged)
    ends: dict[str, Any] = {"parent": body_names[parent], "child": body_names[child]}
    if child == GROUND:  # only of a loop, whose ends may change places: it has no coordinates of interest
        ends = {"parent": GROUND, "child": body_names[parent]}
        parent_frame, child_frame = child_frame, parent_frame
    mechanism.add_joint(name, joint.type, **ends, parent_frame=parent_frame, child_frame=child_frame, **joint.values)
    if joint.q is not None:
        mechanism.set_initial(joints={name: {"q": joint.q}})


def _add_relation(mechanism: Mechanism, name: str, gear: ModelRelation, joint_names: dict[str, str]) -> None:
    joints: dict[str, np.ndarray] = {}
    for (joint, coordinate), coefficient in gear.coefficients.items():
        whole = joint_names[joint]
        own = joints.setdefault(whole, np.zeros(mechanism.joints[whole].dimension))
        own[coordinate] = coefficient
    mechanism.add_constraint(name, "gear", joints=joints, offset=gear.offset)


def _add_gear(mechanism: Mechanism, name: str, gear: ModelGear, joint_names: dict[str, str]) -> None:
    (joint, coordinate), (driver, driver_coordinate) = gear.joint, gear.driver
    mechanism.add_constraint(
        name,
        "gear",
        joint=joint_names[joint],
        driver=joint_names[driver],
        ratio=gear.ratio,
        offset=gear.offset,
        coordinate=coordinate,
        driver_coordinate=driver_coordinate,
    )


def _on_body(link: str, frame: np.ndarray, merged: Merged) -> tuple[str, dict[str, Any]]:
    """The body that a link is part of, and the frame `(4, 4)` in that body's frame at its centre of mass."""
    body, place = merged.places[link]
    centre = np.zeros(3) if body == GROUND else merged.bodies[body].centre
    pose = make_pose(-centre, np.eye(3)) @ place @ frame
    return body, {"position": pose[:3, 3], "quaternion": quaternion_from_rotation(pose[:3, :3])}
