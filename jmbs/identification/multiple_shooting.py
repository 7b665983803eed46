"""Multiple shooting: windows with starts of their own, whose gaps count more from stage to stage."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

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


class _Start(NamedTuple):
    """How a window starts: where its coordinates stand in the vector, and the transforms to the state's blocks."""

    places: np.ndarray
    transforms: tuple[Transform, ...]


class _Rows(NamedTuple):
    """Of a window: residuals (m,) of its samples, the values (n,) of the states at its end, both with derivatives by
    all unknowns."""

    residual: np.ndarray
    by_unknowns: np.ndarray
    end: np.ndarray
    end_by_unknowns: np.ndarray


class _Part(NamedTuple):
    """A recording with the `scales` of its states' coordinates, the `starts` of its windows but the first, and what
    gaps (n,) between them weigh."""

    windowed: WindowedRecording
    scales: list[float]
    starts: list[_Start]
    weights: np.ndarray


class MultipleShooting:
    """A problem whose recordings are cut into windows that start from unknown states, all but the first of each.

    Vectors (p + k,) are those of the problem, then the coordinates of these states. `first` (k,): what these are at
    first; `samples`: how many there are. Raises `ModelError` for what cannot be cut.
    """

    def __init__(self, problem: FitProblem):
        self.problem = problem
        self.samples = sum(experiment.samples() for experiment in problem.training)
        x, parts, first = problem.unknowns.first, [], [np.zeros(0)]
        place = len(x)
        for windowed in cut(problem):
            states, values = windowed.states, first_starts(problem, windowed)
            scales = scales_of(states, values)
            starts = []
            for value in values[1:]:
                transforms = transforms_at(states, value, scales)
                first.append(coordinates_of(states, transforms, value))
                starts.append(_Start(place + np.arange(len(first[-1])), transforms))
                place += len(first[-1])
            parts.append(_Part(windowed, scales, starts, np.ones(len(states.outputs))))
        self.first = np.concatenate(first)
        z = np.concatenate([x, self.first])
        self._latest: tuple[np.ndarray, list[list[_Rows]]] = (np.zeros(0), [])
        self._parts = [part._replace(weights=self._information(part, z)) for part in parts]

    def evaluate(self, z: np.ndarray, strength: float) -> tuple[np.ndarray, np.ndarray]:
        """Whitened residuals (m,) of samples and of gaps, and their Jacobian (m, p + k).

        **Arguments:** `strength`: what gaps count beside what the samples of a window say of its start.
        """
        rows, columns = [], []
        for part, windows in zip(self._parts, self._runs(z), strict=True):
            rows += [window.residual for window in windows]
            columns += [window.by_unknowns for window in windows]
            for before, start in zip(windows, part.starts, strict=False):
                gap, slope = _gap(part.windowed.states, before, start, z)
                rows.append(strength * part.weights * gap)
                columns.append(strength * part.weights[:, None] * slope)
        return np.concatenate(rows), np.concatenate(columns)

    def largest_gap(self, z: np.ndarray) -> float:
        """The largest difference between the end of a window and the start of the next, in the states' own units."""
        found = [0.0]
        for part, windows in zip(self._parts, self._runs(z), strict=True):
            for before, start in zip(windows, part.starts, strict=False):
                found.append(float(np.max(np.abs(_gap(part.windowed.states, before, start, z)[0]))))
        return max(found)

    def _information(self, part: _Part, z: np.ndarray) -> np.ndarray:
        """What the samples of a window say of the values (n,) of its start: one over a standard deviation."""
        windows = self._run(part, z)[1:]
        slopes = [rows.by_unknowns[:, start.places] for rows, start in zip(windows, part.starts, strict=True)]
        squares = [np.sum(np.where(np.isfinite(slope), slope, 0.0) ** 2, axis=0) for slope in slopes]
        states = part.windowed.states
        pieces = np.split(np.sqrt(np.mean(squares, axis=0)), np.cumsum([block.size for block in states.blocks])[:-1])
        said = [max(float(np.max(piece)), 1.0) / scale for piece, scale in zip(pieces, part.scales, strict=True)]
        return np.repeat(said, states.entries)

    def _runs(self, z: np.ndarray) -> list[list[_Rows]]:
        """All windows of each recording; a stage begins where the one before ended, at what was run already."""
        if not np.array_equal(self._latest[0], z):
            self._latest = z.copy(), [self._run(part, z) for part in self._parts]
        return self._latest[1]

    def _run(self, part: _Part, z: np.ndarray) -> list[_Rows]:
        """All windows of a recording."""
        self.problem.count()
        windowed, x = part.windowed, z[part.windowed.experiment.local]
        value, slope = windowed.first_state(x)
        transforms = transforms_at(windowed.states, value, part.scales)
        coordinates = coordinates_of(windowed.states, transforms, value)
        # How the coordinates of the first start follow from the unknowns.
        follows = np.linalg.pinv(values_and_slopes(windowed.states, transforms, coordinates)[1]) @ slope
        first = _rows(windowed, windowed.windows[0], transforms, coordinates, follows, z)
        rest = zip(windowed.windows[1:], part.starts, strict=True)
        return [first, *(_rows(windowed, w, s.transforms, z[s.places], s.places, z) for w, s in rest)]


def _rows(
    windowed: WindowedRecording,
    window: Window,
    transforms: tuple[Transform, ...],
    coordinates: np.ndarray,
    places: np.ndarray,
    z: np.ndarray,
) -> _Rows:
    """The rows of a window. `places`: where its start's coordinates (k,) stand in the vector, or, of the first window,
    their derivative (k, p) by the recording's unknowns."""
    local = windowed.experiment.local
    residual, slope = windowed.run(window, z[local], transforms, coordinates)
    whole = np.zeros((*residual.shape, len(z)))
    whole[..., local] = slope[..., : len(local)]
    by_start = slope[..., len(local) :]
    if places.ndim == 1:
        whole[..., places] = by_start
    else:
        whole[..., local] += by_start @ places
    n = len(windowed.states.outputs)
    seen = np.asarray(window.member.weights)[:-n] > 0
    return _Rows(residual[:-n][seen], whole[:-n][seen], residual[-n:, window.end], whole[-n:, window.end])


def _gap(states: JointStates, before: _Rows, start: _Start, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """By how much the values (n,) of states at the end of a window differ from the start of the next; derivatives."""
    value, slope = values_and_slopes(states, start.transforms, z[start.places])
    signs = np.ones(len(value))
    for block, entries in zip(states.blocks, states.by_block(np.arange(len(value))), strict=True):
        quaternion = entries[-4:]
        if block.size < len(entries) and before.end[quaternion] @ value[quaternion] < 0:
            signs[quaternion] = -1.0  # the other one of the same rotation
    whole = signs[:, None] * before.end_by_unknowns
    whole[:, start.places] -= slope
    return signs * before.end - value, whole
