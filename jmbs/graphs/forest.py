"""Forests of rooted trees whose nodes are numbered so that parents come before their children."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from jmbs.by_value import by_value


@by_value
@dataclasses.dataclass(frozen=True, eq=False)
class Forest:
    """**Arguments:** `parent` (n,): parent of every node, less than the node itself, or -1 at a root."""

    parent: np.ndarray

    def __post_init__(self):
        assert np.all(self.parent < np.arange(len(self.parent)))

    def __len__(self) -> int:
        return len(self.parent)

    @functools.cached_property
    def has_edges(self) -> bool:
        """Whether any node has a parent."""
        return bool(np.any(self.parent >= 0))

    @functools.cached_property
    def depth(self) -> np.ndarray:
        """Number of ancestors of every node."""
        depth = np.zeros(len(self), dtype=int)
        for node, parent in enumerate(self.parent):
            depth[node] = 0 if parent < 0 else depth[parent] + 1
        return depth

    @functools.cached_property
    def root(self) -> np.ndarray:
        """The root of every node's tree."""
        root = np.arange(len(self))
        for node, parent in enumerate(self.parent):
            root[node] = node if parent < 0 else root[parent]
        return root

    @functools.cached_property
    def reach(self) -> np.ndarray:
        """`(n, n)`: whether node `j` is `i` itself or an ancestor of it, at `[i, j]`."""
        reach = np.eye(len(self), dtype=bool)
        for node, parent in enumerate(self.parent):
            if parent >= 0:
                reach[node] |= reach[parent]
        return reach

    @functools.cached_property
    def jumps(self) -> tuple[np.ndarray, ...]:
        """For each power of two, the ancestor that many generations up, or -1; until none is left."""
        jumps, up = [], self.parent
        while np.any(up >= 0):
            jumps.append(up)
            up = np.where(up >= 0, up[np.maximum(up, 0)], -1)
        return tuple(jumps)

    @functools.cached_property
    def branches(self) -> tuple[np.ndarray, np.ndarray, int]:
        """Where a pass in numbered order keeps what a later child needs: `(load, store, count)`.

        The pass hands everything on to the next node; a child that does not follow its parent at once loads the
        parent's from the row `load[child]`, where `store[parent]` has put it; `count` where there is none. A root
        loads `-1`.
        """
        nodes = np.arange(len(self))
        apart = (self.parent >= 0) & (self.parent != nodes - 1)
        branching = np.unique(self.parent[apart])
        number = {node: i for i, node in enumerate(branching)}
        load = np.full(len(self), len(branching))
        load[apart] = [number[p] for p in self.parent[apart]]
        load[self.parent < 0] = -1
        store = np.array([number.get(node, len(branching)) for node in nodes], dtype=int)
        return load, store, len(branching)
