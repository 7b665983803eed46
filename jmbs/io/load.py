"""Loads a mechanism from any file that describes one: a config, URDF or MJCF."""

from __future__ import annotations

import copy
import dataclasses
import os
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jmbs.io.config import config_mechanism, read_config
from jmbs.io.export import mechanism_config, write_config
from jmbs.io.models import ImportedModel, is_model, read_model, resolved_smoothing
from jmbs.library.mechanics import Mechanism, SimulationSpec

END_TIME = 1.0
"""s; of configs of models that want a method of their own."""


class ModelNotes(UserWarning):
    """What a robot description file says that is not simulated, or not as there."""


def load(path: str | os.PathLike[str], overrides: Iterable[str] = (), root: str = "fixed") -> Mechanism:
    """The mechanism of a config, or of a URDF or MJCF file (`.urdf`, `.xml`, `.mjcf`), validated as a whole.

    `overrides`: `a.b=value` as `read_config` takes them; for a model they change the config that it stands for, which
    is kept as `mechanism.config`. `root`: how the root link of a URDF hangs on the ground, fixed or free. Notes on a
    model are one warning, `ModelNotes`; `read_model` returns them instead. Raises `ConfigError`.
    """
    if not is_model(path):
        return read_config(path, overrides)
    model = load_model(path, overrides, root=root)
    if model.notes:
        lines = [f"{path}: read with notes:", *model.notes, model.left_out]
        warnings.warn("\n".join(filter(None, lines)), ModelNotes, stacklevel=2)
    return model.mechanism


def load_model(
    path: str | os.PathLike[str], overrides: Iterable[str] = (), fixed: str = "merge", root: str = "fixed"
) -> ImportedModel:
    """`read_model`, then by way of the config that the model stands for, with `overrides` as in `read_config`.

    Where friction is stiff an implicit method is that config's default, and with a fixed step dry friction is smoothed
    as far as the step resolves it; values of the overrides stay as they are.
    """
    model = read_model(path, fixed, root)
    chosen, model.mechanism.simulation = model.mechanism.simulation.method, SimulationSpec()
    config = mechanism_config(model.mechanism)
    mechanism = config_mechanism(Path(path), copy.deepcopy(config), overrides)
    if chosen == SimulationSpec.method:
        return ImportedModel(mechanism, model.notes)
    if "simulation" not in mechanism.config:
        mechanism.simulation = SimulationSpec(method=chosen)
        return ImportedModel(mechanism, model.notes)
    notes, dt, changed = model.notes, mechanism.simulation.dt, copy.deepcopy(mechanism.config)
    changed["simulation"].setdefault("method", chosen)
    if dt is not None and (smoothed := _smooth(changed, config, resolved_smoothing(mechanism, dt))):
        largest, joint = max((max(values), name) for name, values in smoothed.items())
        smooth = f"dry friction is smoothed below up to {largest:.2g} m/s or rad/s (joint {joint})"
        why = "as far as such steps resolve it: steps by tolerance, without dt, are closer to what the model says"
        notes = (*notes, f"simulation: with the fixed step of {dt:g} s {smooth}, {why}")
    return ImportedModel(config_mechanism(Path(path), changed), notes)


def _smooth(config: dict[str, Any], read: dict[str, Any], velocities: dict[str, list[float]]) -> dict[str, list[float]]:
    """Smooths dry friction of a config below `velocities`, where that is still as it was `read`; those it did."""
    key, done = "regularisation_velocity", {}
    for name, values in velocities.items():
        friction, before = config["joints"][name]["friction"], read["joints"].get(name, {}).get("friction", {})
        if friction.get(key) == before.get(key):
            friction[key] = done[name] = values
    return done


def _with_end_time(mechanism: Mechanism) -> list[str]:
    """Gives an end time to a mechanism with a method of its own, as configs want both or none; a note on that."""
    if mechanism.simulation.method == SimulationSpec().method:
        return []
    mechanism.simulation = dataclasses.replace(mechanism.simulation, t1=END_TIME)
    return [f"simulation: the config has an end time, {END_TIME:g} s, to hold the method: change it to yours"]


def import_model(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    fixed: str = "merge",
    root: str = "fixed",
    force: bool = False,
) -> tuple[Path, tuple[str, ...]]:
    """Writes the config of a URDF or MJCF file to `out`, by default `<name>.yaml`, with the notes as comments.

    Returns the file and the notes, the last of them `ImportedModel.left_out`, if there is some. Raises `ModelError`; an
    existing file is refused unless `force`.
    """
    model = load_model(path, fixed=fixed, root=root)
    file = Path(f"{model.mechanism.name}.yaml" if out is None else out)
    notes = tuple(filter(None, (*model.notes, *_with_end_time(model.mechanism), model.left_out)))
    write_config(model.mechanism, file, [f"From {Path(path).name}.", *notes], force)
    return file, notes
