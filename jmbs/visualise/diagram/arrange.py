"""Where boxes and junctions of one pattern stand: networkx lays out, from several starts; here the best is chosen."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import networkx as nx
import numpy as np

from jmbs.visualise.diagram.geometry import ComplexArray, Rounded, crosses, many, nearest_point
from jmbs.visualise.diagram.graph import Diagram

LINE = 42.0
"""Wanted length (px) of a line outside its box."""
BOX_GAP, DOT_GAP, DOTS_APART, LINE_GAP = 18.0, 24.0, 34.0, 9.0
"""Least space: between boxes, from a box to a junction, between junctions, from a line to a box not its own."""
SLACK = 3.0
"""What may be lacking without harm."""
RANDOM_STARTS, TRIED = 6, 3
"""How often the engine starts at random, and how many of its pictures (those with the fewest crossings) go on."""
POLISH = 4
"""How often the engine goes on from where it stopped: its tolerance leaves straight lines visibly bent."""
STRETCHES = (1.0, 1.4, 2.0)
"""By how much the engine's picture is stretched: more where things do not come apart."""
ROUNDS, PUSH = 40, 2.0
"""How often the engine is asked for more space, and how much at a time, of what is lacking."""
SIDES = 24
"""Directions tried for the line of an outer port."""

Node = tuple[str, str]
"""`("box", name)`, `("dot", junction)` or `("outer", port)`."""
Places = dict[Node, complex]


def box_node(name: str) -> Node:
    return "box", name


def dot_node(name: str) -> Node:
    return "dot", name


def outer_node(name: str) -> Node:
    return "outer", name


class _Net(NamedTuple):
    """A pattern as the engine sees it: numbered nodes, boxes first, then junctions, then ends of outer ports.

    **Arguments:** `shapes` of the boxes; `lines` `(m, 2)` by their ends.
    """

    nodes: list[Node]
    shapes: Rounded
    lines: np.ndarray

    @property
    def boxes(self) -> int:
        return len(self.shapes.half)


def arrange(diagram: Diagram, shapes: Mapping[str, Rounded]) -> Places:
    """Places of all boxes, junctions and ends of outer ports, around the origin; `shapes` by box name.

    The same input gives the same places.
    """
    net, whole = _net(diagram, shapes, outer=False), _net(diagram, shapes, outer=True)
    graph = _graph(net)
    wanted = _distances(graph)
    found = [_engine(wanted, start) for start in _starts(graph)]
    found.sort(key=lambda places: _tangle(net, places))
    for _ in range(POLISH):
        found = [_engine(wanted, places) for places in found[:TRIED]]
    turned = [_turned(net, places) for places in found]
    for stretch in STRETCHES:
        spread = [_spread(net, stretch * places) for places in turned]
        # Outer ports bend nothing that has room for them: they come last.
        spread = [_spread(whole, _with_outer(whole, places)) for places in spread]
        best = _best(whole, spread)
        if _lack(whole, best).max() < SLACK:
            break
    return dict(zip(whole.nodes, map(complex, _mirrored(whole, best)), strict=True))


def settle(diagram: Diagram, shapes: Mapping[str, Rounded], places: Places) -> Places:
    """Places near the given ones with enough space between things."""
    whole = _net(diagram, shapes, outer=True)
    spread = _spread(whole, np.array([places[node] for node in whole.nodes]))
    return dict(zip(whole.nodes, map(complex, spread), strict=True))


def _net(diagram: Diagram, shapes: Mapping[str, Rounded], outer: bool) -> _Net:
    nodes = [box_node(box.name) for box in diagram.boxes] + [dot_node(dot.name) for dot in diagram.dots]
    lines = [(dot_node(dot.name), box_node(port.box)) for dot in diagram.dots for port in dot.inner]
    if outer:
        ends = [(dot_node(dot.name), outer_node(port.name)) for dot in diagram.dots for port in dot.outer]
        nodes += [end for _, end in ends]
        lines += ends
    number = {node: i for i, node in enumerate(nodes)}
    numbered = [(number[a], number[b]) for a, b in dict.fromkeys(lines)]
    return _Net(nodes, many(shapes[box.name] for box in diagram.boxes), np.array(numbered, dtype=int).reshape(-1, 2))


