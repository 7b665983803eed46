"""The labelled arrays of a sweep: their names, axes, units and coordinates, wherever they are kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np

from jmbs.simulation import STATUS_NAMES, Status, jmbs_version
from jmbs.sweeping.designs import GridDesign
from jmbs.sweeping.keep import TIME, described
from jmbs.sweeping.program import MemberProgram
from jmbs.sweeping.quantities import Axis, variable
from jmbs.sweeping.study import SweepStudy

MEMBER = "member"
STATUS, FAILURE_TIME = "status", "failure_time"
OPEN = "open"
"""The status of a member that has not run yet."""
STORE_SCHEMA = "jmbs-sweep-store/1"
FINGERPRINT, CHUNK, VERSIONS = "fingerprint", "chunk", "versions"


class SweepVariable(NamedTuple):
    """**Arguments:** `dims`, `member` first; `shape` of one member; `dtype`, None for words; `attributes`."""

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: np.dtype | None
    attributes: dict[str, Any]


class SweepLayout(NamedTuple):
    """**Arguments:** `variables` by name, the status last; `coordinates`: name to values along the dimension of that
    name and attributes, the members' numbers among them; `attributes` of the whole; `members`."""

    variables: dict[str, SweepVariable]
    coordinates: dict[str, tuple[np.ndarray, dict[str, str]]]
    attributes: dict[str, Any]
    members: int


def layout_of(program: MemberProgram, chunk: int) -> SweepLayout:
    """The arrays of a study's sweep."""
    study = program.study
    variables, axes = _varied(study)
    shapes = {name: tuple(array.shape) for name, array in program.shapes.items()}
    for name, (own, attributes) in described(study.keep, shapes).items():
        dims = (MEMBER, *(axis.name for axis in own))
        variables[name] = SweepVariable(dims, shapes[name], np.dtype(program.shapes[name].dtype), attributes)
        axes += own
    attributes = {"units": "s", "long_name": "time at which the run failed"}
    variables[FAILURE_TIME] = SweepVariable((MEMBER,), (), np.dtype(study.model.dtype), attributes)
    messages = {name: Status[getattr(Status, name)] for name in STATUS_NAMES}
    attributes = {"long_name": f"what became of the run; {OPEN}: not run yet", "messages": json.dumps(messages)}
    variables[STATUS] = SweepVariable((MEMBER,), (), None, attributes)
    return SweepLayout(variables, _coordinates(program, axes), _attributes(study, chunk), study.members)


def _varied(study: SweepStudy) -> tuple[dict[str, SweepVariable], list[Axis]]:
    variables, axes = {}, []
    for one in study.varied:
        name = variable(one.path)
        own = [Axis(f"{name}_axis{number}") for number in range(len(one.shape))]
        attributes = {"units": one.unit, "long_name": f"varied: {one.path}", "path": one.path}
        dims = (MEMBER, *(axis.name for axis in own))
        variables[name] = SweepVariable(dims, one.shape, np.dtype(np.float64), attributes)
        axes += own
    return variables, axes


def _coordinates(program: MemberProgram, axes: list[Axis]) -> dict[str, tuple[np.ndarray, dict[str, str]]]:
    found: dict[str, tuple[np.ndarray, dict[str, str]]] = {
        MEMBER: (np.arange(program.study.members), {"long_name": "number of the member"})
    }
    for axis in axes:
        if axis.name == TIME:
            found[TIME] = program.sample_times, {"units": "s", "long_name": "time"}
        elif axis.labels:
            found[axis.name] = np.array(axis.labels), {"long_name": axis.name.replace("_", " ")}
    return found


def _attributes(study: SweepStudy, chunk: int) -> dict[str, Any]:
    grid, axes = study.design, {}
    if isinstance(grid, GridDesign):
        axes["grid"] = json.dumps(dict(zip(grid.spread.shapes, grid.lengths, strict=True)))
    return {
        "schema": STORE_SCHEMA,
        "name": study.name,
        "seed": study.seed,
        "study": json.dumps(study.source, default=str),
        "model": study.model.config_json,
        VERSIONS: versions(),
        FINGERPRINT: study.fingerprint(),
        CHUNK: chunk,
        **axes,
    }


def versions() -> str:
    """Of what computes."""
    others = {name: version(name) for name in ("jax", "jaxlib", "diffrax", "numpy", "scipy")}
    return json.dumps({"jmbs": jmbs_version()} | others)


def empty(layout: SweepLayout, name: str) -> np.ndarray:
    """The array of a variable of all members, before any has run."""
    found = layout.variables[name]
    if found.dtype is None:
        return np.full(layout.members, OPEN, dtype=object)
    return np.full((layout.members, *found.shape), np.nan, found.dtype)


def dataset_arrays(layout: SweepLayout, arrays: Mapping[str, np.ndarray]) -> tuple[dict, dict, dict]:
    """Variables, coordinates and attributes as `xarray.Dataset` takes them."""
    variables = {
        name: (one.dims, arrays[name].astype(str) if one.dtype is None else arrays[name], one.attributes)
        for name, one in layout.variables.items()
    }
    coordinates = {name: (name, values, attributes) for name, (values, attributes) in layout.coordinates.items()}
    return variables, coordinates, layout.attributes
