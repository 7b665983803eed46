"""What sensors may measure, by name: `elbow/q`, `hand/point(0.1,0,0)/position[2]`, `body/accelerometer(0,0,0)[0]`."""

from __future__ import annotations

import re
from typing import NamedTuple

from jmbs.ephs import output_shapes, output_units
from jmbs.errors import ModelError
from jmbs.library.mechanics import nearest, show
from jmbs.simulation import FORCE_UNITS, Model, saved_names, state_units

WRENCH_UNITS = ("N m",) * 3 + ("N",) * 3
BODY_UNITS = {
    "position": "m",
    "quaternion": "1",
    "velocity": "m/s",
    "angular_velocity": "rad/s",
    "gyro": "rad/s",
    "accelerometer": "m/s^2",
    "point": "m",
}
"""SI units of what sensors see of bodies, three entries each, of a quaternion (wxyz, body to world) four."""
JOINT_KINDS = ("q", "v", "actuation", "reaction")
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_POINT = re.compile(rf"(point|accelerometer)\(\s*({_NUMBER})\s*,\s*({_NUMBER})\s*,\s*({_NUMBER})\s*\)(/position)?")
_INDEXED = re.compile(r"(.*?)((?:\[\s*\d+(?:\s*,\s*\d+)*\s*\])?)", re.DOTALL)


class OutputName(NamedTuple):
    """What a sensor measures, one number.

    **Arguments:**

    - `kind`: of a joint `q`, `v`, `actuation` or `reaction`; of a body `position`, `quaternion`, `velocity`,
      `angular_velocity`, `point`, `gyro` or `accelerometer`; of a thermal store `temperature`; `state`; or
      `declared`, by a component.
    - `owner`: the joint's, body's, store's or state's name, or the path of what is declared.
    - `index`: which entry; empty for a state or declared output that is a scalar. `point`: in the body's frame, m.
    - `unit`: SI; empty where it is not known.
    """

    kind: str
    owner: str
    index: tuple[int, ...]
    unit: str
    point: tuple[float, float, float] = (0.0, 0.0, 0.0)


def parse_index(text: str) -> tuple[str, tuple[int, ...] | None]:
    """A name and its index, None without: `("link1/inertia", (1, 1))` of `link1/inertia[1,1]`."""
    found = _INDEXED.fullmatch(text)
    if found is None or not found[2]:
        return text, None
    return found[1], tuple(int(entry) for entry in found[2][1:-1].split(","))


def parse_output(model: Model, output: str, path: str = "output") -> OutputName:
    """What an output means in a model. Raises `ModelError` naming `path`, with the nearest known name."""
    text, index = parse_index(output.strip())
    if text.startswith("states/"):
        return _state(model, output, text.removeprefix("states/"), index, path)
    declared = output_units(model.dae)
    if text in declared:
        return OutputName("declared", text, _entry(output, index, output_shapes(model.dae)[text], path), declared[text])
    owner, kind, point = _split(text)
    if kind == "temperature" and owner in saved_names(model)["temperature"]:
        return OutputName(kind, owner, _entry(output, index, (), path), "K")
    if kind in JOINT_KINDS and owner in model.layout.joints:
        return _of_joint(model, output, owner, kind, index, path)
    if kind in BODY_UNITS and owner in model.layout.bodies:
        entry = _entry(output, index, (4 if kind == "quaternion" else 3,), path)
        return OutputName(kind, owner, entry, BODY_UNITS[kind], point)
    known = known_outputs(model)
    raise ModelError(path, show(output), f"a known output{nearest(_plain(text), known)}")


def known_outputs(model: Model) -> list[str]:
    """What sensors may measure in a model, without indices and points."""
    joints = [f"{name}/{kind}" for name in model.layout.joints for kind in JOINT_KINDS]
    points = {"point": "point(0,0,0)/position", "accelerometer": "accelerometer(0,0,0)"}
    bodies = [f"{name}/{points.get(kind, kind)}" for name in model.layout.bodies for kind in BODY_UNITS]
    stores = [f"{name}/temperature" for name in saved_names(model)["temperature"]]
    states = [f"states/{name}" for name, _ in model.layout.state_shapes]
    return [*joints, *bodies, *output_units(model.dae), *stores, *states]


def _split(text: str) -> tuple[str, str, tuple[float, float, float]]:
    """Owner, kind and point; the kind is empty where the text is spelled like no output."""
    place = _POINT.search(text)
    if place is None:
        owner, _, kind = text.rpartition("/")
        return owner, "" if kind == "point" else kind, (0.0, 0.0, 0.0)
    owner, well_formed = text[: place.start()], place.end() == len(text)
    well_formed &= owner.endswith("/") and (place[1] == "point") == bool(place[5])
    x, y, z = (float(place[n]) for n in (2, 3, 4))
    return owner.removesuffix("/"), place[1] if well_formed else "", (x, y, z)


def _plain(text: str) -> str:
    return re.sub(r"\([^)]*\)?", "(0,0,0)", text)


def _of_joint(model: Model, output: str, owner: str, kind: str, index, path: str) -> OutputName:
    names = model.layout.joint(owner).names
    units = {
        "q": names.q_units,
        "v": names.v_units,
        "actuation": tuple(FORCE_UNITS.get(unit, "") for unit in names.v_units),
        "reaction": WRENCH_UNITS,
    }[kind]
    entry = _entry(output, index, (len(units),), path)
    return OutputName(kind, owner, entry, units[entry[0]])


def _state(model: Model, output: str, name: str, index, path: str) -> OutputName:
    shapes = dict(model.layout.state_shapes)
    if name not in shapes:
        raise ModelError(path, show(output), f"a known state{nearest(name, shapes)}")
    unit = state_units(model).get(name, "")
    return OutputName("state", name, _entry(output, index, shapes[name], path), "" if " or " in unit else unit)


def _entry(output: str, index: tuple[int, ...] | None, shape: tuple[int, ...], path: str) -> tuple[int, ...]:
    """The index of one entry; that of scalars may be left out."""
    if index is None:
        if all(size == 1 for size in shape):
            return (0,) * len(shape)
        raise ModelError(path, show(output), f"an index, such as [0], into shape {shape}")
    if len(index) != len(shape) or any(i >= size for i, size in zip(index, shape, strict=True)):
        raise ModelError(path, show(output), f"an index within shape {shape}")
    return index
