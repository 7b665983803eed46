"""Progress of a run: on a terminal a line while it compiles, then a bar; plain lines elsewhere."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator

import numpy as np
from tqdm import tqdm

PIECES = 100
"""In how many pieces a run is made whose progress is shown."""
MOMENT = 0.5
"""Seconds after which a line says anew how long something has taken."""
PATIENCE = 2.0
"""Seconds that a run takes before its progress is worth showing."""


def _on_terminal() -> bool:
    return sys.stderr.isatty()


def stops_of(times: np.ndarray, wanted: bool) -> list[int]:
    """Numbers of saved times to stop at, the last one at the end; the first stop is what compiles."""
    last = len(times) - 1
    if not wanted or last < 2:
        return [last]
    return np.unique(np.linspace(0, last, min(PIECES, last) + 1).astype(int))[1:].tolist()


def progress_of(times: np.ndarray, stops: list[int]) -> Iterator[int]:
    """These stops; between them tells how far the run is."""
    if not stops:
        return iter(())
    return _bar(times, stops) if _on_terminal() else _lines(times, stops)


@contextlib.contextmanager
def waiting(what: str, wanted: bool = True) -> Iterator[None]:
    """Says on a terminal what takes time, and how long it has taken, in one line that goes when it is done."""
    if not wanted or not _on_terminal():
        yield
        return
    done, started = threading.Event(), time.monotonic()

    def tell() -> None:
        while not done.wait(MOMENT):
            print(f"\r{what} ... {time.monotonic() - started:.0f} s", end="", file=sys.stderr, flush=True)

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _bar(times: np.ndarray, stops: list[int]) -> Iterator[int]:
    options = {"total": float(times[-1] - times[0]), "unit": "s", "delay": PATIENCE, "leave": False}
    with tqdm(**options, bar_format="{l_bar}{bar}| {n:.3g}/{total:.3g} s [{elapsed}<{remaining}]") as bar:
        for stop in stops:
            yield stop
            bar.update(float(times[stop] - times[0]) - bar.n)


def _lines(times: np.ndarray, stops: list[int]) -> Iterator[int]:
    started, told = time.monotonic(), 0.0
    for stop in stops:
        yield stop
        share = float((times[stop] - times[0]) / (times[-1] - times[0]))
        if share - told >= 0.1 and share < 1 and time.monotonic() - started > PATIENCE:
            told = share
            print(f"{share:.0%}", file=sys.stderr, flush=True)
