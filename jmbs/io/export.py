"""Writes a mechanism as a config, `schema: jmbs/1`, that reads back to the same mechanism."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from jmbs.errors import ModelError
from jmbs.files import check_new_file, write_text
from jmbs.io.export_parts import Parts, plain
from jmbs.io.schema import SCHEMA
from jmbs.io.tables import write_table
from jmbs.library.mechanics import Mechanism


def write_config(
    mechanism: Mechanism, path: str | os.PathLike[str], notes: Iterable[str] = (), force: bool = False
) -> None:
    """Writes a mechanism to a YAML config; tables go to CSV files beside it.

    Numbers are written exactly; reading normalises directions and quaternions again, which may change their last bit.

    **Arguments:**

    - `notes`: lines for a comment at the head of the file.
    - `force`: overwrite existing files; otherwise they are refused.

    Raises `ModelError` for what `mechanism_config` refuses, and where the file cannot be.
    """
    file = Path(path)
    config, tables = config_and_tables(mechanism, file.stem)
    for target in (file, *(file.parent / name for name in tables)):
        check_new_file(target, force)
    for name, table in tables.items():
        write_table(file.parent / name, table)
    write_text(file, config_text(config, notes))


def config_text(config: dict[str, Any], notes: Iterable[str] = ()) -> str:
    """A config as YAML, with notes as a comment at its head."""
    comment = "".join(f"# {line}\n" for note in notes for line in note.splitlines())
    return comment + yaml.safe_dump(config, sort_keys=False, default_flow_style=None, width=120, allow_unicode=True)


def mechanism_config(mechanism: Mechanism) -> dict[str, Any]:
    """A mechanism as the mapping that a config holds: numbers, lists and words.

    Systems, objects of user classes and functions of time are Python objects: they are given as they stand in
    `mechanism.config`, if the mechanism was read from a config that has them, and refused with `ModelError` if not.
    So are tables, which need files of their own (`write_config` writes them).
    """
    config, tables = config_and_tables(mechanism, mechanism.name)
    for name in tables:
        raise ModelError(name, "a table", "constants, or write_config, which writes tables too")
    return config


def _environment(mechanism: Mechanism) -> dict[str, float]:
    given = {"temperature": mechanism.environment_temperature, "pressure": mechanism.environment_pressure}
    return {key: value for key, value in given.items() if value is not None}


def config_and_tables(mechanism: Mechanism, stem: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The config, and its tables by the names of their files, which start with `stem`."""
    parts = Parts(mechanism, stem)
    head = {
        "schema": SCHEMA,
        "name": mechanism.name,
        "seed": mechanism.seed,
        "gravity": plain(mechanism.gravity),
        "environment": _environment(mechanism),
    }
    sections = {
        "bodies": {name: parts.body(spec) for name, spec in mechanism.bodies.items()},
        "stores": {name: parts.store(spec) for name, spec in mechanism.stores.items()},
        "joints": {name: parts.joint(spec) for name, spec in mechanism.joints.items()},
        "loads": {name: parts.load(spec) for name, spec in mechanism.loads.items()},
        "elements": {
            **{name: parts.spring_damper(spec) for name, spec in mechanism.elements.items()},
            **{name: parts.conduction(spec) for name, spec in mechanism.conductions.items()},
            **{name: parts.as_read("elements", name) for name in mechanism.forces},
        },
        "constraints": {
            **{name: parts.constraint(spec) for name, spec in mechanism.constraints.items()},
            **{name: parts.body_constraint(spec) for name, spec in mechanism.body_constraints.items()},
            **{name: parts.gear(spec) for name, spec in mechanism.gears.items()},
        },
        "systems": {name: parts.as_read("systems", name) for name in mechanism.systems},
        "connections": {name: parts.connection(spec) for name, spec in mechanism.connections.items()},
        "initial": parts.initial(),
        "simulation": parts.simulation(),
    }
    return head | {key: section for key, section in sections.items() if section}, parts.tables
