"""Progress of a run: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import numpy as np
from tqdm import tqdm

PIECES = 100
"""In how many pieces a run is made whose progress is shown."""
PATIENCE = 2.0
"""Seconds that a run takes before its progress is worth showing."""


def progress_of(times: np.ndarray, wanted: bool) -> Iterator[int]:
    """Numbers of saved times to stop at, the last one at the end; between them tells how far the run is."""
    last = len(times) - 1
    if not wanted or last < 2:
        yield last
        return
    first, *stops = np.unique(np.linspace(0, last, min(PIECES, last) + 1).astype(int))[1:]
    yield int(first)  # which compiles
    show = _bar if sys.stderr.isatty() else _lines
    yield from show(times, stops)


def _bar(times: np.ndarray, stops: list[int]) -> Iterator[int]:
    options = {"total": float(times[-1] - times[0]), "unit": "s", "delay": PATIENCE, "leave": False}
    with tqdm(**options, bar_format="{l_bar}{bar}| {n:.3g}/{total:.3g} s [{elapsed}<{remaining}]") as bar:
        for stop in stops:
            yield int(stop)
            bar.update(float(times[stop] - times[0]) - bar.n)


def _lines(times: np.ndarray, stops: list[int]) -> Iterator[int]:
    started, told = time.monotonic(), 0.0
    for stop in stops:
        yield int(stop)
        share = float((times[stop] - times[0]) / (times[-1] - times[0]))
        if share - told >= 0.1 and share < 1 and time.monotonic() - started > PATIENCE:
            told = share
            print(f"{share:.0%}", file=sys.stderr, flush=True)
