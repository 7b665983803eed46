"""Multiple shooting: windows with starts of their own, whose gaps count more from stage to stage."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jmbs.identification.bordered import Bordered, Part
from jmbs.identification.problem import FitProblem
from jmbs.identification.transforms import Transform
from jmbs.identification.window_starts import (
    coordinates_of,
    first_starts,
    scales_of,
    transforms_at,
    values_and_slopes,
)
from jmbs.identification.windows import JointStates, Window, WindowedRecording, cut


class _Rows(NamedTuple):
    """Of a window: residuals (m,) of its samples, the values (n,) of the states at its end, and derivatives of both by
    the recording's unknowns, those of the study first, then the starts of its windows."""

    residual: np.ndarray
    by_unknowns: np.ndarray
    end: np.ndarray
    end_by_unknowns: np.ndarray


class _Cut(NamedTuple):
    """A recording in windows: the `scales` of its states' coordinates; by window but the first the transforms to its
    start; `places` of all these coordinates in the vector; what gaps (n,) between windows weigh."""

    windowed: WindowedRecording
    scales: list[float]
    starts: list[tuple[Transform, ...]]
    places: np.ndarray
    weights: np.ndarray

    def of_start(self, k: int) -> np.ndarray:
        """Where the coordinates of a start, the first of which is that of the second window, are among the starts'."""
        size = len(self.places) // max(len(self.starts), 1)
        return k * size + np.arange(size)


class MultipleShooting:
    """A problem whose recordings are cut into windows that start from unknown states, all but the first of each.

    Vectors (p + k,) are those of the problem, then the coordinates of these states. `first` (k,): what these are at
    first; `samples`: how many there are. Raises `ModelError` for what cannot be cut.
    """

    def __init__(self, problem: FitProblem):
        self.problem = problem
        self.samples = sum(experiment.samples() for experiment in problem.training)
        self._latest: tuple[np.ndarray, list[list[_Rows]]] = (np.zeros(0), [])
        x, cuts, first = problem.unknowns.first, [], [np.zeros(0)]
        place = len(x)
        for windowed in cut(problem):
            states, values = windowed.states, first_starts(problem, windowed)
            scales = scales_of(states, values[1:] or values)
            starts = [transforms_at(states, value, scales) for value in values[1:]]
            first += [coordinates_of(states, start, value) for start, value in zip(starts, values[1:], strict=True)]
            size = sum(block.size for block in states.blocks) * len(starts)
            cuts.append(_Cut(windowed, scales, starts, place + np.arange(size), np.ones(len(states.outputs))))
            place += size
        self.first = np.concatenate(first)
        z = np.concatenate([x, self.first])
        self._cuts = [one._replace(weights=_information(one, self._run(one, z))) for one in cuts]

    def evaluate(self, z: np.ndarray, strength: float) -> tuple[np.ndarray, Bordered]:
        """Whitened residuals (m,) of samples and of gaps, and their Jacobian (m, p + k).

        **Arguments:** `strength`: what gaps count beside what the samples of a window say of its start.
        """
        residuals, parts = [], []
        for one, windows in zip(self._cuts, self._runs(z), strict=True):
            rows, columns = [w.residual for w in windows], [w.by_unknowns for w in windows]
            for gap, slope in _gaps(one, windows, z):
                rows.append(strength * one.weights * gap)
                columns.append(strength * one.weights[:, None] * slope)
            shared, own = np.split(np.concatenate(columns), [len(one.windowed.experiment.local)], axis=1)
            residuals += rows
            parts.append(Part(one.windowed.experiment.local, shared, own))
        return np.concatenate(residuals), Bordered(parts, len(self.problem.unknowns.first))

    def largest_gap(self, z: np.ndarray) -> float:
        """The largest difference between the end of a window and the start of the next, in the states' own units."""
        runs = zip(self._cuts, self._runs(z), strict=True)
        gaps = [gap for one, windows in runs for gap, _ in _gaps(one, windows, z)]
        return float(np.max(np.abs(gaps), initial=0.0))

    def _runs(self, z: np.ndarray) -> list[list[_Rows]]:
        """All windows of each recording; a stage begins where the one before ended, at what was run already."""
        if not np.array_equal(self._latest[0], z):
            self._latest = z.copy(), [self._run(one, z) for one in self._cuts]
        return self._latest[1]

    def _run(self, one: _Cut, z: np.ndarray) -> list[_Rows]:
        """All windows of a recording."""
        self.problem.count()
        states, x = one.windowed.states, z[one.windowed.experiment.local]
        value, slope = one.windowed.first_state(x)
        transforms = transforms_at(states, value, one.scales)
        coordinates = coordinates_of(states, transforms, value)
        # How the coordinates of the first start follow from the unknowns.
        follows = np.linalg.pinv(values_and_slopes(states, transforms, coordinates)[1]) @ slope
        found = []
        for k, window in enumerate(one.windowed.windows):
            start_slope = np.zeros((len(coordinates), len(x) + len(one.places)))
            if k:
                places = one.of_start(k - 1)
                transforms, coordinates = one.starts[k - 1], z[one.places[places]]
                start_slope[np.arange(len(coordinates)), len(x) + places] = 1.0
            else:
                start_slope[:, : len(x)] = follows
            found.append(_rows(one.windowed, window, x, transforms, coordinates, start_slope))
        return found


