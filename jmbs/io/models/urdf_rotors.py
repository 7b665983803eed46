"""Rotors of URDF's transmissions: `motorInertia` of an actuator, which its joint feels times the squared reduction."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

from jmbs.io.config_error import ConfigError
from jmbs.library.mechanics import LARGEST, nearest

_INERTIA = ("motorInertia", "rotorInertia", "rotor_inertia")
_REDUCTION = ("mechanicalReduction", "gear_ratio")
"""Names by which files call the two, in any namespace: ROS names the reduction only, Drake both."""


def take_rotors(file: Path, robot: ElementTree.Element, notes: list[str]) -> dict[str, float]:
    """Armature, kg m^2 or kg, by joint of one coordinate; takes the transmissions that say it out of the file's tree.

    Those of several joints stay there. Raises `ConfigError`.
    """
    joints = {joint.get("name", ""): joint.get("type") for joint in robot.findall("joint")}
    rotors: dict[str, float] = {}
    for node in robot.findall("transmission"):
        inertias = _values(file, node, _INERTIA)
        ends = [joint.get("name", "") for joint in node.findall("joint")]
        if not inertias or len(ends) != 1:
            continue
        (end,) = ends
        if end not in joints:
            found = f"the joint {end}"
            raise ConfigError(file, _path(node, "joint"), found, f"a joint of the file{nearest(end, joints)}")
        if joints[end] not in ("revolute", "continuous", "prismatic"):
            continue
        reductions = _values(file, node, _REDUCTION) or [1.0]
        if len(inertias) > 1 or len(reductions) > 1:
            continue
        armature = inertias[0] * reductions[0] ** 2
        if not armature <= LARGEST:
            found = f"a rotor that the joint feels as {armature:g}"
            raise ConfigError(file, _path(node, "actuator"), found, f"none beyond {LARGEST:g}")
        rotors[end] = rotors.get(end, 0.0) + armature
        rotor = f"rotor inertia {inertias[0]:g} behind a reduction of {reductions[0]:g}"
        name = f"transmission {node.get('name', '')}".rstrip()
        notes.append(f"{name}: {rotor}: simulated, as armature {armature:g} of joint {end}")
        robot.remove(node)
    return rotors


def _path(transmission: ElementTree.Element, key: str) -> str:
    return "/".join(part for part in ("transmission", transmission.get("name"), key) if part)


def _values(file: Path, transmission: ElementTree.Element, names: tuple[str, ...]) -> list[float]:
    """The numbers that stand in elements of these names, as text or as the attribute `value`."""
    found = []
    for node in transmission.iter():
        tag = str(node.tag).rpartition("}")[2]
        if tag not in names:
            continue
        text = (node.get("value") or node.text or "").strip()
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        # A reduction may be negative: it turns the rotor the other way.
        if not abs(value) <= LARGEST or (tag in _INERTIA and value < 0):
            wanted = "a finite number" + (", not negative, kg m^2 or kg" if tag in _INERTIA else "")
            raise ConfigError(file, _path(transmission, tag), text or "nothing", wanted)
        found.append(value)
    return found
