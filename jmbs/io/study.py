"""Reads a study, `schema: jmbs-fit/1`: what is unknown, what was measured, and the recordings."""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from jmbs.errors import ModelError
from jmbs.identification import (
    Estimator,
    Finding,
    Optimiser,
    Parameter,
    Prior,
    Recording,
    Sensor,
    Study,
    by_single_path,
    conversion,
    in_order,
    names_in_expressions,
    parse_expression,
    parse_output,
    parse_parameter,
    require_start,
    taken_already,
)
from jmbs.io.config import check_schema, first_error
from jmbs.io.config_error import ConfigError
from jmbs.io.load import load
from jmbs.io.overrides import apply_overrides
from jmbs.io.study_design import read_design
from jmbs.io.study_recordings import Measured, read_recording, wanted_units
from jmbs.io.study_schema import (
    MEASURED,
    STUDY_SCHEMA,
    EstimatorSection,
    NoiseColumn,
    ParameterSection,
    SensorSection,
    StudySection,
)
from jmbs.io.yaml_reader import read_yaml
from jmbs.library.mechanics import is_number, nearest, show
from jmbs.simulation import Model, compile

_NAMED_SECTIONS = ("sensors", "recordings")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_NEUTRAL = {"gain": 1.0, "bias": 0.0, "delay": 0.0}
_T = TypeVar("_T")


def load_study(path: str | os.PathLike[str], overrides: Iterable[str] = ()) -> Study:
    """The study in a YAML file, with its models compiled and its recordings read.

    **Arguments:**

    - `path`: the study; files that it names are relative to it.
    - `overrides`: `a.b=value` with the YAML path in dots, such as `recordings.driven.role=test`.

    What is wrong with recorded data is in `Study.findings`, all of it. Raises `ConfigError`, one line with file, path,
    what was found and what was wanted, for a wrong study, wrong models, and files that hold no data.
    """
    file = Path(path)
    config = read_yaml(file, STUDY_SCHEMA)
    apply_overrides(file, config, overrides, _NAMED_SECTIONS)
    check_schema(file, config, STUDY_SCHEMA)
    try:
        section = StudySection.model_validate({key: value for key, value in config.items() if key != "schema"})
    except ValidationError as errors:
        raise first_error(file, errors) from None
    except RecursionError:
        raise ConfigError(file, "", "values nested too deeply", "a study of a few levels") from None
    try:
        return _study(section, file, config)
    except ConfigError:
        raise
    except ModelError as error:
        raise ConfigError(file, error.path, error.found, error.wanted) from error


def _study(section: StudySection, file: Path, config: dict[str, Any]) -> Study:
    _require_names(section)
    models = _models(section, file.parent)
    section = section.model_copy(update={"parameters": by_single_path(models.values(), section.parameters)})
    parameters = _parameters(section, models)
    sensors = _sensors(section, models)
    ties, derived = _ties(section, models), _derived(section, models)
    data, findings = _recordings(section, models, sensors, file.parent)
    return Study(
        model=models[""],
        data=data,
        parameters=parameters,
        sensors={name: measured.sensor for name, measured in sensors.items()},
        ties=ties,
        derived=derived,
        estimator=_estimator(section.estimator),
        name=file.stem if section.name is None else section.name,
        seed=section.seed,
        test_window=section.test_window,
        source=copy.deepcopy(config),
        findings=findings,
        design=None if section.design is None else read_design(section.design, models[""]),
    )


def _require_names(section: StudySection) -> None:
    for key, entries in (("sensors", section.sensors), ("recordings", section.recordings)):
        if not entries and not (key == "recordings" and section.design is not None):
            raise ModelError(key, "none", "at least one")
        for name in entries:
            if not _NAME.fullmatch(name):
                raise ModelError(f"{key}/{name}", show(name), "a name of letters, digits, _, - and .")
    if section.recordings and all(recording.role == "test" for recording in section.recordings.values()):
        raise ModelError("recordings", "none of role train", "at least one, which is fitted")
    for name, recording in section.recordings.items():
        for channel in recording.channels:
            if channel not in section.sensors:
                path = f"recordings/{name}/channels/{channel}"
                raise ModelError(path, f"no sensor {channel}", f"a sensor's name{nearest(channel, section.sensors)}")
        if not recording.channels:
            raise ModelError(f"recordings/{name}/channels", "none", "at least one")


def _models(section: StudySection, folder: Path) -> dict[str, Model]:
    """Compiled models: the study's by an empty name, those that recordings name by these names."""
    files = {"": section.model} | {name: r.model for name, r in section.recordings.items() if r.model is not None}
    compiled: dict[str, Model] = {}
    for name, model in files.items():
        if model not in compiled:
            path = f"recordings/{name}/model" if name else "model"
            compiled[model] = _below(path, lambda model=model: compile(load(folder / model)))
    return {name: compiled[model] for name, model in files.items()}


def _below(path: str, action: Callable[[], _T]) -> _T:
    """The action's result; its errors say where in the study they come from. Those of a config name it themselves."""
    try:
        return action()
    except ConfigError:
        raise
    except ModelError as error:
        raise ModelError(f"{path}/{error.path}" if error.path else path, error.found, error.wanted) from error


def _parameters(section: StudySection, models: dict[str, Model]) -> dict[str, Parameter]:
    taken: dict[str, str] = {}
    for path, given in section.parameters.items():
        _below("parameters", lambda path=path: _require_free(path, models, taken))
        _below(f"parameters/{path}", lambda path=path, given=given: _require_sound(path, given, models))
    return {path: _parameter(given) for path, given in section.parameters.items()}


