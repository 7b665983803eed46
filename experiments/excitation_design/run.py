"""A designed torque against chirps within the same limits: what a fit will know, and what fits to noisy data then get.

Chirps sweep from 0.1 Hz up to several frequencies, linearly over the whole experiment, as large as limits allow.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from matplotlib.figure import Figure

import jmbs
from jmbs.identification import (
    Channel,
    DesignProgress,
    Excitation,
    ExcitationDesign,
    Input,
    Parameter,
    Recording,
    Study,
    fit_study,
)
from jmbs.visualise import design_figure

HERE = Path(__file__).parent
PORT = "shoulder/actuation"
FIRST_FREQUENCY = 0.1
FREQUENCIES = (1.0, 2.0, 3.0, 4.0)
"""Hz, that chirps end with."""
FINE = 0.001
"""s, the step of runs that make data: finer than a fit's."""
SMALLER = 0.99
OFF = (0.8, 1.25)
"""Where fits start, beside the truth."""


def chirp(ts: np.ndarray, last: float) -> np.ndarray:
    """A sine of amplitude one whose frequency grows linearly."""
    t = ts - ts[0]
    return np.sin(2 * np.pi * (FIRST_FREQUENCY + (last - FIRST_FREQUENCY) / (2 * t[-1]) * t) * t)


def motion(model: jmbs.Model, ts: np.ndarray, torque: np.ndarray) -> jmbs.Trajectory:
    """A run with a finer step than a fit's."""
    return jmbs.simulate(model, ts=ts, dt=FINE, inputs={PORT: (ts, torque[:, None])}, audit=False, throw=False)


def keeps(excitation: Excitation, run: jmbs.Trajectory, ts: np.ndarray, torque: np.ndarray) -> bool:
    """Whether all limits, symmetric here, are kept."""
    for name, limit in excitation.limits.items():
        joint, _, key = name.rpartition("/")
        if name == PORT:
            values = torque
        elif key == "rate":
            values = np.diff(torque) / np.diff(ts)
        else:
            values = np.asarray((run.q if key == "q" else run.v)[joint])
        if not np.max(np.abs(values)) <= limit:
            return False
    return True


def largest(study: Study, ts: np.ndarray, shape: np.ndarray) -> np.ndarray:
    """The shape times the largest amplitude that leaves no limit, searched from the torque's limit down."""
    assert study.design is not None
    amplitude = float(np.ravel(study.design.limits[PORT])[-1])
    while not keeps(study.design, motion(study.model, ts, amplitude * shape), ts, amplitude * shape):
        amplitude *= SMALLER
    return amplitude * shape


def relative_errors(study: Study, ts: np.ndarray, torque: np.ndarray) -> dict[str, float]:
    """What `jmbs fit --check` expects, beside the values."""
    recording = Recording("chirp", ts, {name: np.zeros(len(ts)) for name in study.sensors}, {PORT: Input(ts, torque)})
    check = jmbs.check_fit(dataclasses.replace(study, data=(recording,)))
    return {
        path: float(error or np.inf) / truth_of(study, path) for path, error in check.predicted_standard_errors.items()
    }


def truth_of(study: Study, path: str) -> float:
    """The model's own value at a path of the study."""
    base, _, entry = path.partition("[")
    value = np.asarray(study.model.parameters()[base]["value"])
    return float(value[tuple(int(i) for i in entry[:-1].split(","))] if entry else value.reshape(-1)[0])


def fitted(study: Study, ts: np.ndarray, torque: np.ndarray, repeats: int) -> dict[str, Any]:
    """Root mean square of relative errors of estimates over repeats, each with noise and starts of its own."""
    run, errors, inside = motion(study.model, ts, torque), [], []
    clean = {"q1": np.asarray(run.q["shoulder"][:, 0]), "q2": np.asarray(run.q["elbow"][:, 0])}
    for seed in range(repeats):
        rng = np.random.default_rng([study.seed, seed])
        channels = {
            name: Channel(values + float(study.sensors[name].noise) * rng.normal(size=len(ts)))
            for name, values in clean.items()
        }
        starts = {path: Parameter(truth_of(study, path) * rng.choice(OFF)) for path in study.parameters}
        recording = Recording("run", ts, channels, {PORT: Input(ts, torque)})
        fit = fit_study(dataclasses.replace(study, data=(recording,), parameters=starts))
        truth = {path: truth_of(study, path) for path in study.parameters}
        errors.append([fit.parameters[path].estimate / truth[path] - 1 for path in truth])
        intervals = [fit.parameters[path].interval or (np.nan, np.nan) for path in truth]
        inside.append([a <= t <= b for (a, b), t in zip(intervals, truth.values(), strict=True)])
        print(f"repeat {seed + 1} of {repeats}: {fit.status}", flush=True)
    rms = np.sqrt(np.mean(np.square(errors), axis=0))
    coverage = np.mean(inside, axis=0)
    return {
        path: {"rms_relative_error": float(rms[i]), "coverage": float(coverage[i])}
        for i, path in enumerate(study.parameters)
    }


