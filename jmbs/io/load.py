"""Loads a mechanism from any file that describes one: a config, URDF or MJCF."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from pathlib import Path

from jmbs.io.config import config_mechanism, read_config
from jmbs.io.export import mechanism_config, write_config
from jmbs.io.models import ImportedModel, is_model, read_model
from jmbs.library.mechanics import Mechanism


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
    """`read_model`, then by way of the config that the model stands for, with `overrides` as in `read_config`."""
    model = read_model(path, fixed, root)
    mechanism = config_mechanism(Path(path), mechanism_config(model.mechanism), overrides)
    return ImportedModel(mechanism, model.notes)


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
    notes = tuple(filter(None, (*model.notes, model.left_out)))
    write_config(model.mechanism, file, [f"From {Path(path).name}.", *notes], force)
    return file, notes
