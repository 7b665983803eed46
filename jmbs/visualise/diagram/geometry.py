"""Plane geometry of a diagram. Points are complex numbers `x + iy`, y downwards; everything works on arrays of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

ComplexArray = NDArray[np.complex128]
Points = Any
"""A complex number or a complex array; arguments broadcast."""
Line = tuple[complex, ...]
"""A polyline by its corners."""


@dataclasses.dataclass(frozen=True)
class Rounded:
    """A rectangle with round corners: a circle when both halves equal the radius. Arrays in the fields: many of them.

    **Arguments:** `centre`; `half`: half width + i half height; `radius` of the corners, at most the smaller half.
    """

    centre: Points
    half: Points
    radius: Any

    def at(self, centre: Points) -> Rounded:
        return dataclasses.replace(self, centre=centre)

    def column(self) -> Rounded:
        """Many boxes as a column, to meet a row of others."""
        return Rounded(self.centre[:, None], self.half[:, None], self.radius[:, None])

    def distance(self, a: Points, b: Points) -> Any:
        """From the outline to the segments `a b` (points: `a` twice); negative inside, by about the depth."""
        core = self.half - self.radius * (1 + 1j)
        middle, reach = (a + b) / 2 - self.centre, (b - a) / 2
        width, height = np.abs(np.real(reach)), np.abs(np.imag(reach))
        meet = np.abs(np.real(middle)) <= core.real + width
        meet = meet & (np.abs(np.imag(middle)) <= core.imag + height)
        meet = meet & (np.abs(_cross(reach, middle)) <= core.real * height + core.imag * width)
        # Between a segment and a rectangle apart from it, the shortest way starts at an end or at a corner.
        gaps = [_outside(a - self.centre, core), _outside(b - self.centre, core)]
        for corner in (core, -core, np.conj(core), -np.conj(core)):
            gaps.append(np.abs(self.centre + corner - nearest_point(self.centre + corner, a, b)))
        deepest = np.minimum(_outside(nearest_point(self.centre, a, b) - self.centre, core), 0.0)
        return np.where(meet, deepest, np.min(np.broadcast_arrays(*gaps), axis=0)) - self.radius

    def contains(self, point: Points) -> Any:
        return _outside(point - self.centre, self.half - self.radius * (1 + 1j)) < self.radius

    def gap(self, other: Rounded) -> Any:
        """Space between two boxes; negative where they overlap, by how far one must move."""
        radii = self.radius + other.radius
        return _outside(other.centre - self.centre, self.half + other.half - radii * (1 + 1j)) - radii

    def outline(self, inner: Points, outer: Points) -> Points:
        """Where the segment from a point inside to a point outside crosses the outline."""
        for _ in range(40):
            middle = (inner + outer) / 2
            within = self.contains(middle)
            inner, outer = np.where(within, middle, inner), np.where(within, outer, middle)
        return inner


@dataclasses.dataclass(frozen=True)
class Rectangle:
    """An upright rectangle: where a label stands, or the outer box."""

    low: complex
    high: complex

    @property
    def size(self) -> complex:
        return self.high - self.low

    def grown(self, margin: float) -> Rectangle:
        return Rectangle(self.low - margin * (1 + 1j), self.high + margin * (1 + 1j))

    def contains(self, other: Rectangle) -> bool:
        inside_low, inside_high = other.low - self.low, self.high - other.high
        return min(inside_low.real, inside_low.imag, inside_high.real, inside_high.imag) >= 0

    def rounded(self, radius: float = 0.0) -> Rounded:
        return Rounded((self.low + self.high) / 2, self.size / 2, radius)


def around(centre: complex, size: complex) -> Rectangle:
    return Rectangle(centre - size / 2, centre + size / 2)


def bounds(rectangles: Iterable[Rectangle]) -> Rectangle:
    """The smallest rectangle around all."""
    corners = [corner for rectangle in rectangles for corner in (rectangle.low, rectangle.high)]
    x, y = [corner.real for corner in corners], [corner.imag for corner in corners]
    return Rectangle(complex(min(x), min(y)), complex(max(x), max(y)))


def many(boxes: Iterable[Rounded]) -> Rounded:
    """Boxes as one, with arrays in its fields."""
    boxes = list(boxes)
    centre, half, radius = (np.array([getattr(box, field) for box in boxes]) for field in ("centre", "half", "radius"))
    return Rounded(centre.astype(complex), half.astype(complex), radius.astype(float))


def pieces(lines: Iterable[Line]) -> tuple[ComplexArray, ComplexArray]:
    """Starts and ends of all straight pieces of some lines."""
    pairs = [pair for line in lines for pair in pairwise(line)]
    array = np.array(pairs, dtype=complex).reshape(-1, 2)
    return array[:, 0], array[:, 1]


def point_along(line: Line, share: float) -> tuple[complex, complex]:
    """The point at a share of the line's length, and the line's direction there."""
    left = share * sum(abs(b - a) for a, b in pairwise(line))
    for a, b in pairwise(line):
        size = abs(b - a)
        if left <= size or b == line[-1]:
            return a + left * (b - a) / size, (b - a) / size
        left -= size
    raise ValueError("a line of fewer than two points")


def crosses(a: Points, b: Points, c: Points, d: Points) -> Any:
    """Whether the segments `a b` and `c d` cross at a point inside both."""
    return (_cross(b - a, c - a) * _cross(b - a, d - a) < 0) & (_cross(d - c, a - c) * _cross(d - c, b - c) < 0)


def nearest_point(point: Points, a: Points, b: Points) -> Points:
    """The point of the segment `a b` that is nearest to a point."""
    along = b - a
    square = np.maximum(np.abs(along) ** 2, 1e-30)
    return a + along * np.clip(np.real((point - a) * np.conj(along)) / square, 0.0, 1.0)


def _cross(a: Points, b: Points) -> Any:
    return np.imag(np.conj(a) * b)


def _outside(offset: Points, half: Points) -> Any:
    """How far a point at `offset` from a rectangle's centre is outside of it; negative inside."""
    x, y = np.abs(np.real(offset)) - np.real(half), np.abs(np.imag(offset)) - np.imag(half)
    return np.hypot(np.maximum(x, 0.0), np.maximum(y, 0.0)) + np.minimum(np.maximum(x, y), 0.0)
