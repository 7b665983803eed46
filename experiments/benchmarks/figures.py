"""The plots of a result: growth with size, and work against precision."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.benchmarks.tables import failure, name_of, work_precision

CODES = {"jmbs": "C0", "mujoco": "C1", "mjx": "C2", "pinocchio": "C3", "exudyn": "C4", "warp": "C5"}
MARKS = {"float64": "o", "float32": "s"}


def draw(result: dict[str, Any], folder: Path) -> list[str]:
    """Draws what was measured into `folder`; names of the files."""
    wanted = figures_of(result)
    folder.mkdir(parents=True, exist_ok=True)
    for name, study in wanted:
        figure = {"growth": _growth, "loops": _growth, "precision": _precision}[study](
            result["studies"][study]["cases"]
        )
        figure.savefig(folder / name, dpi=90)
    return [name for name, _ in wanted]


def figures_of(result: dict[str, Any]) -> list[tuple[str, str]]:
    """Files that `draw` makes, each with the study that it shows."""
    return [(f"{study}.png", study) for study in ("growth", "loops", "precision") if study in result["studies"]]


def _growth(results: list[dict[str, Any]]) -> Figure:
    batches = sorted({result["case"]["batch"] for result in results})
    figure, panels = _panels(len(batches))
    for axes, batch in zip(panels, batches, strict=True):
        own = [result for result in results if result["case"]["batch"] == batch]
        for i, row in enumerate(own[0]["rows"]):
            points = [
                (r["case"]["size"], 1e6 / r["rows"][i]["steps_per_second"]) for r in own if not failure(r["rows"][i])
            ]
            _line(axes, row, points)
        axes.set(
            xlabel="links of the chain" if own[0]["case"]["mechanism"] == "chain" else "windows", title=f"batch {batch}"
        )
        axes.set(ylabel="time per step and member (us)", xscale="log", yscale="log")
    _legend(figure)
    return figure


def _precision(results: list[dict[str, Any]]) -> Figure:
    mechanisms = list(dict.fromkeys(name_of(result["case"]) for result in results))
    figure, panels = _panels(len(mechanisms))
    for axes, mechanism in zip(panels, mechanisms, strict=True):
        own = [result for result in results if name_of(result["case"]) == mechanism]
        for i, row in enumerate(own[0]["rows"]):
            _line(axes, row, [(error, 1 / rate) for error, rate in work_precision(own, i)])
        axes.set(xlabel="error of a centre of mass (m)", ylabel="seconds per simulated second", title=mechanism)
        axes.set(xscale="log", yscale="log")
    _legend(figure)
    return figure


def _panels(count: int) -> tuple[Figure, Sequence[Axes]]:
    """A row of panels, with room for a legend beside them."""
    figure = Figure(figsize=(4.6 * count + 2.0, 3.6), layout="constrained")
    return figure, figure.subplots(1, count, squeeze=False)[0]


def _legend(figure: Figure) -> None:
    """One for all panels, beside them."""
    lines = {line.get_label(): line for axes in figure.axes for line in axes.get_lines()}
    figure.legend(lines.values(), lines.keys(), loc="outside right center", frameon=False, fontsize=7)


def _line(axes: Axes, row: dict[str, Any], points: list[tuple[float, float]]) -> None:
    contender = row["contender"]
    style = {None: "-", "tsit5": "--", "dopri8": ":"}.get(contender["method"], "-.")
    look: dict[str, Any] = {"color": CODES[contender["code"]], "marker": MARKS[contender["precision"]], "ls": style}
    if points:
        axes.plot(*zip(*points, strict=True), label=row["name"], ms=4, lw=1.2, **look)
