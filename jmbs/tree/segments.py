"""Where members of a plan's batches are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Segment(NamedTuple):
    """Members of one batch of the reference plan."""

    batch: int
    members: np.ndarray


def segments(places: list[tuple[int, int]]) -> tuple[Segment, ...]:
    """Runs of members of the same batch."""
    runs: list[tuple[int, list[int]]] = []
    for batch, member in places:
        if not runs or runs[-1][0] != batch:
            runs.append((batch, []))
        runs[-1][1].append(member)
    return tuple(Segment(batch, np.array(members)) for batch, members in runs)
