"""Pictures of a check: data beside the model at the start, what samples say of the unknowns, singular values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from jmbs.identification import Check
from jmbs.visualise.canvas import save
from jmbs.visualise.fit_plots import data_and_model, finish, panels, short_name, singular_values_figure, thinned, titled

DATA_PICTURE, SENSITIVITY_PICTURE, SINGULAR_PICTURE = (
    "check_data.png",
    "check_sensitivities.png",
    "check_singular_values.png",
)
MOST_LINES = 20
"""Unknowns that are drawn: those that most samples show best."""
BEYOND = 4.0
"""How far a picture of data reaches beyond them, in their range, to show a model that leaves them."""


def check_figures(check: Check) -> dict[str, Figure]:
    """The pictures of a check by the names of their files; none of what was not tried."""
    found = {}
    if check.channels:
        found[DATA_PICTURE] = _data(check)
    if check.sensitivities:
        found[SENSITIVITY_PICTURE] = _sensitivities(check)
    if len(check.singular_values):
        found[SINGULAR_PICTURE] = singular_values_figure(check)
    return found


def write_check_figures(check: Check, folder: Path) -> list[Path]:
    """Draws the pictures into a folder, in place of those of an earlier check; returns the files."""
    for name in (DATA_PICTURE, SENSITIVITY_PICTURE, SINGULAR_PICTURE):
        (folder / name).unlink(missing_ok=True)
    files = []
    for name, figure in check_figures(check).items():
        save(figure, folder / name)
        files.append(folder / name)
    return files


def _data(check: Check) -> Figure:
    """What was measured and what the model at the start shows, a panel for each channel."""
    channels = [(r, s, one) for r, sensors in check.channels.items() for s, one in sensors.items()]
    figure, rows = panels(len(channels), 1)
    for (ax,), (recording, sensor, one) in zip(rows, channels, strict=False):
        data_and_model(ax, one, "model at the start")
        titled(ax, f"{recording} / {sensor}")
        low, high = np.min(one.measured, initial=np.inf), np.max(one.measured, initial=-np.inf)
        bottom, top = ax.get_ylim()
        if low < high:
            ax.set_ylim(max(bottom, low - BEYOND * (high - low)), min(top, high + BEYOND * (high - low)))
    if channels:
        figure.legend(handles=rows[0][0].lines, fontsize=8, loc="outside lower center", ncols=2)
        rows[-1][0].set_xlabel("time (s)", fontsize=8)
    return figure


def _sensitivities(check: Check) -> Figure:
    """What each sample says of the unknowns: lines of one shape are unknowns that the data hardly tell apart.

    Each is drawn over its largest magnitude, which the legend has.
    """
    channels = [(r, s, one) for r, sensors in check.sensitivities.items() for s, one in sensors.items()]
    squares: dict[str, float] = {}
    largest: dict[str, float] = {}
    for *_, one in channels:
        for name, values in one.changes.items():
            squares[name] = squares.get(name, 0.0) + float(np.sum(values**2))
            largest[name] = max(largest.get(name, 0.0), float(np.max(np.abs(values), initial=0.0)))
    shown = sorted(squares, key=lambda name: -squares[name])[:MOST_LINES]
    figure, rows = panels(len(channels), 1)
    drawn = {}
    for (ax,), (recording, sensor, one) in zip(rows, channels, strict=False):
        every = thinned(one.ts.size)
        for i, name in enumerate(shown):
            if name in one.changes:
                values = one.changes[name][every] / (largest[name] or 1.0)
                # Later ones are thinner, so that lines of one shape are all seen.
                width, style = 2.4 - 1.6 * i / len(shown), "-" if i < 10 else "--"
                (drawn[name],) = ax.plot(one.ts[every], values, style, color=f"C{i % 10}", linewidth=width)
        ax.set_ylim(-1.08, 1.08)
        ax.set_ylabel("over the largest", fontsize=8)
        titled(ax, f"{recording} / {sensor}")
        finish(ax)
    rows[-1][0].set_xlabel("time (s)", fontsize=8)
    labels = [f"{short_name(name)}: {largest[name] / 100:.2g}" for name in drawn]
    if drawn:
        what = "sensitivities over their largest, which is in standard deviations of a sample for 1 %"
        legend = {"fontsize": 7, "title": what, "title_fontsize": 8, "loc": "outside lower center", "ncols": 2}
        figure.legend(list(drawn.values()), labels, **legend)
    return figure
