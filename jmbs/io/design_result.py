"""Files of a designed experiment: a table for each input, and `design.json`."""

from __future__ import annotations

import csv
import os
import re
from pathlib import Path

import numpy as np

from jmbs.files import check_new_file, replacing, write_text
from jmbs.identification import ExcitationDesign, as_json, design_record

DESIGN_FILE = "design.json"
DESIGN_PICTURE_FILE = "design.png"


def input_file(path: str) -> str:
    """The name of the file for the input at a port path."""
    return re.sub("[^A-Za-z0-9_-]", "_", path) + ".csv"


def write_design(design: ExcitationDesign, directory: str | os.PathLike[str], force: bool = False) -> list[Path]:
    """Writes `<input>.csv` for each input (columns `t`, s, and its port path), then `design.json`; returns the files.

    Raises `ModelError` where one of them is there already and `force` is not given.
    """
    folder = Path(directory)
    files = {path: folder / input_file(path) for path in design.inputs}
    last = folder / DESIGN_FILE
    for file in (*files.values(), last):
        check_new_file(file, force)
    for path, file in files.items():
        table = design.inputs[path]
        with replacing(file) as partial, partial.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(("t", path))
            writer.writerows(map(repr, row) for row in np.stack([table.times, table.values], axis=1).tolist())
    write_text(last, as_json(design_record(design)))
    return [*files.values(), last]
