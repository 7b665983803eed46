"""Reads the study of a sweep, `schema: jmbs-sweep/1`: a model, what varies in it and what is kept."""

from __future__ import annotations

import copy
import dataclasses
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from jmbs.errors import ModelError
from jmbs.io.config import check_schema, first_error
from jmbs.io.config_error import ConfigError
from jmbs.io.load import load
from jmbs.io.overrides import apply_overrides
from jmbs.io.recordings import read_columns
from jmbs.io.sweep_schema import SWEEP_SCHEMA, SimulationOverrides, SweepSection
from jmbs.io.yaml_reader import read_yaml
from jmbs.library.mechanics import LARGEST, Mechanism, SimulationSpec, show
from jmbs.simulation import Model, compile
from jmbs.sweeping import SweepStudy, make_study

FILE = "file"


def load_sweep(path: str | os.PathLike[str], overrides: Iterable[str] = ()) -> SweepStudy:
    """The study in a YAML file, with its model compiled; files that it names are relative to it.

    **Arguments:** `overrides`: `a.b=value` with the YAML path in dots, such as `members=1000`.

    Raises `ConfigError`, one line with file, path, what was found and what was wanted.
    """
    file = Path(path)
    return _read(file, read_yaml(file, SWEEP_SCHEMA), overrides)


def sweep_of(study: Mapping[str, Any], overrides: Iterable[str] = ()) -> SweepStudy:
    """The study in a mapping, as files hold it, without `schema` if one likes; files are relative to where one works.

    Its `model` may be a `Model` or a `Mechanism` too. Raises `ConfigError`.
    """
    if not isinstance(study, Mapping):
        raise ModelError("study", show(study), "the file of a study, or a mapping of what such a file holds")
    return _read(Path("study"), {"schema": SWEEP_SCHEMA, **study}, overrides, Path())


def _read(file: Path, given: dict[str, Any], overrides: Iterable[str], folder: Path | None = None) -> SweepStudy:
    model = given.get("model")
    is_object = isinstance(model, Model | Mechanism)
    said: dict[str, Any] = copy.deepcopy({key: value for key, value in given.items() if key != "model"})
    said["model"] = model.name if isinstance(model, Model | Mechanism) else model
    apply_overrides(file, said, overrides, ())
    check_schema(file, said, SWEEP_SCHEMA)
    try:
        section = SweepSection.model_validate({key: value for key, value in said.items() if key != "schema"})
    except ValidationError as errors:
        raise first_error(file, errors) from None
    except RecursionError:
        raise ConfigError(file, "", "values nested too deeply", "a study of a few levels") from None
    folder = file.parent if folder is None else folder
    try:
        source: Any = model if is_object else load(folder / section.model)
        return _study(section, file, folder, _with_settings(source, section.simulation), said)
    except ConfigError:
        raise
    except ModelError as error:
        raise ConfigError(file, error.path, error.found, error.wanted) from error


def _study(section: SweepSection, file: Path, folder: Path, model: Model, said: dict[str, Any]) -> SweepStudy:
    if section.design == "file" or FILE in section.vary:
        columns, vary = _columns(section, folder, model), {}
    else:
        columns, vary = None, section.vary
    return make_study(
        model,
        vary=vary,
        columns=columns,
        keep=section.keep.model_dump(),
        design=section.design,
        members=section.members,
        seed=section.seed,
        name=file.stem if section.name is None else section.name,
        chunk=section.chunk,
        source=said,
    )


def _columns(section: SweepSection, folder: Path, model: Model) -> dict[str, np.ndarray]:
    """Columns (rows, ...) by path of the table that says the members; those of one array's entries stay apart."""
    name = section.vary.get(FILE)
    if section.design != "file":
        raise ModelError("design", section.design, "file, beside vary/file")
    if not isinstance(name, str) or len(section.vary) > 1:
        raise ModelError("vary", show(section.vary), "file: a table with one column per path, and nothing else")
    if section.members is not None:
        raise ModelError("members", show(section.members), "none: the rows of the file are the members")
    place, file = f"vary/{FILE}", folder / name
    header = read_columns(place, file, []).names
    table = read_columns(place, file, header)
    for path, texts in table.texts.items():
        row, text = next(iter(texts.items()))
        raise ModelError(place, f"{show(text)} in row {row}, column {path} of {file}", "numbers")
    for path, values in table.values.items():
        wrong = np.flatnonzero(~(np.abs(values) <= LARGEST))
        if wrong.size:
            found = f"{values[wrong[0]]} in row {wrong[0] + 1}, column {path} of {file}"
            raise ModelError(place, found, f"numbers up to {LARGEST:g} in magnitude")
    if not table.rows.size:
        raise ModelError(place, f"no rows in {file}", "one for each member")
    return table.values


def _with_settings(source: Model | Mechanism, given: SimulationOverrides) -> Model:
    """The compiled model, with settings in place of its own."""
    changed = {key: value for key, value in given.model_dump().items() if value is not None}
    if isinstance(source, Model):
        for key in ("precision", "cut_joints"):
            if key in changed:
                raise ModelError(f"simulation/{key}", show(changed[key]), "none beside a model that is compiled")
        return dataclasses.replace(source, settings=_settings(source.settings, changed))
    source = copy.copy(source)
    source.simulation = _settings(source.simulation, changed)
    return compile(source)


def _settings(own: SimulationSpec, changed: dict[str, Any]) -> SimulationSpec:
    """Settings with others in place of some; what follows from what is replaced follows anew."""
    alike = SimulationSpec(t1=own.t1, t0=own.t0, precision=own.precision)
    said = {
        field.name: getattr(own, field.name)
        for field in dataclasses.fields(own)
        if field.name in ("t1", "t0", "precision") or getattr(own, field.name) != getattr(alike, field.name)
    }
    tolerance = changed.get("tolerance")
    if tolerance is not None and "dt" in changed:
        raise ModelError("simulation/dt", show(changed["dt"]), "a step, or tolerances: not both")
    if tolerance is not None:
        said.pop("dt", None)
        said |= {key: value for key, value in tolerance.items() if value is not None}
    if "dt" in changed:
        said = {key: value for key, value in said.items() if key not in ("rtol", "atol")}
    return SimulationSpec(**(said | {key: value for key, value in changed.items() if key != "tolerance"}))
