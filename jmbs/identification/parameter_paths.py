"""Unknowns by path: parameters as `Model.parameters()` lists them, their entries, and virtual ones of bodies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from jmbs.errors import ModelError
from jmbs.identification.output_names import parse_index
from jmbs.identification.study import SENSOR_KEYS
from jmbs.library.mechanics import nearest
from jmbs.simulation import Model, parameter_paths, parameter_value

VIRTUAL = {"com": (3,), "inertial": (10,)}
"""Of a body: its centre of mass, and its mass, centre of mass and inertia about that (xx, yy, zz, xy, xz, yz)."""


class ParameterPath(NamedTuple):
    """An unknown of a model.

    **Arguments:** `base`: the parameter without an index; `index`: of one entry, None for the whole; `shape` of the
    value; `kind`: `model`, `virtual` or `initial`.
    """

    base: str
    index: tuple[int, ...] | None
    shape: tuple[int, ...]
    kind: str


def parse_parameter(models: Iterable[Model], path: str) -> ParameterPath:
    """What a path means in the first of the models that has it. Raises `ModelError` with the nearest known path."""
    models = list(models)
    base, index = parse_index(path.strip())
    for model in models:
        found = _shape_and_kind(model, base)
        if found is not None:
            shape, kind = found
            return ParameterPath(base, index, _entry_shape(path, shape, index), kind)
    known = [name for model in models for name in known_parameters(model)]
    raise ModelError(path, "no such parameter", f"a known one{nearest(base, dict.fromkeys(known))}")


def has_parameter(model: Model, path: str) -> bool:
    """Whether a model has the parameter, or initial value, of a path."""
    return _shape_and_kind(model, parse_index(path.strip())[0]) is not None


def names_in_expressions(models: Iterable[Model], sensors: Iterable[str]) -> list[str]:
    """What expressions may hold, without indices: parameters of all models, and what is said of sensors."""
    parameters = [path for model in models for path in known_parameters(model)]
    of_sensors = [f"sensors/{name}/{key}" for name in sensors for key in (*SENSOR_KEYS, "noise")]
    return list(dict.fromkeys([*parameters, *of_sensors]))


def taken_already(models: Iterable[Model], path: str, taken: dict[str, str]) -> str | None:
    """The path, among those before, that holds a number of this one's; None where there is none, and then the numbers
    of this one are `taken`, which has paths by single number."""
    entries = entries_of_path(parse_parameter(models, path))
    other = next((taken[entry] for entry in entries if entry in taken), None)
    if other is None:
        taken |= dict.fromkeys(entries, path)
    return other


def known_parameters(model: Model) -> list[str]:
    """Paths of all that may be unknown in a model, without indices."""
    paths = parameter_paths(model)
    virtual = [f"{points.body}/{key}" for points in model.body_points for key in VIRTUAL]
    return [*dict.fromkeys([*paths, *_initial_shapes(model)]), *virtual]


def _initial_shapes(model: Model) -> dict[str, tuple[int, ...]]:
    shapes, layout = {}, model.layout
    for section, names in layout.initial_sections().items():
        for name in names:
            for key, shape in layout.initial_shapes(section, name).items():
                if key != "guess" and shape != (0,):
                    shapes[f"initial/{name}" if section == "states" else f"initial/{name}/{key}"] = shape
    return shapes


def _shape_and_kind(model: Model, base: str) -> tuple[tuple[int, ...], str] | None:
    paths = parameter_paths(model)
    if base in paths:
        return jnp.shape(parameter_value(model, base)), "model"
    initial = _initial_shapes(model)
    if base in initial:
        return initial[base], "initial"
    body, _, key = base.rpartition("/")
    if key not in VIRTUAL or body not in model.layout.bodies:
        return None
    if all(points.body != body for points in model.body_points):
        raise ModelError(base, "a body inside of a system", "one of the mechanism itself, whose points are known")
    return VIRTUAL[key], "virtual"


def _entry_shape(path: str, shape: tuple[int, ...], index: tuple[int, ...] | None) -> tuple[int, ...]:
    if index is None:
        return shape
    if len(index) != len(shape) or any(i >= size for i, size in zip(index, shape, strict=True)):
        raise ModelError(path, f"the index {list(index)}", f"one within shape {shape}" if shape else "no index")
    return ()


def entries_of_path(found: ParameterPath) -> frozenset[str]:
    """The single numbers that an unknown stands for, so that no two unknowns are found to share one.

    An entry of an inertia is its partner too; a body's ten numbers are its mass, centre of mass and inertia.
    """
    body, _, key = found.base.rpartition("/")
    if found.kind == "virtual" and key == "inertial" and found.index is None:
        parts = {"mass": (), "com": (3,), "inertia": (3, 3)}
        return frozenset(
            _entry_name(f"{body}/{part}", index) for part, shape in parts.items() for index in np.ndindex(shape)
        )
    indices = np.ndindex(found.shape) if found.index is None else [found.index]
    return frozenset(_entry_name(found.base, index) for index in indices)


def _entry_name(base: str, index: tuple[int, ...]) -> str:
    return f"{base}{sorted(index) if base.endswith('/inertia') else list(index)}"


def require_start(path: str, start: object, shape: tuple[int, ...]) -> None:
    """Refuses a start whose numbers do not have the shape; one number stands for all entries. Raises `ModelError`."""
    found = np.shape(np.asarray(start, dtype=float))
    if found != () and int(np.prod(found)) != int(np.prod(shape)):
        raise ModelError(path, f"shape {found}", f"shape {shape}")
