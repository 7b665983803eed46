"""Sweeps from Python: `jmbs.sweep` and `jmbs.design`, from the file of a study or what such a file holds."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jmbs.errors import ModelError
from jmbs.io import load_sweep, sweep_of
from jmbs.sweeping import Shard, Sweeping, SweepProgress, SweepStudy, parse_shard

if TYPE_CHECKING:
    import xarray as xr


def sweep(
    study: str | os.PathLike[str] | Mapping[str, Any] | SweepStudy,
    out: str | os.PathLike[str] | None = None,
    *,
    resume: bool = False,
    shard: str | None = None,
    progress: Callable[[SweepProgress], None] | None = None,
) -> xr.Dataset:
    """Runs a model for all members of a study and returns what is kept of them, labelled.

    **Arguments:**

    - `study`: its file (schema jmbs-sweep/1), or a mapping of what such a file holds, whose `model` may be a
      `jmbs.Model` or `jmbs.Mechanism`.
    - `out`: a Zarr store to write, as a folder; None: all is kept in memory.
    - `resume`: go on with the store that is there.
    - `shard`: `I/N`, the I-th of N parts of the members; processes with different ones may share a store.
    - `progress`: called after each chunk with `done`, `members`, `failed` and `seconds`.

    Members that fail have a status and NaN. Raises `ModelError` for what is wrong in the study, and for a store that is
    there without `resume`, or is another study's. It uses one core of a CPU unless `jmbs.use_all_cores()` was called.
    """
    part = Shard() if shard is None else parse_shard(shard)
    if out is None and (resume or part.count > 1):
        raise ModelError("out", "nothing", "a store, for resume and shards")
    running = Sweeping(_study(study), None if out is None else Path(out), resume, part)
    return running.run(progress).dataset()


def design(
    study: str | os.PathLike[str] | Mapping[str, Any] | SweepStudy, start: int = 0, stop: int | None = None
) -> dict[str, np.ndarray]:
    """The members' values alone, by path (members, ...), of members from `start` on up to `stop`; runs nothing."""
    found = _study(study)
    return found.design.values(start, found.members if stop is None else min(stop, found.members))


def _study(study: Any) -> SweepStudy:
    if isinstance(study, SweepStudy):
        return study
    return load_sweep(study) if isinstance(study, str | os.PathLike) else sweep_of(study)
