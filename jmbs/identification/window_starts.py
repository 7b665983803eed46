"""The states that windows start from at first: measured where sensors show joints, else where the run before ended.
Where constraints bind states, the assembled one whose joints are where sensors show them."""

from __future__ import annotations

import itertools

import jax.numpy as jnp
import numpy as np
import scipy.linalg

from jmbs.identification.measured_starts import MEASURED_SAMPLES, samples
from jmbs.identification.output_names import OutputName
from jmbs.identification.problem import FitProblem
from jmbs.identification.study import Parameter, Recording, Sensor
from jmbs.identification.transforms import LinearTransform, RotationTransform, Transform, jacobian
from jmbs.identification.unknown_transforms import UNIT_SCALES
from jmbs.identification.windows import Window, WindowedRecording, WindowStates

DEGREE = 2
"""Of the polynomial through the samples around the start of a window."""
CLOSING_STEPS = 8
"""Gauss-Newton steps, at most, that take a bound state to where sensors show it."""
SMALL_STEP = 1e-5
"""A step after which nothing is left to do, in what states are counted in."""
INDEPENDENT = 1e-3
"""Singular values of what sensors see of independent coordinates: what they see less of stays where it is."""


def first_starts(problem: FitProblem, windowed: WindowedRecording) -> list[np.ndarray]:
    """By window the values (n,) of the state that it starts from at first."""
    states, windows = windowed.states, windowed.windows
    local = problem.unknowns.first[windowed.experiment.local]
    scales = [UNIT_SCALES.get(key, 1.0) for key in states.keys]
    values = [windowed.first_state(local)[0]]
    problem.count()
    taken = 0
    for before, window in itertools.pairwise(windows):
        measured = _measured(problem, windowed, float(window.member.start))
        value = measured
        if not np.all(np.isfinite(measured)):
            start = transforms_at(states, values[-1], scales)
            shown = windowed.run(before, local, start, coordinates_of(states, start, values[-1]))[0]
            end = shown[-len(states.outputs) :, before.end]
            ended = np.where(np.isfinite(end), end, values[-1])
            value = ended if states.constrained else np.where(np.isfinite(measured), measured, ended)
        if states.constrained:
            value, runs = _closest(windowed, window, local, value, measured, scales)
            taken = max(taken, runs)
        values.append(value)
    for _ in range(taken):
        problem.count()
    return values


def _closest(
    windowed: WindowedRecording,
    window: Window,
    local: np.ndarray,
    value: np.ndarray,
    measured: np.ndarray,
    scales: list[float],
) -> tuple[np.ndarray, int]:
    """The assembled state (n,) whose `measured` values, NaN where there are none, are met best, by Gauss-Newton steps
    from a state, along what constraints allow; how many runs that took."""
    states, n = windowed.states, len(value)
    seen = np.isfinite(measured)
    weights = 1.0 / np.repeat(scales, states.entries)[seen]
    best, least, runs = value, np.inf, 0
    while runs < CLOSING_STEPS:
        runs += 1
        transforms = transforms_at(states, value, scales)
        coordinates = coordinates_of(states, transforms, value)
        shown, slope = windowed.run(window, local, transforms, coordinates)
        assembled = shown[-n:, window.begin]
        missing = weights * (measured - assembled)[seen]
        by_start = slope[-n:, window.begin, len(local) :]
        if not (np.sum(missing**2) < least and np.all(np.isfinite(by_start))):
            break
        best, least = assembled, np.sum(missing**2)
        step = np.linalg.lstsq(weights[:, None] * by_start[seen], missing, rcond=INDEPENDENT)[0]
        if np.max(np.abs(step)) < SMALL_STEP:
            break
        value = values_and_slopes(states, transforms, coordinates + step)[0]
    return best, runs


def scales_of(states: WindowStates, values: list[np.ndarray]) -> list[float]:
    """What coordinates of states are counted in, by block: how widely these spread, at least the usual scale; where
    there is none, as of entropies and charges, their size where they do not spread."""
    found = []
    for key, part in zip(states.keys, states.by_block(np.array(values).T), strict=True):
        wide, size = float(np.max(np.std(part, axis=1))), float(np.max(np.abs(part)))
        found.append(max(UNIT_SCALES[key], wide) if key in UNIT_SCALES else wide or size or 1.0)
    return found


