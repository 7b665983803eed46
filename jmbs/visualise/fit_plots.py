"""Pictures of a fit: data and model, residuals, intervals, correlation, singular values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from jmbs.errors import ModelError, printable, shortened
from jmbs.identification import ChannelFit, Check, Estimate, Fit, whiteness
from jmbs.visualise.canvas import new_figure

WIDTH = 7.5
"""Inches: of the pictures of a page that is read on small screens too."""
PANEL_HEIGHT = 1.9
MOST_PANELS = 24
MOST_POINTS = 4000
"""Samples of a channel that are drawn; of more, every second, third and so on."""
MOST_NAMES = 40
"""Unknowns that a correlation's picture names."""
MOST_ROWS = 120
"""Estimates that the picture of intervals shows."""
DATA, MODEL, NOISE, ALARM = "0.45", "#d62728", "#9ecae1", "#d62728"


class ShownChannel(NamedTuple):
    """What one panel shows."""

    title: str
    one: ChannelFit


def _channels(fit: Fit, recordings: Iterable[str] | None) -> list[ShownChannel]:
    """Channels of the recordings that are named, all without names; those held out too. Raises `ModelError`."""
    groups: dict[str, list[ShownChannel]] = {}
    for held, found in ((False, fit.channels), (True, fit.heldout)):
        for recording, sensors in found.items():
            more = " (held out)" if held else ""
            groups.setdefault(recording, []).extend(
                ShownChannel(f"{recording} / {sensor}{more}", one) for sensor, one in sensors.items()
            )
    wanted = list(groups) if recordings is None else [recordings] if isinstance(recordings, str) else list(recordings)
    for name in wanted:
        if name not in groups:
            raise ModelError("recordings", name, f"recordings of the fit: {', '.join(groups)}")
    return [channel for name in wanted for channel in groups[name]]


def trajectories_figure(fit: Fit, recordings: Iterable[str] | None = None) -> Figure:
    """What was measured and what the fitted model says, a panel for each channel."""
    channels = _channels(fit, recordings)
    figure, rows = panels(len(channels), 1)
    for (ax,), channel in zip(rows, channels, strict=False):
        data_and_model(ax, channel.one)
        titled(ax, channel.title)
    if channels:
        figure.legend(handles=rows[0][0].lines, fontsize=8, loc="outside lower center", ncols=2)
        rows[-1][0].set_xlabel("time (s)", fontsize=8)
    return figure


def residuals_figure(fit: Fit, recordings: Iterable[str] | None = None) -> Figure:
    """Residuals over time with the noise's 95 % band, and beside each its autocorrelation with that of white noise."""
    channels = _channels(fit, recordings)
    figure, rows = panels(len(channels), 2)
    for (left, right), channel in zip(rows, channels, strict=False):
        _residual(left, channel.one)
        titled(left, channel.title)
        _autocorrelation(right, channel.one)
    if channels:
        rows[-1][0].set_xlabel("time (s)", fontsize=8)
        rows[-1][1].set_xlabel("lag (samples)", fontsize=8)
        titled(rows[0][1], "autocorrelation")
    return figure


def correlation_figure(fit: Fit) -> Figure:
    """The correlation matrix of the estimates; what is not visible is hatched."""
    matrix = np.asarray(fit.correlation, float)
    size = len(matrix)
    side = min(WIDTH, 2.6 + 0.32 * size)
    figure = new_figure(min(side - 0.4, WIDTH), min(WIDTH, side + 0.6))
    ax = figure.add_subplot()
    if not size:
        ax.set_axis_off()
        return figure
    ax.set_facecolor("0.93")
    ax.add_patch(_hatched(size))
    image = ax.imshow(np.ma.masked_invalid(matrix), cmap="RdBu_r", vmin=-1.0, vmax=1.0, zorder=2)
    figure.colorbar(image, ax=ax, shrink=0.8).ax.tick_params(labelsize=7)
    if size <= MOST_NAMES:
        names = [short_name(name) for name in fit.order]
        ax.set_xticks(range(size), names, rotation=90, fontsize=7)
        ax.set_yticks(range(size), names, fontsize=7)
    if size <= 12:
        for i, j in np.ndindex(matrix.shape):
            if np.isfinite(matrix[i, j]) and i != j:
                colour = "white" if abs(matrix[i, j]) > 0.6 else "black"
                ax.text(j, i, f"{matrix[i, j]:.2f}", ha="center", va="center", fontsize=6, color=colour, zorder=3)
    titled(ax, "correlation of the estimates" + ("" if np.isfinite(matrix).all() else "; hatched: not visible"))
    return figure


