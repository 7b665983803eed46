"""The names of ports: written once at a junction where several share it, else beside the line, where there is room."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from jmbs.visualise.diagram import text
from jmbs.visualise.diagram.geometry import Line, Rectangle, around, many, pieces, point_along
from jmbs.visualise.diagram.graph import Dot
from jmbs.visualise.diagram.placed import Placed
from jmbs.visualise.diagram.route import Wire

GAP = 3.0
"""Space (px) between a label and what it belongs to."""
ON_BOX, ON_LABEL, ON_DOT, ON_OUTLINE, ON_LINE = 100.0, 100.0, 60.0, 40.0, 25.0
"""What a place for a label is charged for lying on something; a step away from the best place costs about 1."""
ROUNDS = 3


class Label(NamedTuple):
    """A port's name and the room that it takes."""

    text: str
    room: Rectangle


Rooms = list[tuple[float, Rectangle]]
"""Rooms for a label, with what is charged for them."""


def shared_name(dot: Dot) -> str | None:
    """The name that is written at the junction: the commonest of its ports, if it occurs more than once or alone."""
    names = Counter(port.name for port in (*dot.inner, *dot.outer))
    name, count = names.most_common(1)[0]
    return name if count > 1 or len(names) == 1 else None


def labels(placed: Placed, wires: list[Wire], frame: Rectangle, above: Rectangle) -> list[Label]:
    """All port names of a placed and routed diagram; `frame` is the outer box, `above` is its name's."""
    wanted = list(_wanted(placed, wires, frame))
    costs = [_charged(rooms, placed, wires, frame) for _, rooms in wanted]
    chosen = [rooms[0][1] for _, rooms in wanted]
    for turn in range(ROUNDS):
        for i, (_, rooms) in enumerate(wanted):
            # The first time labels keep clear of those before them only, later of all.
            others = [above, *chosen[:i], *(chosen[i + 1 :] if turn else [])]
            total = costs[i] + ON_LABEL * _overlaps([room for _, room in rooms], others)
            chosen[i] = rooms[int(np.argmin(np.round(total, 3)))][1]
    return [Label(name, room) for (name, _), room in zip(wanted, chosen, strict=True)]


def _overlaps(rooms: list[Rectangle], others: list[Rectangle]) -> np.ndarray:
    own, other = (many(room.rounded() for room in some) for some in (rooms, others))
    return (own.column().gap(other) < 1.0).sum(axis=1)


def _wanted(placed: Placed, wires: list[Wire], frame: Rectangle) -> Iterator[tuple[str, Rooms]]:
    """The labels, each with rooms where it may stand."""
    at_dot = {(level, dot.name): shared_name(dot) for level, p in placed.levels() for dot in p.diagram.dots}
    opened = {f"{level}{name}" for level, p in placed.levels() for name in p.inside}
    for level, pattern in placed.levels():
        for dot in pattern.diagram.dots:
            name = at_dot[level, dot.name]
            if name is not None:
                yield name, list(_around_dot(pattern.dots[dot.name], _size(name)))
    for wire in wires:
        if wire.port == at_dot[wire.level, wire.dot]:
            continue
        # Beside the part outside of an opened box.
        line = wire.line[:2] if f"{wire.level}{wire.box}" in opened else wire.line
        rooms = _beside(line[::-1], _size(wire.port)) if wire.box else _at_end(line, _size(wire.port), frame)
        yield wire.port, list(rooms)


def _size(name: str) -> complex:
    return complex(text.width(name, text.PORT_SIZE), text.PORT_SIZE * text.LINE_HEIGHT)


def _around_dot(dot: complex, size: complex) -> Iterator[tuple[float, Rectangle]]:
    for step, far in enumerate((3.0, 6.0, 11.0)):
        for turn, (x, y) in enumerate(((1, -1), (-1, -1), (1, 1), (-1, 1), (0, -1), (0, 1), (1, 0), (-1, 0))):
            aside = far + (4.0 if x == 0 or y == 0 else 0.0)
            centre = dot + complex(x * (size.real / 2 + aside), y * (size.imag / 2 + aside))
            yield 2.0 * step + 0.2 * turn, around(centre, size)


def _beside(line: Line, size: complex) -> Iterator[tuple[float, Rectangle]]:
    """Rooms on both sides of a line, near its start first."""
    for share in (0.3, 0.45, 0.6, 0.75, 0.15, 0.9):
        point, along = point_along(line, share)
        for side in (1, -1):
            normal = 1j * along * side
            for step, far in enumerate((GAP, GAP + 6.0)):
                reach = abs(normal.real) * size.real / 2 + abs(normal.imag) * size.imag / 2 + far
                yield 4.0 * abs(share - 0.3) + 3.0 * step, around(point + normal * reach, size)


def _at_end(line: Line, size: complex, frame: Rectangle) -> Iterator[tuple[float, Rectangle]]:
    """Rooms outside the outer box at the end of the line, else beside the line inside."""
    end = line[-1]
    beyond = {
        -1j: frame.low.imag - end.imag,
        1j: end.imag - frame.high.imag,
        -1 + 0j: frame.low.real - end.real,
        1 + 0j: end.real - frame.high.real,
    }
    outwards = max(beyond, key=beyond.__getitem__)
    reach = abs(outwards.real) * size.real / 2 + abs(outwards.imag) * size.imag / 2 + GAP
    sideways = 1j * outwards
    half = abs(sideways.real) * size.real / 2 + abs(sideways.imag) * size.imag / 2
    for step in range(3):
        for side in (0, 1, -1):
            centre = end + outwards * (reach + step * size.imag) + side * sideways * half
            yield 2.0 * step + abs(side), around(centre, size)
    for charge, room in _beside(line[::-1], size):
        if frame.contains(room):
            yield 4.0 + charge, room


def _charged(rooms: Rooms, placed: Placed, wires: list[Wire], frame: Rectangle) -> np.ndarray:
    """The rooms' charges, and more where they lie on boxes, junctions, lines or outlines."""
    room = many(room.rounded() for _, room in rooms).column()
    solid = many(placed.solid_boxes())
    dots = np.array(placed.all_dots())
    costs = np.array([charge for charge, _ in rooms])
    costs = costs + ON_BOX * (room.gap(solid) < 2.0).sum(axis=1)
    costs += ON_DOT * (room.distance(dots, dots) < 4.0).sum(axis=1)
    costs += ON_LINE * (room.distance(*pieces(wire.line for wire in wires)) < 1.0).sum(axis=1)
    outlines = [pattern.boxes[name] for _, pattern in placed.levels() for name in pattern.inside]
    for outline in (frame.rounded(), *outlines):
        half = room.half
        corners = [outline.contains(room.centre + corner) for corner in (half, -half, np.conj(half), -np.conj(half))]
        costs += ON_OUTLINE * (np.any(corners, axis=0) & ~np.all(corners, axis=0))[:, 0]
    return costs
