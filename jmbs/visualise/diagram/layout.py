"""From a diagram to places in the plane: sizes of boxes, and the patterns inside opened boxes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from jmbs.visualise.diagram import text
from jmbs.visualise.diagram.arrange import LINE, Places, arrange, box_node, dot_node, outer_node, settle
from jmbs.visualise.diagram.geometry import Rounded
from jmbs.visualise.diagram.graph import Box, Diagram, Dot
from jmbs.visualise.diagram.obstacles import points_around
from jmbs.visualise.diagram.placed import TITLE_HEIGHT, Placed
from jmbs.visualise.diagram.route import obstacles_in

BOX_HALF = 22.0
"""Half height (px) of a closed box, and its corner radius: a short name stands in a circle."""
INSIDE_MARGIN, OPEN_RADIUS = 26.0, 44.0
"""Of an opened box: space around its pattern, and corner radius."""
DETOUR = 0.3
"""What it costs a port to leave its box far from where its junction was."""


@lru_cache(maxsize=32)
def place(diagram: Diagram) -> Placed:
    """Places for a pattern, around the origin, and for the patterns inside its opened boxes."""
    inside = {box.name: place(box.inside) for box in diagram.boxes if box.inside is not None}
    shapes = {box.name: _shape(box, inside.get(box.name)) for box in diagram.boxes}
    places = arrange(diagram, shapes)
    if inside:
        inside = {name: _best_mirror_image(diagram, name, inner, places) for name, inner in inside.items()}
        for dot in diagram.dots:
            if len(dot.inner) == 1 and dot.inner[0].box in inside:
                places |= _before_its_port(_placed(diagram, shapes, inside, places), dot)
        places = settle(diagram, shapes, places)
    placed = _placed(diagram, shapes, inside, places)
    return placed.moved(-placed.bounds().rounded().centre)


def _placed(diagram: Diagram, shapes: Mapping[str, Rounded], inside: Mapping[str, Placed], places: Places) -> Placed:
    boxes = {name: shape.at(places[box_node(name)]) for name, shape in shapes.items()}
    return Placed(
        diagram,
        boxes,
        {dot.name: places[dot_node(dot.name)] for dot in diagram.dots},
        {port.name: places[outer_node(port.name)] for dot in diagram.dots for port in dot.outer},
        {name: inner.moved(boxes[name].centre + 0.5j * TITLE_HEIGHT) for name, inner in inside.items()},
    )


def _shape(box: Box, inner: Placed | None) -> Rounded:
    if inner is not None:
        half = inner.bounds().size / 2 + complex(INSIDE_MARGIN, INSIDE_MARGIN + TITLE_HEIGHT / 2)
        title_half = text.width(box.name, text.NAME_SIZE) / 2 + OPEN_RADIUS
        return Rounded(0j, complex(max(half.real, title_half), half.imag), OPEN_RADIUS)
    path, name = text.name_lines(box.name)
    half_width = max(text.width(name, text.NAME_SIZE), text.width(path, text.PATH_SIZE)) / 2 + 9.0
    return Rounded(0j, complex(max(half_width, BOX_HALF), BOX_HALF), BOX_HALF)


def _best_mirror_image(diagram: Diagram, name: str, inner: Placed, places: Places) -> Placed:
    """The pattern of an opened box, mirrored so that its ports are near the junctions that they go to."""
    centre = places[box_node(name)]
    ports = [(dot_node(dot.name), port.name) for dot in diagram.dots for port in dot.inner if port.box == name]
    images = [inner.mapped(lambda z, x=x, y=y: complex(x * z.real, y * z.imag)) for x in (1, -1) for y in (1, -1)]
    reach = [sum(abs(centre + image.outer[port] - places[dot]) for dot, port in ports) for image in images]
    return images[int(np.argmin(np.round(reach, 1)))]


def _before_its_port(placed: Placed, dot: Dot) -> Places:
    """Where a junction goes to which only an opened box leads: where its port can leave the box without detour."""
    port = dot.inner[0]
    box, inner, before = placed.boxes[port.box], placed.inside[port.box], placed.dots[dot.name]
    inside = inner.dots[inner.diagram.dot_of(port.name).name]
    exits = points_around(box)
    lines = np.stack([exits, np.full_like(exits, inside)], axis=1)
    costs = obstacles_in(inner).costs(lines, exits) + DETOUR * np.abs(exits - before)
    way = exits[np.argmin(costs)]
    step = LINE * (way - inside) / abs(way - inside)
    return {dot_node(dot.name): way + step} | {outer_node(outer.name): way + 2 * step for outer in dot.outer}
