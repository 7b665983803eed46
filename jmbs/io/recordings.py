"""Columns of recorded data from CSV, Parquet and NetCDF files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from jmbs.errors import ModelError
from jmbs.files import read_bytes, reason
from jmbs.io.csv_columns import Columns, parse_csv

PARQUET = (".parquet", ".pq")
NETCDF = (".nc", ".nc4", ".cdf", ".netcdf")
KINDS = "a file of recorded data: CSV, Parquet (.parquet) or NetCDF (.nc)"


def read_columns(path: str, file: Path, wanted: Iterable[str]) -> Columns:
    """The columns of a file that are wanted and there, one row a sample; by the file's ending, CSV otherwise.

    **Arguments:** `path`: the place in the study that names the file, for messages. Raises `ModelError`.
    """
    content = _content(path, file)
    names = list(dict.fromkeys(wanted))
    suffix = file.suffix.lower()
    if suffix in PARQUET:
        return _from_parquet(path, file, content, names)
    if suffix in NETCDF:
        return _from_netcdf(path, file, names)
    return parse_csv(path, file, content, names)


def _content(path: str, file: Path) -> bytes:
    try:
        return read_bytes(file)
    except FileNotFoundError:
        raise ModelError(path, f"no such file {file}", f"{KINDS}, relative to the study") from None
    except IsADirectoryError:
        raise ModelError(path, f"the folder {file}", KINDS) from None
    except OSError as error:
        raise ModelError(path, f"{file}, which cannot be read ({reason(error)})", KINDS) from None


def _from_parquet(path: str, file: Path, content: bytes, wanted: list[str]) -> Columns:
    try:
        import pyarrow  # type: ignore[import-not-found]
        import pyarrow.parquet as parquet  # type: ignore[import-not-found]
    except ImportError:
        raise ModelError(path, f"the Parquet file {file}", "pyarrow, which reads it: pip install 'jmbs[fit]'") from None
    try:
        table = parquet.ParquetFile(pyarrow.BufferReader(content))
        names = list(table.schema_arrow.names)
        read = table.read(columns=[name for name in wanted if name in names])
        columns = {name: read.column(name).to_numpy() for name in read.column_names}
    except (pyarrow.ArrowException, OSError) as error:
        raise ModelError(path, f"{file}, which cannot be read ({_line(error)})", "a Parquet file") from None
    return Columns(file, names, {name: _numbers(path, file, name, values) for name, values in columns.items()}, {})


def _from_netcdf(path: str, file: Path, wanted: list[str]) -> Columns:
    import xarray

    try:
        with xarray.open_dataset(file, decode_times=False, engine="netcdf4") as data:
            names = [str(name) for name in data.variables]
            arrays = {name: data[name] for name in wanted if name in names}
            values = {name: np.asarray(array.values) for name, array in arrays.items()}
            dimensions = {name: array.dims for name, array in arrays.items()}
    except (OSError, ValueError) as error:
        raise ModelError(path, f"{file}, which cannot be read ({_line(error)})", "a NetCDF file") from None
    for name, dims in dimensions.items():
        first = next(iter(dimensions.values()))
        if len(dims) != 1 or dims != first:
            found = f"{name} over ({', '.join(map(str, dims))}) in {file}"
            raise ModelError(path, found, "variables over one dimension, the same for all")
    return Columns(file, names, {name: _numbers(path, file, name, array) for name, array in values.items()}, {})


def _numbers(path: str, file: Path, name: str, values: Any) -> np.ndarray:
    array = np.asarray(values)
    if array.dtype == object and all(entry is None or isinstance(entry, int | float) for entry in array):
        array = np.array([np.nan if entry is None else entry for entry in array], dtype=float)
    if array.dtype.kind not in "fiu":
        raise ModelError(path, f"a column {name} of {array.dtype} in {file}", "numbers (times in seconds)")
    return array.astype(float)


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())
