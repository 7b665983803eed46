"""Reads URDF files: links, joints and what ROS tools keep beside them, through ROS's own parser."""

from __future__ import annotations

import importlib
import math
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np

from jmbs.io.config_error import ConfigError
from jmbs.io.models.frames import make_pose, rotation_from_rpy
from jmbs.io.models.missing import missing_package
from jmbs.io.models.tree import GROUND, ModelGear, ModelJoint, ModelLink, ModelTree
from jmbs.io.models.urdf_notes import joint_notes, take_unused
from jmbs.io.models.urdf_rotors import take_rotors
from jmbs.library.mechanics import LARGEST, nearest

_TYPES = {
    "fixed": "fixed",
    "revolute": "revolute",
    "continuous": "revolute",
    "prismatic": "prismatic",
    "floating": "free",
    "planar": "planar",
}
_ONE_COORDINATE = ("revolute", "prismatic")


def read_urdf(file: Path, robot: ElementTree.Element, root: str) -> ModelTree:
    """The tree of a `<robot>`; `root`, fixed or free, says how its first link hangs on the ground.

    Raises `ConfigError`, with XML tags and names as path.
    """
    tree = ModelTree(robot.get("name") or file.stem)
    rotors = take_rotors(file, robot, tree.notes)
    take_unused(robot, tree.notes)
    links = [_parse(file, "Link", node, tree.notes) for node in robot.findall("link")]
    joints = [_parse(file, "Joint", node, tree.notes) for node in robot.findall("joint")]
    for link in links:
        if link.name in tree.links:
            raise ConfigError(file, f"link/{link.name}", "two links of that name", "each name only once")
        tree.links[link.name] = _link(file, link, tree.notes)
    for joint in _parents_first(file, tree.links, joints):
        tree.joints.append(_joint(file, joint, rotors.get(joint.name, 0.0)))
        tree.notes += joint_notes(joint)
    tree.gears += _gears(file, joints, tree.notes)
    _hang_on_ground(tree, root)
    return tree


def _gears(file: Path, joints: list[Any], notes: list[str]) -> list[ModelGear]:
    """What `mimic` says, between joints of one coordinate; else a note."""
    kinds, gears = {joint.name: _TYPES[joint.type] for joint in joints}, []
    for joint in joints:
        if joint.mimic is None:
            continue
        driver, path = joint.mimic.joint, f"joint/{joint.name}/mimic"
        if driver not in kinds or driver == joint.name:
            others = [name for name in kinds if name != joint.name]
            raise ConfigError(file, path, f"the joint {driver}", f"another joint of the file{nearest(driver, others)}")
        ratio = 1.0 if joint.mimic.multiplier is None else joint.mimic.multiplier
        offset = joint.mimic.offset or 0.0
        _require_finite(file, path, np.array([ratio, offset]))
        rule = f"joint {joint.name}: mimic {ratio:g} x {driver} + {offset:g}"
        if kinds[joint.name] in _ONE_COORDINATE and kinds[driver] in _ONE_COORDINATE:
            gears.append(ModelGear(f"{joint.name}_gear", (joint.name, 0), (driver, 0), ratio, offset))
            notes.append(f"{rule}: simulated, as a gear")
        else:
            notes.append(f"{rule}: not simulated, as not both have one coordinate")
    return gears


def _parser(file: Path) -> tuple[Any, Any]:
    """The parser's modules of elements and of errors."""
    try:
        names = ("urdf_parser_py.urdf", "urdf_parser_py.xml_reflection.core")
        elements, core = (importlib.import_module(name) for name in names)
    except ImportError as error:
        raise missing_package(file, "urdf-parser-py", "URDF") from error
    return elements, core


def _parse(file: Path, kind: str, node: ElementTree.Element, notes: list[str]) -> Any:
    """A link or joint as the parser understands it; what it does not know becomes notes."""
    elements, core = _parser(file)
    heard: list[str] = []
    # The parser's own way of telling, which would otherwise write to stderr.
    before, core.on_error = core.on_error, heard.append
    path = f"{node.tag}/{node.get('name')}"
    try:
        parsed = getattr(elements, kind).from_xml(node, core.Path(node.tag))
    except core.ParseError as error:
        raise ConfigError(file, _plain(error.path), f"what URDF does not allow ({error.e})", "valid URDF") from None
    except (TypeError, AttributeError, ValueError, AssertionError) as error:  # attributes that are absent or no numbers
        raise ConfigError(file, path, f"an element that cannot be read ({error})", "valid URDF") from None
    finally:
        core.on_error = before
    for message in heard:
        if not message.startswith("Unknown"):
            raise ConfigError(file, path, f"what URDF does not allow ({message})", "valid URDF")
        notes.append(f"{node.tag} {parsed.name}: {message[:1].lower()}{_plain(message[1:])}: not read")
    return parsed


def _plain(path: object) -> str:
    """The parser's XPath as names joined by `/`: `/joint[@name='elbow']/axis` becomes `joint/elbow/axis`."""
    return re.sub(r"\[@name='([^']*)'\]", r"/\1", str(path)).lstrip("/")


