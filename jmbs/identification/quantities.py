"""Unknowns, tied and derived values by name: numbers at coordinates of the unknowns, with derivatives."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.errors import ModelError
from jmbs.identification.expressions import Expression
from jmbs.identification.parameter_paths import has_parameter
from jmbs.identification.places import Place, place_of, unit_of, value_at
from jmbs.identification.prediction import value_of, with_ties
from jmbs.identification.problem import FitProblem
from jmbs.identification.study import SENSOR_KEYS, Parameter, models_of
from jmbs.identification.transforms import LogTransform
from jmbs.identification.transforms import jacobian as transform_jacobian
from jmbs.identification.unknown_transforms import default_transform
from jmbs.identification.unknowns import Unknown, by_name, parts, values_of
from jmbs.library.mechanics import nearest
from jmbs.simulation import Model


def quantity_at(problem: FitProblem, name: str, x: np.ndarray) -> tuple[float, np.ndarray]:
    """The value of an unknown, tied or derived value at coordinates (p,), and its derivative by them.

    Raises `ModelError` for a name that is none of these.
    """
    expression = {**problem.ties, **problem.derived}.get(name)
    if expression is not None:
        return expression_of(problem, x, expression)
    start = 0
    for block, piece in zip(problem.unknowns.blocks, parts(problem.unknowns.blocks, x), strict=True):
        if name in block.names:
            row, slope = block.names.index(name), np.zeros(len(x))
            slope[start : start + block.size] = transform_jacobian(block.transform, piece)[row]
            return float(np.asarray(block.transform.values(jnp.asarray(piece)))[row]), slope
        start += block.size
    raise _unknown(problem, name)


def require_names(problem: FitProblem, names: Iterable[str]) -> None:
    """Raises the `ModelError` of `quantity_at` for the first name that it does not know."""
    known = names_of(problem)
    for name in names:
        if name not in known:
            raise _unknown(problem, name)


def _unknown(problem: FitProblem, name: str) -> ModelError:
    return ModelError(name, "no such unknown", f"one of the fit{nearest(name, names_of(problem))}")


def names_of(problem: FitProblem) -> list[str]:
    """All that `quantity_at` knows."""
    return [*(n for block in problem.unknowns.blocks for n in block.names), *problem.ties, *problem.derived]


def is_logarithmic(problem: FitProblem, name: str) -> bool:
    """Whether a value is positive whatever the unknowns are: it is fitted as a logarithm, or tied where that is so."""
    if name in problem.ties:
        model, place = place_of_tie(problem, name)
        value = value_at(model, place)
        return value is not None and default_transform(model, place, value) == "log"
    return any(name in block.names and isinstance(block.transform, LogTransform) for block in problem.unknowns.blocks)


def place_of_tie(problem: FitProblem, path: str) -> tuple[Model, Place]:
    """The first model of the study that has what is tied, and where."""
    model = next(m for m in models_of(problem.study) if has_parameter(m, path))
    return model, place_of(model, path)


def unit_at(problem: FitProblem, name: str) -> str:
    """The unit of a value by its name; empty of a derived one."""
    if name in problem.ties:
        return unit_of(*place_of_tie(problem, name))
    return next((unit_in(problem, block) for block in problem.unknowns.blocks if name in block.names), "")


def unit_in(problem: FitProblem, block: Unknown) -> str:
    """The unit of a block's values: a sensor's bias has that of its output."""
    if block.unit or block.kind != "sensor":
        return block.unit
    sensor = block.path.split("/")[1]
    for experiment in problem.experiments:
        if sensor in experiment.outputs:
            return experiment.outputs[sensor].unit
    return ""


def model_at(problem: FitProblem, x: Float[Array, " p"], model: Model) -> tuple[Model, dict[str, Array]]:
    """One of the study's models at coordinates, with what is tied, and all values by name; pure. Initial values that
    are unknown per recording stay as they were."""
    blocks = problem.unknowns.blocks
    values = values_of([block.transform for block in blocks], blocks, x)
    named = _named(problem, x)
    placed = {
        block.place: value
        for block, value in zip(blocks, values, strict=True)
        if block.place is not None and block.recording is None and has_parameter(model, block.path)
    }
    ties = [(place_of(model, path), e) for path, e in problem.ties.items() if has_parameter(model, path)]
    fitted, tied, _ = with_ties(model, placed, ties, named)
    return fitted, named | tied


def _named(problem: FitProblem, x: Float[Array, " p"]) -> dict[str, Array]:
    """What is unknown, and what is known of sensors, by name; pure."""
    blocks = problem.unknowns.blocks
    values = values_of([block.transform for block in blocks], blocks, x)
    return _sensor_values(problem) | by_name(blocks, values)


def expression_of(problem: FitProblem, x: np.ndarray, expression: Expression) -> tuple[float, np.ndarray]:
    """The value of an expression at coordinates (p,), and its derivative by them.

    Its paths are unknowns by name, or else what `model_of` has where the unknowns and ties hold.
    """
    blocks, model = problem.unknowns.blocks, model_of(problem, expression)
    alone = set(expression.names) <= {name for block in blocks for name in block.names}

    def value(coordinates: Float[Array, " p"]) -> Array:
        if alone:  # of unknowns only, and a model with other values takes a while to make
            named = by_name(blocks, values_of([block.transform for block in blocks], blocks, coordinates))
            return value_of(expression, model, named)
        named = _named(problem, coordinates)
        if all(path in named for path in expression.names):
            return value_of(expression, model, named)
        return value_of(expression, *model_at(problem, coordinates, model))

    at = jnp.asarray(x, problem.study.model.dtype)
    if not at.size:
        return float(value(at)), np.zeros(0)
    found, gradient = jax.value_and_grad(value)(at)
    return float(found), np.asarray(gradient, float)


def model_of(problem: FitProblem, expression: Expression) -> Model:
    """The first model of the study that has all paths of an expression which are not unknowns. Raises `ModelError`."""
    known = {*_sensor_values(problem), *(name for block in problem.unknowns.blocks for name in block.names)}
    asked = [path for path in expression.names if path not in known]
    for model in models_of(problem.study):
        if all(has_parameter(model, path) for path in asked):
            return model
    raise ModelError(", ".join(asked), "paths that no model of the study has together", "paths of one, or unknowns")


def _sensor_values(problem: FitProblem) -> dict[str, Any]:
    """What is known of sensors, by path."""
    found: dict[str, Any] = {}
    for name, sensor in problem.study.sensors.items():
        for key in SENSOR_KEYS:
            if not isinstance(value := getattr(sensor, key), Parameter):
                found[f"sensors/{name}/{key}"] = jnp.asarray(value, problem.study.model.dtype)
        noise = problem.noise.get(name) if isinstance(sensor.noise, str) else sensor.noise
        if noise is not None:
            found[f"sensors/{name}/noise"] = jnp.asarray(noise, problem.study.model.dtype)
    return found
