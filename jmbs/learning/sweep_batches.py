"""Minibatches of a sweep's members, for training: shuffled, read by whole chunks, in little memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jmbs.errors import ModelError
from jmbs.learning.extras import optional

STATUS, MEMBER = "status", "member"
FINISHED = ("successful", "ended_at_event")
"""Statuses of members that are handed out; others failed, or have not run yet."""


class SweepBatches:
    """The finished members of a sweep's store, in shuffled minibatches.

    An epoch takes chunks of the store in random order, so many at a time as are `held`, and shuffles the members of
    these: memory holds no more, and each chunk is read once. The larger `held`, the better the shuffling; where it is
    the number of chunks every order of members is as likely as any other.

    **Arguments:**

    - `store`: the folder of a Zarr store whose arrays have the axis `member` in front.
    - `names`: variables to read, as `xarray.open_zarr(store)` lists them.
    - `size`: members in a minibatch. Members of an epoch that are too few for another one are left out of it.
    - `held`: chunks in memory at a time.
    - `members`: numbers of those to hand out, where others are held out for tests; all by default.

    Raises `ModelError` for what is no such store, for unknown variables and members, and for sizes that are not
    positive or beyond the members that are handed out.
    """

    def __init__(
        self, store: str | Path, names: Sequence[str], size: int, held: int = 4, members: Sequence[int] | None = None
    ):
        for path, value in (("size", size), ("held", held)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ModelError(path, repr(value), "a positive whole number")
        self.names, self.size, self.held = tuple(names), size, held
        self._data = _opened(Path(store), self.names)
        finished = np.array([str(status) in FINISHED for status in self._data[STATUS].values], bool)
        self.members = finished & _chosen(members, len(finished))
        """Which members are handed out (members,)."""
        if size > self.members.sum():
            raise ModelError("size", str(size), f"at most {self.members.sum()}, the members that are handed out")
        self._chunk = max(_chunk(self._data[name]) for name in (*self.names, STATUS))

    def __len__(self) -> int:
        """Minibatches in an epoch."""
        return int(self.members.sum()) // self.size

    def epoch(self, key: Any) -> Iterator[dict[str, np.ndarray]]:
        """All minibatches of an epoch, by name `(size, ...)`; the key decides their order. `member` is always there."""
        rng = np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel())
        chunks = rng.permutation(np.unique(np.flatnonzero(self.members) // self._chunk))
        left: dict[str, np.ndarray] | None = None
        for first in range(0, len(chunks), self.held):
            parts = [self._read(chunk) for chunk in chunks[first : first + self.held]]
            parts += [] if left is None else [left]
            whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
            order = rng.permutation(len(whole[MEMBER]))
            used = len(order) // self.size * self.size
            for start in range(0, used, self.size):
                rows = order[start : start + self.size]
                yield {name: values[rows] for name, values in whole.items()}
            left = {name: values[order[used:]] for name, values in whole.items()}

    def _read(self, chunk: int) -> dict[str, np.ndarray]:
        """The members of a chunk that are handed out, by name."""
        part = slice(chunk * self._chunk, (chunk + 1) * self._chunk)
        chosen = self.members[part]
        found = {name: self._data[name].isel({MEMBER: part}).values[chosen] for name in self.names}
        return found | {MEMBER: np.arange(len(self.members))[part][chosen]}


def _opened(store: Path, names: Sequence[str]) -> Any:
    """The store, of which nothing is read yet. Raises `ModelError`."""
    optional("zarr", "sweep")
    import xarray

    if not store.is_dir():
        raise ModelError(str(store), "no folder", "the store of a sweep")
    try:
        data = xarray.open_zarr(store, chunks=None, consolidated=False)
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(str(store), error, "the store of a sweep, a Zarr group") from None
    if STATUS not in data or data[STATUS].dims != (MEMBER,):
        raise ModelError(str(store), "no status of each member", "the store of a sweep")
    of_members = [str(name) for name, array in data.data_vars.items() if array.dims[:1] == (MEMBER,)]
    for name in names:
        if name not in of_members:
            raise ModelError(f"names/{name}", "no such variable of members", f"among {', '.join(of_members)}")
    return data


def _chosen(members: Sequence[int] | None, count: int) -> np.ndarray:
    """Which of so many members have these numbers (members,). Raises `ModelError`."""
    if members is None:
        return np.ones(count, bool)
    numbers = np.asarray(members)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or not np.all((numbers >= 0) & (numbers < count)):
        raise ModelError("members", repr(members), f"numbers of members, 0 to {count - 1}")
    return np.isin(np.arange(count), numbers)


def _chunk(array: Any) -> int:
    """Members in a chunk of an array's file."""
    chunks = array.encoding.get("chunks")
    return int(chunks[0]) if chunks else array.shape[0]
