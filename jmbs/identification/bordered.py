"""Jacobians of parts that share a few unknowns and have many of their own, and least squares that use it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Part(NamedTuple):
    """Rows by shared unknowns, which stand at `places` (q,), and by own ones: `shared` (m, q), `own` (m, k)."""

    places: np.ndarray
    shared: np.ndarray
    own: np.ndarray


class Bordered:
    """A Jacobian (m, p + k): columns of p shared unknowns, then of the own ones of each part in turn; rows likewise."""

    def __init__(self, parts: Sequence[Part], p: int):
        self.parts, self.p = tuple(parts), p

    @property
    def is_finite(self) -> bool:
        """Whether all entries are."""
        return all(bool(np.all(np.isfinite(part.shared)) and np.all(np.isfinite(part.own))) for part in self.parts)

    def with_rows(self, rows: np.ndarray) -> Bordered:
        """With rows (m, p) below that depend on shared unknowns only."""
        return Bordered((*self.parts, Part(np.arange(self.p), rows, np.zeros((len(rows), 0)))), self.p)

    def dense(self) -> np.ndarray:
        """The whole (m, p + k)."""
        own, rows = self.p, []
        size = self.p + sum(part.own.shape[1] for part in self.parts)
        for part in self.parts:
            row, k = np.zeros((len(part.shared), size)), part.own.shape[1]
            row[:, part.places], row[:, own : own + k] = part.shared, part.own
            own += k
            rows.append(row)
        return np.concatenate(rows)


class Triangle(NamedTuple):
    """A part's rows after a rotation that makes them few: (r, k), (r, q) and (r,), upper triangular together."""

    places: np.ndarray
    own: np.ndarray
    shared: np.ndarray
    residual: np.ndarray


class BorderedSquares:
    """The squares `|residual + J step|^2 + damping |step|^2` of a bordered Jacobian: own unknowns are eliminated part
    by part, which leaves a small problem in the shared ones."""

    def __init__(self, residual: np.ndarray, jacobian: Bordered):
        self.p, self.triangles = jacobian.p, []
        row = 0
        for part in jacobian.parts:
            m, k = part.own.shape
            columns = [part.own, part.shared, residual[row : row + m, None]]
            R = np.asarray(np.linalg.qr(np.concatenate(columns, axis=1), mode="r"))
            self.triangles.append(Triangle(part.places, R[:, :k], R[:, k:-1], R[:, -1]))
            row += m
        self.largest = max(float(np.linalg.norm(np.concatenate(t[1:3], axis=1), 2)) for t in self.triangles)

    def reduced(self, damping: float) -> tuple[np.ndarray, np.ndarray, list[tuple[np.ndarray, np.ndarray, np.ndarray]]]:
        """Rows (r, p) and residual (r,) of the shared unknowns alone, and what gives each part's own ones: a triangle
        (k, k), (k, q) and (k,)."""
        rows, residuals, back = [np.zeros((0, self.p))], [np.zeros(0)], []
        # Own unknowns that nothing shows stay where they are.
        floor = max(damping, (1e-12 * self.largest) ** 2)
        for places, own, shared, residual in self.triangles:
            k = own.shape[1]
            stacked = np.zeros((len(own) + k, k + shared.shape[1] + 1))
            stacked[: len(own)] = np.concatenate([own, shared, residual[:, None]], axis=1)
            stacked[len(own) :, :k] = np.sqrt(floor) * np.eye(k)
            R = np.asarray(np.linalg.qr(stacked, mode="r"))
            back.append((R[:k, :k], R[:k, k:-1], R[:k, -1]))
            row = np.zeros((len(R) - k, self.p))
            row[:, places] = R[k:, k:-1]
            rows.append(row)
            residuals.append(R[k:, -1])
        return np.concatenate(rows), np.concatenate(residuals), back

    def whole(self, shared: np.ndarray, back: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> np.ndarray:
        """The step (p + k,) where that of the shared unknowns (p,) is given."""
        own = [
            -np.linalg.solve(R, y + by_shared @ shared[triangle.places])
            for triangle, (R, by_shared, y) in zip(self.triangles, back, strict=True)
        ]
        return np.concatenate([shared, *own])

    def gain(self, step: np.ndarray) -> float:
        """By how much a step lowers half the squares, without damping."""
        gained, place = 0.0, self.p
        for places, own, shared, residual in self.triangles:
            moved = own @ step[place : place + own.shape[1]] + shared @ step[places]
            gained -= float(residual @ moved + 0.5 * moved @ moved)
            place += own.shape[1]
        return gained
