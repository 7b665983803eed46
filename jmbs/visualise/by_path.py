"""Panels of what results hold by path: states that have no variable of their own, and outputs of components."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jmbs.visualise.canvas import Result


class Line(NamedTuple):
    """One curve: its name in the legend and its values over time."""

    name: str
    values: np.ndarray


Panel = tuple[str, list[Line]]
"""A label for the vertical axis, and the curves."""


def panels_by_path(dataset: Result, kind: str) -> list[Panel]:
    """Panels of the variables `<kind>_<path>`, one for each last name and unit, entries of arrays as curves."""
    panels: dict[tuple[str, str], list[Line]] = {}
    for variable in map(str, dataset):
        if variable.startswith(f"{kind}_"):
            path = variable.removeprefix(f"{kind}_").replace(".", "/")
            values, unit = dataset[variable].values, str(dataset[variable].attrs.get("units", "1"))
            panels.setdefault((path.rpartition("/")[2], unit), []).extend(_lines(path, values))
    return [(name if unit == "1" else f"{name} ({unit})", lines) for (name, unit), lines in panels.items()]


def _lines(path: str, values: np.ndarray) -> list[Line]:
    entries = list(np.ndindex(values.shape[1:]))
    label = lambda at: f"{path}[{', '.join(map(str, at))}]" if len(entries) > 1 else path  # noqa: E731
    return [Line(label(at), values[(slice(None), *at)]) for at in entries]
