"""Labelled arrays as a NetCDF-4 file, which `xarray.open_dataset` opens as the dataset they make."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from jmbs.simulation import LabelledArrays


def write_netcdf(result: LabelledArrays, path: Path) -> None:
    """Writes a file as `xarray.Dataset.to_netcdf` does, NaN for missing values without a fill value.

    By netCDF4 alone, whose wheel is complete: xarray and pandas take longer to import than a short run does to write
    its files. Coordinates that are no dimensions are named in the attribute `coordinates` of the variables they belong
    to (CF conventions 1.11, section 5).
    """
    import netCDF4

    beside = {name: one for name, one in result.coords.items() if one.dims != (name,)}
    with netCDF4.Dataset(path, "w", format="NETCDF4") as file:
        for dim, size in result.sizes.items():
            file.createDimension(dim, size)
        file.setncatts(dict(result.attrs))
        for name, (dims, values, attrs) in {**result.data_vars, **result.coords}.items():
            kind, told = _stored_as(values.dtype)
            belonging = [] if name in result.coords else [key for key, one in beside.items() if {*one.dims} <= {*dims}]
            if belonging:
                told["coordinates"] = " ".join(belonging)
            variable = file.createVariable(name, kind, dims, fill_value=False)
            variable.setncatts({**attrs, **told})
            variable[...] = values.astype(object if kind is str else kind)


def _stored_as(dtype: np.dtype) -> tuple[type | np.dtype, dict[str, str]]:
    """The type in a file, and what xarray is told of it: names have no set length, and flags are small numbers."""
    if dtype.kind == "b":
        return np.dtype("i1"), {"dtype": "bool"}
    return (str if dtype.kind in "UO" else dtype), {}
