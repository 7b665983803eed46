"""A NetCDF file is the one that xarray would write of the same arrays, though xarray is not there to write it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import jax
import jax.numpy as jnp
import netCDF4
import numpy as np
import pytest
import xarray as xr
from io_result.synthetic import failed, pair_trajectory, without_audit

from jmbs.io.netcdf import write_netcdf
from jmbs.simulation import LabelledArrays, labelled_arrays
from jmbs.simulation.labelled import LabelledArray


def with_storages():
    pair = pair_trajectory(count=5)
    labels = replace(pair.labels, storage_kinds=(("rail", "potential"), ("slider", "kinetic")))
    return replace(pair, stored={"rail": pair.potential, "slider": pair.kinetic}, labels=labels)


def batch_at_own_times():
    one, other = pair_trajectory(count=5), failed(pair_trajectory(count=5), 4.0)
    batch = jax.tree.map(lambda *leaves: jnp.stack(leaves), one, other)
    return replace(batch, ts=batch.ts * jnp.array([[1.0], [2.0]]))


def flags_and_counts():
    names = LabelledArray(("part",), np.array(["crank", "Kolben"]), {"long_name": "part"})
    flags = LabelledArray(("part",), np.array([True, False]), {"units": "1"})
    counts = LabelledArray(("part",), np.arange(2, dtype=np.int32), {"units": "1"})
    return LabelledArrays({"stuck": flags, "count": counts}, {"part": names}, {"name": "ä"})


def content(path):
    """All that a file says: of each variable its type, axes, attributes and values."""
    with netCDF4.Dataset(path) as file:
        variables = {
            name: (str(one.dtype), one.dimensions, {key: one.getncattr(key) for key in one.ncattrs()}, one[:].tolist())
            for name, one in file.variables.items()
        }
        sizes = {name: (one.size, one.isunlimited()) for name, one in file.dimensions.items()}
        return variables, sizes, {key: file.getncattr(key) for key in file.ncattrs()}


@pytest.mark.parametrize(
    "make",
    [
        pair_trajectory,
        with_storages,
        batch_at_own_times,
        lambda: without_audit(pair_trajectory(count=5)),
        lambda: failed(pair_trajectory(count=5), -1.0),
        flags_and_counts,
    ],
)
def test_files_are_those_of_xarray(make, tmp_path):
    made = make()
    arrays = made if isinstance(made, LabelledArrays) else labelled_arrays(made)
    write_netcdf(arrays, tmp_path / "own.nc")
    dataset = xr.Dataset(dict(arrays.data_vars), dict(arrays.coords), dict(arrays.attrs))
    dataset.to_netcdf(tmp_path / "xarray.nc", encoding={name: {"_FillValue": None} for name in dataset.variables})
    np.testing.assert_equal(content(tmp_path / "own.nc"), content(tmp_path / "xarray.nc"))
    with xr.open_dataset(tmp_path / "own.nc") as opened:
        xr.testing.assert_identical(opened.load(), dataset)


def test_the_commands_that_write_and_draw_import_no_xarray():
    code = "import sys, jmbs.running, jmbs.visualise, netCDF4; print({'xarray', 'pandas'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
