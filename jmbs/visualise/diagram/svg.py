"""Writes a placed diagram as SVG."""

from __future__ import annotations

from typing import NamedTuple
from xml.etree import ElementTree as ET

from jmbs.visualise.diagram import text
from jmbs.visualise.diagram.geometry import Line, Rectangle, Rounded, around, bounds
from jmbs.visualise.diagram.graph import Box, Kind
from jmbs.visualise.diagram.label import Label
from jmbs.visualise.diagram.placed import Placed, title
from jmbs.visualise.diagram.route import Wire


class Picture(NamedTuple):
    """What is to be drawn: boxes and junctions in their places, the outer box, lines, names of ports, its own name."""

    placed: Placed
    frame: Rectangle
    wires: list[Wire]
    labels: list[Label]
    name: Label


class Colours(NamedTuple):
    """Of a box: inside, and outline."""

    fill: str
    stroke: str


COLOURS = {
    Kind.STORAGE: Colours("#dbe8f6", "#41719c"),
    Kind.REVERSIBLE: Colours("#dff0dd", "#4d8a4a"),
    Kind.IRREVERSIBLE: Colours("#f9ddd6", "#b65a43"),
    Kind.ENVIRONMENT: Colours("#e8e6ee", "#77708c"),
    Kind.COMPOSITE: Colours("#fff2c9", "#b8922e"),
}
OPENED = Colours("#fffbef", "#c9ab5c")
INK, SOFT_INK, PAPER = "#26282c", "#5a5f68", "#ffffff"
FONT = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"
THIN, THICK, DASHES = "1.3", "1.4", "5 3.5"
MARGIN, LEGEND_HEIGHT, SWATCH, LEGEND_GAP = 14.0, 34.0, 18.0, 18.0
BASELINE = 0.35
"""From the middle of a line of text down to its baseline, by font size."""


def write_svg(picture: Picture) -> str:
    """The picture as the text of an SVG file."""
    placed, frame, wires, labels, name = picture
    rooms = [frame, *(label.room for label in labels)]
    rooms += [Rectangle(point, point) for wire in wires for point in wire.line]
    if name.text:
        rooms.append(name.room)
    legend = _legend(placed, wires)
    drawn = bounds(rooms)
    below = complex(drawn.low.real, drawn.high.imag)
    room = Rectangle(below, below + complex(_legend_width(legend), LEGEND_HEIGHT))
    canvas = bounds([drawn, room]).grown(MARGIN)

    svg = ET.Element("svg", _canvas_attributes(canvas, name.text))
    ET.SubElement(svg, "rect", _rectangle(canvas) | {"fill": PAPER})
    ET.SubElement(svg, "rect", _rectangle(frame) | {"class": "outer", "fill": "none", "stroke": SOFT_INK})
    if name.text:
        _text(svg, name.text, frame.low - 9j, text.NAME_SIZE, SOFT_INK, "start")
    _draw_opened_boxes(svg, placed)
    _draw_lines(svg, wires)
    _draw_closed_boxes(svg, placed)
    _draw_dots(svg, placed)
    _draw_labels(svg, labels)
    _draw_legend(svg, legend, complex(frame.low.real, room.high.imag - 12.0))
    ET.indent(svg)
    return ET.tostring(svg, encoding="unicode") + "\n"


def _canvas_attributes(canvas: Rectangle, name: str) -> dict[str, str]:
    size = canvas.size
    return {
        "xmlns": "http://www.w3.org/2000/svg",
        "width": _number(size.real),
        "height": _number(size.imag),
        "viewBox": " ".join(map(_number, (canvas.low.real, canvas.low.imag, size.real, size.imag))),
        "role": "img",
        "aria-label": f"Interconnection pattern of {name}" if name else "Interconnection pattern",
        "font-family": FONT,
    }


def _draw_opened_boxes(svg: ET.Element, placed: Placed) -> None:
    for path, pattern in placed.levels():
        for box in pattern.diagram.boxes:
            if box.name in pattern.inside:
                shape = pattern.boxes[box.name]
                group = _draw_box(svg, path, box, shape, OPENED)
                _text(group, box.name, title(shape, box.name).rounded().centre, text.NAME_SIZE, SOFT_INK)


def _draw_closed_boxes(svg: ET.Element, placed: Placed) -> None:
    for path, pattern in placed.levels():
        for box in pattern.diagram.boxes:
            if box.name not in pattern.inside:
                shape = pattern.boxes[box.name]
                group = _draw_box(svg, path, box, shape, COLOURS[box.kind])
                before, name = text.name_lines(box.name)
                if before:
                    _text(group, before, shape.centre - 8j, text.PATH_SIZE, SOFT_INK)
                _text(group, name, shape.centre + (5j if before else 0j), text.NAME_SIZE, INK)


