"""Colours of a sparse matrix's columns: columns of one colour share no row, so one product finds them all."""

from __future__ import annotations

import numpy as np


def column_colours(pattern: np.ndarray) -> np.ndarray:
    """`(n,)`: a colour from 0 on for every column of the boolean `pattern` (m, n), greedily in order.

    One product of the matrix with the sum of the unit vectors of a colour holds all its columns: A. Curtis, M. Powell
    and J. Reid, On the estimation of sparse Jacobian matrices, 1974.
    """
    m, n = pattern.shape
    colours = np.zeros(n, dtype=int)
    taken = np.zeros((m, 0), dtype=bool)
    for column in range(n):
        rows = pattern[:, column]
        free = ~taken[rows].any(axis=0)
        colours[column] = int(np.argmax(free)) if free.any() else taken.shape[1]
        if colours[column] == taken.shape[1]:
            taken = np.concatenate([taken, np.zeros((m, 1), dtype=bool)], axis=1)
        taken[rows, colours[column]] = True
    return colours
