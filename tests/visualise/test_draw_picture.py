"""Diagrams are legible, checked by measuring them, and the shipped pictures are what the script draws now."""

from __future__ import annotations

import re
import runpy
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import jmbs
from jmbs.library.oscillator import damped_oscillator, oscillator
from jmbs.visualise.diagram import text
from jmbs.visualise.diagram.drawing import compose
from jmbs.visualise.diagram.geometry import crosses, many, pieces
from jmbs.visualise.diagram.graph import Kind, flat_diagram, nested_diagram

FIGURES = Path(__file__).parents[2] / "docs" / "figures"
SLIDER_CRANK = FIGURES.parents[1] / "configs" / "slider_crank.yaml"
make = SimpleNamespace(**runpy.run_path(str(FIGURES / "make.py")))


def two_bodies():
    return make.two_body_system(make.body(), make.body(), make.hinge())


PICTURES = {
    "figure 1": lambda: nested_diagram(two_bodies(), 1),
    "figure 2": lambda: nested_diagram(make.body(), 1),
    "figure 3": lambda: nested_diagram(make.hinge(), 1),
    "figure 4": lambda: flat_diagram(two_bodies()),
    "figure 5": lambda: nested_diagram(oscillator(1.0, 1.0), 1),
    "figure 6": lambda: nested_diagram(damped_oscillator(1.0, 1.0, 0.1), 1),
    "figure 7": lambda: flat_diagram(damped_oscillator(1.0, 1.0, 0.1)),
    "slider-crank": lambda: nested_diagram(jmbs.load(SLIDER_CRANK).system(), 1),
    "slider-crank, flat": lambda: flat_diagram(jmbs.load(SLIDER_CRANK).system()),
    "two bodies, opened": lambda: nested_diagram(two_bodies(), 2),
}


@pytest.fixture(scope="module", params=PICTURES)
def picture(request):
    return compose(PICTURES[request.param](), request.param)


def test_boxes_keep_apart_and_inside(picture):
    for _, placed in picture.placed.levels():
        assert all(a.gap(b) > 5.0 for a, b in combinations(placed.boxes.values(), 2))
        for name, inner in placed.inside.items():
            corner = [shape.centre + turn * shape.half for shape in inner.boxes.values() for turn in (1, -1)]
            assert placed.boxes[name].contains(np.array(corner)).all()
    frame = picture.frame.rounded()
    assert all(frame.contains(box.centre + box.half) for box in picture.placed.boxes.values())


def test_lines_end_at_their_boxes_and_avoid_others(picture):
    patterns = dict(picture.placed.levels())
    closed = {
        f"{level}{name}": box for level, p in patterns.items() for name, box in p.boxes.items() if name not in p.inside
    }
    for wire in picture.wires:
        assert wire.line[0] == patterns[wire.level].dots[wire.dot]
        own = f"{wire.level}{wire.box}"
        if own in closed:
            assert abs(closed[own].distance(wire.line[-1], wire.line[-1])) < 0.01
        if not wire.box:
            assert not picture.frame.rounded().contains(wire.line[-1])
        others = many(box for name, box in closed.items() if name != own)
        a, b = pieces([wire.line])
        assert others.column().distance(a, b).min() > 4.0


def test_junctions_keep_clear(picture):
    dots = np.array(picture.placed.all_dots())
    apart = np.abs(dots[:, None] - dots) + 1e9 * np.eye(len(dots))
    assert apart.min() > 15.0
    assert many(picture.placed.solid_boxes()).column().distance(dots, dots).min() > 8.0


def test_lines_do_not_cross(picture):
    a, b = pieces(wire.line for wire in picture.wires)
    assert not crosses(a[:, None], b[:, None], a, b).any()


def test_labels_have_room(picture):
    rooms = many(label.room.rounded() for label in picture.labels)
    assert (rooms.column().gap(rooms) + 1e9 * np.eye(len(picture.labels))).min() > 0.0
    assert rooms.column().gap(many(picture.placed.solid_boxes())).min() > 0.0
    dots = np.array(picture.placed.all_dots())
    assert rooms.column().distance(dots, dots).min() > 2.0
    a, b = pieces(wire.line for wire in picture.wires)
    assert rooms.column().distance(a, b).min() > 0.0
    if picture.name.text:
        assert rooms.gap(picture.name.room.rounded()).min() > 0.0


# -- the file ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def drawings():
    return make.drawings()


NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
SVG = "{http://www.w3.org/2000/svg}"


def test_text_stays_on_the_canvas(drawings):
    for drawing in drawings.values():
        root = ET.fromstring(drawing.svg)
        x, y, width, height = map(float, root.attrib["viewBox"].split())
        for element in root.iter(f"{SVG}text"):
            half = text.width(element.text or "", float(element.attrib["font-size"])) / 2
            middle = float(element.attrib["x"]) + (half if element.attrib["text-anchor"] == "start" else 0.0)
            assert x < middle - half and middle + half < x + width
            assert y + 8 < float(element.attrib["y"]) < y + height


def test_the_file_shows_every_box_line_and_junction():
    root = ET.fromstring(jmbs.draw(two_bodies(), flat=True).svg)
    classes = [element.attrib.get("class", "") for element in root.iter()]
    counts = {kind: classes.count(f"box {kind.value}") for kind in Kind}
    assert list(counts.values()) == [5, 8, 1, 1, 0]
    assert (classes.count("junction"), classes.count("power"), classes.count("state")) == (9, 26, 1)
    dashed = [
        element.attrib["class"]
        for element in root.iter()
        if "stroke-dasharray" in element.attrib and "class" in element.attrib
    ]
    assert dashed == ["state"]
    tooltips = {element.text for element in root.iter(f"{SVG}title")}
    assert "b1/pe: Gravity, storage" in tooltips
    assert "j/hc.q_r (state port) at junction j/q_r" in tooltips
    assert "outer port p_r (power port) at junction p_r" in tooltips


def test_shipped_figures_are_what_the_script_makes(drawings):
    """Same elements and words; numbers may differ by what another machine's rounding does to the engine."""
    assert {path.stem for path in FIGURES.glob("*.svg")} == set(drawings)
    for name, drawing in drawings.items():
        shipped = (FIGURES / f"{name}.svg").read_text(encoding="utf-8")
        assert NUMBER.sub("#", drawing.svg) == NUMBER.sub("#", shipped), f"{name}: run docs/figures/make.py"
        ours, theirs = (np.array(NUMBER.findall(svg), dtype=float) for svg in (drawing.svg, shipped))
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=2.0, err_msg=f"{name}: run docs/figures/make.py")


def test_the_same_system_gives_the_same_picture(drawings):
    assert make.drawings()["figure_3_joint"].svg == drawings["figure_3_joint"].svg


def test_a_mechanism_brings_its_name_and_can_be_saved(drawings, tmp_path):
    drawing = drawings["slider_crank"]
    assert ">slider_crank</text>" in drawing.svg and drawing._repr_svg_() == drawing.svg
    assert drawing.save(tmp_path / "picture.svg").read_text(encoding="utf-8") == drawing.svg