def _link(file: Path, link: Any, notes: list[str]) -> ModelLink:
    path = f"link/{link.name}"
    if link.origin is not None:
        notes.append(f"link {link.name}: origin, which URDF links do not have: not read")
    if link.inertial is None:
        return ModelLink(link.name, path)
    path += "/inertial"
    mass = _number(file, f"{path}/mass", link.inertial.mass)
    if mass < 0:
        raise ConfigError(file, f"{path}/mass", mass, "a mass that is not negative, kg")
    if link.inertial.inertia is None:
        raise ConfigError(file, f"{path}/inertia", "nothing", "ixx, ixy, ixz, iyy, iyz, izz")
    origin = _origin(file, path, link.inertial.origin)
    inertia = np.array(link.inertial.inertia.to_matrix())
    _require_finite(file, f"{path}/inertia", inertia)
    if mass == 0 and np.any(inertia):
        raise ConfigError(file, f"{path}/mass", "zero, beside an inertia", "a positive mass, or neither")
    turn = origin[:3, :3]
    return ModelLink(link.name, path, mass, origin[:3, 3], turn @ inertia @ turn.T)


def _joint(file: Path, joint: Any, armature: float) -> ModelJoint:
    path = f"joint/{joint.name}"
    if joint.type not in _TYPES:
        raise ConfigError(file, path, f"type {joint.type}", f"one of {', '.join(_TYPES)}")
    kind = _TYPES[joint.type]
    values: dict[str, Any] = {}
    if kind in (*_ONE_COORDINATE, "planar"):
        axis = [1.0, 0.0, 0.0] if joint.axis is None else joint.axis
        _require_finite(file, f"{path}/axis", np.array(axis))
        if not np.any(axis):
            raise ConfigError(file, f"{path}/axis", axis, "a direction of positive length")
        values["axis"] = axis
    if kind in _ONE_COORDINATE and joint.dynamics is not None:
        friction = {"viscous": joint.dynamics.damping, "coulomb": joint.dynamics.friction}
        for value in friction.values():
            if value is not None and not 0 <= value < math.inf:
                raise ConfigError(file, f"{path}/dynamics", value, "damping and friction that are not negative")
        given = {key: value for key, value in friction.items() if value}
        values |= {"friction": given} if given else {}
    values |= {"armature": armature} if armature else {}
    frame = _origin(file, path, joint.origin)
    return ModelJoint(joint.name, kind, joint.parent, joint.child, frame, values=values)


def _origin(file: Path, path: str, origin: Any) -> np.ndarray:
    """The pose of an `<origin>`, the identity where there is none."""
    if origin is None:
        return np.eye(4)
    xyz, rpy = np.array(origin.xyz or [0.0] * 3), np.array(origin.rpy or [0.0] * 3)
    _require_finite(file, f"{path}/origin", np.concatenate([xyz, rpy]))
    return make_pose(xyz, rotation_from_rpy(rpy))


def _number(file: Path, path: str, value: float) -> float:
    _require_finite(file, path, np.array(value))
    return value


def _require_finite(file: Path, path: str, values: np.ndarray) -> None:
    if not np.all(np.abs(values) <= LARGEST):
        raise ConfigError(file, path, values.tolist(), f"finite numbers, none beyond {LARGEST:g} in magnitude")


def _parents_first(file: Path, links: dict[str, ModelLink], joints: list[Any]) -> list[Any]:
    """The joints in the order of the tree; refuses what is no tree."""
    parent_joint: dict[str, Any] = {}
    for joint in joints:
        path = f"joint/{joint.name}"
        for key in ("parent", "child"):
            if getattr(joint, key) not in links:
                found = f"no link {getattr(joint, key)}"
                raise ConfigError(file, f"{path}/{key}", found, f"a link{nearest(getattr(joint, key), links)}")
        if joint.child in parent_joint:
            found = f"the link {joint.child}, already the child of joint {parent_joint[joint.child].name}"
            raise ConfigError(file, f"{path}/child", found, "a tree: one joint above each link")
        parent_joint[joint.child] = joint
    roots = [name for name in links if name not in parent_joint]
    if len(roots) > 1:
        raise ConfigError(file, "link", f"links {', '.join(roots)} that no joint holds", "one such link, the root")
    below: dict[str, list[Any]] = {name: [] for name in links}
    for joint in joints:
        below[joint.parent].append(joint)
    ordered, open_links = [], list(roots)
    while open_links:
        ordered += below[open_links[0]]
        open_links += [joint.child for joint in below[open_links.pop(0)]]
    if len(ordered) < len(joints) or not links:
        circle = ", ".join(joint.name for joint in joints if joint not in ordered)
        raise ConfigError(file, "joint", f"a cycle of the joints {circle}" if links else "no links", "a tree of links")
    return ordered


def _hang_on_ground(tree: ModelTree, root: str) -> None:
    """Puts the joint between the ground and the root link in front."""
    children = {joint.child for joint in tree.joints}
    (first,) = (name for name in tree.links if name not in children)
    kind = "free" if root == "free" else "fixed"
    tree.joints.insert(0, ModelJoint(f"{first}_to_ground", kind, GROUND, first))
