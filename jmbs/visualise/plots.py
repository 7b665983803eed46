"""Pictures of a result: motion, the energy and entropy account, constraints, and where the exergy went."""

from __future__ import annotations

from itertools import cycle, islice
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from jmbs.errors import ModelError
from jmbs.files import replacing
from jmbs.simulation import LabelledArrays, Trajectory, labelled_arrays, variable_name
from jmbs.visualise.by_path import Line, Panel, panels_by_path
from jmbs.visualise.canvas import EDGE, TITLE, Result, arrange, finish_axes, headline, log_scale, save, stacked_figure
from jmbs.visualise.exergy import exergy_figure

PANEL_HEIGHT = 2.1
MOST_LINES = 40  # in one panel; beyond, lines cannot be told apart, and the legend says what is left out
LEGEND_ROWS = 20
BEYOND_RIGHT_AXIS = 1.12
"""Where legends begin beside axes with labels on their right, in widths of the axes."""


DRAWABLE = 1e100
"""What is larger in magnitude is left out of pictures."""


def plot_trajectory(result: Trajectory | Result, directory: str | Path) -> list[Path]:
    """Draw trajectories, outputs, energies, constraints and exergy, each as a PNG, and return what was drawn.

    `result` is a trajectory or its dataset, so that a `result.nc` can be drawn again. A picture with nothing to show
    (no bodies, audit off, nothing irreversible) is left out, and an earlier one of that name removed. A failed run is
    drawn up to where it failed, with a line there. Raises `ModelError` for a batch.
    """
    dataset = of_one_run(labelled_arrays(result) if isinstance(result, Trajectory) else result)
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    drawn = []
    for name, draw in (
        ("trajectories.png", motion_figure),
        ("outputs.png", output_figure),
        ("energies.png", account_figure),
        ("constraints.png", constraint_figure),
        ("exergy.png", exergy_figure),
    ):
        path = directory / name
        figure = draw(dataset)
        if figure is None:
            path.unlink(missing_ok=True)
            continue
        with replacing(path) as partial:
            save(figure, partial)
        drawn.append(path)
    return drawn


def of_one_run(dataset: Result) -> Result:
    """The same, its times those of the run where members of a batch have their own. Raises `ModelError` for a batch."""
    if "member" in dataset.sizes:
        wanted = "one member, such as `dataset.isel(member=0)`"
        raise ModelError("plot_trajectory", f"a batch of {dataset.sizes['member']} members", wanted)
    if isinstance(dataset, LabelledArrays) or "member_time" not in dataset:
        return dataset
    return dataset.assign_coords(time=("time", dataset["member_time"].values))


def motion_figure(dataset: Result) -> Figure | None:
    """World positions of all bodies, one panel per axis; joint coordinates, one panel per unit; states beside them."""
    groups: list[tuple[str, list[Panel]]] = []
    if "position" in dataset:
        bodies = _names(dataset, "body")
        panels = [
            (f"{axis} (m)", [Line(body, _along(dataset, "position", body=body, xyz=axis)) for body in bodies])
            for axis in _names(dataset, "xyz")
        ]
        groups.append(("Positions of the centres of mass, world axes", panels))
    by_unit = _joint_lines(dataset)
    for unit, lines in by_unit.items():
        label = {"1": "quaternion or pure number (1)", "rad": "angle (rad)", "m": "travel (m)"}.get(unit, f"({unit})")
        groups.append((f"Joint coordinates in {unit}" if unit != "1" else "Joint coordinates", [(label, lines)]))
    groups.append(("States of other components", panels_by_path(dataset, "state")))
    return _figure(dataset, groups)


def output_figure(dataset: Result) -> Figure | None:
    """What components declare as outputs, one panel per name and unit."""
    return _figure(dataset, [("Outputs of components", panels_by_path(dataset, "output"))])


def _figure(dataset: Result, groups: list[tuple[str, list[Panel]]]) -> Figure | None:
    """Groups of panels over time, each with its title, a legend for every panel whose curves have other names."""
    groups = [(title, panels) for title, panels in groups if panels]
    if not groups:
        return None
    # A legend sets a least height, for a figure is laid out around it.
    heights = [max(PANEL_HEIGHT * len(panels), 1.0 + 0.17 * _legend_rows(panels)) for _, panels in groups]
    heights[0] += TITLE  # of the figure
    figure = stacked_figure(sum(heights))
    parts = figure.subfigures(len(groups), 1, height_ratios=heights, squeeze=False)
    for number, (part, (title, panels)) in enumerate(zip(parts[:, 0], groups, strict=True)):
        above = 2 if number == 0 else 1  # lines of text, the first of them the figure's
        part.suptitle(title, fontsize=10, y=1 - (EDGE + TITLE * (above - 1)) / heights[number])
        axes = part.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        shared = all([line.name for line in lines] == [line.name for line in panels[0][1]] for _, lines in panels)
        for ax, (label, lines) in zip(axes, panels, strict=True):
            _draw(ax, dataset, lines, label)
            _hide_rounding(ax, panels if shared else [(label, lines)])
            if not shared:
                _own_legend(ax, len(lines))
        if shared:
            _side_legend(part, axes[0], len(panels[0][1]))
        axes[-1].set_xlabel("time (s)", fontsize=8)
        arrange(part, above)
    headline(figure, dataset)
    return figure


