"""What URDF files say beyond links, inertias and joints: taken out of the file's tree, or read, and listed."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections import Counter
from typing import Any


def take_unused(robot: ElementTree.Element, notes: list[str]) -> None:
    """Removes everything but links with their inertias and joints, with a note for each element removed."""
    for node in list(robot):
        if node.tag not in ("link", "joint"):
            name = node.get("name") or node.get("reference") or ""
            notes.append(f"{node.tag} {name}".rstrip() + ": not simulated")
            robot.remove(node)
    for link in robot.findall("link"):
        unused = [node for node in link if node.tag not in ("inertial", "origin")]
        counts = Counter(str(node.tag) for node in unused)
        for node in unused:
            link.remove(node)
        if counts:
            parts = ", ".join(tag if count == 1 else f"{count} {tag}" for tag, count in counts.items())
            notes.append(f"link {link.get('name')}: {parts}: not read (no contact, no drawing)")


def joint_notes(joint: Any) -> list[str]:
    """One line for each thing that a joint says and that is not simulated; `joint` as urdf_parser_py gives it."""
    notes = []
    if joint.limit is not None:
        keys = ("effort", "velocity") if joint.type == "continuous" else ("lower", "upper", "effort", "velocity")
        values = ", ".join(f"{key} {getattr(joint.limit, key):g}" for key in keys)
        notes.append(f"limits {values}: not enforced")
    if joint.dynamics is not None:
        notes += _dynamics_notes(joint)
    if joint.safety_controller is not None:
        notes.append("safety_controller: not simulated")
    if joint.calibration is not None:
        notes.append("calibration: not read")
    return [f"joint {joint.name}: {note}" for note in notes]


def _dynamics_notes(joint: Any) -> list[str]:
    damping, friction = joint.dynamics.damping, joint.dynamics.friction
    if joint.type not in ("revolute", "continuous", "prismatic"):
        return [f"dynamics of a {joint.type} joint, which have no meaning in URDF: not simulated"]
    notes = []
    if damping:
        notes.append(f"damping {damping:g}: simulated, as viscous friction")
    if friction:
        smooth = "smoothed below 1e-3 m/s or rad/s"
        notes.append(f"friction {friction:g}: simulated, as Coulomb friction {smooth}")
    return notes
