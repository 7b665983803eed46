"""The unknowns of a study as one flat vector: shared ones first, then those of each recording."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.errors import ModelError
from jmbs.identification.least_squares import LONGEST_STEP
from jmbs.identification.measured_starts import measured_start
from jmbs.identification.parameter_paths import has_parameter, parse_parameter, require_start, taken_already
from jmbs.identification.places import Place, place_of, unit_of, value_at
from jmbs.identification.study import SENSOR_KEYS, Parameter, Prior, Recording, Sensor, Study
from jmbs.identification.transforms import LinearTransform, LogTransform, Transform
from jmbs.identification.unknown_transforms import coordinate_bounds, initial_scale, log_transform, transform_of
from jmbs.simulation import Model

SENSOR_SCALES = {"gain": 1.0, "bias": 1e-3, "delay": 1e-3}


@dataclasses.dataclass(frozen=True)
class Unknown:
    """One block of the vector of unknowns, for one recording where it is `per` recording.

    **Arguments:** `path` as in the study (`sensors/<name>/bias` of a sensor's); `entries`, what is put behind it in
    the names of its values; `place` in models, None of a sensor's; `start` (n,) values; `lower`, `upper` (k,), bounds
    of its coordinates; `scale` (n,), what changes are counted in, None: its value; `recording`, or None.
    """

    path: str
    entries: tuple[str, ...]
    kind: str
    unit: str
    place: Place | None
    transform: Transform
    start: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    prior: Prior | None
    scale: np.ndarray | None
    recording: str | None = None

    @property
    def local_names(self) -> tuple[str, ...]:
        """Names of its values within one recording."""
        return tuple(f"{self.path}{entry}" for entry in self.entries)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its values in the whole study."""
        prefix = "" if self.recording is None else f"recordings/{self.recording}/"
        return tuple(f"{prefix}{name}" for name in self.local_names)

    @property
    def first(self) -> np.ndarray:
        """The coordinates (k,) of the start."""
        return self.transform.coordinates(self.start)

    @property
    def size(self) -> int:
        """How many coordinates it has."""
        return len(self.lower)


@dataclasses.dataclass(frozen=True)
class Unknowns:
    """All of them: `shared`, and those `own` of each recording that is fitted, the same blocks for each. Those of
    recordings that are `held_out` are estimated apart and stand in no vector."""

    shared: tuple[Unknown, ...]
    own: Mapping[str, tuple[Unknown, ...]]
    held_out: Mapping[str, tuple[Unknown, ...]]

    @property
    def blocks(self) -> tuple[Unknown, ...]:
        """All blocks in the order of the vector."""
        return (*self.shared, *(block for blocks in self.own.values() for block in blocks))

    @property
    def first(self) -> np.ndarray:
        """The coordinates (p,) of the start."""
        return starts_of(self.blocks)

    def local(self, recording: str) -> np.ndarray:
        """Where the coordinates of the shared unknowns, and a recording's own, stand in the vector."""
        shared = sum(block.size for block in self.shared)
        start = shared
        for name, blocks in self.own.items():
            size = sum(block.size for block in blocks)
            if name == recording:
                return np.concatenate([np.arange(shared), start + np.arange(size)])
            start += size
        return np.arange(shared)

    def of(self, recording: str) -> tuple[Unknown, ...]:
        """The blocks that a recording depends on, as `local` orders them."""
        return (*self.shared, *self.own.get(recording, self.held_out.get(recording, ())))


class UnknownBlock(NamedTuple):
    """What of an unknown decides the program: names of its values, where they stand, how many coordinates it has."""

    names: tuple[str, ...]
    place: Place | None
    size: int


Blocks = Sequence[Unknown] | Sequence[UnknownBlock]


def parts(blocks: Blocks, vector: Any) -> list[Any]:
    """A vector cut into the coordinates of each block."""
    if not blocks:
        return []
    cuts = np.cumsum([block.size for block in blocks])[:-1]
    return np.split(vector, cuts) if isinstance(vector, np.ndarray) else jnp.split(vector, cuts)


def values_of(transforms: Sequence[Transform], blocks: Blocks, vector: Any) -> list[Float[Array, " n"]]:
    """The values of each block at a vector of coordinates; pure."""
    pieces = parts(blocks, vector)
    return [transform.values(piece) for transform, piece in zip(transforms, pieces, strict=True)]


def by_name(blocks: Blocks, values: Sequence[Float[Array, " n"]]) -> dict[str, Array]:
    """The single values of blocks by name; pure."""
    return {name: value[i] for block, value in zip(blocks, values, strict=True) for i, name in enumerate(block.names)}


def starts_of(blocks: Sequence[Unknown]) -> np.ndarray:
    """The coordinates (p,) of the starts of blocks."""
    return np.concatenate([np.zeros(0), *(block.first for block in blocks)])


def coordinate_names(blocks: Sequence[Unknown]) -> list[str]:
    """A name (p,) for each coordinate: that of its value, or of the block where values are made of several."""
    found = []
    for block in blocks:
        alone = block.transform.entrywise
        found += block.names if alone else [f"{block.path} ({i})" for i in range(block.size)]
    return found


def bounds_of(blocks: Sequence[Unknown]) -> tuple[np.ndarray, np.ndarray]:
    """The lower and upper bounds (p,) of the coordinates of blocks."""
    lower = np.concatenate([np.zeros(0), *(block.lower for block in blocks)])
    return lower, np.concatenate([np.zeros(0), *(block.upper for block in blocks)])


def longest_of(blocks: Sequence[Unknown]) -> np.ndarray:
    """How far a step may go in each coordinate (p,): of sensors' values any, for the model may be linear in these."""
    longest = [np.full(block.size, np.inf if block.kind == "sensor" else LONGEST_STEP) for block in blocks]
    return np.concatenate([np.zeros(0), *longest])


def unknowns_of(study: Study, models: Mapping[str, Model]) -> Unknowns:
    """The unknowns of a study. `models`: by recording, with what holds in it. Raises `ModelError`."""
    shared: list[Unknown] = []
    own: dict[str, list[Unknown]] = {r.name: [] for r in study.data}
    for path, parameter in _asked(study).items():
        if parameter.per not in ("study", "recording"):
            raise ModelError(f"parameters/{path}/per", repr(parameter.per), "study or recording")
        if parameter.per == "study":
            shared.append(_unknown(study, models, path, parameter, None))
        else:
            for recording in study.data:
                own[recording.name].append(_unknown(study, models, path, parameter, recording))
    _refuse_shared_entries(study, models)
    blocks = {role: {r.name: tuple(own[r.name]) for r in study.data if r.role == role} for role in ("train", "test")}
    return Unknowns(tuple(shared), blocks["train"], blocks["test"])


def _refuse_shared_entries(study: Study, models: Mapping[str, Model]) -> None:
    """No two of what is free or tied may hold one number."""
    taken: dict[str, str] = {}
    for path in (*study.parameters, *study.ties):
        other = taken_already([study.model, *models.values()], path, taken)
        if other is not None:
            raise ModelError(f"parameters/{path}", f"what {other} holds too", "one of them")


def _asked(study: Study) -> dict[str, Parameter]:
    """By path the model's unknowns, then those of sensors."""
    asked = dict(study.parameters)
    for name, sensor in study.sensors.items():
        for key in SENSOR_KEYS:
            value = getattr(sensor, key)
            if isinstance(value, Parameter):
                asked[f"sensors/{name}/{key}"] = value
    return asked


def _unknown(
    study: Study, models: Mapping[str, Model], path: str, parameter: Parameter, recording: Recording | None
) -> Unknown:
    name = None if recording is None else recording.name
    if path.startswith("sensors/"):
        return _sensor_unknown(study.sensors, path, parameter, name)
    model = _model_with(study.model if recording is None else models[recording.name], models, path)
    place = place_of(model, path)
    kind = "initial" if place.base.startswith("initial/") else "model"
    value = value_at(model, place)
    size = int(np.prod(parse_parameter((model,), path).shape, dtype=int))
    start = _start(path, parameter, value, size, study, recording, place)
    transform = transform_of(model, path, place, parameter, start)
    lower, upper = coordinate_bounds(path, parameter, transform)
    scale = initial_scale(place, len(start)) if kind == "initial" else None
    entries = ("",) if len(start) == 1 else tuple(f"[{i}]" for i in range(len(start)))
    unit, prior = unit_of(model, place), _prior(f"parameters/{path}", parameter, transform)
    return Unknown(path, entries, kind, unit, place, transform, start, lower, upper, prior, scale, name)


def _model_with(model: Model, models: Mapping[str, Model], path: str) -> Model:
    """The model, or another of the study's if only that has the path."""
    return next((m for m in (model, *models.values()) if has_parameter(m, path)), model)


def _start(
    path: str,
    parameter: Parameter,
    value: np.ndarray | None,
    size: int,
    study: Study,
    recording: Recording | None,
    place: Place,
) -> np.ndarray:
    if isinstance(parameter.start, str):
        if parameter.start != "measured" or recording is None or not path.startswith("initial/"):
            wanted = "numbers, or measured for an initial value of a joint per recording"
            raise ModelError(f"parameters/{path}/start", repr(parameter.start), wanted)
        return measured_start(path, study.sensors, recording, size, place)
    if parameter.start is None:
        if value is None and place.base.endswith("/v"):
            return np.zeros(size)
        if value is None:
            raise ModelError(f"parameters/{path}/start", "nothing", "a start, since the model gives no such value")
        return value.astype(float)
    start = np.asarray(parameter.start, float).reshape(-1)
    if start.size != 1:
        require_start(f"parameters/{path}/start", start, (size,))
    start = np.broadcast_to(start, size).copy()
    if not np.all(np.isfinite(start)):
        raise ModelError(f"parameters/{path}/start", repr(parameter.start), "finite numbers")
    return start


def _sensor_unknown(sensors: Mapping[str, Sensor], path: str, parameter: Parameter, recording: str | None) -> Unknown:
    _, _, key = path.rpartition("/")
    neutral = 1.0 if key == "gain" else 0.0
    start = np.array([neutral if parameter.start is None else float(parameter.start)])
    if parameter.transform not in (None, "linear", "log"):
        raise ModelError(f"{path}/transform", repr(parameter.transform), "linear or log")
    scale = np.array([SENSOR_SCALES[key]])
    if key == "delay":
        parameter = _not_ahead(path, parameter)
    if parameter.transform == "log":
        transform = log_transform(path, start)
    else:
        transform = LinearTransform(jnp.asarray(start), jnp.asarray(scale))
    lower, upper = coordinate_bounds(path, parameter, transform)
    unit, prior = {"gain": "1", "delay": "s"}.get(key, ""), _prior(path, parameter, transform)
    return Unknown(path, ("",), "sensor", unit, None, transform, start, lower, upper, prior, scale, recording)


def _prior(path: str, parameter: Parameter, transform: Transform) -> Prior | None:
    """Its prior. Raises `ModelError` for numbers that are none of a prior, and for a logarithm of what may be zero."""
    prior, where = parameter.prior, f"{path}/prior"
    if prior is None:
        return None
    if not 0 < prior.std < np.inf:
        raise ModelError(f"{where}/std", f"{prior.std:g}", "a finite positive number")
    if not np.isfinite(prior.mean) or (prior.log and prior.mean <= 0):
        raise ModelError(f"{where}/mean", f"{prior.mean:g}", f"a finite {'positive ' * prior.log}number")
    low = None if parameter.bounds is None else parameter.bounds[0]
    if prior.log and not isinstance(transform, LogTransform) and not (low is not None and low > 0):
        wanted = "what stays above zero: transform: log, or a lower bound above zero; or a prior without log"
        raise ModelError(f"{where}/log", "a logarithm of what may be zero or less", wanted)
    return prior


def _not_ahead(path: str, parameter: Parameter) -> Parameter:
    """A delay whose lower bound is zero where there is none: a sensor does not look ahead."""
    low, high = parameter.bounds or (None, None)
    if low is not None and low < 0:
        raise ModelError(f"{path}/bounds", f"{low:g}", "a lower bound of zero or more")
    return dataclasses.replace(parameter, bounds=(low or 0.0, high))
