"""Columns of recorded data: what files hold is what is read, and what is no table is refused by file and row."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import xarray

from jmbs.errors import ModelError
from jmbs.io.recordings import read_columns

RNG = np.random.default_rng(0)
TABLE = {"t": np.arange(50) * 0.1, "a": RNG.normal(size=50), "b c": 1e-30 * RNG.normal(size=50)}


def csv_text(end: str = "\n", quote: str = "") -> str:
    header = ",".join(f"{quote}{name}{quote}" for name in TABLE)
    rows = (
        ",".join(f"{quote}{value!r}{quote}" for value in map(float, row)) for row in zip(*TABLE.values(), strict=True)
    )
    return end.join([header, *rows]) + end


@pytest.mark.parametrize(
    "text",
    [
        *(csv_text(), csv_text("\r\n"), csv_text("\r"), csv_text(quote='"'), csv_text().rstrip("\n")),
        *("\ufeff" + csv_text(), "\n\n" + csv_text() + "\n\n", csv_text().replace(",", " , ")),
    ],
)
def test_numbers_are_read_to_the_last_bit(tmp_path: Path, text: str):
    file = tmp_path / "a.csv"
    file.write_bytes(text.encode())
    columns = read_columns("recordings/r/file", file, ["b c", "t", "zz"])
    assert columns.names == list(TABLE) and set(columns.values) == {"b c", "t"} and not columns.texts
    for name, values in columns.values.items():
        assert (values == TABLE[name]).all()
    assert columns.rows[0] == 1 and columns.rows[-1] == 50


def test_one_odd_cell_changes_no_other(tmp_path: Path):
    """The way cell by cell gives what the way at once gives."""
    lines = csv_text().splitlines()
    lines[8] = lines[8].replace(lines[8].split(",")[1], "-")
    (tmp_path / "a.csv").write_text("\n".join(lines))
    columns = read_columns("", tmp_path / "a.csv", TABLE)
    assert columns.texts == {"a": {8: "-"}}
    for name, values in columns.values.items():
        odd = np.arange(50) == 7 if name == "a" else np.zeros(50, bool)
        assert (values[~odd] == TABLE[name][~odd]).all() and np.isnan(values[odd]).all()


def test_numbers_are_not_guessed(tmp_path: Path):
    """Python takes underscores in numbers, and NumPy other things; a recording has neither."""
    (tmp_path / "a.csv").write_text("t,a\n0,1_0\n1,0x10\n2,1d3\n3,1 2\n4,1e3\n")
    columns = read_columns("", tmp_path / "a.csv", ["t", "a"])
    assert columns.texts["a"] == {1: "1_0", 2: "0x10", 3: "1d3", 4: "1 2"} and columns.values["a"][4] == 1000


NO_TABLES = {
    "empty": ("", "an empty file"),
    "ragged": ("t,a\n0,1\n1,2,3\n", "3 entries in row 2 of .*wanted 2, as the header has"),
    "cut off": ("t,a\n0,1\n1", "1 entries in row 2"),
    "semicolons": ("t;a\n0,5;1\n", "columns parted by semicolons"),
    "tabs": ("t\ta\n0\t1\n", "columns parted by tabs"),
    "twice": ("t,a,a\n0,1,1\n", "two columns a"),
    "binary": ("t,a\0\n", "not UTF-8"),
}


@pytest.mark.parametrize("case", NO_TABLES)
def test_what_is_no_table_is_refused(tmp_path: Path, case: str):
    text, message = NO_TABLES[case]
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(ModelError, match=f"recordings/r/file: .*(?:{message})"):
        read_columns("recordings/r/file", tmp_path / "a.csv", ["t", "a"])


def test_files_that_are_none_are_refused(tmp_path: Path):
    for path, message in ((tmp_path / "no.csv", "no such file"), (tmp_path, "the folder"), (Path("/dev/null"), "pipe")):
        with pytest.raises(ModelError, match=message):
            read_columns("recordings/r/file", path, ["t"])


def test_netcdf(tmp_path: Path):
    data = xarray.Dataset({"a": ("t", TABLE["a"]), "grid": (("t", "k"), np.zeros((50, 2)))}, {"t": TABLE["t"]})
    data.to_netcdf(tmp_path / "a.nc")
    columns = read_columns("file", tmp_path / "a.nc", ["t", "a", "zz"])
    assert set(columns.values) == {"t", "a"} and "grid" in columns.names
    assert all((values == TABLE[name]).all() for name, values in columns.values.items())
    with pytest.raises(ModelError, match="grid over .t, k. .*wanted variables over one dimension"):
        read_columns("file", tmp_path / "a.nc", ["t", "grid"])
    (tmp_path / "b.nc").write_text("t,a\n")
    with pytest.raises(ModelError, match="cannot be read"):
        read_columns("file", tmp_path / "b.nc", ["t"])


def test_parquet(tmp_path: Path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    names = pyarrow.array(["x"] * 50)
    gaps = pyarrow.array([None, *TABLE["a"][1:]])
    table = pyarrow.table({"t": TABLE["t"], "a": gaps, "name": names, "count": np.arange(50)})
    parquet.write_table(table, tmp_path / "a.parquet")
    columns = read_columns("file", tmp_path / "a.parquet", ["t", "a", "count", "zz"])
    assert columns.names == ["t", "a", "name", "count"]
    assert (columns.values["t"] == TABLE["t"]).all() and (columns.values["count"] == np.arange(50)).all()
    assert np.isnan(columns.values["a"][0]) and (columns.values["a"][1:] == TABLE["a"][1:]).all()
    with pytest.raises(ModelError, match="a column name of"):
        read_columns("file", tmp_path / "a.parquet", ["name"])
    (tmp_path / "b.parquet").write_text("t,a\n")
    with pytest.raises(ModelError, match="cannot be read"):
        read_columns("file", tmp_path / "b.parquet", ["t"])


def test_parquet_without_its_reader_says_what_to_install(tmp_path: Path, monkeypatch):
    (tmp_path / "a.parquet").write_text("")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ModelError, match=r"wanted pyarrow, which reads it: pip install 'jmbs\[fit\]'"):
        read_columns("file", tmp_path / "a.parquet", ["t"])