def _graph(net: _Net) -> nx.Graph:
    """Boxes and junctions as nodes; edges know the length that their line should have."""
    graph = nx.Graph()
    graph.add_nodes_from(range(len(net.nodes)))
    for dot, box in net.lines.tolist():
        half = net.shapes.half[box]
        graph.add_edge(dot, box, length=LINE + (half.real + half.imag) / 2)
    parts = [graph.subgraph(part).copy() for part in nx.connected_components(graph)]
    centres = [nx.center(part)[0] for part in parts]
    reach = [max(nx.single_source_dijkstra_path_length(graph, centre, weight="length").values()) for centre in centres]
    # What hangs together in no way is drawn side by side.
    for i in range(len(parts) - 1):
        graph.add_edge(centres[i], centres[i + 1], length=reach[i] + reach[i + 1] + LINE)
    return graph


def _distances(graph: nx.Graph) -> np.ndarray:
    return np.asarray(nx.floyd_warshall_numpy(graph, nodelist=range(len(graph)), weight="length"))


def _starts(graph: nx.Graph) -> Iterator[ComplexArray]:
    layouts = [nx.planar_layout(graph)] if nx.is_planar(graph) else []
    layouts += [nx.circular_layout(graph), *(nx.random_layout(graph, seed=seed) for seed in range(RANDOM_STARTS))]
    for layout in layouts:
        yield np.array([complex(*layout[node]) for node in range(len(graph))])


def _engine(wanted: np.ndarray, start: ComplexArray) -> ComplexArray:
    """Places whose distances are the wanted ones as nearly as possible, all relative errors counting alike."""
    count = len(start)
    unit = wanted.max() or 1.0
    dist = {i: dict(enumerate(row)) for i, row in enumerate((wanted / unit).tolist())}
    points = {i: np.array([place.real, place.imag]) / unit for i, place in enumerate(start)}
    found = nx.kamada_kawai_layout(nx.empty_graph(count), dist=dist, pos=points)
    places: ComplexArray = np.array([complex(*found[i]) for i in range(count)])
    # The engine returns a picture of unit size; this scale gives its distances back.
    pairs = np.triu_indices(count, 1)
    ratios = _apart(places)[pairs] / wanted[pairs]
    return places * (ratios.sum() / (ratios**2).sum() if len(ratios) else 1.0)


def _apart(places: ComplexArray) -> np.ndarray:
    return np.abs(places[:, None] - places)


def _spread(net: _Net, places: ComplexArray) -> ComplexArray:
    """Asks the engine again with the distances it found, but greater ones between what came too close."""
    for _ in range(ROUNDS):
        lack = _lack(net, places)
        if lack.max() < SLACK:
            break
        places = _engine(_apart(places) + PUSH * lack, places)
    return places


def _lack(net: _Net, places: ComplexArray) -> np.ndarray:
    """What each pair of nodes lacks in distance; a box in the way of a line is too close to both its ends."""
    n = net.boxes
    boxes, points, (a, b) = net.shapes.at(places[:n]), places[n:], net.lines.T
    lack = np.zeros((len(places), len(places)))
    lack[:n, :n] = BOX_GAP - boxes.column().gap(boxes)
    lack[n:, n:] = DOTS_APART - _apart(points)
    lack[:n, n:] = DOT_GAP - boxes.column().distance(points, points)
    own = b == np.arange(n)[:, None]
    in_the_way = np.where(own, 0.0, LINE_GAP - boxes.column().distance(places[a], places[b]))
    for end in (a, b):
        for line, node in enumerate(end):
            lack[:n, node] = np.maximum(lack[:n, node], in_the_way[:, line])
    lack = np.maximum(lack, lack.T)
    np.fill_diagonal(lack, 0.0)
    return np.maximum(lack, 0.0)


