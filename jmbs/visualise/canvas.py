"""What all pictures of a result share: their size, their headline, and the mark where a run failed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter

if TYPE_CHECKING:
    import xarray as xr

WIDTH = 10.0  # inches
RESOLUTION = 130  # dots per inch


def new_figure(height: float, width: float = WIDTH) -> Figure:
    """An empty figure, by default of the common width; inches."""
    # The object interface: no windows, no global state, safe in threads.
    return Figure(figsize=(width, height), dpi=RESOLUTION, layout="constrained")


def save(figure: Figure, path: Path) -> None:
    """Writes a PNG, drawn once; `Figure.savefig` draws twice what has a layout."""
    FigureCanvasAgg(figure).print_png(path)


def log_scale(ax: Axes) -> None:
    """A logarithmic vertical axis whose ticks are decades in plain text: formulas and ticks between take longer to draw
    than all the rest."""
    ax.set_yscale("log")
    ax.minorticks_off()
    ax.yaxis.set_major_formatter(LogFormatter())


def headline(figure: Figure, dataset: xr.Dataset) -> None:
    """The system's name above the figure, and that the run failed if it did."""
    failure = dataset.attrs.get("failure_time", np.nan)
    text = str(dataset.attrs.get("name", ""))
    if np.isfinite(failure):
        text += f" - failed at t = {failure:.6g} s ({dataset.attrs.get('status_name', 'unknown')})"
    figure.suptitle(text, fontsize=11, color="crimson" if np.isfinite(failure) else "black")


def finish_axes(ax: Axes, dataset: xr.Dataset, label: str) -> None:
    """The label of the vertical axis, a grid, and a line where the run failed."""
    ax.set_ylabel(label, fontsize=8)
    ax.tick_params(labelsize=8)
    ax.grid(True, alpha=0.3)
    failure = dataset.attrs.get("failure_time", np.nan)
    if np.isfinite(failure):
        ax.axvline(failure, color="crimson", linestyle=":", linewidth=1.5, label="_failure")