def _require_free(path: str, models: dict[str, Model], taken: dict[str, str]) -> None:
    """Refuses a path that is not known, or shares a number with another; fills `taken`, the path by single number."""
    other = taken_already(models.values(), path, taken)
    if other is not None:
        raise ModelError(path, f"{other} too, which holds the same number", "one of the two")


def _require_sound(path: str, given: ParameterSection, models: dict[str, Model]) -> None:
    found = parse_parameter(models.values(), path)
    start: Any = given.start
    if start == MEASURED and found.kind != "initial":
        raise ModelError("start", MEASURED, "a number: only initial values are measured")
    if given.transform == "pseudo_inertia" and not (found.kind == "virtual" and found.base.endswith("/inertial")):
        raise ModelError("transform", given.transform, "that of a body's ten numbers, body/inertial")
    if start is None and found.kind == "initial":
        without = [model for model in models.values() if found.base not in model.parameters()]
        if len(without) == len(models):
            raise ModelError("start", "nothing, here or in the model", f"a number, or {MEASURED}")
    if start is not None and start != MEASURED:
        require_start("start", start, found.shape)
    if isinstance(start, int | float):
        _require_within(start, given.bounds)


def _require_within(start: float, bounds: tuple[float | None, float | None] | None) -> None:
    lower, upper = bounds or (None, None)
    if (lower is not None and start < lower) or (upper is not None and start > upper):
        raise ModelError("start", show(start), f"a number within the bounds {lower} and {upper}")


def _parameter(given: ParameterSection, start: Any = None) -> Parameter:
    prior = given.prior
    return Parameter(
        start=start if given.start is None else given.start,
        bounds=given.bounds,
        transform=given.transform,
        prior=None if prior is None else Prior(prior.mean, prior.std, prior.log),
        per=given.per,
    )


def _sensors(section: StudySection, models: dict[str, Model]) -> dict[str, Measured]:
    return {
        name: _below(f"sensors/{name}", lambda name=name, given=given: _sensor(name, given, section, models))
        for name, given in section.sensors.items()
    }


def _sensor(name: str, given: SensorSection, section: StudySection, models: dict[str, Model]) -> Measured:
    using = [r for r, recording in section.recordings.items() if name in recording.channels]
    outputs = [parse_output(models.get(r, models[""]), given.output, "output") for r in using]
    output = outputs[0] if outputs else parse_output(models[""], given.output, "output")
    parts = {key: _sensor_part(key, getattr(given, key)) for key in _NEUTRAL}
    noise = "estimate" if isinstance(given.noise, NoiseColumn) else given.noise
    measured = Measured(given, Sensor(given.output, noise, **parts), output)
    conversion("unit", given.unit, wanted_units(measured))
    return measured


def _sensor_part(key: str, given: float | ParameterSection) -> float | Parameter:
    if not isinstance(given, ParameterSection):
        return given
    if given.start is not None and not is_number(given.start):
        raise ModelError(f"{key}/start", show(given.start), "a number")
    if given.transform not in (None, "log", "linear"):
        raise ModelError(f"{key}/transform", given.transform, "log or linear")
    found = _parameter(given, _NEUTRAL[key])
    _below(key, lambda: _require_within(found.start, given.bounds))
    return found


def _ties(section: StudySection, models: dict[str, Model]) -> dict[str, str]:
    """Ties in an order in which each follows from those before. Refuses unknown names, circles and free ones."""
    known, taken = names_in_expressions(models.values(), section.sensors), {}
    for path in section.parameters:
        _require_free(path, models, taken)
    before: dict[str, tuple[str, ...]] = {}
    for path, text in section.ties.items():
        _below("ties", lambda path=path: _require_free(path, models, taken))
        before[path] = _names(f"ties/{path}", text, known, models)
    return {path: section.ties[path] for path in in_order(before)}


def _derived(section: StudySection, models: dict[str, Model]) -> dict[str, str]:
    known = names_in_expressions(models.values(), section.sensors)
    for name, text in section.derived.items():
        _names(f"derived/{name}", text, known, models)
    return dict(section.derived)


def _names(path: str, text: str, known: list[str], models: dict[str, Model]) -> tuple[str, ...]:
    names = parse_expression(path, text, known).names
    for name in names:
        if not name.startswith("sensors/"):
            _below(path, lambda name=name: parse_parameter(models.values(), name))
    return names


def _recordings(
    section: StudySection, models: dict[str, Model], sensors: dict[str, Measured], folder: Path
) -> tuple[tuple[Recording, ...], tuple[Finding, ...]]:
    data: list[Recording] = []
    findings: list[Finding] = []
    for name, given in section.recordings.items():
        model = models.get(name, models[""])
        _below(f"recordings/{name}/set", lambda model=model, given=given: model.with_parameters(given.set))
        recording, found = read_recording(name, given, model, sensors, folder)
        findings += found
        if recording is not None:
            data.append(recording)
    return tuple(data), tuple(findings)


def _estimator(given: EstimatorSection) -> Estimator:
    values = {
        key: getattr(given, key) for key in EstimatorSection.model_fields if key not in ("trajectory", "optimiser")
    }
    trajectory = given.trajectory
    if trajectory is not None:
        values["trajectory"] = {key: value for key, value in trajectory.model_dump().items() if value is not None}
    optimiser = None if given.optimiser is None else Optimiser(**given.optimiser.model_dump())
    return Estimator(**values, optimiser=optimiser)
