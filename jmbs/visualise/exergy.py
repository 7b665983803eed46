"""A picture of where the exergy went: what was supplied is what the storages gained and what was destroyed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from jmbs.visualise.canvas import EDGE, TITLE, Result, arrange, finish_axes, headline, stacked_figure

STORED_COLOURS = {
    "kinetic": "#1f77b4",
    "potential": "#2ca02c",
    "magnetic": "#17becf",
    "electric": "#9467bd",
    "fluid": "#e377c2",
    "thermal": "#bcbd22",
    "stored": "#7f9fbf",
}
DESTROYED_COLOURS = ("#7f0000", "#d7301f", "#fc8d59", "#fdcc8a", "#c51b7d", "#f1b6da", "#8c510a", "#dfc27d")
OTHER_COLOUR = "0.75"
SMALL = 0.01
"""What never reaches this part of the largest sum is shown as "other"."""
MOST_TEMPERATURES = 10


class Share(NamedTuple):
    """One layer: its name in the legend, its colour, and its values (T,) in J."""

    name: str
    colour: object
    values: np.ndarray


def exergy_figure(dataset: Result) -> Figure | None:
    """Exergy since the start, stacked: what each irreversible component destroyed, then the storages' gains by kind.

    Gains stand above zero and losses below, so that all layers add up to the line of what was supplied. None where
    nothing irreversible happened, or the audit was off.
    """
    if "destroyed" not in dataset or "stored" not in dataset or not _largest(dataset["destroyed"].values):
        return None
    temperatures = [str(name) for name in dataset if str(name).startswith("temperature_")]
    figure = stacked_figure(4.6 + (2.1 if temperatures else 0.0))
    panels = figure.subplots(2, 1, sharex=True, height_ratios=[4.6, 2.1]) if temperatures else [figure.subplots()]
    ax = panels[0]
    shares = _grouped([*_destroyed(dataset), *_stored(dataset)])
    _stack(ax, dataset["time"].values, shares)
    supplied = dataset["supplied"].values + dataset["projection_work"].values
    ax.plot(dataset["time"].values, supplied, color="black", linewidth=1.4, label=f"supplied: {_final(supplied)}")
    finish_axes(ax, dataset, "exergy since the start (J)")
    ax.set_title("Where the exergy went (figures: at the end)", fontsize=10)
    ax.margins(x=0)
    handles, names = ax.get_legend_handles_labels()
    _legend(ax, handles[::-1], names[::-1])
    if temperatures:
        _draw_temperatures(panels[1], dataset, temperatures)
    panels[-1].set_xlabel("time (s)", fontsize=8)
    arrange(figure, 2, TITLE + EDGE)
    headline(figure, dataset)
    return figure


def _legend(ax: Axes, handles: list, names: list[str]) -> None:
    ax.legend(handles, names, loc="upper left", bbox_to_anchor=(1.01, 1.0), fontsize=8, borderaxespad=0.0)


def _draw_temperatures(ax: Axes, dataset: Result, names: list[str]) -> None:
    """Temperatures of the thermal stores, which say how much exergy their heat has."""
    for name in names[:MOST_TEMPERATURES]:
        ax.plot(dataset["time"].values, dataset[name].values, linewidth=1.3, label=name.removeprefix("temperature_"))
    finish_axes(ax, dataset, "temperature (K)")
    ax.set_title("Thermal stores", fontsize=10)
    _legend(ax, *ax.get_legend_handles_labels())


def _stored(dataset: Result) -> list[Share]:
    """Change of the exergy in storages, by kind."""
    values = _finite(dataset["stored"].values)
    change = values - values[:1]
    kinds = dataset["storage_kind"].values if "storage_kind" in dataset.coords else ["stored"] * values.shape[1]
    shares = []
    for kind, colour in STORED_COLOURS.items():
        members = [str(k) == kind for k in kinds]
        if any(members):
            name = kind if kind == "stored" else f"stored, {kind}"
            shares.append(Share(name, colour, change[:, members].sum(axis=1)))
    return shares


def _destroyed(dataset: Result) -> list[Share]:
    """Exergy destroyed by each irreversible component, the largest first."""
    names = [str(path).removesuffix("/mf") for path in dataset["irreversible"].values]
    columns = zip(names, _finite(dataset["destroyed"].values).T, strict=True)
    columns = sorted(((n, v) for n, v in columns if _largest(v) > 0), key=lambda pair: -_largest(pair[1]))
    shares = [Share(f"destroyed, {n}", c, v) for (n, v), c in zip(columns, DESTROYED_COLOURS, strict=False)]
    rest = [Share("", OTHER_COLOUR, values) for _, values in columns[len(shares) :]]
    return [*shares, *rest]


def _grouped(shares: list[Share]) -> list[Share]:
    """The shares of some size, and the sum of the others as one."""
    scale = _largest(np.sum([np.abs(share.values) for share in shares], axis=0))
    large = [share for share in shares if share.name and _largest(share.values) >= SMALL * scale]
    small = [share for share in shares if not any(share is one for one in large)]
    if len(small) == 1 and small[0].name:
        return shares
    return [*large, Share("other", OTHER_COLOUR, np.sum([s.values for s in small], axis=0))] if small else large


def _stack(ax: Axes, times: np.ndarray, shares: Iterable[Share]) -> None:
    """Layers upon each other, gains upwards from zero and losses downwards."""
    above, below = np.zeros_like(times), np.zeros_like(times)
    for name, colour, values in shares:
        up, down = above + np.maximum(values, 0.0), below + np.minimum(values, 0.0)
        ax.fill_between(times, above, up, color=colour, linewidth=0, label=f"{name}: {_final(values)}")
        ax.fill_between(times, below, down, color=colour, linewidth=0)
        above, below = up, down
    ax.axhline(0.0, color="black", linewidth=0.6)


def _finite(values: np.ndarray) -> np.ndarray:
    """Without the infinities that may precede a failure."""
    return np.where(np.isfinite(values), values, np.nan)


def _largest(values: np.ndarray) -> float:
    return float(np.max(np.abs(values), initial=0.0, where=np.isfinite(values)))


def _final(values: np.ndarray) -> str:
    finite = values[np.isfinite(values)]
    return f"{finite[-1]:.3g} J" if finite.size else "-"