def draw(result: dict[str, Any], file: Path) -> None:
    """Expected standard errors of all parameters and what fits got, by experiment."""
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    ax = figure.subplots()
    names = list(result["designed"])
    places = np.arange(len(names))
    shown = {"designed": result["designed"], "first, at random": result["first"], **result["chirps"]}
    for i, (label, errors) in enumerate(shown.items()):
        color = "#1f77b4" if label == "designed" else str(0.25 + 0.12 * i)
        shift = 0.13 * (i - (len(shown) - 1) / 2)
        ax.bar(places + shift, [100 * errors[name] for name in names], 0.12, color=color, label=label)
        if got := result["fits"].get(label):
            values = [100 * got[name]["rms_relative_error"] for name in names]
            ax.plot(
                places + shift, values, "kx", markersize=5, label="_" if label == "designed" else "fits to noisy data"
            )
    ax.set_yscale("log")
    ax.set_ylim(1e-2, 1)
    ax.set_xticks(places, names, rotation=15, ha="right", fontsize=8)
    ax.set_ylabel("expected standard error (%)")
    ax.grid(True, axis="y", alpha=0.3)
    ax.legend(fontsize=8, ncols=2)
    figure.savefig(file, dpi=110)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Designs, compares, fits, and writes `result.json` and pictures; what it returns is what it wrote."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=20, help="fits to noisy data of the design and the best chirp")
    parser.add_argument("--starts", type=int)
    parser.add_argument("--iterations", type=int)
    parser.add_argument("--frequencies", type=float, nargs="+", default=FREQUENCIES)
    parser.add_argument("--out", type=Path, default=HERE)
    args = parser.parse_args(arguments)
    jax.config.update("jax_enable_x64", True)
    study = jmbs.load_study(HERE / "study.yaml")
    design = jmbs.design_excitation(study, starts=args.starts, max_iterations=args.iterations, callback=tell)
    print(design.summary(), flush=True)
    result = compared(study, design, args.frequencies, args.repeats)
    (args.out / "figures").mkdir(parents=True, exist_ok=True)
    draw(result, args.out / "figures" / "standard_errors.png")
    design_figure(design).savefig(args.out / "figures" / "design.png", dpi=70)
    (args.out / "result.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return result


def tell(at: DesignProgress) -> None:
    """Prints where the search is."""
    print(f"start {at.start}, iteration {at.iteration}: criterion {at.criterion:.4f}", flush=True)


def compared(study: Study, design: ExcitationDesign, frequencies: Sequence[float], repeats: int) -> dict[str, Any]:
    """Relative standard errors with the design, its first input and chirps, the ratios of the worst, and fits."""
    truth = {path: truth_of(study, path) for path in study.parameters}

    def relative(errors: Mapping[str, float | None]) -> dict[str, float]:
        return {path: float(errors[path] or np.inf) / truth[path] for path in truth}

    torques = {f"chirp to {last:g} Hz": largest(study, design.ts, chirp(design.ts, last)) for last in frequencies}
    chirps = {name: relative_errors(study, design.ts, torque) for name, torque in torques.items()}
    designed = relative(design.predicted_standard_errors)
    worst = {name: max(errors.values()) for name, errors in chirps.items()}
    best = min(worst, key=lambda name: worst[name])
    result: dict[str, Any] = {
        "designed": designed,
        "first": relative(design.first.standard_errors),
        "chirps": chirps,
        "amplitudes": {name: float(np.max(np.abs(torque))) for name, torque in torques.items()},
        "worst_over_designed": {name: value / max(designed.values()) for name, value in worst.items()},
        "best_chirp": best,
        "limits": {name: list(reach) for name, reach in design.limits.items()},
        "information_gain": design.information_gain,
        "evaluations": dict(design.evaluations),
        "seconds": design.seconds,
        "repeats": repeats,
        "fits": {},
    }
    if repeats:
        table = design.inputs[PORT]
        result["fits"] = {
            "designed": fitted(study, table.times, table.values, repeats),
            best: fitted(study, design.ts, torques[best], repeats),
        }
    return result


if __name__ == "__main__":
    main()