def account_figure(dataset: Result) -> Figure | None:
    """Energies; entropy produced with the exergy it destroyed; the magnitude of the first-law residual."""
    if "total" not in dataset:
        return None
    figure = stacked_figure(3.2 * 3 + 0.4)
    energies, second_law, first_law = figure.subplots(3, 1, sharex=True)

    names = ("kinetic", "potential", "total", "supplied", "dissipated")
    _draw(energies, dataset, [Line(name, dataset[name].values) for name in names], "energy (J)")
    energies.set_title("Energy", fontsize=10)

    _draw(second_law, dataset, [Line("exergy destroyed", dataset["exergy_destroyed"].values)], "exergy destroyed (J)")
    second_law.lines[0].set(linewidth=4.0, alpha=0.4)  # the two curves often coincide: one broad, one dashed
    entropy = second_law.twinx()
    _draw(entropy, dataset, [Line("entropy produced (right)", dataset["entropy_produced"].values)], "entropy (J/K)")
    entropy.lines[0].set(color="C3", linestyle="--")
    entropy.grid(False)
    second_law.set_title("Second law", fontsize=10)

    residuals = [Line("first-law residual", dataset["first_law_residual"].values)]
    residuals.append(Line("projection work", dataset["projection_work"].values))
    _draw_magnitudes(first_law, dataset, residuals, "magnitude (J)")
    first_law.set_title("First law", fontsize=10)
    first_law.set_xlabel("time (s)", fontsize=8)
    for ax, others in ((energies, []), (second_law, entropy.lines[:1]), (first_law, [])):
        handles = [line for line in (*ax.lines, *others) if not str(line.get_label()).startswith("_")]
        if handles:
            ax.legend(
                handles=handles,
                loc="upper left",
                bbox_to_anchor=(BEYOND_RIGHT_AXIS, 1.0),
                fontsize=8,
                borderaxespad=0.0,
            )
    arrange(figure, 2, TITLE + EDGE, BEYOND_RIGHT_AXIS - 1)
    headline(figure, dataset)
    return figure


def constraint_figure(dataset: Result) -> Figure | None:
    """Residuals of every joint and constraint, at the level of positions and of velocities, on log scales."""
    panels = (
        ("constraint_position", "gap (m) or rotation (rad)"),
        ("constraint_velocity", "rate (m/s or rad/s)"),
    )
    lines = {field: _residuals(dataset, field) for field, _ in panels}
    count = max(map(len, lines.values()))
    if not count:
        return None
    figure = stacked_figure(max(3.2 * 2, 1.0 + 0.17 * min(count, LEGEND_ROWS)) + 0.4)
    axes = figure.subplots(2, 1, sharex=True)
    for ax, (field, label) in zip(axes, panels, strict=True):
        _draw_magnitudes(ax, dataset, lines[field], label)
    axes[0].set_title("Constraint residuals: position above, velocity below", fontsize=10)
    axes[1].set_xlabel("time (s)", fontsize=8)
    _side_legend(figure, axes[0], count)
    arrange(figure, 2)
    headline(figure, dataset)
    return figure


def _residuals(dataset: Result, field: str) -> list[Line]:
    """Of the joints, then of other constraints."""
    joints = _names(dataset, "joint") if field in dataset else []
    others = [line for _, lines in panels_by_path(dataset, field) for line in lines]
    return [*(Line(joint, _along(dataset, field, joint=joint)) for joint in joints), *others]


def _names(dataset: Result, dim: str) -> list[str]:
    return [str(name) for name in dataset[dim].values] if dim in dataset.coords else []


def _along(dataset: Result, name: str, **where: str) -> np.ndarray:
    """A variable at names along some of its axes."""
    variable = dataset[name]
    at = {dim: _names(dataset, dim).index(label) for dim, label in where.items()}
    return variable.values[tuple(at.get(str(dim), slice(None)) for dim in variable.dims)]


