"""Identification from Python: `jmbs.fit`, `jmbs.check_fit` and `jmbs.design_excitation`, from a file, a study, or its
parts."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jmbs import identification
from jmbs import io as files
from jmbs.errors import ModelError
from jmbs.fusing import on_cpu
from jmbs.identification import (
    Basis,
    Check,
    Estimator,
    Excitation,
    ExcitationDesign,
    Fit,
    Parameter,
    Prior,
    Recording,
    Residual,
    Sensor,
    Study,
    judged,
)
from jmbs.library.mechanics import Mechanism, show
from jmbs.simulation import Model, compile

PARTS = ("data", "parameters", "sensors", "ties", "derived", "prior")


@on_cpu()
def fit(
    model: str | os.PathLike[str] | Study | Model | Mechanism,
    data: Recording | Iterable[Recording] | None = None,
    parameters: Mapping[str, Parameter] | Iterable[str] | None = None,
    *,
    sensors: Mapping[str, Sensor | str] | None = None,
    ties: Mapping[str, str] | None = None,
    derived: Mapping[str, str] | None = None,
    prior: Mapping[str, Prior] | None = None,
    estimator: Estimator | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    key: Any = None,
    callback: Callable[[Any], None] | None = None,
) -> Fit:
    """Finds parameters of a model from recordings of its motion.

    **Arguments:**

    - `model`: a study, its file (schema jmbs-fit/1), or a model; only with a model come `data`, `parameters`,
      `sensors`, `ties`, `derived` and `prior`, else they are the study's.
    - `data`: recordings; `parameters`: path to `Parameter`, or paths alone, which start at the model's values.
    - `sensors`: name to `Sensor` or its output; None: channels are called by their outputs (`elbow/q`).
    - `ties`: path to expression; `derived`: name to expression; `prior`: path to `Prior`.
    - `estimator`: how to estimate, in place of the study's.
    - `checkpoint`: a file that is written after each iteration; with `resume` it is where the fit goes on.
    - `key`: for what is drawn at random, a JAX key or a number.
    - `callback`: called after each iteration with its `iteration`, `cost_per_sample`, `step` and so on.

    It computes on the CPU, where a few long runs are quickest, and so does the `callback`, unless JAX_PLATFORMS or
    JAX's setting `jax_default_device` says otherwise. Raises `ModelError` for what is wrong in a study. What a fit
    could not do is in its `status` and `message`.
    """
    study = _study(model, (data, parameters, sensors, ties, derived, prior), estimator, key)
    place = None if checkpoint is None else Path(checkpoint)
    return estimated(study, checkpoint=place, resume=resume, progress=callback)


@on_cpu()
def check_fit(
    model: str | os.PathLike[str] | Study | Model | Mechanism,
    data: Recording | Iterable[Recording] | None = None,
    parameters: Mapping[str, Parameter] | Iterable[str] | None = None,
    *,
    sensors: Mapping[str, Sensor | str] | None = None,
    ties: Mapping[str, str] | None = None,
    derived: Mapping[str, str] | None = None,
    prior: Mapping[str, Prior] | None = None,
    estimator: Estimator | None = None,
    key: Any = None,
) -> Check:
    """What can be said before a fit: findings in the data, invisible directions, expected standard errors.

    Arguments as of `fit`. One simulation and one Jacobian at the start, no fit; neither where the data have errors.
    """
    study = _study(model, (data, parameters, sensors, ties, derived, prior), estimator, key)
    return identification.check_fit(study)


def residual_function(
    model: str | os.PathLike[str] | Study | Model | Mechanism,
    data: Recording | Iterable[Recording] | None = None,
    parameters: Mapping[str, Parameter] | Iterable[str] | None = None,
    *,
    sensors: Mapping[str, Sensor | str] | None = None,
    ties: Mapping[str, str] | None = None,
    derived: Mapping[str, str] | None = None,
    prior: Mapping[str, Prior] | None = None,
) -> tuple[Residual, Callable[[Any], Any]]:
    """Whitened residuals (m,) of a flat vector (p,) of unknowns, and their Jacobian (m, p): pure JAX, for optimisers
    and samplers of one's own. Arguments as of `fit`.

    `residual.start` is the vector of the starts, `residual.values(x)` are the values by `residual.names`.
    """
    return identification.residual_function(_study(model, (data, parameters, sensors, ties, derived, prior)))


@on_cpu()
def design_excitation(
    model: str | os.PathLike[str] | Study | Model | Mechanism,
    parameters: Mapping[str, Parameter] | Iterable[str] | None = None,
    sensors: Mapping[str, Sensor | str] | None = None,
    *,
    inputs: Mapping[str, Basis] | None = None,
    limits: Mapping[str, float | tuple[float, float]] | None = None,
    criterion: str | None = None,
    duration: float | None = None,
    rate: float | None = None,
    starts: int | None = None,
    max_iterations: int | None = None,
    data: Recording | Iterable[Recording] | None = None,
    ties: Mapping[str, str] | None = None,
    prior: Mapping[str, Prior] | None = None,
    key: Any = None,
    callback: Callable[[Any], None] | None = None,
) -> ExcitationDesign:
    """Finds the inputs within limits from whose recording a fit will know the parameters best.

    **Arguments:**

    - `model`: a study, its file (schema jmbs-fit/1), or a model; only with a model come `parameters`, `sensors`,
      `data`, `ties` and `prior`, see `fit`. All holds at the start of the parameters.
    - `inputs`: port path to `Multisine` or `BSpline`; `limits`: by name of an input, of its rate (`<input>/rate`) and
      of outputs (`elbow/q`) a pair, or a number for both signs.
    - `criterion`: `D` (determinant of the information, the default), `A` (mean variance) or `E` (smallest singular
      value); `duration`, s, by default the longest period; `rate` (100), Hz, of samples; `starts` (3);
      `max_iterations` (60). Those of a study are its section `design`; what is given here wins.
    - `data`: recordings that are there already, whose information counts.
    - `key`: for the inputs that searches start from, a JAX key or a number.
    - `callback`: called after each iteration with its `start`, `iteration`, `criterion` and so on.

    Raises `ModelError` for what is wrong.
    """
    study = _study(model, (data, parameters, sensors, ties, None, prior), key=key)
    given = {
        "inputs": inputs,
        "limits": limits,
        "criterion": criterion,
        "duration": duration,
        "rate": rate,
        "starts": starts,
        "max_iterations": max_iterations,
    }
    excitation = study.design or Excitation({})
    changed = {name: value for name, value in given.items() if value is not None}
    return identification.design_study(study, dataclasses.replace(excitation, **changed), callback)


def estimated(study: Study, check: Check | None = None, **options: Any) -> Fit:
    """The fit of a study, its residuals judged; `check`: what was found before, `options`: of `fit_study`."""
    return judged(identification.fit_study(study, check=check, **options))


def _study(model: Any, parts: Sequence[Any], estimator: Estimator | None = None, key: Any = None) -> Study:
    """The study that the arguments of `fit` say; `parts` are those that only a model comes with (`PARTS`)."""
    if isinstance(model, str | os.PathLike | Study):
        for name, part in zip(PARTS, parts, strict=True):
            if part is not None:
                raise ModelError(name, show(part), "none beside a study, which brings its own")
        study = model if isinstance(model, Study) else files.load_study(model)
    else:
        study = _from_parts(model, *parts)
    given = {"estimator": estimator, "seed": None if key is None else _seed(key)}
    changed = {name: value for name, value in given.items() if value is not None}
    return dataclasses.replace(study, **changed) if changed else study


def _from_parts(model: Any, data: Any, parameters: Any, sensors: Any, ties: Any, derived: Any, prior: Any) -> Study:
    if isinstance(model, Mechanism):
        model = compile(model)
    if not isinstance(model, Model):
        raise ModelError("model", f"a {type(model).__name__}", "a Model, a Mechanism, a Study, or the file of a study")
    recordings = (data,) if isinstance(data, Recording) else tuple(data or ())
    for position, recording in enumerate(recordings):
        if not isinstance(recording, Recording):
            raise ModelError(f"data[{position}]", show(recording), "a jmbs.Recording")
    return Study(
        model,
        recordings,
        _with_priors(_parameters(parameters), prior or {}),
        _sensors(recordings, sensors),
        ties or {},
        derived or {},
        name=model.name,
    )


def _parameters(parameters: Any) -> dict[str, Parameter]:
    if isinstance(parameters, str) or parameters is None:
        raise ModelError("parameters", show(parameters), "a list of paths, or a mapping of paths to jmbs.Parameter")
    if not isinstance(parameters, Mapping):
        return {path: Parameter() for path in parameters}
    for path, parameter in parameters.items():
        if not isinstance(parameter, Parameter):
            raise ModelError(f"parameters/{path}", show(parameter), "a jmbs.Parameter")
    return dict(parameters)


def _with_priors(parameters: dict[str, Parameter], priors: Mapping[str, Prior]) -> dict[str, Parameter]:
    for path, prior in priors.items():
        if path not in parameters:
            raise ModelError(f"prior/{path}", "no such unknown", f"one of {', '.join(parameters)}")
        parameters[path] = dataclasses.replace(parameters[path], prior=prior)
    return parameters


def _sensors(recordings: tuple[Recording, ...], sensors: Mapping[str, Sensor | str] | None) -> dict[str, Sensor]:
    """The sensors by name; without any, those of the outputs that channels are called by."""
    if sensors is None:
        sensors = {name: name for recording in recordings for name in recording.channels}
    return {name: Sensor(given) if isinstance(given, str) else given for name, given in sensors.items()}


def _seed(key: Any) -> int:
    """A whole number from a number or a JAX key."""
    if isinstance(key, int):
        return key
    data = jax.random.key_data(key) if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else key
    return int(np.asarray(data).ravel().astype(np.uint64)[-1])
