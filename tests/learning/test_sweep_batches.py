"""Minibatches from the store of a sweep: each finished member once, whole chunks, few at a time."""

from __future__ import annotations

import warnings

import jax
import numpy as np
import pytest
import xarray

import jmbs
from jmbs.learning import SweepBatches

MEMBERS, CHUNK, FAILED, OPEN = 50, 8, (3, 17, 40), (48, 49)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    status = np.full(MEMBERS, "successful", dtype="<U16")
    status[list(FAILED)], status[list(OPEN)], status[5] = "not_finite", "open", "ended_at_event"
    member = np.arange(MEMBERS)
    angle = member[:, None] + np.linspace(0.0, 0.5, 3)
    data = xarray.Dataset(
        {
            "hinge_q": (("member", "time"), np.where((status == "not_finite")[:, None], np.nan, angle)),
            "rod_mass": (("member",), member.astype(np.float32)),
            "status": (("member",), status),
            "weights": (("time",), np.ones(3)),
        },
        coords={"member": member, "time": np.linspace(0.0, 1.0, 3)},
    )
    target = tmp_path_factory.mktemp("sweep") / "store.zarr"
    encoding = {name: {"chunks": (CHUNK, 3)[: data[name].ndim]} for name in ("hinge_q", "rod_mass", "status")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some versions of zarr warn of texts
        data.to_zarr(target, zarr_format=3, encoding=encoding, consolidated=False)
    return target


def open_batches(store, **changes) -> SweepBatches:
    return SweepBatches(store, **({"names": ["hinge_q", "rod_mass"], "size": 4, "held": 2} | changes))


def test_an_epoch_has_each_finished_member_once(store):
    batches = open_batches(store, size=1)
    found = list(batches.epoch(jax.random.key(0)))
    members = np.concatenate([batch["member"] for batch in found])
    assert len(found) == len(batches) == MEMBERS - len(FAILED) - len(OPEN)
    assert sorted(members) == [i for i in range(MEMBERS) if i not in FAILED + OPEN]
    for batch in found:
        assert np.array_equal(batch["rod_mass"], batch["member"]) and batch["rod_mass"].dtype == np.float32
        assert np.array_equal(batch["hinge_q"], batch["member"][:, None] + np.linspace(0.0, 0.5, 3))


def test_minibatches_have_one_size_and_the_key_decides(store):
    batches = open_batches(store)
    first, again, other = (
        np.concatenate([batch["member"] for batch in batches.epoch(jax.random.key(seed))]) for seed in (0, 0, 1)
    )
    assert len(first) == 4 * len(batches) == 44 and len(set(first)) == 44
    assert np.array_equal(first, again) and not np.array_equal(first, other)
    assert not np.array_equal(first, np.sort(first))


def test_chunks_are_read_once_and_few_are_held(store, monkeypatch):
    batches, read = open_batches(store), []
    monkeypatch.setattr(batches, "_read", lambda chunk: read.append(chunk) or SweepBatches._read(batches, chunk))
    iterator = batches.epoch(jax.random.key(0))
    next(iterator)
    assert len(read) == 2
    list(iterator)
    assert sorted(read) == list(range(OPEN[0] // CHUNK))  # none has run in the last one


def test_members_that_are_held_out_are_neither_read_nor_handed_out(store, monkeypatch):
    batches, read = open_batches(store, members=range(CHUNK, 3 * CHUNK), size=1), []
    monkeypatch.setattr(batches, "_read", lambda chunk: read.append(chunk) or SweepBatches._read(batches, chunk))
    members = [int(batch["member"][0]) for batch in batches.epoch(jax.random.key(0))]
    assert sorted(members) == [i for i in range(CHUNK, 3 * CHUNK) if i != 17] and len(members) == len(batches)
    assert sorted(read) == [1, 2]


def test_refusals(store, tmp_path):
    with pytest.raises(jmbs.ModelError, match="names/hinge_p: .* hinge_q"):
        open_batches(store, names=["hinge_p"])
    with pytest.raises(jmbs.ModelError, match="names/weights"):
        open_batches(store, names=["weights"])
    with pytest.raises(jmbs.ModelError, match="size: found 0"):
        open_batches(store, size=0)
    with pytest.raises(jmbs.ModelError, match="size: found 51, wanted at most 4"):
        open_batches(store, size=51)
    for members in ([0, MEMBERS], [-1], [0.5], 3):
        with pytest.raises(jmbs.ModelError, match=r"members: .* 0 to 49"):
            open_batches(store, members=members)
    with pytest.raises(jmbs.ModelError, match="no folder"):
        open_batches(tmp_path / "none")
