"""How often intervals of fits contain the truth: a double pendulum, and a four-bar that is measured at its crank only.

Each repeat has noise of its own and starts 50 % off, up or down at random.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from matplotlib.figure import Figure

import jmbs
from jmbs.identification import Channel, Fit, Input, Parameter, Recording, Sensor, Study, fit_study

HERE = Path(__file__).parent
SPACING, LENGTH = 0.01, 3.0
TABLE = np.arange(0.0, LENGTH + 0.01, 0.01)


@dataclasses.dataclass(frozen=True)
class Case:
    """A mechanism: which values are unknown, what is measured, what drives it and from where it starts."""

    name: str
    parameters: tuple[str, ...]
    outputs: dict[str, str]
    noise: float
    port: str
    drives: dict[str, np.ndarray]
    starts: dict[str, dict[str, float]]


CASES = (
    Case(
        "double_pendulum",
        (
            *("link1/mass", "link1/inertia[1,1]", "link2/mass", "link2/inertia[1,1]"),
            *("shoulder/friction/viscous", "elbow/friction/viscous"),
        ),
        {"q1": "shoulder/q", "q2": "elbow/q"},
        2e-3,
        "shoulder/actuation",
        {"driven": 1.2 * np.sin(4 * TABLE) + 0.8 * np.sin(9 * TABLE), "free": np.zeros_like(TABLE)},
        {"driven": {"shoulder": 0.05, "elbow": -0.03}, "free": {"shoulder": 0.9, "elbow": 0.4}},
    ),
    Case(
        "four_bar",
        ("coupler/mass", "rocker/inertia[2,2]", "bearing/friction/viscous", "pivot/friction/viscous"),
        {"crank": "bearing/q"},
        1e-3,
        "bearing/actuation",
        {"driven": 0.6 + 0.8 * np.sin(3 * TABLE) + 0.5 * np.sin(8 * TABLE), "swing": 0.6 * np.sin(5 * TABLE)},
        {"driven": {"bearing": 1.0}, "swing": {"bearing": 2.0}},
    ),
)


def truth_of(model: jmbs.Model, path: str) -> float:
    """The model's own value at a path of the study."""
    base, _, entry = path.partition("[")
    value = np.asarray(model.parameters()[base]["value"])
    return float(value[tuple(int(i) for i in entry[:-1].split(","))] if entry else value.reshape(-1)[0])


def clean_signals(case: Case, model: jmbs.Model) -> tuple[np.ndarray, dict[str, dict[str, np.ndarray]]]:
    """What the sensors show without noise, by recording, with a quarter of the fit's step."""
    ts = np.arange(0.0, LENGTH - 1e-9, SPACING)
    shown = {}
    for name, values in case.drives.items():
        start = {f"initial/{joint}/q": [q] for joint, q in case.starts[name].items()}
        moved = model.with_parameters(start)
        inputs = {case.port: (TABLE, values[:, None])}
        run = jmbs.simulate(moved, ts=ts, dt=0.00125, inputs=inputs, audit=False)
        shown[name] = {s: np.asarray(run.q[output.split("/")[0]][:, 0]) for s, output in case.outputs.items()}
    return ts, shown


def study_of(
    case: Case, model: jmbs.Model, ts: np.ndarray, clean: dict[str, dict[str, np.ndarray]], seed: int
) -> Study:
    """The study of one repeat."""
    rng = np.random.default_rng(seed)
    data = []
    for name, signals in clean.items():
        channels = {s: Channel(values + case.noise * rng.normal(size=ts.shape)) for s, values in signals.items()}
        inputs = {case.port: Input(TABLE, case.drives[name])}
        start = {f"initial/{joint}/q": [q] for joint, q in case.starts[name].items()}
        data.append(Recording(name, ts, channels, inputs, set=start))
    parameters = {path: Parameter(truth_of(model, path) * rng.choice([0.5, 1.5])) for path in case.parameters}
    sensors = {s: Sensor(output, case.noise) for s, output in case.outputs.items()}
    return Study(model, tuple(data), parameters, sensors, name=case.name, seed=seed)


