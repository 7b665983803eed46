"""`jmbs sweep`: exit statuses, what is said before and on the way, and that a plan writes nothing."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from swept_oscillators import CHUNK, MEMBERS

import jmbs.io
import jmbs.sweeping
from jmbs.cli import main
from jmbs.sweep_command import duration
from jmbs.sweeping import ZarrStore


@pytest.fixture
def command(study, monkeypatch, tmp_path):
    """Runs the command in an empty folder, with the reader of studies replaced; the statuses it returns."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(jmbs.io, "load_sweep", lambda path, overrides: study)
    return lambda *arguments: main(["sweep", "study.yaml", "--no-cache", *arguments])


def test_a_plan_says_what_it_takes_and_writes_nothing(command, tmp_path, capsys):
    assert command("--plan") == 0
    said = capsys.readouterr().out
    for words in (f"{MEMBERS} to run", f"{CHUNK} members at a time, 3 chunks", "kB", "by the first chunk"):
        assert words in said
    assert not list(tmp_path.iterdir())


def test_a_sweep_tells_how_far_it_is_and_which_members_failed(command, kept, tmp_path, capsys):
    failed = int((kept.status != "successful").sum())
    assert command("--out", "store.zarr") == 0
    said = capsys.readouterr()
    assert f"invalid_parameters: {failed} members" in said.out and "xarray.open_zarr('store.zarr')" in said.out
    assert said.err.splitlines()[-1] == f"100%  {MEMBERS} of {MEMBERS} members, {failed} failed"
    np.testing.assert_array_equal(xr.open_zarr("store.zarr").status, kept.status)
    assert [file.name for file in tmp_path.iterdir()] == ["store.zarr"]


def test_strict_sweeps_exit_with_one_if_a_member_failed(command, capsys):
    assert command("--out", "store.zarr", "--strict") == 1
    assert "members failed" in capsys.readouterr().err
    assert command("--out", "store.zarr", "--resume", "--strict") == 1, "those that failed before count too"


def test_what_is_wrong_is_one_line_and_status_two(command, capsys):
    assert command("--out", "store.zarr") == 0
    for arguments in (["--out", "store.zarr"], ["--resume"], ["--shard", "1/2"], ["--out", "x", "--shard", "3/2"]):
        capsys.readouterr()
        assert command(*arguments) == 2
        assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_ctrl_c_leaves_what_is_finished(command, study, monkeypatch, capsys):
    write, calls = ZarrStore.write, []

    def interrupted(self, start, *rest):
        if start:
            raise KeyboardInterrupt
        write(self, start, *rest)
        calls.append(start)

    with monkeypatch.context() as patch:
        patch.setattr(ZarrStore, "write", interrupted)
        assert command("--out", "store.zarr") == 130
    assert "--resume" in capsys.readouterr().err
    assert (xr.open_zarr("store.zarr").status != "open").sum() == CHUNK
    assert command("--out", "store.zarr", "--resume") == 0


def test_other_versions_than_a_store_was_begun_with_are_told(command, monkeypatch, capsys):
    assert command("--out", "store.zarr") == 0
    monkeypatch.setattr(jmbs.sweeping, "versions", lambda: "later ones")
    capsys.readouterr()
    assert command("--out", "store.zarr", "--resume") == 0
    assert "goes on with later ones" in capsys.readouterr().err


def test_times_are_told_in_words():
    assert [duration(seconds) for seconds in (1.5, 300, 36000)] == ["1.5 s", "5 min", "10 h"]
