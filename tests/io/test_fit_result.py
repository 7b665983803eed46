"""The files of a fit: every number exact, whole or not at all, and never over an earlier one unasked."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from fabricated_fits import NAMES, made_fit

from jmbs.errors import ModelError
from jmbs.io import fit_result, write_covariance, write_fit, write_residuals


def read(path) -> tuple[list[str], list[list[str]]]:
    with path.open(encoding="utf-8", newline="") as stream:
        header, *rows = csv.reader(stream)
    return header, rows


def test_residuals_are_exact(tmp_path):
    fit = made_fit()
    write_residuals(fit, tmp_path / "residuals.csv")
    header, rows = read(tmp_path / "residuals.csv")
    assert header == ["recording", "sensor", "t", "measured", "predicted", "residual", "noise"]
    assert len(rows) == 600 and {row[0] for row in rows} == {"driven"}
    for sensor, one in fit.channels["driven"].items():
        values = np.array([row[2:] for row in rows if row[1] == sensor], float).T
        np.testing.assert_array_equal(values, [one.ts, one.measured, one.predicted, one.residual, one.noise])


def test_covariance_by_name_with_nothing_where_nothing_is_seen(tmp_path):
    write_covariance(made_fit(), tmp_path / "covariance.csv")
    header, rows = read(tmp_path / "covariance.csv")
    assert header == ["parameter", *NAMES] and [row[0] for row in rows] == list(NAMES)
    assert rows[0][1:] == ["", "", ""] and float(rows[2][3]) == 1e-6


def test_earlier_files_stay_unless_told(tmp_path):
    (tmp_path / "fit.json").write_text("mine")
    with pytest.raises(ModelError, match="existing file"):
        write_fit(made_fit(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["fit.json"]
    files = write_fit(made_fit(), tmp_path, force=True)
    assert sorted(files) == sorted(tmp_path.iterdir()) and len(files) == 3


def test_no_file_is_ever_half(tmp_path, monkeypatch):
    monkeypatch.setattr(fit_result, "fit_record", lambda fit: {"a": float("nan")})
    with pytest.raises(ValueError):
        write_fit(made_fit(), tmp_path)
    assert not (tmp_path / "fit.json").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"residuals.csv", "covariance.csv"}