def intervals_figure(fit: Fit) -> Figure:
    """Estimates with 95 % intervals beside their starts, all over the estimate."""
    names = list(fit.parameters)[:MOST_ROWS]
    figure = new_figure(1.2 + 0.26 * max(len(names), 1), WIDTH)
    ax = figure.add_subplot()
    for row, one in enumerate(fit.parameters[name] for name in names):
        scale = _scale(one)
        ax.plot([one.start / scale], [row], "o", mfc="none", color="0.5", label="start" if row == 0 else None)
        colour = ALARM if one.visible is False else "C0"
        ax.plot([one.estimate / scale], [row], "D", color=colour, markersize=4)
        if one.interval is not None:
            ends = [end / scale for end in one.interval]
            ax.plot(ends, [row, row], "|-", color=colour, linewidth=2.0, markersize=8)
    ax.set_yticks(range(len(names)), [short_name(name) for name in names], fontsize=7)
    ax.set_ylim(max(len(names), 1) - 0.5, -0.5)
    more = f"; the first {len(names)} of {len(fit.parameters)}" if len(names) < len(fit.parameters) else ""
    ax.set_xlabel(f"value over |estimate|, or over half the interval where that is larger{more}", fontsize=8)
    _hold_apart(ax, fit)
    labels = [("C0", "estimate and 95 % interval"), (ALARM, "estimate that the data do not show")]
    shown = [entry for entry, some in zip(labels, (True, False), strict=True) if _some_visible(fit, some)]
    handles = [
        *ax.get_legend_handles_labels()[0],
        *(ax.plot([], [], "D-", color=c, label=text)[0] for c, text in shown),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=3, fontsize=8)
    finish(ax)
    return figure


def singular_values_figure(fit: Fit | Check) -> Figure:
    """Singular values of the whitened Jacobian in scaled unknowns; those of invisible directions in red."""
    values, invisible = np.asarray(fit.singular_values, float), len(fit.invisible_directions)
    figure = new_figure(2.6, WIDTH)
    ax = figure.add_subplot()
    seen = values.size - invisible
    places, floor = np.arange(1, values.size + 1), _floor(values)
    shown = np.maximum(values, floor)
    ax.plot(places[:seen], shown[:seen], "o", color="C0", label="visible")
    if invisible:
        ax.plot(places[seen:], shown[seen:], "v", color=ALARM, label="invisible")
        ax.legend(fontsize=8)
    ax.set_yscale("log")
    ax.set_xlabel("direction", fontsize=8)
    ax.set_ylabel("singular value", fontsize=8)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    titled(ax, "singular values of the scaled Jacobian")
    finish(ax)
    return figure


def panels(wanted: int, columns: int) -> tuple[Figure, np.ndarray]:
    """A figure of a row of axes for each channel, up to a number of them."""
    count = min(max(wanted, 1), MOST_PANELS)
    figure = new_figure(PANEL_HEIGHT * count + 0.4, WIDTH)
    rows = figure.subplots(count, columns, squeeze=False, width_ratios=(3, 1)[:columns])
    if wanted > count:
        figure.suptitle(f"{wanted - count} more channels not drawn", fontsize=9)
    return figure, rows


def data_and_model(ax: Axes, one: ChannelFit, model: str = "fitted model") -> None:
    """Samples of a channel and what the model shows; `model`: which, for the legend."""
    every = thinned(one.ts.size)
    ax.plot(one.ts[every], one.measured[every], ".", color=DATA, markersize=2.5, label="measured")
    ax.plot(one.ts[every], one.predicted[every], "-", color=MODEL, linewidth=1.1, label=model)
    ax.set_ylabel(one.unit, fontsize=8)
    finish(ax)


