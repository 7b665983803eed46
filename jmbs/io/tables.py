"""Reads a function of time from columns of a CSV file with a header."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from jmbs.errors import ModelError
from jmbs.files import read_bytes, reason, replacing
from jmbs.io.csv_columns import cell_number
from jmbs.library.mechanics import TableSpec, is_number, nearest, show


def read_table(path: str, file: Path, time: str, columns: Sequence[str]) -> TableSpec:
    """The table with the column `time` (s) and `columns`; `path` is the place in the config that names it.

    Raises `ModelError` naming file, column and line.
    """
    try:
        text = read_bytes(file).decode("utf-8-sig")
    except FileNotFoundError:
        raise ModelError(f"{path}/table", f"no such file {file}", "a CSV file (relative to the config)") from None
    except IsADirectoryError:
        raise ModelError(f"{path}/table", f"the folder {file}", "a CSV file") from None
    except UnicodeDecodeError:
        raise ModelError(f"{path}/table", f"bytes in {file} that are not UTF-8 text", "a CSV file in UTF-8") from None
    except OSError as error:
        raise ModelError(f"{path}/table", f"{file}, which cannot be read ({reason(error)})", "a CSV file") from None
    reader = csv.reader(io.StringIO(text, newline=""), skipinitialspace=True)
    try:
        rows = [(reader.line_num, row) for row in reader if any(entry.strip() for entry in row)]
    except csv.Error as error:
        raise ModelError(f"{path}/table", f"broken CSV in {file} ({error})", "a CSV file") from None
    if not rows:
        raise ModelError(f"{path}/table", f"an empty file {file}", "a CSV file with a header and rows of numbers")
    header = [entry.strip() for entry in rows[0][1]]
    places = [_column(f"{path}/time", file, header, time)]
    places += [_column(f"{path}/columns", file, header, column) for column in columns]
    values = [[_entry(path, file, line, row, header, place) for place in places] for line, row in rows[1:]]
    if len(values) < 2:
        raise ModelError(f"{path}/table", f"{len(values)} rows of numbers in {file}", "at least 2")
    for (line, _), before, after in zip(rows[2:], values, values[1:], strict=False):
        if after[0] <= before[0]:
            found = f"{after[0]:g} after {before[0]:g} in column {time}, line {line} of {file}"
            raise ModelError(f"{path}/table", found, "strictly increasing times")
    table = np.array(values)
    return TableSpec(table[:, 0], table[:, 1:], str(file), path)


def _column(path: str, file: Path, header: list[str], column: str) -> int:
    if header.count(column) > 1:
        raise ModelError(path, f"two columns {column} in {file}", "names that differ")
    if column not in header:
        raise ModelError(path, f"no column {column} in {file}", f"the name of one column{nearest(column, header)}")
    return header.index(column)


def _entry(path: str, file: Path, line: int, row: list[str], header: list[str], place: int) -> float:
    where = f"in column {header[place]}, line {line} of {file}"
    if len(row) != len(header):
        found = f"{len(row)} entries in line {line} of {file}"
        raise ModelError(f"{path}/table", found, f"{len(header)}, as the header has")
    value = cell_number(row[place])
    if value is None or not is_number(value):
        raise ModelError(f"{path}/table", f"{show(row[place])} {where}", "a finite number")
    return value


def write_table(file: Path, table: TableSpec) -> None:
    """Writes a table as `read_table` reads it: columns `t`, `column1`, `column2`, ..."""
    with replacing(file) as partial, partial.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["t", *(f"column{i + 1}" for i in range(table.values.shape[1]))])
        writer.writerows([time, *row] for time, row in zip(table.times.tolist(), table.values.tolist(), strict=True))