def _with_outer(whole: _Net, places: ComplexArray) -> ComplexArray:
    """The same places, and an end for each outer port where its line has most room, rather outside than inside."""
    inner = [line for line in whole.lines if line[1] < len(places)]
    outer = [line for line in whole.lines if line[1] >= len(places)]
    boxes, middle = whole.shapes.at(places[: whole.boxes]), places.mean()
    lines = [(places[a], places[b]) for a, b in inner]
    ends = []
    for dot, _ in outer:
        at = places[dot]
        tips = at + 1.5 * LINE * np.exp(2j * math.pi * np.arange(SIDES) / SIDES)
        room = np.full(SIDES, LINE)
        for a, b in lines:
            room = np.minimum(room, np.abs(tips - nearest_point(tips, a, b)))
        room = np.minimum(room, boxes.column().distance(at, tips).min(axis=0, initial=LINE))
        # Rounded, so that equal rooms are equal on every machine and the first of them is taken.
        room = np.round(room + 0.1 * np.abs(tips - middle), 3)
        taken = [np.argmin(np.abs(tips - end)) for end in ends]
        room[taken] = -np.inf
        ends.append(at + (tips[np.argmax(room)] - at) / 1.5)
        lines.append((at, ends[-1]))
    return np.concatenate([places, np.array(ends, dtype=complex)])


def _best(net: _Net, pictures: list[ComplexArray]) -> ComplexArray:
    """The cheapest; near ties go to the first, lest rounding on another machine choose another picture."""
    costs = [_cost(net, places) for places in pictures]
    return next(places for places, cost in zip(pictures, costs, strict=True) if cost <= 1.01 * min(costs))


def _cost(net: _Net, places: ComplexArray) -> float:
    """What makes a picture hard to read: things too close, crossings, and then the length of its lines."""
    lengths = np.abs(places[net.lines[:, 0]] - places[net.lines[:, 1]]).sum()
    return 3.0 * np.count_nonzero(_lack(net, places) >= SLACK) + 2.0 * _tangle(net, places) + lengths / 1000.0


def _tangle(net: _Net, places: ComplexArray) -> int:
    """The number of crossings."""
    i, j = np.triu_indices(len(net.lines), 1)
    ends = places[net.lines]
    apart = (net.lines[i][:, :, None] != net.lines[j][:, None, :]).all(axis=(1, 2))
    return int(np.count_nonzero(apart & crosses(ends[i, 0], ends[i, 1], ends[j, 0], ends[j, 1])))


def _turned(net: _Net, places: ComplexArray) -> ComplexArray:
    """Turned so that the picture is wide and its lines are level or plumb."""
    turns = np.exp(1j * np.radians(np.arange(0.0, 180.0, 0.25)))
    return places * turns[np.argmin([np.round(_tilt(net, places * turn), 3) for turn in turns])]


def _tilt(net: _Net, places: ComplexArray) -> float:
    steps = places[net.lines[:, 0]] - places[net.lines[:, 1]]
    tilt = np.abs(np.sin(2 * np.angle(steps))).mean() if len(steps) else 0.0
    return 0.5 * tilt + np.ptp(places.imag) / max(np.ptp(places.real), 1.0)


def _mirrored(net: _Net, places: ComplexArray) -> ComplexArray:
    """Around the origin, and mirrored to be read from the first box on, rightwards and downwards."""
    places = places - places.mean()
    boxes, ranks = places[: net.boxes], np.arange(net.boxes) - (net.boxes - 1) / 2
    x = -1 if ranks @ boxes.real < -1e-3 else 1
    y = -1 if ranks @ boxes.imag < -1e-3 else 1
    return x * places.real + 1j * y * places.imag
