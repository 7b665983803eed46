"""Reads a robot description file into a mechanism, with notes on everything in it that is not simulated."""

from __future__ import annotations

import dataclasses
import os
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from jmbs.errors import ModelError, printable
from jmbs.files import read_bytes, reason
from jmbs.io.config_error import ConfigError
from jmbs.io.models.build import build_mechanism
from jmbs.io.models.left_out import left_out
from jmbs.io.models.mjcf import read_mjcf
from jmbs.io.models.stiff import choose_method
from jmbs.io.models.urdf import read_urdf
from jmbs.library.mechanics import Mechanism, show

SUFFIXES = (".urdf", ".xml", ".mjcf")


@dataclasses.dataclass(frozen=True, eq=False)
class ImportedModel:
    """A model that was read: its `mechanism`, and `notes`, a line for everything read but not simulated or changed.

    `left_out`: one line in capitals on what of this changes the motion, empty where nothing does.
    """

    mechanism: Mechanism
    notes: tuple[str, ...]

    @property
    def left_out(self) -> str:
        """See the class."""
        return left_out(self.notes)


def is_model(path: str | os.PathLike[str]) -> bool:
    """Whether a file's name is that of a robot description (`.urdf`, `.xml`, `.mjcf`) rather than of a config."""
    return Path(path).suffix.lower() in SUFFIXES


def read_model(path: str | os.PathLike[str], fixed: str = "merge", root: str = "fixed") -> ImportedModel:
    """The mechanism that a URDF or MJCF file describes; the root tag, `<robot>` or `<mujoco>`, says which it is.

    **Arguments:**

    - `fixed`: "merge" makes one body of links that fixed joints hold together; "keep" keeps the fixed joints, except
      where a link has no mass.
    - `root`: how the root link of a URDF hangs on the ground, "fixed" or "free". MJCF says so itself.

    Bodies keep the axes of their links; their frames are moved to the centre of mass. Zero joint coordinates are the
    model's zero configuration. Where friction is stiff at rest, `mechanism.simulation` has an implicit method, and a
    note says so. Raises `ConfigError`, one line with file, place, what was found and what was wanted.
    """
    file = Path(path)
    for key, value, known in (("fixed", fixed, ("merge", "keep")), ("root", root, ("fixed", "free"))):
        if value not in known:
            raise ModelError(key, show(value), " or ".join(known))
    element = _xml(file)
    if element.tag == "robot":
        tree = read_urdf(file, element, root)
    elif element.tag == "mujoco":
        if root == "free":
            wanted = "fixed: in MJCF a body moves freely where the file gives it a freejoint"
            raise ConfigError(file, "", "root free", wanted)
        tree = read_mjcf(file)
    else:
        raise ConfigError(file, "", f"the root element {element.tag}", "robot (URDF) or mujoco (MJCF)")
    try:
        mechanism = build_mechanism(tree, fixed == "keep")
        mechanism.validate()
        tree.notes += choose_method(mechanism)
    except ModelError as error:
        raise ConfigError(file, error.path, error.found, error.wanted) from error
    return ImportedModel(mechanism, tuple(printable(note) for note in tree.notes))


def _xml(file: Path) -> ElementTree.Element:
    """The root element of an XML file without xacro's macros."""
    try:
        element = ElementTree.fromstring(read_bytes(file))
    except OSError as error:
        raise ConfigError(file, "", reason(error), "a URDF or MJCF file that can be read") from None
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise ConfigError(file, "", f"broken XML ({error})", "a URDF or MJCF file") from None
    if any("wiki/xacro" in str(node.tag) for node in element.iter()):
        raise ConfigError(file, "", "macros of xacro", "plain URDF: run xacro on it first")
    return element