def _residual(ax: Axes, one: ChannelFit) -> None:
    every = thinned(one.ts.size)
    ts, band = one.ts[every], 1.96 * one.noise[every]
    ax.fill_between(ts, -band, band, color=NOISE, alpha=0.5, linewidth=0)
    ax.plot(ts, one.residual[every], ".", color="0.2", markersize=2.5)
    ax.axhline(0.0, color="black", linewidth=0.6)
    ax.set_ylabel(f"residual ({one.unit})" if one.unit else "residual", fontsize=8)
    finish(ax)


def _autocorrelation(ax: Axes, one: ChannelFit) -> None:
    tests = whiteness(one.residual)
    if tests is None:
        ax.set_axis_off()
        ax.text(0.5, 0.5, "too few samples", ha="center", va="center", fontsize=8, transform=ax.transAxes)
        return
    ax.axhspan(-tests.band, tests.band, color=NOISE, alpha=0.5, linewidth=0)
    ax.vlines(tests.lags, 0.0, tests.autocorrelation, color="0.2", linewidth=1.2)
    ax.axhline(0.0, color="black", linewidth=0.6)
    largest = max(3 * tests.band, 1.1 * float(np.max(np.abs(tests.autocorrelation))))
    ax.set_ylim(-largest, largest)
    finish(ax)


def thinned(count: int) -> slice:
    """Which of so many samples are drawn."""
    return slice(None, None, max(1, -(-count // MOST_POINTS)))


def _hold_apart(ax: Axes, fit: Fit) -> None:
    """Starts far away are marked at the picture's edge, so that intervals can be seen."""
    places = [one.estimate / _scale(one) for one in fit.parameters.values()]
    ends = [end / _scale(one) for one in fit.parameters.values() for end in one.interval or ()]
    starts = [one.start / _scale(one) for one in fit.parameters.values()]
    values = [value for value in (*places, *ends, *np.clip(starts, -3.0, 3.0)) if np.isfinite(value)]
    low, high = min(values, default=0.0), max(values, default=1.0)
    margin = 0.06 * (high - low) or 0.1
    low, high = max(low, -5.0) - margin, min(high, 5.0) + margin
    ax.set_xlim(low, high)
    for row, start in enumerate(starts):
        if not low <= start <= high:
            ax.annotate(
                f"start {start:.3g}",
                (high if start > high else low, row),
                fontsize=6,
                color="0.4",
                va="center",
                ha="right" if start > high else "left",
            )


def _scale(one: Estimate) -> float:
    """What an unknown is drawn over, so that its interval has a width to be seen and leaves others theirs."""
    half = 0.0 if one.interval is None else 0.5 * abs(one.interval[1] - one.interval[0])
    return max(abs(one.estimate), half) or 1.0


def _some_visible(fit: Fit, visible: bool) -> bool:
    return any(one.visible is visible for one in fit.parameters.values())


def _floor(values: np.ndarray) -> float:
    """What stands for zero on a logarithmic axis."""
    return 1e-17 * float(np.max(values, initial=0.0)) or 1e-17


def _hatched(size: int) -> Rectangle:
    return Rectangle((-0.5, -0.5), size, size, fill=False, hatch="////", edgecolor="0.7", linewidth=0, zorder=1)


def short_name(name: str) -> str:
    """A name that is safe in a picture: no control characters, and no dollars, which would be mathematics."""
    return shortened(printable(name), 48).replace("$", r"\$")


def titled(ax: Axes, text: str) -> None:
    """Gives axes a title that is safe and not too long."""
    ax.set_title(short_name(text) if len(text) < 48 else shortened(printable(text), 96).replace("$", r"\$"), fontsize=9)


def finish(ax: Axes) -> None:
    """What all axes have in common."""
    ax.tick_params(labelsize=7)
    ax.grid(True, alpha=0.3)
