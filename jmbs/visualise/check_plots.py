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
    """By how many standard deviations each sample moves where an unknown moves by one percent of its scale."""
    channels = [(r, s, one) for r, sensors in check.sensitivities.items() for s, one in sensors.items()]
    names = list(dict.fromkeys(name for *_, one in channels for name in one.changes))
    sizes = dict.fromkeys(names, 0.0)
    for *_, one in channels:
        for name, values in one.changes.items():
            sizes[name] += float(np.sum(values**2))
    shown = sorted(names, key=lambda name: -sizes[name])[:MOST_LINES]
    colours = {name: f"C{names.index(name) % 10}" for name in names}
    figure, rows = panels(len(channels), 1)
    drawn = {}
    for (ax,), (recording, sensor, one) in zip(rows, channels, strict=False):
        every = thinned(one.ts.size)
        for name in (name for name in shown if name in one.changes):
            style = "-" if names.index(name) < 10 else "--"
            values = 0.01 * one.changes[name][every]
            (drawn[name],) = ax.plot(one.ts[every], values, style, color=colours[name], linewidth=1.0)
        titled(ax, f"{recording} / {sensor}")
        finish(ax)
    rows[-1][0].set_xlabel("time (s)", fontsize=8)
    figure.supylabel("standard deviations of a sample, by 1 % of an unknown (or of its scaling)", fontsize=8)
    handles, labels = list(drawn.values()), [short_name(name) for name in drawn]
    if handles:
        figure.legend(handles, labels, fontsize=7, loc="outside lower center", ncols=2)
    return figure
