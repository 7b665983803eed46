"""What drives the model of a recording, and where its run starts."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from jmbs.errors import ModelError
from jmbs.identification.output_names import parse_index
from jmbs.identification.study import Input, Recording, Study, real_numbers, table_times
from jmbs.identification.unknowns import Unknowns
from jmbs.library.mechanics import TableSpec
from jmbs.simulation import Model, loops, with_inputs

AWAY = 1e9
"""s beyond the end of a table to which its last value is held."""
EDGE = 1e-9
"""Half the length of a step of an input that is held, beside the time between two of them; no less than rounding."""


def with_recording_inputs(study: Study, recording: Recording, model: Model, unknowns: Unknowns) -> Model:
    """The model with the recording's inputs as tables, and with guesses where unknown initial values need them.

    What other recordings have as inputs is a table here too, so that all share a program, unless it is unknown or tied.
    """
    inputs = {path: _table(model, recording, path, value) for path, value in recording.inputs.items()}
    ports = {path for recording in study.data for path in recording.inputs}
    sought = {parse_index(path)[0] for path in (*study.ties, *(block.path for block in unknowns.blocks))}
    for path in ports - set(inputs) - sought:
        constant = _constant(model, path)
        if constant is not None:
            inputs[path] = np.array([model.settings.t0, AWAY]), np.stack([constant, constant])
    length = max((len(times) for times, _ in inputs.values()), default=0)
    length = max(length, *(_rows(r) for r in study.data)) if inputs else 0
    tables: dict[str, Any] = {path: _padded(times, values, length) for path, (times, values) in inputs.items()}
    return _with_guesses(with_inputs(model, tables), unknowns, recording.name)


def _rows(recording: Recording) -> int:
    """Rows of the longest table among a recording's inputs, with the one that holds its end."""
    lengths = [
        (2 if getattr(value, "hold", "") == "zero" else 1) * len(times)
        for value in recording.inputs.values()
        if (times := table_times(value)) is not None
    ]
    return max(lengths, default=1) + 1


def _constant(model: Model, path: str) -> np.ndarray | None:
    """The constant that a model has at a port, None where it has none or something else."""
    drive = model.dae.drives.get(path)
    value = getattr(drive, "value", None)
    return None if value is None or np.ndim(value) != 1 else np.asarray(value)


def _table(model: Model, recording: Recording, path: str, given: Any) -> tuple[np.ndarray, np.ndarray]:
    """An input as times and values (n, k), linear in between."""
    where = f"recordings/{recording.name}/inputs/{path}"
    if isinstance(given, TableSpec):
        given = Input(given.times, given.values)
    elif isinstance(given, tuple) and len(given) == 2:
        given = Input(*given)
    if callable(given):
        raise ModelError(where, "a function", "an Input, a pair of times and values, or a constant")
    if not isinstance(given, Input):
        value = np.atleast_1d(_finite(where, given))
        return np.array([model.settings.t0, AWAY]), np.stack([value, value])
    times, values = _finite(f"{where}/times", given.times), _finite(f"{where}/values", given.values)
    if times.ndim != 1 or values.ndim not in (1, 2):
        raise ModelError(where, f"times of shape {times.shape}, values of {values.shape}", "shapes (n,) and (n, k)")
    values = values[:, None] if values.ndim == 1 else values
    if len(times) < 2 or len(times) != len(values) or np.any(np.diff(times) <= 0):
        raise ModelError(where, f"{len(times)} times and {len(values)} values", "as many of both, 2 or more, in order")
    last = float(np.max(recording.ts))
    end = times[-1] + (times[-1] - times[-2] if given.hold == "zero" else 0.0)
    if times[0] > model.settings.t0 + 1e-9 or end < last - 1e-9 * max(1.0, abs(last)):
        found = f"values from {times[0]:g} to {times[-1]:g} s"
        raise ModelError(where, found, f"values from the start {model.settings.t0:g} s to the last sample, {last:g} s")
    if given.hold == "zero":
        half = max(EDGE * float(np.min(np.diff(times))), 2 * float(np.spacing(np.max(np.abs(times)))))
        edges = np.stack([times[1:] - half, times[1:] + half], axis=1).ravel()
        return np.concatenate([times[:1], edges]), np.repeat(values, 2, axis=0)[:-1]
    if given.hold != "linear":
        raise ModelError(f"{where}/hold", repr(given.hold), "linear or zero")
    return times, values


def _finite(path: str, given: Any) -> np.ndarray:
    """An array of finite numbers. Raises `ModelError`."""
    array = real_numbers(path, given)
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        row = f" in row {bad[0][0] + 1}" if array.ndim and len(array) > 1 else ""
        raise ModelError(path, f"{array[tuple(bad[0])]}{row}", "finite numbers")
    return array


def _padded(times: np.ndarray, values: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
    """A table of `length` rows whose last value holds on."""
    more = length - len(times)
    far = times[-1] + AWAY * np.arange(1, more + 1)
    return np.concatenate([times, far]), np.concatenate([values, np.repeat(values[-1:], more, axis=0)])


def _with_guesses(model: Model, unknowns: Unknowns, recording: str) -> Model:
    """Where an initial value within a loop is unknown, the loop's others choose its branch only."""
    free: dict[str, set[str]] = {"q": set(), "v": set()}
    for block in unknowns.of(recording):
        if block.kind == "initial" and block.place is not None:
            name, _, key = block.place.base.removeprefix("initial/").rpartition("/")
            if key in free:
                free[key].add(name)
    if not any(free.values()):
        return model
    joints = {name: dict(entry) for name, entry in model.initial.get("joints", {}).items()}
    for loop in loops(model.layout):
        for key, names in free.items():
            if names & set(loop):
                for joint in set(loop) - names:
                    value = joints.get(joint, {}).pop(key, None)
                    if value is not None and key == "q":
                        joints[joint]["guess"] = value
    return dataclasses.replace(model, initial={**model.initial, "joints": joints})
