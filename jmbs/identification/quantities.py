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
    if name in _expressions(problem):
        return expression_of(problem, x, name)
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
    """The model that a tied value is of, and where it is."""
    model = model_of(problem, path)
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


def expression_of(problem: FitProblem, x: np.ndarray, name: str) -> tuple[float, np.ndarray]:
    """What is tied or derived, by its name, at coordinates (p,), and its derivative by them."""
    at = jnp.asarray(x, problem.study.model.dtype)
    if not at.size:
        return float(_value(problem, at, name)), np.zeros(0)
    found, gradient = jax.value_and_grad(lambda coordinates: _value(problem, coordinates, name))(at)
    return float(found), np.asarray(gradient, float)


def _value(problem: FitProblem, x: Float[Array, " p"], name: str) -> Array:
    """The value alone; pure. Paths in its expression are unknowns, ties or what `model_of` has where these hold."""
    expression, named = _expressions(problem)[name], _named(problem, x)
    named |= {path: _value(problem, x, path) for path in expression.names if path in problem.ties}
    if all(path in named for path in expression.names):  # a model with other values takes a while to make
        return value_of(expression, problem.study.model, named)
    fitted, also = model_at(problem, x, model_of(problem, name))
    return value_of(expression, fitted, also | named)


def _expressions(problem: FitProblem) -> dict[str, Expression]:
    return {**problem.ties, **problem.derived}


def model_of(problem: FitProblem, name: str) -> Model:
    """The model that a tied or derived value is of: the first of the study that has the paths in its expression which
    are neither unknown nor tied, and what is tied. Raises `ModelError`."""
    known = {*_sensor_values(problem), *names_of(problem)}
    asked = [path for path in _expressions(problem)[name].names if path not in known]
    wanted = [name, *asked] if name in problem.ties else asked
    for model in models_of(problem.study):
        if all(has_parameter(model, path) for path in wanted):
            return model
    raise ModelError(name, f"{', '.join(wanted)}, which no model of the study has together", "paths of one model")


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
