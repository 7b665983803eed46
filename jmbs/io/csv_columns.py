"""Reads columns of numbers from CSV text: vectorised where every cell is a number, cell by cell where one is not."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jmbs.errors import ModelError


class Columns(NamedTuple):
    """Columns of a file.

    **Arguments:** `file`; `names` of all columns; `values`: of those that were asked for and are there, (n,) each, NaN
    where there is no number; `texts`: by column and data row (from 1), what stands there in place of one; `rows` (n,).
    """

    file: Path
    names: list[str]
    values: dict[str, np.ndarray]
    texts: dict[str, dict[int, str]]

    @property
    def rows(self) -> np.ndarray:
        """Numbers of the data rows, from 1."""
        size = max((len(values) for values in self.values.values()), default=0)
        return np.arange(1, size + 1)


def parse_csv(path: str, file: Path, content: bytes, wanted: Iterable[str]) -> Columns:
    """Columns out of the content of a CSV file in UTF-8: a header, commas, empty lines are passed over.

    Columns that are wanted and not there are left out. Raises `ModelError` naming `path`, file and row for what is no
    table: rows of unequal length, a column that stands twice, other separators.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise ModelError(path, f"bytes in {file} that are not UTF-8 text", "a CSV file in UTF-8")
    text = text.replace("\r\n", "\n").replace("\r", "\n").lstrip("\n")
    if not text.strip():
        raise ModelError(path, f"an empty file {file}", "a CSV file with a header and rows of numbers")
    first, _, body = text.partition("\n")
    header = _header(path, file, first)
    places = {name: header.index(name) for name in dict.fromkeys(wanted) if name in header}
    twice = next((name for name in places if header.count(name) > 1), None)
    if twice is not None:
        raise ModelError(path, f"two columns {twice} in {file}", "each name only once")
    values = _at_once(body, len(header), list(places.values()))
    if values is not None:
        return Columns(file, header, dict(zip(places, values, strict=True)), {})
    return _cell_by_cell(path, file, header, body, places)


def _header(path: str, file: Path, line: str) -> list[str]:
    header = [entry.strip() for entry in next(csv.reader([line], skipinitialspace=True))]
    other = next((mark for mark in (";", "\t") if mark in line and len(header) == 1), None)
    if other is not None:
        kind = "semicolons" if other == ";" else "tabs"
        raise ModelError(path, f"columns parted by {kind} in {file}", "a CSV file with commas, and points in numbers")
    return header


def _at_once(body: str, width: int, places: Sequence[int]) -> list[np.ndarray] | None:
    """The columns at the places, (n,) each; None unless every row has the width and every cell there is a number."""
    if '"' in body or not places or not body.strip():
        return None
    lines = np.frombuffer(body.encode() if body.endswith("\n") else f"{body}\n".encode(), dtype=np.uint8)
    ends = np.flatnonzero(lines == ord("\n"))
    commas = np.searchsorted(np.flatnonzero(lines == ord(",")), ends)
    filled = np.diff(ends, prepend=-1) > 1
    if (np.diff(commas, prepend=0)[filled] != width - 1).any():
        return None
    try:
        table = np.loadtxt(io.StringIO(body), delimiter=",", usecols=places, comments=None, ndmin=2)
    except ValueError:
        return None
    return [np.ascontiguousarray(column) for column in table.T]


def _cell_by_cell(path: str, file: Path, header: list[str], body: str, places: dict[str, int]) -> Columns:
    reader = csv.reader(io.StringIO(body, newline=""), skipinitialspace=True)
    columns: dict[str, list[float]] = {name: [] for name in places}
    texts: dict[str, dict[int, str]] = {}
    row = 0
    try:
        for entries in reader:
            if not entries or (len(entries) == 1 and not entries[0].strip() and len(header) > 1):
                continue
            row += 1
            if len(entries) != len(header):
                found = f"{len(entries)} entries in row {row} of {file}"
                raise ModelError(path, found, f"{len(header)}, as the header has")
            for name, place in places.items():
                value = cell_number(entries[place])
                if value is None:
                    texts.setdefault(name, {})[row] = entries[place].strip()
                columns[name].append(np.nan if value is None else value)
    except csv.Error as error:
        raise ModelError(path, f"broken CSV in {file}, after row {row} ({error})", "a CSV file") from None
    return Columns(file, header, {name: np.array(values, dtype=float) for name, values in columns.items()}, texts)


def cell_number(text: str) -> float | None:
    """The number in a cell, None where it is none: Python takes `1_0` for 10."""
    if "_" in text:
        return None
    try:
        return float(text)
    except ValueError:
        return None
