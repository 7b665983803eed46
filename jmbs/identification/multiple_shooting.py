"""Multiple shooting: windows with starts of their own, whose gaps count more from stage to stage."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from jmbs.identification.bordered import Bordered, Part
from jmbs.identification.problem import FitProblem
from jmbs.identification.transforms import Transform
from jmbs.identification.window_charts import WindowChart, closed_chart, open_chart
from jmbs.identification.window_starts import (
    coordinates_of,
    first_starts,
    scales_of,
    transforms_at,
    values_and_slopes,
)
from jmbs.identification.windows import Window, WindowedRecording, WindowStates, cut


class _Rows(NamedTuple):
    """Of a window: residuals (m,) of its samples, the values (n,) of the states at its start and its end, and
    derivatives of all by the recording's unknowns, those of the study first, then the starts of its windows."""

    residual: np.ndarray
    by_unknowns: np.ndarray
    start: np.ndarray
    start_by_unknowns: np.ndarray
    end: np.ndarray
    end_by_unknowns: np.ndarray


class _Cut(NamedTuple):
    """A recording in windows: the `scales` of its states' coordinates; by window but the first the chart of its start;
    `places` of all these coordinates in the vector; by window but the first what gaps (g,) to the one before weigh."""

    windowed: WindowedRecording
    scales: list[float]
    starts: list[WindowChart]
    places: np.ndarray
    weights: list[np.ndarray]

    def of_start(self, k: int) -> np.ndarray:
        """Where the coordinates of a start, the first of which is that of the second window, are among the starts'."""
        ends = np.cumsum([0, *(len(chart.first) for chart in self.starts)])
        return np.arange(ends[k], ends[k + 1])


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
            values = first_starts(problem, windowed)
            scales = scales_of(windowed.states, values[1:] or values)
            charts = self._charts(windowed, values, scales)
            first += [chart.first for chart in charts]
            size = sum(len(chart.first) for chart in charts)
            cuts.append(_Cut(windowed, scales, charts, place + np.arange(size), []))
            place += size
        self.first = np.concatenate(first)
        z = np.concatenate([x, self.first])
        self._cuts = [one._replace(weights=_information(one, self._run(one, z))) for one in cuts]

    def _charts(self, windowed: WindowedRecording, values: list[np.ndarray], scales: list[float]) -> list[WindowChart]:
        """Of the starts of all windows but the first, near states of these values, by window."""
        states = windowed.states
        if not states.constrained:
            return [open_chart(states, value, scales) for value in values[1:]]
        self.problem.count()
        x, n, charts = self.problem.unknowns.first[windowed.experiment.local], len(states.outputs), []
        for window, value in zip(windowed.windows[1:], values[1:], strict=True):
            transforms = transforms_at(states, value, scales)
            shown, slope = windowed.run(window, x, transforms, coordinates_of(states, transforms, value))
            charts.append(closed_chart(states, shown[-n:, window.begin], slope[-n:, window.begin, len(x) :], scales))
        return charts

    def evaluate(self, z: np.ndarray, strength: float) -> tuple[np.ndarray, Bordered]:
        """Whitened residuals (m,) of samples and of gaps, and their Jacobian (m, p + k).

        **Arguments:** `strength`: what gaps count beside what the samples of a window say of its start.
        """
        residuals, parts = [], []
        for one, windows in zip(self._cuts, self._runs(z), strict=True):
            rows, columns = [w.residual for w in windows], [w.by_unknowns for w in windows]
            for (gap, slope), chart, weights in zip(_gaps(one, windows), one.starts, one.weights, strict=True):
                rows.append(strength * weights * (chart.across @ gap))
                columns.append(strength * weights[:, None] * (chart.across @ slope))
            shared, own = np.split(np.concatenate(columns), [len(one.windowed.experiment.local)], axis=1)
            residuals += rows
            parts.append(Part(one.windowed.experiment.local, shared, own))
        return np.concatenate(residuals), Bordered(parts, len(self.problem.unknowns.first))

    def largest_gap(self, z: np.ndarray) -> float:
        """The largest difference between the end of a window and the start of the next, in the states' own units."""
        gaps = [gap for one, windows in zip(self._cuts, self._runs(z), strict=True) for gap, _ in _gaps(one, windows)]
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
                places, chart = one.of_start(k - 1), one.starts[k - 1]
                transforms, coordinates = chart.transforms, chart.all_coordinates(z[one.places[places]])
                start_slope[:, len(x) + places] = chart.basis
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
    ends = [rows[-n:, at] for at in (window.begin, window.end) for rows in (residual, whole)]
    return _Rows(residual[:-n][seen], whole[:-n][seen], *ends)


def _information(one: _Cut, windows: list[_Rows]) -> list[np.ndarray]:
    """By window but the first what its samples say of its start, as weights of gaps (g,): one over a standard
    deviation."""
    x, most = len(one.windowed.experiment.local), {}
    for k, (rows, chart) in enumerate(zip(windows[1:], one.starts, strict=True)):
        slope = rows.by_unknowns[:, x + one.of_start(k)]
        squares = np.sum(np.where(np.isfinite(slope), slope, 0.0) ** 2, axis=0)
        for kind in np.unique(chart.kinds):
            most.setdefault(kind, []).append(float(np.max(squares[chart.kinds == kind])))
    said = {kind: max(float(np.sqrt(np.mean(squares))), 1.0) for kind, squares in most.items()}
    return [np.array([said[kind] for kind in chart.gap_kinds]) / chart.scales for chart in one.starts]


def _gaps(one: _Cut, windows: list[_Rows]) -> list[tuple[np.ndarray, np.ndarray]]:
    """By how much the values (n,) of states at the ends of windows differ from the starts of the next; derivatives."""
    found = []
    for before, after in itertools.pairwise(windows):
        signs = _signs(one.windowed.states, before.end, after.start)
        slope = signs[:, None] * before.end_by_unknowns - after.start_by_unknowns
        found.append((signs * before.end - after.start, slope))
    return found


def _signs(states: WindowStates, end: np.ndarray, value: np.ndarray) -> np.ndarray:
    """-1 at quaternions that are the other one of nearly the same rotation, else 1."""
    signs = np.ones(len(value))
    for block, entries in zip(states.blocks, states.by_block(np.arange(len(value))), strict=True):
        quaternion = entries[-4:]
        if block.size < len(entries) and end[quaternion] @ value[quaternion] < 0:
            signs[quaternion] = -1.0
    return signs
