"""The parts of a mechanism as the sections of a config say them; what has its default value is left out."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import numpy as np

from jmbs.errors import ModelError
from jmbs.library.mechanics import Guess, Mechanism, RelationSpec, SimulationSpec, TableSpec, is_law


def plain(value: Any) -> Any:
    """Arrays as lists, numpy's numbers as Python's, guesses as configs write them, other things as they are."""
    if isinstance(value, Guess):
        return {"guess": plain(value.value)}
    return np.asarray(value).tolist() if hasattr(value, "shape") else value


def _given(values: dict[str, Any]) -> dict[str, Any]:
    """The values that are not None, in plain form."""
    return {key: plain(value) for key, value in values.items() if value is not None}


def _changed(spec: Any, keys: tuple[str, ...]) -> dict[str, Any]:
    """Those of a specification's fields that differ from their defaults, in plain form."""
    fields = {field.name: field for field in dataclasses.fields(spec)}
    values = {}
    for key in keys:
        field = fields[key]
        usual = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        value = plain(getattr(spec, key))
        if value is not None and value != plain(usual):
            values[key] = value
    return values


class Parts:
    """Turns the specifications of one mechanism into entries of a config.

    `tables` collects the tables that they hold by the names of their files, which start with `stem`. Methods raise
    `ModelError` for what a config cannot say.
    """

    def __init__(self, mechanism: Mechanism, stem: str):
        self._read = mechanism.config
        self._mechanism = mechanism
        self._stem = stem
        self.tables: dict[str, TableSpec] = {}

    def as_read(self, section: str, name: str) -> Any:
        """The entry of the config that the mechanism was read from. Refuses what was not read from one."""
        entry = (self._read.get(section) or {}).get(name)
        if entry is None:
            found = "a Python object, which a config cannot hold"
            raise ModelError(f"{section}/{name}", found, "a part given by values, or by type in a config")
        return copy.deepcopy(entry)

    def body(self, spec: Any) -> dict[str, Any]:
        """A section of `bodies`; shapes and distributions stand beside the mass and inertia that came of them."""
        inertia = None if spec.kind == "particle" else spec.inertia
        shape = None if spec.shape is None else {spec.shape.kind: plain(spec.shape.dimensions)}
        law = {} if spec.potential is None else {"potential": self.as_read("bodies", spec.name)["potential"]}
        given = _given({"mass": spec.mass, "inertia": inertia, "shape": shape})
        return given | _changed(spec, ("group", "kind")) | law

    def store(self, spec: Any) -> dict[str, Any]:
        """A section of `stores`."""
        return {"type": "thermal", "capacity": spec.capacity, "temperature": spec.temperature}

    def joint(self, spec: Any) -> dict[str, Any]:
        """A section of `joints`."""
        entry: dict[str, Any] = {"type": spec.type}
        if spec.motion is not None:
            read = self.as_read("joints", spec.name)
            entry = {key: read[key] for key in ("type", "parameters") if key in read}
        entry |= {"parent": spec.parent, "child": spec.child}
        entry |= {key: frame for key in ("parent_frame", "child_frame") if (frame := _frame(getattr(spec, key)))}
        for key, value in spec.geometry.items():
            # The motions of a composite joint are sections of their own.
            entry[key] = [_given(vars(part)) for part in value] if isinstance(value, tuple) else plain(value)
        for key in ("spring", "friction"):
            values = getattr(spec, key)
            if is_law(values) or getattr(values, "law", None) is not None:
                entry[key] = self.as_read("joints", spec.name)[key]
            elif values is not None:
                entry[key] = _changed(values, tuple(vars(values)))
        entry |= _given({"armature": spec.armature})
        if spec.actuation is not None:
            entry["actuation"] = self._constant_or_table(f"{spec.name}_actuation", spec.actuation)
        if spec.prescribed is not None:
            path, original = f"joints/{spec.name}/motion", self._original("joints", spec.name, "motion")
            entry["motion"] = self._drive(f"{spec.name}_motion", path, spec.prescribed, original)
        return entry

    def load(self, spec: Any) -> dict[str, Any]:
        """A section of `loads`."""
        entry = {"body": spec.body} | _changed(spec, ("point", "frame"))
        for key in ("force", "torque"):
            entry[key] = self._constant_or_table(f"{spec.name}_{key}", getattr(spec, key))
        return entry

    def spring_damper(self, spec: Any) -> dict[str, Any]:
        """A section of `elements`."""
        values = {field.name: plain(getattr(spec, field.name)) for field in dataclasses.fields(spec)}
        if is_law(spec.stiffness):
            values["stiffness"] = self.as_read("elements", spec.name)["stiffness"]
        return {"type": "spring_damper"} | {key: value for key, value in values.items() if key != "name"}

    def conduction(self, spec: Any) -> dict[str, Any]:
        """A section of `elements`."""
        return {"type": "conduction", "a": spec.a, "b": spec.b, "conductance": spec.conductance}

    def constraint(self, spec: Any) -> dict[str, Any]:
        """A section of `constraints`."""
        entry = {"type": spec.type, "body": spec.body}
        for key in spec.kind.keys:
            value = plain(spec.values[key.name])
            if key.name != spec.surface_key and value is not None and value != plain(key.default):
                entry[key.name] = value
        if spec.surface_key is None:
            return entry
        surface = _given({"normal": spec.surface.normal}) | {"point": plain(spec.surface.point)}
        for path, rate in spec.surface.rates(spec.surface_key).items():
            key = path.rsplit("/", 1)[-1]
            if rate is not None:
                original = self._original("constraints", spec.name, spec.surface_key, key)
                surface[key] = self._drive(f"{spec.name}_{key}", f"constraints/{spec.name}/{path}", rate, original)
        if spec.surface.normal is not None or spec.surface.moving:
            entry[spec.surface_key] = surface
        return entry

    def body_constraint(self, spec: Any) -> dict[str, Any]:
        """A section of `constraints`."""
        if spec.by_law:
            return self.as_read("constraints", spec.name)
        law = next(iter(spec.laws.values()))[0]
        entry = {"type": spec.type, "body": spec.body}
        if spec.type == "no_slide":
            given = {"point": law.point, "direction": law.direction, "frame": law.frame}
            return entry | _given(given) | {"relative_to": {"body": spec.other}}
        roller = law.roller
        plane = {"body": spec.other} | _given({"point": roller.point, "normal": roller.normal})
        return entry | _given({"radius": roller.radius, "axis": roller.axis}) | {"plane": plane}

    def gear(self, spec: Any) -> dict[str, Any]:
        """A section of `constraints`."""
        if isinstance(spec, RelationSpec):
            joints = {name: plain(own if len(own) > 1 else own[0]) for name, own in spec.joints.items()}
            return {"type": "gear", "joints": joints} | _changed(spec, ("offset",))
        entry = {"type": "gear", "joint": spec.joint, "driver": spec.driver, "ratio": spec.ratio}
        return entry | _changed(spec, ("offset", "coordinate", "driver_coordinate"))

    def connection(self, spec: Any) -> dict[str, Any]:
        """A section of `connections`."""
        entry: dict[str, Any] = {"ports": list(spec.ports)}
        for key in ("flow", "effort"):
            if (value := getattr(spec, key)) is not None:
                original = self._original("connections", spec.name, key)
                entry[key] = self._drive(f"{spec.name}_{key}", f"connections/{spec.name}/{key}", value, original)
        return entry

    def initial(self) -> dict[str, Any]:
        """The section `initial`."""
        sections = {
            "joints": {name: _given(values) for name, values in self._mechanism.initial_joints.items()},
            "bodies": {name: _given(values) for name, values in self._mechanism.initial_bodies.items()},
            "states": _given(self._mechanism.initial_states),
        }
        return {key: section for key, section in sections.items() if section}

    def simulation(self) -> dict[str, Any]:
        """The section `simulation`, empty where nothing was said."""
        spec = self._mechanism.simulation
        if spec == SimulationSpec():
            return {}
        if spec.t1 is None:
            raise ModelError("simulation/t1", "nothing, beside other settings", "an end time, s, which configs need")
        # What those who say nothing get stays unsaid: a step beside a written tolerance would be refused.
        alike = SimulationSpec(t1=spec.t1, t0=spec.t0, precision=spec.precision)
        usual = {
            **dataclasses.asdict(alike),
            "t1": None,
            "t0": SimulationSpec.t0,
            "precision": SimulationSpec.precision,
            "until": {},
        }
        given = _given(dataclasses.asdict(spec)) | {"until": dict(spec.until)}
        tolerance = {key: given.pop(key) for key in ("rtol", "atol") if key in given}
        values = {key: value for key, value in given.items() if value != usual[key]}
        changed = any(value != usual[key] for key, value in tolerance.items())
        return values | ({"tolerance": tolerance} if changed else {})

    def _original(self, *keys: str) -> Any:
        """What the config that the mechanism was read from says at a path, None where it has none."""
        place: Any = self._read
        for key in keys:
            place = place.get(key) if isinstance(place, dict) else None
        return copy.deepcopy(place)

    def _constant_or_table(self, name: str, value: Any) -> Any:
        if not isinstance(value, TableSpec):
            return plain(value)
        file = f"{self._stem}_{name}.csv"
        self.tables[file] = value
        return {"table": file, "columns": [f"column{i + 1}" for i in range(value.values.shape[1])]}

    def _drive(self, name: str, path: str, value: Any, original: Any) -> Any:
        """A constant, a table, or a function of time as it was read: `original`, if that is one."""
        if not callable(value):
            return self._constant_or_table(name, value)
        if not isinstance(original, dict) or "type" not in original:
            raise ModelError(path, "a function, which a config cannot hold", "a constant, a table, or a named type")
        return original


def _frame(frame: Any) -> dict[str, Any]:
    return _changed(frame, ("position", "quaternion"))
