"""Which chunks belong to which shard: a function of the number of chunks, I and N alone."""

from __future__ import annotations

import re
from typing import NamedTuple

from jmbs.errors import ModelError
from jmbs.library.mechanics import show


class Shard(NamedTuple):
    """The `number`-th, from 1 on, of `count` equal parts of a sweep."""

    number: int = 1
    count: int = 1

    def chunks(self, total: int) -> range:
        """Its chunks of `total`, which are neighbours: the shards' sizes differ by one chunk at most."""
        return range((self.number - 1) * total // self.count, self.number * total // self.count)


def parse_shard(text: str) -> Shard:
    """The shard of `I/N`. Raises `ModelError`."""
    found = re.fullmatch(r"\s*(\d{1,9})\s*/\s*(\d{1,9})\s*", text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise ModelError("--shard", show(text), "I/N with I from 1 to N, such as 1/4")
    return Shard(int(found[1]), int(found[2]))
