"""Coordinates of the states that windows start from: all of an open tree's, and where constraints bind them as many as
are independent, along the tangents of what these allow."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jmbs.identification.transforms import Transform
from jmbs.identification.window_starts import coordinates_of, transforms_at, values_and_slopes
from jmbs.identification.windows import WindowStates

ALLOWED = 1e-3
"""Singular values of assembly, a projection: at least one along what constraints allow, else zero."""
LEVELS = {"q": 0, "position": 0, "quaternion": 0, "v": 1, "velocity": 1, "angular_velocity": 1, "state": 2}
"""What of a state assembly projects together: configurations, velocities; others stay as they are."""


class WindowChart(NamedTuple):
    """Independent coordinates (k,) of states near one: all are `origin` (c,) and `basis` (c, k) times these,
    and `transforms` make values (n,) of them, by block. `first` (k,): those of the state itself.

    A gap (g,) between windows is `across` (g, n) times the difference of values. `kinds` (k,) and `gap_kinds` (g,):
    which coordinates and gaps are counted together; `scales` (g,), what these gaps are counted in.
    """

    transforms: tuple[Transform, ...]
    origin: np.ndarray
    basis: np.ndarray
    first: np.ndarray
    across: np.ndarray
    kinds: np.ndarray
    gap_kinds: np.ndarray
    scales: np.ndarray

    def all_coordinates(self, coordinates: np.ndarray) -> np.ndarray:
        """All coordinates (c,) at the independent ones (k,)."""
        return self.origin + self.basis @ coordinates


def open_chart(states: WindowStates, value: np.ndarray, scales: list[float]) -> WindowChart:
    """All coordinates, near a state of values (n,)."""
    transforms = transforms_at(states, value, scales)
    first = coordinates_of(states, transforms, value)
    numbers = np.arange(len(states.blocks))
    kinds, gap_kinds = np.repeat(numbers, states.sizes), np.repeat(numbers, states.entries)
    origin, basis = np.zeros(len(first)), np.eye(len(first))
    return WindowChart(
        transforms, origin, basis, first, np.eye(len(value)), kinds, gap_kinds, np.array(scales)[gap_kinds]
    )


def closed_chart(states: WindowStates, value: np.ndarray, slope: np.ndarray, scales: list[float]) -> WindowChart:
    """Independent coordinates near an assembled state of values (n,).

    **Arguments:** `slope` (n, c): how assembled values follow the coordinates that assembly starts from.
    """
    transforms = transforms_at(states, value, scales)
    origin = coordinates_of(states, transforms, value)
    back = np.linalg.pinv(values_and_slopes(states, transforms, origin)[1])
    projection, levels = back @ slope, np.repeat([LEVELS[key] for key in states.keys], states.sizes)
    parts = []
    for own in (levels == level for level in range(3)):
        U, s, _ = np.linalg.svd(projection[np.ix_(own, own)])
        part = np.zeros((len(origin), int(np.sum(s > ALLOWED))))
        part[own] = U[:, : part.shape[1]]
        parts.append(part)
    basis = np.concatenate(parts, axis=1)
    kinds = np.repeat(np.arange(3), [part.shape[1] for part in parts])
    return WindowChart(
        transforms, origin, basis, np.zeros(len(kinds)), basis.T @ back, kinds, kinds, np.ones(len(kinds))
    )
