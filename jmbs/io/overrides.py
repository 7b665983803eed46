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
_NAMED_SECTIONS = ("bodies", "joints", "loads", "elements", "constraints", "stores")


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


def _set(file: Path, config: dict[str, Any], keys: list[str], value: Any, named: tuple[str, ...]) -> None:
    path = "/".join(keys)
    if keys[0] in named and len(keys) > 1:
        section = config.get(keys[0])
        known = section if isinstance(section, dict) else {}
        if keys[1] not in known:
            found = f"no {keys[1]} in {keys[0]} (from --set)"
            raise ConfigError(file, path, found, f"a name of the config{nearest(keys[1], known)}")
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
