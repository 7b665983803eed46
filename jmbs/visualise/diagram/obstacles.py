"""What the lines of a diagram keep away from, and the choice of the line that does it best."""

from __future__ import annotations

import dataclasses

import numpy as np

from jmbs.visualise.diagram.geometry import ComplexArray, Line, Rounded, crosses, many, nearest_point, pieces

STEP = 6.0
"""Distance (px) between the places on an outline where a line may cross it."""
EXIT_GAP, SAME_EXIT = 22.0, 8.0
"""Distance of lines where they cross the same outline: what it should be and what it must be."""
CLEARANCE, COMFORT = 7.0, 16.0
"""Distance of a line from a box: what it must have and what it should have."""
THROUGH_BOX, ON_LINE, CROSSING, NEAR_DOT, NEAR_LINE, NARROW, BEND = 600.0, 400.0, 150.0, 80.0, 80.0, 40.0, 40.0
"""What a line is charged, in px of length, for running where it should not; `BEND` per radian."""


@dataclasses.dataclass
class Obstacles:
    """Boxes, junctions, and what has been drawn: lines, and the places where they cross outlines."""

    boxes: list[Rounded]
    dots: list[complex]
    lines: list[Line]
    exits: list[complex] = dataclasses.field(default_factory=list)

    def add(self, line: Line, exit_at: complex) -> None:
        self.lines.append(line)
        self.exits.append(exit_at)

    def costs(self, candidates: ComplexArray, exits: ComplexArray) -> np.ndarray:
        """Lengths of polylines `(n, corners)` and what they are charged; `exits` is where they cross the outline."""
        steps = np.diff(candidates, axis=1)
        costs = np.abs(steps).sum(axis=1)
        costs += BEND * np.abs(np.angle(steps[:, 1:] / steps[:, :-1])).sum(axis=1)
        boxes, dots, (c, d) = many(self.boxes), np.array(self.dots), pieces(self.lines)
        foreign = (dots != candidates[:, :1]) & (dots != candidates[:, -1:])
        for i in range(steps.shape[1]):
            a, b = candidates[:, i, None], candidates[:, i + 1, None]
            space = boxes.distance(a, b)
            costs += THROUGH_BOX * (space < CLEARANCE).sum(axis=1) + NARROW * (space < COMFORT).sum(axis=1)
            costs += CROSSING * crosses(a, b, c, d).sum(axis=1)
            near = np.abs(dots - nearest_point(dots, a, b)) < CLEARANCE + 3.0
            costs += NEAR_DOT * (foreign & near).sum(axis=1)
        apart = np.abs(exits[:, None] - np.array(self.exits, dtype=complex))
        costs += ON_LINE * (apart < SAME_EXIT).sum(axis=1) + NEAR_LINE * (apart < EXIT_GAP).sum(axis=1)
        # Rounded, so that the same line is the cheapest on every machine.
        return np.round(costs, 2)


def points_around(box: Rounded) -> ComplexArray:
    """Points on a box's outline."""
    count = int(4 * (box.half.real + box.half.imag) / STEP)
    directions = np.exp(2j * np.pi * np.arange(count) / count)
    return box.outline(box.centre, box.centre + 4 * abs(box.half) * directions)
