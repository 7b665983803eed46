"""Spanning trees of an undirected multigraph with a ground node, lightest edges first."""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Collection, Sequence

import numpy as np

from jmbs.graphs.forest import Forest

GROUND = -1


@dataclasses.dataclass(frozen=True, eq=False)
class SpanningTree:
    """A spanning forest of the nodes, in depth-first order.

    **Arguments:**

    - `order` (n,): the nodes in the order of the forest, parents first.
    - `edge` (n,): which edge leads to each of them, -1 for the root of a tree that does not touch the ground.
    - `reversed` (n,): whether that edge is walked from its second end to its first.
    - `forest`: their parents in this order; children of the ground are roots.
    - `cut`: edges that are not in the tree, in their own order.
    """

    order: np.ndarray
    edge: np.ndarray
    reversed: np.ndarray
    forest: Forest
    cut: tuple[int, ...]


def spanning_tree(
    n: int, ends: Sequence[tuple[int, int]], weights: Sequence[int], never: Collection[int] = ()
) -> SpanningTree:
    """The spanning forest of least weight, grown from the ground (R. C. Prim, 1957), so it is deterministic.

    Among edges of equal weight the one nearer to where the tree starts wins, so that trees stay shallow; then the one
    that comes first.

    **Arguments:** `n` nodes, `ends` of the edges (`GROUND` for the ground), their `weights`, and edges that are `never`
    taken. A tree that does not touch the ground starts at its lowest node.
    """
    neighbours: dict[int, list[tuple[int, int, bool]]] = {node: [] for node in (GROUND, *range(n))}
    for edge, (first, second) in enumerate(ends):
        if edge not in never and first != second:
            neighbours[first].append((edge, second, False))
            neighbours[second].append((edge, first, True))
    children: dict[int, list[tuple[int, int, bool]]] = {node: [] for node in neighbours}
    reached: set[int] = set()
    for start in (GROUND, *range(n)):
        # Of each waiting edge: weight, depth of its end, number, both ends, whether it is walked backwards.
        waiting = [(0, 0, -1, start, start, False)]
        while waiting:
            _, depth, edge, above, node, back = heapq.heappop(waiting)
            if node in reached:
                continue
            reached.add(node)
            if edge >= 0:
                children[above].append((edge, node, back))
            for further, far, backwards in neighbours[node]:
                heapq.heappush(waiting, (weights[further], depth + 1, further, node, far, backwards))
    order, edge_to, backwards, parent = _walk(n, {node: sorted(found) for node, found in children.items()})
    inside = set(edge_to)
    cut = tuple(e for e in range(len(ends)) if e not in inside)
    return SpanningTree(np.array(order, int), np.array(edge_to, int), np.array(backwards, bool), Forest(parent), cut)


def _walk(n, neighbours) -> tuple[list[int], list[int], list[bool], np.ndarray]:
    order, edge_to, backwards, parent, place = [], [], [], [], {GROUND: -1}

    def visit(start):
        stack = [start]
        while stack:
            node, edge, back, above = stack.pop()
            place[node] = len(order)
            order.append(node)
            edge_to.append(edge)
            backwards.append(back)
            parent.append(place[above])
            stack.extend((far, e, b, node) for e, far, b in reversed(neighbours[node]) if far not in place)

    for edge, node, back in neighbours[GROUND]:
        visit((node, edge, back, GROUND))
    for node in range(n):
        if node not in place:
            visit((node, -1, False, GROUND))
    return order, edge_to, backwards, np.array(parent, int)
