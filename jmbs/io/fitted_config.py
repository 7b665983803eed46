"""Writes a model whose parameters have changed as a config that `jmbs run` takes."""

from __future__ import annotations

import contextlib
import copy
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from jmbs.errors import ModelError
from jmbs.files import check_new_file, replacing, write_text
from jmbs.io.config import config_mechanism
from jmbs.io.export import config_and_tables, config_text
from jmbs.io.fitted_places import put_value
from jmbs.io.modules_beside import files_beside
from jmbs.io.tables import write_table
from jmbs.library.mechanics import Mechanism
from jmbs.simulation import Model, compile

LAST_BITS = {"float64": 1e-12, "float32": 1e-5}
"""Relative difference of a value that is read back: directions and quaternions are normalised again."""


def write_fitted(
    model: Model,
    mechanism: Mechanism,
    path: str | os.PathLike[str],
    notes: Iterable[str] = (),
    force: bool = False,
    folder: str | os.PathLike[str] | None = None,
) -> list[Path]:
    """Writes a mechanism with the values of a model that came of it, and returns the files.

    Tables go beside it as CSV. The file is read back before it gets its name: every entry of `model.parameters()` is in
    it as it was, up to the last bits.

    **Arguments:**

    - `mechanism`: what the model was compiled from.
    - `notes`: lines for a comment at the head of the file; `force`: overwrite existing files.
    - `folder`: of the config that the mechanism was read from; modules there that it uses are copied beside the file.

    Raises `ModelError` with the names of the parameters that a config cannot hold, such as weights of a network that
    its type does not take as parameters; then nothing is written.
    """
    file = Path(path)
    config, tables = config_and_tables(mechanism, file.stem)
    start = compile(mechanism, model.dtype).parameters()
    changed = _different(model, start)
    for name, value in changed.items():
        put_value(config, name, value, model.initial)
    modules = _modules(folder, file.parent)
    targets = [*(file.parent / name for name in tables), *modules]
    for target in (file, *targets):
        check_new_file(target, force)
    with _gone_if_it_fails(targets):
        for name, table in tables.items():
            write_table(file.parent / name, table)
        for target, source in modules.items():
            with replacing(target) as partial:
                shutil.copyfile(source, partial)
        _read_back(model, file, config, changed)
        write_text(file, config_text(config, notes))
    return [file, *targets]


def _modules(folder: str | os.PathLike[str] | None, target: Path) -> dict[Path, Path]:
    """Where the modules beside the config that was read go, and where they are."""
    if folder is None or Path(folder).resolve() == target.resolve():
        return {}
    found = {target / source.relative_to(Path(folder).resolve()): source for source in files_beside(Path(folder))}
    for place in found:
        place.parent.mkdir(parents=True, exist_ok=True)
    return found


@contextlib.contextmanager
def _gone_if_it_fails(files: list[Path]) -> Iterator[None]:
    """Files of these that were not there before are removed if something fails."""
    new = [file for file in files if not os.path.lexists(file)]
    try:
        yield
    except BaseException:
        for file in new:
            file.unlink(missing_ok=True)
        raise


def _read_back(model: Model, file: Path, config: Mapping[str, Any], changed: Iterable[str]) -> None:
    """Refuses a config that does not say all that the model holds; `changed`: what was put into it."""
    try:
        again = compile(config_mechanism(file, copy.deepcopy(dict(config))), model.dtype)
    except ModelError as error:
        found = f"values that a config cannot hold, among {_named(changed)} ({error})"
        raise ModelError(str(file), found, "values and types that read back") from error
    if missing := _different(model, again.parameters()):
        wanted = "parameters with a place of their own in the config"
        raise ModelError(str(file), f"values that a config does not hold: {_named(missing)}", wanted)


def _named(paths: Iterable[str]) -> str:
    """The first of some paths, and how many more there are."""
    names = list(paths)
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _different(model: Model, others: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The model's values that are not those of another one."""
    values = {path: np.asarray(entry["value"]) for path, entry in model.parameters().items()}
    close = LAST_BITS[model.dtype.name]
    return {path: value for path, value in values.items() if not _same(value, others.get(path), close)}


def _same(value: np.ndarray, other: Mapping[str, Any] | None, close: float) -> bool:
    if other is None or np.shape(other["value"]) != value.shape:
        return False
    scale = max(1e-30, float(np.max(np.abs(value), initial=0.0)))
    return bool(np.all(np.abs(np.asarray(other["value"]) - value) <= close * scale))
