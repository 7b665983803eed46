"""What all pictures of a result share: their size, their headline, and the mark where a run failed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import LogFormatter

from jmbs.simulation import LabelledArrays

if TYPE_CHECKING:
    import xarray as xr

Result: TypeAlias = "LabelledArrays | xr.Dataset"
"""What pictures of a result are drawn from."""

WIDTH = 10.0  # inches
LEFT, BOTTOM, EDGE = 0.95, 0.5, 0.1
"""Inches: of labels beside and below axes, and at the other edges."""
COMPRESSION = 3
"""Of PNGs, 0 to 9: those of level 6, which is usual, take half as long again to write, and are a seventh smaller."""
TITLE = 0.3
"""Inches that a line above axes takes."""
RESOLUTION = 130  # dots per inch


def new_figure(height: float, width: float = WIDTH) -> Figure:
    """An empty figure, by default of the common width; inches."""
    # The object interface: no windows, no global state, safe in threads.
    return Figure(figsize=(width, height), dpi=RESOLUTION, layout="constrained")


def stacked_figure(height: float) -> Figure:
    """An empty figure of the common width for axes one above the other, which `arrange` places."""
    return Figure(figsize=(WIDTH, height), dpi=RESOLUTION)


def arrange(part: Figure | SubFigure, lines: int, gap: float = 0.1, beyond: float = 0.01) -> None:
    """Places axes that stand one above the other, with their legends, which begin to the right of them.

    By margins that are known: a layout of matplotlib's measures every label twice, which takes half as long again as
    to draw them.

    **Arguments:** `lines`: of text above the first axes. `gap`: inches between axes. `beyond`: where legends begin, in
    widths of the axes.
    """
    width, height = (size / part.dpi for size in part.bbox.size)
    legends = [legend for legend in (*part.legends, *(ax.get_legend() for ax in part.axes)) if legend is not None]
    if legends:
        renderer = FigureCanvasAgg(part.figure).get_renderer()
        width_of_legends = max(legend.get_window_extent(renderer).width for legend in legends) / part.dpi
        across = max((width - LEFT - EDGE - width_of_legends) / (1 + beyond), width / 4)
    else:
        across = width - LEFT - EDGE
    count = len({ax.get_subplotspec() for ax in part.axes})
    bottom, top = BOTTOM / height, 1 - (EDGE + TITLE * lines) / height
    each = ((top - bottom) * height - gap * (count - 1)) / count
    part.subplots_adjust(left=LEFT / width, right=(LEFT + across) / width, bottom=bottom, top=top, hspace=gap / each)


def save(figure: Figure, path: Path) -> None:
    """Writes a PNG, drawn once; `Figure.savefig` draws twice what has a layout."""
    FigureCanvasAgg(figure).print_png(path, pil_kwargs={"compress_level": COMPRESSION})


def log_scale(ax: Axes) -> None:
    """A logarithmic vertical axis whose ticks are decades in plain text: formulas and ticks between take longer to draw
    than all the rest."""
    ax.set_yscale("log")
    ax.minorticks_off()
    ax.yaxis.set_major_formatter(LogFormatter())


def headline(figure: Figure, dataset: Result) -> None:
    """The system's name above the figure, and that the run failed if it did."""
    failure = _failure_time(dataset)
    text = str(dataset.attrs.get("name", ""))
    if np.isfinite(failure):
        status = dataset.attrs.get("status_name", "")  # of a member of a batch only the long message is there
        text += f" - failed at t = {failure:.6g} s" + (f" ({status})" if status else "")
    place = {"y": 1 - EDGE / figure.get_figheight()} if figure.get_layout_engine() is None else {}
    figure.suptitle(text, fontsize=11, **place, color="crimson" if np.isfinite(failure) else "black")


def finish_axes(ax: Axes, dataset: Result, label: str) -> None:
    """The label of the vertical axis, a grid, and a line where the run failed."""
    ax.set_ylabel(label, fontsize=8)
    ax.tick_params(labelsize=8)
    ax.grid(True, alpha=0.3)
    failure = _failure_time(dataset)
    if np.isfinite(failure):
        ax.axvline(failure, color="crimson", linestyle=":", linewidth=1.5, label="_failure")


def _failure_time(dataset: Result) -> float:
    """An attribute of a run, a variable of a member of a batch; not finite where nothing failed."""
    own = dataset["failure_time"].values if "failure_time" in dataset else dataset.attrs.get("failure_time", np.nan)
    return float(own)