def repeats_of(case: Case, repeats: int) -> dict[str, Any]:
    """Estimates and intervals of all repeats, and how many contain the truth."""
    model = jmbs.compile(jmbs.load(HERE / f"{case.name}.yaml"))
    ts, clean = clean_signals(case, model)
    truth = {path: truth_of(model, path) for path in case.parameters}
    fits: list[Fit] = []
    seconds, simulations = [], []
    for seed in range(repeats):
        started = time.perf_counter()
        fits.append(fit_study(study_of(case, model, ts, clean, seed)))
        seconds.append(time.perf_counter() - started)
        simulations.append(fits[-1].evaluations["simulations"])
        compiling = fits[-1].seconds["compile"]
        took = f"{seconds[-1]:.1f} s, of which {compiling:.1f} s to trace and compile"
        print(f"{case.name} {seed}: {fits[-1].status}, {simulations[-1]} runs, {took}", flush=True)
    rows = {}
    for path in case.parameters:
        entries = [fit.parameters[path] for fit in fits]
        z = [(e.estimate - truth[path]) / e.standard_error for e in entries if e.standard_error]
        inside = [e.interval is not None and e.interval[0] <= truth[path] <= e.interval[1] for e in entries]
        rows[path] = {
            "truth": truth[path],
            "coverage": float(np.mean(inside)),
            "mean_z": float(np.mean(z)),
            "std_z": float(np.std(z)),
            "z": [round(value, 3) for value in z],
            "relative_standard_error": float(np.median([e.standard_error or np.nan for e in entries])) / truth[path],
        }
    return {
        "repeats": repeats,
        "converged": sum(fit.status == "converged" for fit in fits),
        "simulations": {"median": float(np.median(simulations)), "most": int(max(simulations))},
        "parameters": rows,
    }


def draw(results: dict[str, Any], file: Path) -> None:
    """Distances from the truth in standard errors, a column a parameter."""
    figure = Figure(figsize=(10, 4.5), layout="constrained")
    axes = figure.subplots(1, len(results), width_ratios=[len(r["parameters"]) for r in results.values()])
    for ax, (name, result) in zip(np.atleast_1d(axes), results.items(), strict=True):
        for i, row in enumerate(result["parameters"].values()):
            z = np.array(row["z"])
            ax.plot(i + np.linspace(-0.3, 0.3, len(z)), z, ".", color="C0" if row["coverage"] >= 0.9 else "C3")
            ax.text(i, 4.2, f"{100 * row['coverage']:.0f} %", ha="center")
        ax.axhspan(-1.96, 1.96, color="0.9", zorder=0)
        paths = [path.replace("/", "/\n", 1) for path in result["parameters"]]
        ax.set_xticks(range(len(paths)), paths, fontsize=7)
        ax.set_ylim(-4, 4.8)
        ax.set_title(f"{name.replace('_', ' ')}, {result['repeats']} repeats")
    np.atleast_1d(axes)[0].set_ylabel("estimate less truth, standard errors")
    figure.savefig(file, dpi=130)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Runs the cases that are asked for and writes `result.json` and a picture; what it returns is what it wrote."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--cases", nargs="*", choices=[case.name for case in CASES], default=["double_pendulum"])
    parser.add_argument("--out", type=Path, default=HERE)
    args = parser.parse_args(arguments)
    jax.config.update("jax_enable_x64", True)
    results = {case.name: repeats_of(case, args.repeats) for case in CASES if case.name in args.cases}
    for name, result in results.items():
        print(f"{name}: {result['converged']} of {result['repeats']} converged, {result['simulations']}")
        for path, row in result["parameters"].items():
            print(f"  {path:28s} {100 * row['coverage']:5.1f} %  std z {row['std_z']:.2f}")
    (args.out / "figures").mkdir(parents=True, exist_ok=True)
    draw(results, args.out / "figures" / "coverage.png")
    (args.out / "result.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return results


if __name__ == "__main__":
    main()
