"""Changes single values of a config from the command line: `bodies.link1.mass=3`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from jmbs.io.config_error import ConfigError
from jmbs.io.yaml_reader import parse_value
from jmbs.library.mechanics import nearest, show

# Below these an override changes something that has been named in the file; it does not add parts.
_NAMED_SECTIONS = ("bodies", "joints", "loads", "elements", "constraints", "stores", "systems", "connections")


def apply_overrides(
    file: Path, config: dict[str, Any], overrides: Iterable[str], named: tuple[str, ...] = _NAMED_SECTIONS
) -> None:
    """Sets each `a.b=value` in the config. Raises `ConfigError` for a path that leads nowhere.

    Keys that the schema knows may be absent from the file; whether the schema knows them is checked afterwards
    with everything else. `named`: sections whose parts must be there already.
    """
    for override in overrides:
        dotted, separator, text = override.partition("=")
        keys = dotted.strip().split(".")
        if not separator or not all(keys):
            raise ConfigError(file, "--set", show(override), "name.name=value, such as simulation.dt=1e-4")
        try:
            value = parse_value(file, text, "/".join(keys))
        except yaml.YAMLError:
            raise ConfigError(file, "/".join(keys), f"{show(text)} from --set", "a YAML value") from None
        _set(file, config, keys, value, named)


def _require_names(file: Path, config: dict[str, Any], keys: list[str], named: tuple[str, ...]) -> None:
    """That parts are there which `keys` name below the sections `named`, in systems inside of systems too."""
    place: Any = config
    for i in range(0, len(keys) - 1, 2):
        section, name = keys[i : i + 2]
        if section not in named:
            return
        known = place.get(section) if isinstance(place, dict) else None
        known = known if isinstance(known, dict) else {}
        if name not in known:
            found = f"no {name} in {'/'.join(keys[: i + 1])} (from --set)"
            raise ConfigError(file, "/".join(keys), found, f"a name of the config{nearest(name, known)}")
        if section != "systems":
            return
        place = known[name]


def _set(file: Path, config: dict[str, Any], keys: list[str], value: Any, named: tuple[str, ...]) -> None:
    path = "/".join(keys)
    _require_names(file, config, keys, named)
    place: Any = config
    for position, key in enumerate(keys):
        here = "/".join(keys[:position])
        last = position == len(keys) - 1
        if isinstance(place, list):
            if not key.isdecimal() or int(key) >= len(place):
                raise ConfigError(file, path, f"{key} (from --set)", f"an index below {len(place)} of {here}")
        elif not isinstance(place, dict):
            found = f"{show(place)} at {here}, which has nothing below it (from --set)"
            raise ConfigError(file, path, found, "a path into a mapping")
        index: Any = int(key) if isinstance(place, list) else key
        if last:
            place[index] = value
            return
        if isinstance(place, dict) and place.get(key) is None:
            place[key] = {}
        place = place[index]
