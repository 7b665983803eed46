"""The lines of a diagram: from junctions to boxes, into opened boxes, and through the outer box."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from jmbs.visualise.diagram.geometry import ComplexArray, Line, Rectangle
from jmbs.visualise.diagram.graph import Dot, InnerPort
from jmbs.visualise.diagram.obstacles import BEND, STEP, Obstacles, points_around
from jmbs.visualise.diagram.placed import Placed

STUB = 14.0
"""How far (px) the lines of outer ports stand out of the outer box."""
CORNER = 16.0
"""How far they keep from its corners."""
TWINS_APART = 24.0
"""Distance of lines between the same box and junction."""


@dataclasses.dataclass(frozen=True)
class Wire:
    """A port as it is drawn: the line from its junction to its box, or out of the outer box (`box` is empty).

    A line into an opened box runs through its outline (the middle corner) to the junction inside. `level` is the path
    of the opened boxes in which the line is drawn.
    """

    level: str
    dot: str
    box: str
    port: str
    power: bool
    line: Line


def route(placed: Placed, frame: Rectangle, above: Rectangle) -> list[Wire]:
    """All lines of a placed diagram, those to closed boxes first; `frame` is the outer box, `above` is its name's."""
    wires, obstacles = _straight(placed), obstacles_in(placed)
    for level, pattern in placed.levels():
        wires += _into_opened(level, pattern, obstacles)
    obstacles.boxes.append(above.rounded())
    return wires + list(_out(placed, frame, obstacles))


def obstacles_in(placed: Placed) -> Obstacles:
    """A placed diagram with its lines to closed boxes."""
    return Obstacles(placed.solid_boxes(), placed.all_dots(), [wire.line for wire in _straight(placed)])


def _straight(placed: Placed) -> list[Wire]:
    """Lines to closed boxes, at all levels."""
    return [
        Wire(level, dot.name, port.box, port.name, port.power, _to_box(pattern, dot, port))
        for level, pattern in placed.levels()
        for dot in pattern.diagram.dots
        for port in dot.inner
        if port.box not in pattern.inside
    ]


def _to_box(pattern: Placed, dot: Dot, port: InnerPort) -> Line:
    """Straight to the box's centre; several ports of one box at one junction are bent apart."""
    start, box = pattern.dots[dot.name], pattern.boxes[port.box]
    end = complex(box.outline(box.centre, start))
    twins = [other for other in dot.inner if other.box == port.box]
    if len(twins) == 1:
        return start, end
    aside = TWINS_APART * (twins.index(port) - (len(twins) - 1) / 2)
    middle = (start + end) / 2 + aside * 1j * (end - start) / abs(end - start)
    return start, middle, complex(box.outline(box.centre, middle))


def _into_opened(level: str, pattern: Placed, obstacles: Obstacles) -> Iterator[Wire]:
    for dot in pattern.diagram.dots:
        for port in dot.inner:
            if port.box in pattern.inside:
                line = _through_outline(pattern, dot, port, obstacles)
                obstacles.add(line, line[1])
                yield Wire(level, dot.name, port.box, port.name, port.power, line)


def _through_outline(pattern: Placed, dot: Dot, port: InnerPort, obstacles: Obstacles) -> Line:
    """From a junction through the outline of an opened box to the junction inside."""
    start, box, inner = pattern.dots[dot.name], pattern.boxes[port.box], pattern.inside[port.box]
    end = inner.dots[inner.diagram.dot_of(port.name).name]
    exits = points_around(box)
    exits = exits[~box.contains(exits + 0.05 * (start - exits))]
    lines = np.stack([np.full_like(exits, start), exits, np.full_like(exits, end)], axis=1)
    others = [pattern.boxes[name] for name in pattern.inside if name != port.box]
    costs = dataclasses.replace(obstacles, boxes=obstacles.boxes + others).costs(lines, exits)
    return tuple(map(complex, lines[np.argmin(costs)]))


def _out(placed: Placed, frame: Rectangle, obstacles: Obstacles) -> Iterator[Wire]:
    """Lines of outer ports, straight from their junctions through the outer box."""
    opened = [placed.boxes[name] for name in placed.inside]
    around = dataclasses.replace(obstacles, boxes=obstacles.boxes + opened)
    for dot in placed.diagram.dots:
        for port in dot.outer:
            start = placed.dots[dot.name]
            exits, outwards = _along(frame, start)
            ways = (exits - start) / np.abs(exits - start)
            lines = np.stack([np.full_like(exits, start), exits + STUB * ways], axis=1)
            best = np.argmin(around.costs(lines, exits) + np.round(BEND * np.abs(np.angle(ways / outwards)), 2))
            line = complex(lines[best, 0]), complex(lines[best, 1])
            around.add(line, complex(exits[best]))
            yield Wire("", dot.name, "", port.name, port.power, line)


def _along(frame: Rectangle, start: complex) -> tuple[ComplexArray, ComplexArray]:
    """Points on the outer box, those straight across from `start` first, and the directions outwards there."""
    low, high = frame.low, frame.high
    x = np.append(start.real, np.arange(low.real + CORNER, high.real - CORNER, STEP))
    y = np.append(start.imag, np.arange(low.imag + CORNER, high.imag - CORNER, STEP))
    sides = [(x + 1j * low.imag, -1j), (x + 1j * high.imag, 1j), (low.real + 1j * y, -1), (high.real + 1j * y, 1)]
    exits = np.concatenate([points for points, _ in sides])
    return exits, np.concatenate([np.full(len(points), outwards, complex) for points, outwards in sides])
