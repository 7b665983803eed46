"""How often Python looks for garbage while there is none."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

OBJECTS = 100_000


@contextlib.contextmanager
def few_collections() -> Iterator[None]:
    """Lets Python look for garbage once in so many new objects (`OBJECTS`), where it would every 700, and not among
    those that are there: imports and tracing make hundreds of thousands that stay, and looking through them again and
    again takes a seventh of the time of either."""
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    if not frozen:
        gc.freeze()
    gc.set_threshold(OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if not frozen:
            gc.unfreeze()