def _joint_lines(dataset: Result) -> dict[str, list[Line]]:
    """Curves `<joint>.<coordinate>` by unit, joints in their order in the dataset."""
    by_unit: dict[str, list[Line]] = {}
    for joint in _names(dataset, "joint"):
        name = f"q_{variable_name(joint)}"
        if name not in dataset:
            continue
        dim = str(dataset[name].dims[-1])
        names = _names(dataset, dim)
        units = str(dataset[dim].attrs["units"]).split(", ")
        for column, (entry, unit) in enumerate(zip(names, units, strict=True)):
            label = joint if len(names) == 1 else f"{joint}.{entry}"
            by_unit.setdefault(unit, []).append(Line(label, dataset[name].values[:, column]))
    return by_unit


def _styles(count: int) -> list[tuple[object, str]]:
    """Colours first, then line styles, so that neighbours in a legend differ clearly."""
    name = "tab10" if count <= 10 else "tab20"
    colours = matplotlib.colormaps[name].colors  # type: ignore[attr-defined]
    styles = [(colour, dash) for dash in ("-", "--", "-.", ":") for colour in colours]
    return list(islice(cycle(styles), count))


def _draw(ax: Axes, dataset: Result, lines: list[Line], label: str) -> None:
    times = dataset["time"].values
    for line, (colour, dash) in zip(lines[:MOST_LINES], _styles(len(lines)), strict=False):
        # Just before a blow-up values may be finite and yet beyond what axes with margins can hold.
        values = np.where(np.abs(line.values, dtype=np.float64) < DRAWABLE, line.values, np.nan)
        style = {"color": colour, "linestyle": dash, "linewidth": 1.3}
        if (alone := _without_neighbours(values)).size:
            style |= {"marker": "o", "markersize": 3.0, "markevery": alone.tolist()}
        ax.plot(times, values, label=line.name, **style)
    finish_axes(ax, dataset, label)


def _without_neighbours(values: np.ndarray) -> np.ndarray:
    """Where values (T,) are finite between some that are not: no line leads there."""
    finite = np.pad(np.isfinite(values), 1)
    return np.flatnonzero(finite[1:-1] & ~finite[:-2] & ~finite[2:])


def _hide_rounding(ax: Axes, panels: list[Panel]) -> None:
    """Widen a panel whose range is tiny beside its neighbours' values, lest rounding errors look like motion."""
    finite = [values[np.isfinite(values)] for _, lines in panels for _, values in lines]
    largest = max((float(np.max(np.abs(values))) for values in finite if values.size), default=0.0)
    least = 1e-6 * largest
    low, high = ax.get_ylim()
    if high - low < least:
        middle = 0.5 * (low + high)
        ax.set_ylim(middle - 0.5 * least, middle + 0.5 * least)


def _draw_magnitudes(ax: Axes, dataset: Result, lines: list[Line], label: str) -> None:
    """Magnitudes on a log scale; what is zero throughout is named in the panel instead."""
    magnitudes = [Line(line.name, np.where(line.values == 0, np.nan, np.abs(line.values))) for line in lines]
    _draw(ax, dataset, magnitudes, label)
    visible = any(np.isfinite(line.values).any() for line in magnitudes)
    if visible:
        log_scale(ax)
    else:
        ax.set_yticks([])
    zero = [line.name for line in lines if np.isfinite(line.values).any() and not np.any(np.nan_to_num(line.values))]
    if zero:
        names = ", ".join(zero[:6]) + (f" and {len(zero) - 6} more" if len(zero) > 6 else "")
        box = {"facecolor": "white", "alpha": 0.8, "edgecolor": "none"}
        ax.text(0.01, 0.03, f"exactly zero: {names}", transform=ax.transAxes, fontsize=8, bbox=box)


def _legend_rows(panels: list[Panel]) -> int:
    return min(max(len(lines) for _, lines in panels), LEGEND_ROWS)


def _own_legend(ax: Axes, count: int) -> None:
    """Beside its panel, which is as high as a few names."""
    title = f"{count - MOST_LINES} more not drawn" if count > MOST_LINES else None
    columns = -(-min(count, MOST_LINES) // int(PANEL_HEIGHT / 0.2))
    place = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "borderaxespad": 0.0}
    ax.legend(fontsize=8, ncols=columns, title=title, title_fontsize=8, **place)


def _side_legend(part: Figure | SubFigure, ax: Axes, count: int) -> None:
    handles, names = ax.get_legend_handles_labels()
    title = f"{count - MOST_LINES} more not drawn" if count > MOST_LINES else None
    columns = -(-len(handles) // LEGEND_ROWS)
    if handles:
        place = {
            "loc": "upper left",
            "bbox_to_anchor": (1.01, 1.0),
            "bbox_transform": ax.transAxes,
            "borderaxespad": 0.0,
        }
        part.legend(handles, names, fontsize=8, title=title, title_fontsize=8, ncols=columns, **place)