def _rows(
    windowed: WindowedRecording,
    window: Window,
    x: np.ndarray,
    transforms: tuple[Transform, ...],
    coordinates: np.ndarray,
    start_slope: np.ndarray,
) -> _Rows:
    """The rows of a window. `start_slope`: the derivative of its start's coordinates by the recording's unknowns."""
    residual, slope = windowed.run(window, x, transforms, coordinates)
    whole = slope[..., len(x) :] @ start_slope
    whole[..., : len(x)] += slope[..., : len(x)]
    n = len(windowed.states.outputs)
    seen = np.asarray(window.member.weights)[:-n] > 0
    return _Rows(residual[:-n][seen], whole[:-n][seen], residual[-n:, window.end], whole[-n:, window.end])


def _information(one: _Cut, windows: list[_Rows]) -> np.ndarray:
    """What the samples of a window say of the values (n,) of its start: one over a standard deviation."""
    states, x = one.windowed.states, len(one.windowed.experiment.local)
    slopes = [rows.by_unknowns[:, x + one.of_start(k)] for k, rows in enumerate(windows[1:])]
    if not slopes:
        return one.weights
    squares = [np.sum(np.where(np.isfinite(slope), slope, 0.0) ** 2, axis=0) for slope in slopes]
    pieces = np.split(np.sqrt(np.mean(squares, axis=0)), np.cumsum([block.size for block in states.blocks])[:-1])
    said = [max(float(np.max(piece)), 1.0) / scale for piece, scale in zip(pieces, one.scales, strict=True)]
    return np.repeat(said, states.entries)


def _gaps(one: _Cut, windows: list[_Rows], z: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """By how much the values (n,) of states at the ends of windows differ from the starts of the next; derivatives."""
    found = []
    for k, (before, transforms) in enumerate(zip(windows, one.starts, strict=False)):
        places = one.of_start(k)
        value, slope = values_and_slopes(one.windowed.states, transforms, z[one.places[places]])
        signs = _signs(one.windowed.states, before.end, value)
        whole = signs[:, None] * before.end_by_unknowns
        whole[:, len(one.windowed.experiment.local) + places] -= slope
        found.append((signs * before.end - value, whole))
    return found


def _signs(states: JointStates, end: np.ndarray, value: np.ndarray) -> np.ndarray:
    """-1 at quaternions that are the other one of nearly the same rotation, else 1."""
    signs = np.ones(len(value))
    for block, entries in zip(states.blocks, states.by_block(np.arange(len(value))), strict=True):
        quaternion = entries[-4:]
        if block.size < len(entries) and end[quaternion] @ value[quaternion] < 0:
            signs[quaternion] = -1.0
    return signs
