"""Reads a mechanism from a YAML config, `schema: jmbs/1`."""

from __future__ import annotations

import copy
import difflib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from jmbs.errors import ModelError
from jmbs.io.config_error import ConfigError
from jmbs.io.overrides import apply_overrides
from jmbs.io.schema import (
    SCHEMA,
    BodySection,
    ConductionSection,
    ConfigSection,
    FrictionLawSection,
    FrictionSection,
    LawSection,
    LoadSection,
    SimulationSection,
    SpringDamperSection,
    SpringSection,
    StoreSection,
    SurfaceSection,
    Table,
    UserForceSection,
)
from jmbs.io.schema_values import Section
from jmbs.io.systems import add_connections, add_systems, drive_value
from jmbs.io.tables import read_table
from jmbs.io.user_types import CONSTRAINT, FORCE, FRICTION, JOINT, LAW, POTENTIAL, UserKind, make_user_object
from jmbs.io.yaml_reader import read_yaml
from jmbs.library.mechanics import JOINT_DIMENSIONS, STANDARD_GRAVITY, Mechanism, SimulationSpec, show

__all__ = ["ConfigError", "read_config"]


def read_config(path: str | os.PathLike[str], overrides: Iterable[str] = ()) -> Mechanism:
    """The mechanism that a YAML config describes, validated as a whole.

    **Arguments:**

    - `path`: the config; files that it names are relative to it.
    - `overrides`: `a.b=value` with the YAML path in dots and a YAML value, such as `bodies.link1.mass=3`. They change
      named parts and may set any key of the schema, but do not add parts; null takes a value away.

    The merged config is kept as `mechanism.config`. Raises `ConfigError`, one line with file, path, what was found and
    what was wanted.
    """
    file = Path(path)
    return config_mechanism(file, read_yaml(file), overrides)


def config_mechanism(file: Path, config: dict[str, Any], overrides: Iterable[str] = ()) -> Mechanism:
    """The mechanism of a config that is a mapping already; messages name `file`. See `read_config`."""
    apply_overrides(file, config, overrides)
    check_schema(file, config, SCHEMA)
    try:
        sections = ConfigSection.model_validate({key: value for key, value in config.items() if key != "schema"})
    except ValidationError as errors:
        raise first_error(file, errors) from None
    except RecursionError:
        raise ConfigError(file, "", "values nested too deeply", "a YAML config of a few levels") from None
    try:
        mechanism = _build(sections, file)
        mechanism.validate()
    except ModelError as error:
        raise ConfigError(file, error.path, error.found, error.wanted) from error
    mechanism.config = copy.deepcopy(config) | {"name": mechanism.name}
    return mechanism


def check_schema(file: Path, config: dict[str, Any], schema: str) -> None:
    """Refuses a file that does not say that it is of the schema."""
    found = config.get("schema")
    if found != schema:
        slip = difflib.get_close_matches("schema", config, n=1, cutoff=0.7) if found is None else []
        raise ConfigError(file, "schema", f"nothing but {slip[0]}" if slip else show(found), schema)


def first_error(file: Path, errors: ValidationError) -> ConfigError:
    """The first of pydantic's errors in our words, with the number of the others."""
    first = errors.errors(include_url=False)[0]
    context = first.get("ctx", {})
    # Pieces in brackets are tags of unions, or pydantic's mark for the key of a mapping; neither is in the file.
    keys = [str(key) for key in first["loc"] if not (isinstance(key, str) and key[:1] in "<[")]
    if context.get("key"):
        keys.append(context["key"])
    found = context.get("found") or show(first["input"])
    if first["type"] == "jmbs":
        wanted = context["wanted"]
    elif first["type"] == "literal_error":
        wanted = context["expected"].replace("'", "")
    else:
        wanted = first["msg"].removeprefix("Input should be ")
    return ConfigError(file, "/".join(keys), found, wanted, errors.error_count() - 1)


def _build(config: ConfigSection, file: Path) -> Mechanism:
    """The mechanism of a config whose keys and kinds of values are right. Raises `ModelError`."""
    gravity = STANDARD_GRAVITY if config.gravity is None else config.gravity
    name = file.stem if config.name is None else config.name
    environment = config.environment
    mechanism = Mechanism(name, gravity, environment.temperature, config.seed, environment.pressure)
    for name, body in config.bodies.items():
        _add_body(mechanism, name, body, file.parent)
    for name, store in config.stores.items():
        _add_store(mechanism, name, store)
    for name, joint in config.joints.items():
        _add_joint(mechanism, name, joint, file.parent)
    for name, load in config.loads.items():
        _add_load(mechanism, name, load, file.parent)
    for name, element in config.elements.items():
        _add_element(mechanism, name, element, file.parent)
    for name, constraint in config.constraints.items():
        _add_constraint(mechanism, name, constraint, file.parent)
    add_systems(mechanism, config.systems, file.parent)
    add_connections(mechanism, config.connections, file.parent)
    mechanism.set_initial(
        joints={name: _given(values) for name, values in config.initial.joints.items()},
        bodies={name: _given(values) for name, values in config.initial.bodies.items()},
        states=config.initial.states,
    )
    if config.simulation is not None:
        mechanism.simulation = _simulation(config.simulation)
    return mechanism


