"""The picture of a designed experiment: inputs and motion beside those of a first input, and standard errors."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from jmbs.errors import printable, shortened
from jmbs.identification import ExcitationDesign
from jmbs.visualise.canvas import log_scale, new_figure, save

PANEL_HEIGHT, BARS_HEIGHT = 1.6, 3.2
FIRST, DESIGNED, LIMIT, BEFORE = "0.6", "#1f77b4", "#d62728", "0.3"
MOST_PANELS, MOST_NAMES = 12, 30
ABOVE: dict[str, Any] = dict(fontsize=8, loc="lower right", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.1, frameon=False)
"""Where legends hide no curve: beside the title."""


def design_figure(design: ExcitationDesign) -> Figure:
    """Inputs and outputs over time, first and designed, with their limits; below, relative standard errors."""
    panels = [(path, table.values, design.first_inputs[path].values) for path, table in design.inputs.items()]
    panels += [(name, design.shown[name], design.first_shown[name]) for name in _drawn(design)]
    panels = panels[:MOST_PANELS]
    figure = new_figure(PANEL_HEIGHT * len(panels) + BARS_HEIGHT)
    ratios = [*[PANEL_HEIGHT] * len(panels), BARS_HEIGHT]
    *rows, bars = figure.subplots(len(ratios), 1, height_ratios=ratios)
    for ax, (name, designed, first) in zip(rows, panels, strict=True):
        _over_time(ax, design, name, designed, first)
    rows[0].legend(ncols=2, **ABOVE)
    rows[-1].set_xlabel("time (s)", fontsize=8)
    _errors(bars, design)
    figure.suptitle(printable(shortened(f"{design.name}: experiment, criterion {design.criterion}")), fontsize=11)
    return figure


def _drawn(design: ExcitationDesign) -> list[str]:
    """Names of limited outputs, and of the sensors that show something else."""
    limited = [name for name in design.shown if name in design.limits]
    others = [name for name in design.shown if name not in limited]
    known = [design.shown[name] for name in limited]
    return [*(name for name in others if not any(np.array_equal(design.shown[name], k) for k in known)), *limited]


def write_design_picture(design: ExcitationDesign, path: str | os.PathLike[str]) -> None:
    """Draws `design_figure` into a PNG file."""
    save(design_figure(design), Path(path))


def _over_time(ax: Axes, design: ExcitationDesign, name: str, designed: np.ndarray, first: np.ndarray) -> None:
    ax.plot(design.ts, first, color=FIRST, linewidth=1, label="first, at random")
    ax.plot(design.ts, designed, color=DESIGNED, linewidth=1.4, label="designed")
    if name in design.limits:
        for end in design.limits[name][:2]:
            ax.axhline(end, color=LIMIT, linestyle="--", linewidth=0.8)
    ax.set_title(printable(shortened(name)), fontsize=9, loc="left")
    ax.tick_params(labelsize=8)
    ax.grid(True, alpha=0.3)
    ax.margins(x=0)


def _errors(ax: Axes, design: ExcitationDesign) -> None:
    """Standard errors beside values, in percent; a value of zero has none."""
    names = [name for name, value in design.values.items() if value != 0][:MOST_NAMES]
    places, lowest, highest = np.arange(len(names)), np.inf, 0.0
    stages = (("before", design.before, BEFORE), ("first, at random", design.first, FIRST))
    for shift, (label, stage, color) in enumerate((*stages, ("designed", design.after, DESIGNED))):
        errors = [stage.standard_errors[name] for name in names]
        heights = [np.nan if e is None else 100 * e / abs(design.values[n]) for e, n in zip(errors, names, strict=True)]
        if not np.all(np.isnan(heights)):
            ax.bar(places + 0.27 * (shift - 1), heights, 0.25, color=color, label=label)
            lowest, highest = min(lowest, np.nanmin(heights)), max(highest, np.nanmax(heights))
    if 0 < lowest <= highest:
        log_scale(ax)
        ax.set_ylim(10 ** np.floor(np.log10(lowest)), 10 ** np.ceil(np.log10(highest) + 0.1))
    ax.set_xticks(places, [printable(shortened(name)) for name in names], rotation=20, ha="right", fontsize=8)
    ax.set_ylabel("expected standard error (%)", fontsize=8)
    ax.tick_params(labelsize=8)
    ax.grid(True, axis="y", alpha=0.3)
    if ax.patches:
        ax.legend(ncols=3, **ABOVE)
