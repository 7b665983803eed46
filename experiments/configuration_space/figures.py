"""The pictures: drift over time, over the step size, for a choice of group per body, and cost against accuracy."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from cases import ERROR_T1, GROUPS, PAPER_SIZE, Key, Options, Study
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from programs import Groups, Record

TITLES = {
    "heavy_top": "heavy top",
    "spherical_double_pendulum": "double pendulum",
    "two_floating_bodies": "two floating bodies",
    "three_bar_loop": "closed three-bar linkage",
}
PAPER_FIGURES = {
    "heavy_top": {"pivot": 2, "energy": 3},
    "spherical_double_pendulum": {"base": 5, "elbow": 6, "energy": 7},
    "two_floating_bodies": {"link": 9, "energy": 10},
    "three_bar_loop": {"left": 12, "apex": 13, "right": 14, "energy": 15},
}
GROUP_COLOURS = {"SE3": "tab:blue", "SO3xR3": "tab:orange", "SE3+SO3xR3": "tab:green", "SO3xR3+SE3": "tab:red"}
METHOD_COLOURS = {"rk4": "tab:blue", "tsit5": "tab:green", "dopri8": "tab:purple", "implicit_midpoint": "tab:red"}
LINES = {"SE3": "-", "SO3xR3": "--"}
LABELS = {"SE3": "SE(3)", "SO3xR3": "SO(3)xR³", "implicit_midpoint": "implicit midpoint"}


def draw(results: Mapping[str, Study], options: Options, folder: Path) -> None:
    """All pictures that the options allow."""

    def save(figure: Figure, name: str) -> None:
        figure.savefig(folder / f"{name}.png", dpi=80)

    for system, study in results.items():
        runs = {label(g): ("-", g, study.runs[Key(uniform(study, g), "rk4", PAPER_SIZE)]) for g in GROUPS}
        title = f"{TITLES[system]}, rk4, steps of {1e3 * PAPER_SIZE:g} ms"
        save(over_time(title, study.grounded, runs, PAPER_FIGURES[system]), system)
        if study.long:
            runs = {
                f"{label(g)}, {label(m)}": (ls, g, study.long[Key(uniform(study, g), m, PAPER_SIZE)])
                for m, ls in (("rk4", "-"), ("implicit_midpoint", ":"))
                for g in GROUPS
            }
            save(
                over_time(f"{TITLES[system]}, steps of {1e3 * PAPER_SIZE:g} ms", study.grounded, runs), f"{system}_long"
            )
    save(over_sizes(results, options), "step_sizes")
    save(work_precision(results, options), "work_precision")
    if options.mixed and "spherical_double_pendulum" in results:
        study = results["spherical_double_pendulum"]
        runs = {}
        for groups in itertools.product(GROUPS, repeat=2):
            text = ", ".join(f"link{i} on {label(g)}" for i, g in enumerate(groups, start=1))
            same = len(set(groups)) == 1
            colour = groups[0] if same else "+".join(groups)
            runs[text] = ("-" if same else "--", colour, study.runs[Key(groups, "rk4", PAPER_SIZE)])
        title = f"double pendulum, a group per body, rk4, steps of {1e3 * PAPER_SIZE:g} ms"
        save(over_time(title, study.grounded, runs, signed=True), "group_per_body")


def label(name: str) -> str:
    """How a group or method is called in pictures."""
    return LABELS.get(name, name)


def uniform(study: Study, group: str) -> Groups:
    """The same group for all bodies."""
    return (group,) * len(next(iter(study.runs)).groups)


def over_time(
    title: str,
    grounded: Mapping[str, bool],
    runs: Mapping[str, tuple[str, str, Record]],
    paper: Mapping[str, int] | None = None,
    signed: bool | None = None,
) -> Figure:
    """The gap of each joint and the change of the energy over time, one panel each.

    **Arguments:** `runs`: by label, line, key of the colour, and run; `paper`: the numbers of the paper's figures;
    `signed`: whether the energy's sign is shown, on a linear axis; None: where there are paper figures.
    """
    signed = paper is not None if signed is None else signed
    panels = [*grounded, "energy"]
    figure = Figure(figsize=(4.2 * len(panels), 3.6), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for column, (axis, panel) in enumerate(zip(axes, panels, strict=True)):
        energy = panel == "energy"
        for text, (ls, colour, run) in runs.items():
            values = run.gap[:, column] if not energy else run.drift if signed else np.abs(run.drift)
            axis.plot(run.times, values, color=GROUP_COLOURS[colour], ls=ls, lw=1.4, label=text)
        if not (energy and signed):
            axis.set_yscale("log", nonpositive="mask")
        change = "change of energy (J)" if signed else "|change of energy| (J)"
        axis.set(xlabel="time (s)", ylabel=change if energy else "gap (m)")
        kind = "" if energy else " (to the ground)" if grounded[panel] else " (between bodies)"
        axis.set_title(f"{panel}{kind}" + (f"; paper's figure {paper[panel]}" if paper else ""), fontsize=9)
        axis.grid(alpha=0.3)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    figure.suptitle(title, fontsize=11)
    return figure


def over_sizes(results: Mapping[str, Study], options: Options) -> Figure:
    """Largest gaps of a joint to the ground and of one between bodies, and of the energy, over the step size."""
    figure = Figure(figsize=(3.5 * len(results), 8.4), layout="constrained")
    axes = figure.subplots(3, len(results), squeeze=False, sharex=True)
    for column, (system, study) in enumerate(results.items()):
        axes[0, column].set_title(TITLES[system], fontsize=10)
        for row, to_ground in enumerate((True, False)):
            places = [i for i, ground in enumerate(study.grounded.values()) if ground == to_ground]
            axis = axes[row, column]
            if not places:
                axis.text(0.5, 0.5, "no such joint", transform=axis.transAxes, ha="center", color="0.5")
                axis.tick_params(left=False, labelleft=False, bottom=False, which="both")
                axis.spines[:].set_visible(False)
                continue
            curves(axis, study, options, lambda run, places=places: np.max(run.gap[:, places]))
        curves(axes[2, column], study, options, lambda run: np.max(np.abs(run.drift)))
        axes[2, column].set_xlabel("step (s)")
    kinds = ("largest gap to the ground (m)", "largest gap between bodies (m)", "largest change of energy (J)")
    for axis, text in zip(axes[:, 0], kinds, strict=True):
        axis.set_ylabel(text)
    figure.legend(handles=method_legend(options), loc="outside lower center", ncols=2 * len(results), frameon=False)
    return figure


def curves(axis: Axes, study: Study, options: Options, value) -> None:
    """One line per group and method: a value of each run over the step size."""
    for method in options.methods:
        for group in GROUPS:
            runs = [study.runs[Key(uniform(study, group), method, dt)] for dt in options.sizes]
            line(axis, options.sizes, [value(run) for run in runs], method, group)
    axis.set_xscale("log")
    axis.set_yscale("log", nonpositive="mask")
    axis.grid(alpha=0.3)


def line(axis: Axes, x, y, method: str, group: str) -> None:
    """A line in the style of its method and group."""
    face = METHOD_COLOURS[method] if group == "SE3" else "white"
    axis.plot(x, y, marker="o", ms=3.5, lw=1.2, color=METHOD_COLOURS[method], mfc=face, ls=LINES[group])


def method_legend(options: Options) -> list[Line2D]:
    """What colours and lines mean."""
    methods = [Line2D([], [], color=METHOD_COLOURS[m], label=label(m)) for m in options.methods]
    return methods + [Line2D([], [], color="0.3", ls=LINES[g], label=label(g)) for g in GROUPS]


def work_precision(results: Mapping[str, Study], options: Options) -> Figure:
    """Error against evaluations of the vector field, and against time in steps of rk4 on SE(3)."""
    figure = Figure(figsize=(3.5 * len(results), 6.4), layout="constrained")
    axes = figure.subplots(2, len(results), squeeze=False, sharey="col")
    for column, (system, study) in enumerate(results.items()):
        axes[0, column].set_title(TITLES[system], fontsize=10)
        for method in options.methods:
            for group in GROUPS:
                groups = uniform(study, group)
                keys = [Key(groups, method, dt) for dt in options.sizes]
                errors = [study.errors[key] for key in keys]
                steps = 1 / np.array(options.sizes)
                line(axes[0, column], steps * [study.evaluations[key] for key in keys], errors, method, group)
                line(axes[1, column], steps * study.times[groups, method], errors, method, group)
        for axis in axes[:, column]:
            axis.axhline(study.floor, color="0.6", lw=0.8)
            axis.set_xscale("log")
            axis.set_yscale("log", nonpositive="mask")
            axis.grid(alpha=0.3)
        axes[0, column].set_xlabel("evaluations per simulated second")
        axes[1, column].set_xlabel("time, in steps of rk4 on SE(3)")
    for axis in axes[:, 0]:
        axis.set_ylabel(f"largest error up to {ERROR_T1:g} s (m)")
    figure.legend(handles=method_legend(options), loc="outside lower center", ncols=2 * len(results), frameon=False)
    return figure
