"""Puts the values of a model's parameters into a config, each where it stands there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from jmbs.errors import ModelError
from jmbs.io.schema import ConstraintSection, JointSection

_SECTIONS = ("bodies", "joints", "elements", "constraints", "stores", "loads", "systems")
_OWN_KEYS = {"joints": set(JointSection.model_fields), "constraints": set(ConstraintSection.model_fields)}
"""Keys of a section that are not the parameters of its user's type."""


def put_value(config: dict[str, Any], path: str, value: Any, initial: Mapping[str, Mapping[str, Any]]) -> None:
    """Puts the value of a parameter, by its path in `model.parameters()`, into a config that says all of its parts.

    **Arguments:** `initial`: the model's, which says whether an initial value is of a joint, a body or a state.

    Whether it is read back as the same is another question: types of users decide themselves what they take. Raises
    `ModelError` for a path that no place of a config answers to.
    """
    value = np.asarray(value)
    first, *keys = path.split("/")
    if first == "gravity":
        config["gravity"] = value.tolist()
    elif first == "environment":
        _put(config.setdefault("environment", {}), keys, value)
    elif first == "initial":
        _put_initial(config.setdefault("initial", {}), path.removeprefix("initial/"), value, initial)
    else:
        section = next((name for name in _SECTIONS if first in config.get(name, {})), None)
        if section is None or not keys:
            raise ModelError(path, "no place in the config", "a part that the config names")
        _put_part(section, config[section][first], keys, value)


def _put_part(section: str, entry: dict[str, Any], keys: list[str], value: np.ndarray) -> None:
    if section == "systems":
        _put_system(entry, keys, value)
    elif section == "bodies" and keys == ["moment"]:
        inertia = np.asarray(entry["inertia"])
        entry["inertia"] = (inertia * (value / np.max(np.linalg.eigvalsh(inertia)))).tolist()
    elif section == "joints" and keys[0] == "motions":
        for motion, row in zip(entry["motions"], value, strict=True):
            motion[keys[1]] = row.tolist()
    elif section == "constraints" and keys == ["coefficients"]:
        _put_coefficients(entry["joints"], value)
    else:
        _put(entry, keys, value, _OWN_KEYS.get(section, set()))


def _put(place: dict[str, Any], keys: list[str], value: np.ndarray, own: set[str] = frozenset()) -> None:  # type: ignore[assignment]
    """Follows keys into mappings that it makes where they are absent, and into the parameters of a user's type."""
    for position, key in enumerate(keys):
        if ":" in str(place.get("type", "")) and key not in own:
            place = place.setdefault("parameters", {})
        if position < len(keys) - 1:
            if not isinstance(place.get(key), dict):
                place[key] = {}
            place, own = place[key], set()
    place[keys[-1]] = _plain(value, place.get(keys[-1]))


def _put_system(entry: dict[str, Any], keys: list[str], value: np.ndarray) -> None:
    """Of a pattern into the box; of a type into the parameter that is called so: `rotor_inertia`, or else `inertia`.

    What stands in a tuple has no name of its own, so such parameters go into mappings within mappings.
    """
    while len(keys) > 1 and keys[0] in entry.get("systems", {}):
        entry, keys = entry["systems"][keys[0]], keys[1:]
    parameters = entry.setdefault("parameters", {})
    if any(key.isdigit() for key in keys):
        _put(parameters, keys, value)
        return
    longer = ("_".join(keys[start:]) for start in range(len(keys)))
    name = next((name for name in longer if name in parameters), keys[-1])
    parameters[name] = _plain(value, parameters.get(name))


def _put_coefficients(joints: dict[str, Any], value: np.ndarray) -> None:
    """Of a gear of several joints, joint by joint."""
    entries = iter(value.tolist())
    for name, given in joints.items():
        joints[name] = [next(entries) for _ in given] if isinstance(given, list) else next(entries)


def _put_initial(
    section: dict[str, Any], path: str, value: np.ndarray, initial: Mapping[str, Mapping[str, Any]]
) -> None:
    if path in initial.get("states", {}):
        states = section.setdefault("states", {})
        states[path] = _plain(value, states.get(path))
        return
    name, _, key = path.rpartition("/")
    kind = next(kind for kind in ("joints", "bodies") if name in initial.get(kind, {}))
    entry = section.setdefault(kind, {}).setdefault(name, {})
    if key == "guess":
        entry["q"] = {"guess": value.tolist()}
    else:
        entry[key] = _plain(value, entry.get(key))


def _plain(value: np.ndarray, before: Any) -> Any:
    """Numbers and lists; an array of one entry is a number where none stood as a list."""
    return float(value.reshape(())) if value.size == 1 and not isinstance(before, list) else value.tolist()