def _given(section: Section) -> dict[str, Any]:
    """The values of a section that are given or have a default, by key."""
    return {key: getattr(section, key) for key in type(section).model_fields if getattr(section, key) is not None}


def _plain(value: Any) -> Any:
    """A value of a section with what it holds of sections as mappings."""
    if isinstance(value, Section):
        return _given(value)
    return [_plain(entry) for entry in value] if isinstance(value, list) else value


def _source(path: str, value: Any, folder: Path) -> Any:
    """A constant as it is, or the table that is named."""
    if not isinstance(value, Table):
        return value
    return read_table(path, folder / value.table, value.time, value.columns)


def _add_body(mechanism: Mechanism, name: str, section: BodySection, folder: Path) -> None:
    values = _given(section)
    if section.potential is not None:
        values["potential"] = _law(f"bodies/{name}/potential", section.potential, POTENTIAL, folder)
    for key in ("shape", "distribution"):
        if key in values:
            values[key] = _given(values[key])
    mechanism.add_body(name, **values)


def _add_store(mechanism: Mechanism, name: str, section: StoreSection) -> None:
    mechanism.add_store(name, section.capacity, section.temperature)


def _add_joint(mechanism: Mechanism, name: str, section: Any, folder: Path) -> None:
    path = f"joints/{name}"
    kind: Any = section.type
    if ":" in section.type:
        kind = make_user_object(path, section.type, section.parameters, JOINT, folder)
    elif section.parameters is not None:
        wanted = f"no parameters: they belong to package.module:Name, not to {', '.join(JOINT_DIMENSIONS)}"
        raise ModelError(f"{path}/parameters", show(section.parameters), wanted)
    values = {key: _plain(value) for key, value in _given(section).items() if key not in ("type", "parameters")}
    values["spring"] = _spring(f"{path}/spring", section.spring, folder)
    values["friction"] = _friction(f"{path}/friction", section.friction, folder)
    values["actuation"] = _source(f"{path}/actuation", section.actuation, folder)
    values["motion"] = drive_value(f"{path}/motion", section.motion, folder)
    mechanism.add_joint(name, kind, **values)


def _spring(path: str, section: SpringSection | LawSection | None, folder: Path) -> Any:
    if isinstance(section, LawSection):
        return _law(path, section, LAW, folder)
    return None if section is None else _given(section)


def _friction(path: str, section: FrictionSection | FrictionLawSection | None, folder: Path) -> Any:
    if isinstance(section, FrictionLawSection):
        return {"law": _law(path, section, FRICTION, folder), "heats": section.heats}
    return None if section is None else _given(section)


def _law(path: str, section: LawSection, kind: UserKind, folder: Path) -> Any:
    return make_user_object(path, section.type, section.parameters, kind, folder)


def _add_load(mechanism: Mechanism, name: str, section: LoadSection, folder: Path) -> None:
    values = {key: _source(f"loads/{name}/{key}", value, folder) for key, value in _given(section).items()}
    mechanism.add_load(name, **values)


def _add_element(
    mechanism: Mechanism,
    name: str,
    section: SpringDamperSection | ConductionSection | UserForceSection,
    folder: Path,
) -> None:
    if isinstance(section, SpringDamperSection):
        values = _given(section)
        del values["type"]
        if isinstance(section.stiffness, LawSection):
            values["stiffness"] = _spring(f"elements/{name}/stiffness", section.stiffness, folder)
        mechanism.add_spring_damper(name, **values)
        return
    if isinstance(section, ConductionSection):
        mechanism.add_conduction(name, section.a, section.b, section.conductance)
        return
    path = f"elements/{name}"
    force = make_user_object(path, section.type, section.parameters, FORCE, folder)
    mechanism.add_force(name, section.body, force.wrench)


def _add_constraint(mechanism: Mechanism, name: str, section: Any, folder: Path) -> None:
    values = _given(section)
    for key, value in values.items():
        if isinstance(value, SurfaceSection):
            surface = _given(value)
            for rate in surface.keys() & {"velocity", "angular_velocity"}:
                surface[rate] = drive_value(f"constraints/{name}/{key}/{rate}", surface[rate], folder)
            values[key] = surface
    parameters = values.pop("parameters", None)
    if ":" in section.type:
        values["type"] = make_user_object(f"constraints/{name}", section.type, parameters, CONSTRAINT, folder)
    elif parameters is not None:
        wanted = "no parameters: they belong to package.module:Name"
        raise ModelError(f"constraints/{name}/parameters", show(parameters), wanted)
    mechanism.add_constraint(name, **values)


def _simulation(section: SimulationSection) -> SimulationSpec:
    values = _given(section)
    tolerance = values.pop("tolerance", None)
    if tolerance is not None:
        values |= {"rtol": None, "atol": None} | _given(tolerance)
    return SimulationSpec(**values)
