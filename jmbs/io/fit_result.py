"""Files of a fit: `fit.json`, `residuals.csv`, `covariance.csv`, and `check.json` of what was found before it."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from jmbs.files import check_new_file, replacing, write_text
from jmbs.identification import Check, Fit, as_json, check_record, fit_record

FIT_FILE = "fit.json"
CHECK_FILE = "check.json"
RESIDUALS_FILE = "residuals.csv"
COVARIANCE_FILE = "covariance.csv"
FITTED_FILE = "fitted.yaml"
REPORT_FILE = "report.html"
CHECKPOINT_FILE = "checkpoint.npz"
FIT_FILES = (FIT_FILE, FITTED_FILE, RESIDUALS_FILE, COVARIANCE_FILE, REPORT_FILE)
"""What a fit leaves behind, beside what was found before it and its checkpoint."""


def write_fit(fit: Fit, directory: str | os.PathLike[str], force: bool = False) -> list[Path]:
    """Writes `residuals.csv`, `covariance.csv` and, last, `fit.json` into a folder that is there; returns the files.

    Raises `ModelError` where one of them is there already and `force` is not given.
    """
    folder = Path(directory)
    files = [folder / name for name in (RESIDUALS_FILE, COVARIANCE_FILE, FIT_FILE)]
    for file in files:
        check_new_file(file, force)
    write_residuals(fit, files[0])
    write_covariance(fit, files[1])
    write_text(files[2], as_json(fit_record(fit)))
    return files


def write_check(check: Check, path: str | os.PathLike[str]) -> None:
    """Writes `check.json`; replaces what is there."""
    write_text(Path(path), as_json(check_record(check)))


def write_residuals(fit: Fit, path: str | os.PathLike[str]) -> None:
    """Writes every sample that was fitted: recording, sensor, t, measured, predicted, residual, noise; SI."""
    header = ("recording", "sensor", "t", "measured", "predicted", "residual", "noise")
    rows = (
        (recording, sensor, *map(repr, values))
        for recording, sensors in fit.channels.items()
        for sensor, one in sensors.items()
        for values in np.stack([one.ts, one.measured, one.predicted, one.residual, one.noise], 1).tolist()
    )
    _write_csv(Path(path), header, rows)


def write_covariance(fit: Fit, path: str | os.PathLike[str]) -> None:
    """Writes the covariance of the estimates, by name; what is not visible has empty entries. Without a covariance
    there are only the names."""
    rows = (
        (name, *("" if not np.isfinite(value) else repr(value) for value in row))
        for name, row in zip(fit.order, np.asarray(fit.covariance).tolist(), strict=bool(np.size(fit.covariance)))
    )
    _write_csv(Path(path), ("parameter", *fit.order), rows)


def _write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    with replacing(path) as partial, partial.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