def transforms_at(states: WindowStates, value: np.ndarray, scales: list[float]) -> tuple[Transform, ...]:
    """To states near one, of values (n,); `scales`, by block: what coordinates are counted in."""
    found: list[Transform] = []
    for block, part, scale in zip(states.blocks, states.by_block(value), scales, strict=True):
        linear = block.size == len(part)
        start = jnp.asarray(part)
        found.append(LinearTransform(start, jnp.full(len(part), scale)) if linear else RotationTransform(start))
    return tuple(found)


def coordinates_of(states: WindowStates, transforms: tuple[Transform, ...], value: np.ndarray) -> np.ndarray:
    """The coordinates (k,) of a state of values (n,)."""
    parts = zip(transforms, states.by_block(value), strict=True)
    return np.concatenate([transform.coordinates(part) for transform, part in parts])


def values_and_slopes(
    states: WindowStates, transforms: tuple[Transform, ...], coordinates: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The values (n,) of a state at coordinates (k,), and their derivative (n, k)."""
    values, slopes = [], []
    pieces = np.split(coordinates, np.cumsum([block.size for block in states.blocks])[:-1])
    for transform, piece in zip(transforms, pieces, strict=True):
        if isinstance(transform, LinearTransform):
            scale = np.asarray(transform.scale)
            values.append(scale * piece)
            slopes.append(np.diag(scale))
        else:
            values.append(np.asarray(transform.values(jnp.asarray(piece))))
            slopes.append(jacobian(transform, piece))
    return np.concatenate(values), np.asarray(scipy.linalg.block_diag(*slopes))


def _measured(problem: FitProblem, windowed: WindowedRecording, t: float) -> np.ndarray:
    """What sensors say of the values (n,) of joints' states at a time, NaN where they say nothing."""
    recording = windowed.experiment.recording
    channels = [(problem.study.sensors[name], output, name) for name, output in windowed.experiment.outputs.items()]
    found = np.full(len(windowed.states.outputs), np.nan)
    for i, wanted in enumerate(windowed.states.outputs):
        for sensor, output, name in channels:
            if output == wanted:
                found[i] = _at(recording, sensor, name, t, 0)
            elif _is_rate(windowed, wanted, output) and np.isnan(found[i]):
                found[i] = _at(recording, sensor, name, t, 1)
    for part, block in zip(windowed.states.by_block(np.arange(len(found))), windowed.states.blocks, strict=True):
        if block.size != len(part):
            found[part] = np.nan  # a quaternion is one only as a whole
    return found


def _is_rate(windowed: WindowedRecording, wanted: OutputName, output: OutputName) -> bool:
    """Whether what is wanted is the rate of an output: of a joint with one coordinate."""
    model = windowed.experiment.member.model
    alone = (wanted.kind, output.kind) == ("v", "q") and wanted.owner == output.owner
    return alone and model.layout.initial_shapes("joints", wanted.owner)["q"] == (1,)


def _at(recording: Recording, sensor: Sensor, name: str, t: float, derivative: int) -> float:
    """What a sensor measures at a time, or its rate, by a polynomial through the samples around it."""
    values, ts = samples(recording, name), np.asarray(recording.ts, float)
    near = np.flatnonzero(np.isfinite(values))
    near = near[np.argsort(np.abs(ts[near] - t))[:MEASURED_SAMPLES]]
    if len(near) <= DEGREE or abs(ts[near[0]] - t) > np.ptp(ts[near]):
        return np.nan
    gain, bias = (value.start if isinstance(value, Parameter) else value for value in (sensor.gain, sensor.bias))
    coefficients = np.polyfit(ts[near] - t, values[near], DEGREE)
    value = coefficients[-1 - derivative] - (0.0 if derivative else bias or 0.0)
    return float(value / (1.0 if gain is None else gain))