def _draw_box(svg: ET.Element, path: str, box: Box, shape: Rounded, colours: Colours) -> ET.Element:
    group = ET.SubElement(svg, "g", {"class": f"box {box.kind.value}"})
    _tooltip(group, f"{path}{box.name}: {box.filling}, {box.kind.value}")
    paint = {"fill": colours.fill, "stroke": colours.stroke, "stroke-width": THICK}
    rectangle = _rectangle(around(shape.centre, 2 * shape.half))
    ET.SubElement(group, "rect", rectangle | {"rx": _number(shape.radius)} | paint)
    return group


def _draw_lines(svg: ET.Element, wires: list[Wire]) -> None:
    group = ET.SubElement(svg, "g", {"fill": "none", "stroke": INK, "stroke-width": THIN, "stroke-linejoin": "round"})
    for wire in wires:
        kind = "power" if wire.power else "state"
        dashes = {} if wire.power else {"stroke-dasharray": DASHES}
        line = ET.SubElement(group, "path", {"class": kind, "d": _path(wire.line)} | dashes)
        where = f"{wire.level}{wire.box}." if wire.box else "outer port "
        _tooltip(line, f"{where}{wire.port} ({kind} port) at junction {wire.level}{wire.dot}")


def _draw_dots(svg: ET.Element, placed: Placed) -> None:
    group = ET.SubElement(svg, "g", {"fill": INK})
    for path, pattern in placed.levels():
        for dot in pattern.diagram.dots:
            point = pattern.dots[dot.name]
            place = {"cx": _number(point.real), "cy": _number(point.imag), "r": "4"}
            circle = ET.SubElement(group, "circle", {"class": "junction"} | place)
            _tooltip(circle, f"junction {path}{dot.name}: {dot.quantity}")


def _draw_labels(svg: ET.Element, labels: list[Label]) -> None:
    group = ET.SubElement(svg, "g", {"class": "ports"})
    for label in labels:
        _text(group, label.text, label.room.rounded().centre, text.PORT_SIZE, SOFT_INK)


def _legend(placed: Placed, wires: list[Wire]) -> list[tuple[str, Colours | None]]:
    """What the legend explains: kinds of box that occur, and dashes (no colours) if there are any."""
    kinds = {box.kind for _, p in placed.levels() for box in p.diagram.boxes if box.name not in p.inside}
    entries: list[tuple[str, Colours | None]] = [(kind.value, COLOURS[kind]) for kind in Kind if kind in kinds]
    return entries if all(wire.power for wire in wires) else [*entries, ("state port", None)]


def _legend_width(entries: list[tuple[str, Colours | None]]) -> float:
    return sum(SWATCH + text.width(words, text.PORT_SIZE) + LEGEND_GAP for words, _ in entries)


def _draw_legend(svg: ET.Element, entries: list[tuple[str, Colours | None]], at: complex) -> None:
    group = ET.SubElement(svg, "g", {"class": "legend"})
    for words, colours in entries:
        if colours is None:
            line = {"d": _path((at - 4, at + 13)), "stroke": INK, "stroke-width": THIN, "stroke-dasharray": DASHES}
            ET.SubElement(group, "path", line)
        else:
            place = {"cx": _number(at.real + 6.0), "cy": _number(at.imag), "r": "5.5"}
            ET.SubElement(group, "circle", place | {"fill": colours.fill, "stroke": colours.stroke})
        _text(group, words, at + SWATCH, text.PORT_SIZE, SOFT_INK, "start")
        at += SWATCH + text.width(words, text.PORT_SIZE) + LEGEND_GAP


def _text(parent: ET.Element, words: str, at: complex, size: float, colour: str, anchor: str = "middle") -> None:
    """Text on one line; `at` is its middle, or its beginning, at half height."""
    place = {"x": _number(at.real), "y": _number(at.imag + BASELINE * size)}
    style = {"font-size": _number(size), "fill": colour, "text-anchor": anchor}
    ET.SubElement(parent, "text", place | style).text = words


def _tooltip(element: ET.Element, words: str) -> None:
    ET.SubElement(element, "title").text = words


def _rectangle(room: Rectangle) -> dict[str, str]:
    numbers = {"x": room.low.real, "y": room.low.imag, "width": room.size.real, "height": room.size.imag}
    return {name: _number(value) for name, value in numbers.items()}


def _path(line: Line) -> str:
    return "M " + " L ".join(f"{_number(point.real)} {_number(point.imag)}" for point in line)


def _number(value: float) -> str:
    return f"{round(float(value), 1) + 0.0:g}"  # adding zero turns -0.0 into 0
