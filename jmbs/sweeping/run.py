"""Runs a sweep chunk by chunk, one program for all, and says before what it will take."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np

from jmbs.errors import ModelError
from jmbs.sweeping.layout import CHUNK, OPEN, VERSIONS, layout_of, versions
from jmbs.sweeping.memory import program_for
from jmbs.sweeping.program import ChunkProgram, Outcome, member_program, on_host, status_names
from jmbs.sweeping.shards import Shard
from jmbs.sweeping.store import (
    AbstractSweepStore,
    MemoryStore,
    ZarrStore,
    alone,
    make_store,
    refuse_other,
    stored_attributes,
    unfinished,
)
from jmbs.sweeping.study import SweepStudy

SUCCESSFUL = ("successful", "ended_at_event")


@dataclasses.dataclass(frozen=True)
class SweepPlan:
    """What a sweep will take.

    **Arguments:** `members` of this shard, those among them that are `open`; `chunk`: members at a time; `chunks` to be
    run; `program_bytes` that a chunk takes while it runs; `store_bytes` of the results of all members, uncompressed;
    `compile_seconds`; `chunk_seconds`, None where no chunk was timed; `devices`, in words.
    """

    members: int
    open: int
    chunk: int
    chunks: int
    program_bytes: int
    store_bytes: int
    compile_seconds: float
    chunk_seconds: float | None
    devices: str

    @property
    def seconds(self) -> float | None:
        """To go, as far as one chunk shows."""
        return None if self.chunk_seconds is None else self.chunk_seconds * self.chunks


@dataclasses.dataclass(frozen=True)
class SweepProgress:
    """Where a sweep stands: members that are `done`, of `members` to be run; how many `failed`; `seconds` so far."""

    done: int
    members: int
    failed: int
    seconds: float


class Sweeping:
    """A sweep with its program compiled, and its store opened or still to be made.

    **Arguments:** `out`: where the store is, None for memory; `resume`: go on with what is there. Raises `ModelError`:
    for a store that is there without `resume`, unless another shard has made it and nothing of this one is finished;
    with `resume` for one of another study. `begun_with`: versions of what has made the store.
    """

    def __init__(self, study: SweepStudy, out: Path | None = None, resume: bool = False, shard: Shard | None = None):
        self.study, self.out, self.resume = study, out, resume
        self.shard = shard or Shard()
        there = None if out is None else stored_attributes(out)
        self.begun_with = versions() if there is None else str(there[VERSIONS])
        chunk = study.chunk
        if out is not None and there is not None:
            refuse_other(out, there, study.fingerprint(), chunk)
            chunk = there[CHUNK]
            self._refuse_finished(ZarrStore(out), int(there[CHUNK]))
        started = time.perf_counter()
        self.member = member_program(study)
        self.program: ChunkProgram = program_for(self.member, chunk)
        self.compile_seconds = time.perf_counter() - started

    @property
    def chunks(self) -> range:
        """Numbers of this shard's chunks."""
        return self.shard.chunks(-(-self.study.members // self.program.chunk))

    def _refuse_finished(self, store: ZarrStore, chunk: int) -> None:
        if self.resume:
            return
        wanted = "a new place, or --resume to go on with it"
        own = self.shard.chunks(-(-self.study.members // chunk))
        if self.shard.count == 1 or len(unfinished(store.statuses(), chunk, own)) < len(own):
            raise ModelError(str(self.out), "a store that is there already", wanted)

    def plan(self, timed: bool = False) -> SweepPlan:
        """What it will take; `timed`: run one chunk to see how long it takes, and throw it away. Writes nothing."""
        pending, members = self._pending(), self._members(self.chunks)
        seconds = None
        if timed and pending:
            self._values_and_outcome(pending[0])[1].failure_time.block_until_ready()
            started = time.perf_counter()
            self._values_and_outcome(pending[0])[1].failure_time.block_until_ready()
            seconds = time.perf_counter() - started
        devices = jax.devices()
        return SweepPlan(
            members=members,
            open=self._members(pending),
            chunk=self.program.chunk,
            chunks=len(pending),
            program_bytes=self.program.bytes,
            store_bytes=self.member.member_bytes * members,
            compile_seconds=self.compile_seconds,
            chunk_seconds=seconds,
            devices=f"{len(devices)} {devices[0].platform} device{'' if len(devices) == 1 else 's'}",
        )

    def _pending(self) -> list[int]:
        if self.out is None or not self.out.exists():
            return list(self.chunks)
        return unfinished(ZarrStore(self.out).statuses(), self.program.chunk, self.chunks)

    def _members(self, chunks: range | list[int]) -> int:
        return sum(len(self._part(chunk)) for chunk in chunks)

    def _part(self, chunk: int) -> range:
        start = chunk * self.program.chunk
        return range(start, min(start + self.program.chunk, self.study.members))

    def _values_and_outcome(self, chunk: int) -> tuple[dict[str, np.ndarray], Outcome]:
        part = self._part(chunk)
        values = self.study.design.values(part.start, part.stop)
        return values, self.program(values)

    def run(self, progress: Callable[[SweepProgress], None] | None = None) -> AbstractSweepStore:
        """Runs what is not finished; the store. `progress` is called after each chunk.

        Raises `ModelError` where another process runs the same shard into the store.
        """
        with contextlib.nullcontext() if self.out is None else alone(self.out, self.shard):
            return self._run(progress)

    def _run(self, progress: Callable[[SweepProgress], None] | None) -> AbstractSweepStore:
        store = self._opened()
        pending = unfinished(store.statuses(), self.program.chunk, self.chunks)
        if isinstance(store, ZarrStore):
            store.remove_partial(pending)
        started, total, done, failed = time.monotonic(), self._members(pending), 0, 0
        running: tuple[int, dict[str, np.ndarray], Outcome] | None = None
        for chunk in [*pending, None]:
            # The next chunk is computed while this one is written.
            following = None if chunk is None else (chunk, *self._values_and_outcome(chunk))
            if running is not None:
                statuses = self._write(store, *running)
                done, failed = done + len(statuses), failed + sum(name not in SUCCESSFUL for name in statuses)
                if progress is not None:
                    progress(SweepProgress(done, total, failed, time.monotonic() - started))
            running = following
        return store

    def _opened(self) -> AbstractSweepStore:
        if self.out is None:
            return MemoryStore(layout_of(self.member, self.program.chunk))
        if stored_attributes(self.out) is None:
            make_store(self.out, layout_of(self.member, self.program.chunk))
        there = stored_attributes(self.out)
        assert there is not None
        refuse_other(self.out, there, self.study.fingerprint(), self.study.chunk)
        if there[CHUNK] != self.program.chunk:  # another process has made it, with more or less memory
            self.program = program_for(self.member, int(there[CHUNK]))
        return ZarrStore(self.out)

    def _write(
        self, store: AbstractSweepStore, chunk: int, values: dict[str, np.ndarray], outcome: Outcome
    ) -> list[str]:
        part = self._part(chunk)
        arrays = {self.study.variable_of(path): value for path, value in values.items()} | on_host(outcome, len(part))
        statuses = status_names(outcome, len(part))
        store.write(part.start, arrays, statuses)
        return statuses

    def failures(self, store: AbstractSweepStore) -> dict[str, int]:
        """How many members of this shard came to which status, the successful left out."""
        names = store.statuses()
        counted = Counter(str(names[number]) for chunk in self.chunks for number in self._part(chunk))
        return {name: count for name, count in sorted(counted.items()) if name not in (*SUCCESSFUL, OPEN)}
