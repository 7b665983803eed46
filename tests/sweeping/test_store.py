"""Stores: whatever kills a sweep, going on leads to the same bytes; what is another's is refused."""

from __future__ import annotations

import itertools
import re
import sys
import warnings
from functools import partial
from pathlib import Path

import jax
import numpy as np
import pytest
import xarray as xr
from swept_oscillators import CHUNK, CONFIG, MEMBERS, STUDY

import jmbs
from jmbs.io import sweep_of
from jmbs.learning import SweepBatches
from jmbs.sweeping import OPEN
from jmbs.sweeping import store as stores
from jmbs.sweeping.shards import Shard, parse_shard

CHUNKS = -(-MEMBERS // CHUNK)


class Killed(Exception):
    """Stands for a kill."""


def contents(store: Path) -> dict[str, bytes]:
    return {str(file.relative_to(store)): file.read_bytes() for file in store.rglob("*") if file.is_file()}


@pytest.fixture(scope="module")
def undisturbed(study, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("sweep") / "whole.zarr"
    jmbs.sweep(study, out)
    return out


def kill_after(monkeypatch: pytest.MonkeyPatch, writes: int) -> None:
    """Lets the sweep die at its n-th array, half of which is on disk under another name."""
    counter = itertools.count()
    put = stores.put

    def dying(array, part, values):
        if next(counter) == writes:
            folder = Path(str(array.store_path.store.root)) / array.path / "c"
            folder.mkdir(exist_ok=True)
            (folder / f"{part.start // CHUNK}.{'0' * 32}.partial").write_bytes(b"half")
            raise Killed
        put(array, part, values)

    monkeypatch.setattr(stores, "put", dying)


def test_xarray_opens_a_store_without_a_word(kept, undisturbed):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stored = xr.open_zarr(undisturbed)
    assert set(stored.variables) == set(kept.variables)
    for name in kept.variables:
        assert stored[name].dims == kept[name].dims
        same = np.array_equal if kept[name].dtype.kind in "UT" else partial(np.array_equal, equal_nan=True)
        assert same(stored[name].values, kept[name].values), name
        assert stored[name].attrs == kept[name].attrs
    assert stored.attrs == kept.attrs


def test_minibatches_for_training_come_from_stores(kept, undisturbed):
    names = [str(name) for name in kept.data_vars if name not in ("status", "failure_time")]
    found = list(SweepBatches(undisturbed, names, 1).epoch(jax.random.key(0)))
    finished = np.flatnonzero(np.isin(kept["status"].values.astype(str), ("successful", "ended_at_event")))
    assert sorted(int(batch["member"][0]) for batch in found) == list(finished) and len(finished) > 5
    for batch in found:
        for name in names:
            np.testing.assert_array_equal(batch[name], kept[name].values[batch["member"]])


@pytest.mark.parametrize("writes", [0, 1, 11, 12, 13, 20])
def test_any_kill_and_going_on_is_as_if_nothing_had_been(study, undisturbed, tmp_path, monkeypatch, writes):
    out = tmp_path / "killed.zarr"
    with monkeypatch.context() as patch:
        kill_after(patch, writes)
        with pytest.raises(Killed):
            jmbs.sweep(study, out)
    finished = (xr.open_zarr(out).status.values != OPEN).sum()
    assert finished % CHUNK == 0
    done = []
    jmbs.sweep(study, out, resume=True, progress=done.append)
    assert done[-1].members == MEMBERS - finished, "a finished chunk is not repeated"
    assert contents(out) == contents(undisturbed)


def test_a_finished_sweep_that_goes_on_does_nothing(study, undisturbed):
    before, done = contents(undisturbed), []
    jmbs.sweep(study, undisturbed, resume=True, progress=done.append)
    assert not done and contents(undisturbed) == before


def test_shards_share_a_store(study, undisturbed, tmp_path):
    out = tmp_path / "shards.zarr"
    for number in (2, 1):
        with pytest.raises(jmbs.ModelError, match="--shard"):
            jmbs.sweep(study, out, shard=f"{number}/0")
        jmbs.sweep(study, out, shard=f"{number}/2")
    assert contents(out) == contents(undisturbed)
    with pytest.raises(jmbs.ModelError, match="there already"):
        jmbs.sweep(study, out, shard="1/2")


@pytest.mark.parametrize("total", [0, 1, 2, 7, 25])
@pytest.mark.parametrize("count", [1, 3, 8])
def test_shards_are_equal_parts(total, count):
    parts = [list(Shard(number, count).chunks(total)) for number in range(1, count + 1)]
    assert sum(parts, []) == list(range(total))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert parse_shard(f"1/{count}") == Shard(1, count)


def test_what_is_there_is_not_overwritten(study, undisturbed, tmp_path):
    for resume, found in ((False, "a store that is there already"), (True, "")):
        changed = sweep_of({**STUDY, "model": CONFIG, "seed": 4})
        with pytest.raises(jmbs.ModelError, match=found or "the store of another study"):
            jmbs.sweep(study if not resume else changed, undisturbed, resume=resume)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    for resume in (False, True):
        with pytest.raises(jmbs.ModelError, match="no store of a sweep"):
            jmbs.sweep(study, tmp_path / "other", resume=resume)
    assert [file.name for file in (tmp_path / "other").iterdir()] == ["notes.txt"]


def test_another_chunk_than_the_stores_is_refused(undisturbed):
    with pytest.raises(jmbs.ModelError, match="chunk: found 5, beside a store of 4 at a time"):
        jmbs.sweep(sweep_of({**STUDY, "model": CONFIG, "chunk": 5}), undisturbed, resume=True)


@pytest.mark.parametrize(
    "change",
    [
        {"vary": {**STUDY["vary"], "mass/mass": {"uniform": [0.5, 4.0]}}},
        {"members": 12},
        {"keep": {"final": ["q"]}},
        {"simulation": {**STUDY["simulation"], "dt": 0.025}},
        {
            "model": str(Path(CONFIG).with_name("pendulum.yaml")),
            "vary": {"rod/mass": {"uniform": [1, 2]}},
            "keep": {"final": ["q"]},
        },
    ],
)
def test_a_changed_study_has_another_fingerprint(study, change):
    assert sweep_of({**STUDY, "model": CONFIG, **change}).fingerprint() != study.fingerprint()


def test_names_and_chunks_change_no_fingerprint(study):
    assert sweep_of({**STUDY, "model": CONFIG, "name": "x", "chunk": 2}).fingerprint() == study.fingerprint()


def test_nobody_runs_a_shard_twice_at_a_time(study, tmp_path):
    out, tried = tmp_path / "once.zarr", []

    def meanwhile(at):
        with pytest.raises(jmbs.ModelError, match="another process is writing this shard"):
            jmbs.sweep(study, out, resume=True)
        tried.append(at)

    jmbs.sweep(study, out, progress=meanwhile)
    assert len(tried) == CHUNKS
    assert [file.name for file in tmp_path.iterdir()] == ["once.zarr"], "no lock is left"


def test_stores_want_zarr_and_memory_does_not(study, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(jmbs.ModelError, match=re.escape("pip install 'jmbs[sweep]'")):
        jmbs.sweep(study, tmp_path / "store.zarr")
    assert jmbs.sweep(study).sizes["member"] == MEMBERS
