"""Systems and connections of a config: any component or pattern beside the mechanical sections."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jmbs.ephs import System, interface_of, pattern
from jmbs.errors import ModelError
from jmbs.io.schema import ConnectionSection, SystemSection, Table, UserFunction
from jmbs.io.tables import read_table
from jmbs.io.user_types import FUNCTION, SYSTEM, make_user_object
from jmbs.library import SYSTEMS
from jmbs.library.mechanics import Mechanism, nearest, show


def add_systems(mechanism: Mechanism, sections: dict[str, SystemSection], folder: Path) -> None:
    """Adds every system of the section; modules may be in `folder`. Raises `ModelError` with paths below `systems`."""
    for name, section in sections.items():
        mechanism.add_system(name, make_system(f"systems/{name}", section, folder))


def add_connections(mechanism: Mechanism, sections: dict[str, ConnectionSection], folder: Path) -> None:
    """Adds every connection; tables are read relative to `folder`. Raises `ModelError` below `connections`."""
    for name, section in sections.items():
        path = f"connections/{name}"
        flow = drive_value(f"{path}/flow", section.flow, folder)
        effort = drive_value(f"{path}/effort", section.effort, folder)
        mechanism.connect(name, section.ports, flow, effort)


def make_system(path: str, section: SystemSection, folder: Path) -> Any:
    """A component or system by its type's name, or a pattern of such. Raises `ModelError` below `path`."""
    if section.type is None:
        return _composite(path, section, folder)
    for key in ("systems", "connections", "ports"):
        if getattr(section, key):
            raise ModelError(f"{path}/{key}", f"{key} beside type {section.type}", f"either a type or {key}")
    name = SYSTEMS.get(section.type, section.type)
    if ":" not in name:
        wanted = f"package.module:Name or the name of a system{nearest(section.type, SYSTEMS)}"
        raise ModelError(f"{path}/type", show(section.type), wanted)
    made = make_user_object(path, name, section.parameters, SYSTEM, folder)
    interface_of(made, path)
    return made


def _composite(path: str, section: SystemSection, folder: Path) -> System:
    """A pattern: boxes from `systems`, junctions from `connections`, outer ports from `ports`."""
    if not section.systems:
        raise ModelError(path, "neither type nor systems", "a type, or systems with connections and ports")
    if section.parameters:
        raise ModelError(f"{path}/parameters", show(section.parameters), "a type that takes them")
    boxes = {name: make_system(f"{path}/systems/{name}", inner, folder) for name, inner in section.systems.items()}
    for name, connection in section.connections.items():
        if connection.flow is not None or connection.effort is not None:
            raise ModelError(f"{path}/connections/{name}", "a drive inside a pattern", "drives at the outermost level")
    junctions = {name: connection.ports for name, connection in section.connections.items()}
    interfaces = {name: box.ports for name, box in boxes.items()}
    try:
        return System(pattern(interfaces, junctions, section.ports or ()), boxes)
    except ModelError as error:
        below = error.path.removeprefix("outer/")
        below = error.path if below == error.path or "outer" in boxes else f"ports/{below}"
        raise ModelError(f"{path}/{below}", error.found, error.wanted) from error


def drive_value(path: str, value: Any, folder: Path) -> Any:
    """A constant as it is, the table that is named, or the function of time that is named."""
    if isinstance(value, Table):
        return read_table(path, folder / value.table, value.time, value.columns)
    if isinstance(value, UserFunction):
        return make_user_object(path, value.type, value.parameters, FUNCTION, folder)
    return value
