"""Orders of a symmetric sparse matrix's rows that gather its entries about the diagonal."""

from __future__ import annotations

import numpy as np

FEWEST_BLOCKS = 4
"""With fewer a dense matrix is as quick."""


def level_sets(pattern: np.ndarray) -> list[np.ndarray]:
    """The rows of a symmetric boolean `pattern` (m, m), in sets of which each touches its neighbours at most.

    Breadth first from a row that is far from the others, together with those that have the same pattern, which is half
    of E. Cuthill and J. McKee, 1969. Parts that do not touch each other follow one another.
    """
    left = np.ones(len(pattern), dtype=bool)
    sets: list[np.ndarray] = []
    while left.any():
        start = int(np.flatnonzero(left)[0])
        far = int(_levels(pattern, start)[-1][0])
        part = _levels(pattern, far)
        left[np.concatenate(part)] = False
        sets += part
    return sets


def _levels(pattern: np.ndarray, start: int) -> list[np.ndarray]:
    left = np.ones(len(pattern), dtype=bool)
    level = (pattern == pattern[start]).all(axis=1) & pattern[start]
    level[start] = True
    levels = []
    while level.any():
        levels.append(np.flatnonzero(level))
        left &= ~level
        level = pattern[level].any(axis=0) & left
    return levels


def blocks_of(pattern: np.ndarray) -> np.ndarray:
    """`(n, s)`: rows of a block tridiagonal matrix block by block, -1 where a block has fewer rows.

    One block where there would be fewer than `FEWEST_BLOCKS`, or where their padding would make them dearer than one.
    """
    m, sets = len(pattern), level_sets(pattern)
    size = max((len(rows) for rows in sets), default=0)
    if len(sets) < FEWEST_BLOCKS or 2 * len(sets) * size**3 > m**3:
        return np.arange(m)[None]
    blocks = np.full((len(sets), size), -1)
    for block, rows in zip(blocks, sets, strict=True):
        block[: len(rows)] = rows
    return blocks
