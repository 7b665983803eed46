"""Processes and devices: four devices, two processes with shards and real kills lead to what one device does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import yaml
from swept_oscillators import CONFIG, STUDY

from experiments.sweeps.kills import killed_and_resumed

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


def start(folder: Path, store: str, *arguments: str, devices: int = 1) -> subprocess.Popen:
    """A sweep of the oscillators as a program of its own."""
    study = folder / "study.yaml"
    study.write_text(yaml.safe_dump({"schema": "jmbs-sweep/1", **STUDY, "model": CONFIG}))
    code = f"import jax; jax.config.update('jax_num_cpu_devices', {devices}); jax.devices()"
    code += "; import sys; from jmbs.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "sweep", str(study), "--out", str(folder / store), "--no-cache", *arguments]
    return subprocess.Popen(command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)})


def opened(folder: Path, store: str) -> xr.Dataset:
    return xr.open_zarr(folder / store).load()


def assert_close(one: xr.Dataset, other: xr.Dataset) -> None:
    """Equal to rounding."""
    assert set(one.variables) == set(other.variables)
    for name in one.variables:
        if one[name].dtype.kind == "f":
            np.testing.assert_allclose(one[name], other[name], rtol=1e-11, atol=1e-13, err_msg=name)
        else:
            np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def test_four_devices_and_two_processes_do_what_one_device_does(tmp_path):
    assert start(tmp_path, "one.zarr").wait() == 0
    assert start(tmp_path, "four.zarr", devices=4).wait() == 0
    both = [start(tmp_path, "shards.zarr", "--shard", f"{number}/2") for number in (1, 2)]
    assert [process.wait() for process in both] == [0, 0]
    one = opened(tmp_path, "one.zarr")
    assert "open" not in one["status"]
    assert_close(one, opened(tmp_path, "four.zarr"))
    assert_close(one, opened(tmp_path, "shards.zarr"))


def test_kills_at_random_times_leave_no_trace(tmp_path):
    settings = ["members=600", "chunk=16", "simulation.t1=2.0"]
    found = killed_and_resumed(tmp_path, settings, kills=4, longest=0.3)
    assert found["same_bytes"]
    assert 0 < found["chunks_finished"][0]
