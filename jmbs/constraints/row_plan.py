"""How the condensed rows of constraints are coupled: which act on each other, and the blocks and band that this leaves.

Two rows act on each other where they touch the same tree of the forest. A row of many small mechanisms with loops in
between, like windows side by side, has a block tridiagonal matrix then; loops within one tree a dense one.
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from jmbs.by_value import by_value
from jmbs.graphs import column_colours
from jmbs.linear import SparseRows


@by_value
@dataclasses.dataclass(frozen=True, eq=False)
class RowPlan:
    """**Arguments:** which of the tree's velocities the `general` rows see (rows, n_v); the `pattern` (m, m) of what
    multipliers do to all rows, and the rows in `blocks` (n, s) of it, -1 where a block has fewer."""

    general: np.ndarray
    pattern: np.ndarray
    blocks: np.ndarray

    @functools.cached_property
    def colours(self) -> np.ndarray:
        """`(m,)`: columns of that matrix with the same colour share no row."""
        return np.arange(len(self.pattern)) if len(self.blocks) == 1 else column_colours(self.pattern)

    @functools.cached_property
    def compressed(self) -> SparseRows:
        """That matrix with the columns of each colour in one."""
        columns = np.full((len(self.pattern), self.colours.max(initial=-1) + 1), -1)
        row, column = np.nonzero(self.pattern)
        columns[row, self.colours[column]] = column
        return SparseRows(columns, len(self.pattern))

    @functools.cached_property
    def order(self) -> np.ndarray:
        """`(m,)`: the rows block by block, so that its entries are near the diagonal."""
        return self.blocks[self.blocks >= 0]

    @functools.cached_property
    def band(self) -> np.ndarray:
        """`(m, h+1)`: where in the compressed matrix the entries of the upper band stand, see `band_factorised`."""
        order, m = self.order, len(self.order)
        row, column = np.nonzero(self.pattern[np.ix_(order, order)])
        h = np.max(np.abs(row - column), initial=1)
        above = np.arange(m)[:, None] - h + np.arange(h + 1)
        places = self.compressed.places[order[np.maximum(above, 0)], order[:, None]]
        return np.where(above >= 0, places, -1)
