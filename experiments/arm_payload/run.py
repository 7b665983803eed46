"""The payload and the friction of a seven-joint arm from recorded angles and torques, by inverse dynamics."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from matplotlib.figure import Figure
from scipy.special import ndtri

import jmbs
from experiments.arm_payload.newton_euler import Link, read_chain, torques
from jmbs.identification import Channel, Estimator, Fit, Parameter, Recording, Sensor, Study, check_fit, fit_study
from jmbs.io import read_model

HERE = Path(__file__).parent
ARM = HERE / "arm.urdf"
JOINTS = tuple(f"joint{i + 1}" for i in range(7))
MIDDLES = np.array([0.0, 0.0, 0.0, -1.5, 0.0, 1.8, 0.0])
REACHES = np.array([1.4, 0.9, 1.4, 1.0, 1.6, 1.2, 1.8])
"""rad, from the middle."""
FASTEST = 2.0
"""rad/s."""
PERIOD, EXCITED, HARMONICS, SAMPLES = 5.0, 6, 10, 500
"""s; harmonics of the motion, and of the fit, which does not know how many there are; samples a recording."""
ANGLE_NOISE = 2e-4
TORQUE_NOISE = np.array([0.2, 0.2, 0.2, 0.2, 0.06, 0.06, 0.06])
"""rad; N m."""
REGULARISATION = 0.05
"""rad/s below which dry friction is smooth; known."""
INERTIAL = "payload/inertial"
FRICTION = tuple(f"{joint}/friction/{kind}" for joint in JOINTS for kind in ("viscous", "coulomb"))


def arm_model() -> jmbs.Model:
    """The arm of the URDF, with the payload as a body of its own, at its true values."""
    model = jmbs.compile(read_model(ARM, fixed="keep").mechanism)
    return model.with_parameters({f"{joint}/friction/regularisation_velocity": REGULARISATION for joint in JOINTS})


def excitation(ts: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Angles (n, 7), rates and accelerations of a random Fourier series within reach and speed."""
    rng = np.random.default_rng([1, seed])
    rates = 2 * np.pi / PERIOD * np.arange(1, EXCITED + 1)
    a, b = rng.normal(size=(2, EXCITED, len(JOINTS))) / np.sqrt(np.arange(1, EXCITED + 1))[:, None]
    wave, slope = np.cos(ts[:, None] * rates), np.sin(ts[:, None] * rates)
    q, v = wave @ a + slope @ b, -slope @ (rates[:, None] * a) + wave @ (rates[:, None] * b)
    dv = -wave @ (rates[:, None] ** 2 * a) - slope @ (rates[:, None] ** 2 * b)
    size = np.minimum(REACHES / np.max(np.abs(q), axis=0), FASTEST / np.max(np.abs(v), axis=0))
    return MIDDLES + size * q, size * v, size * dv


def clean_signals(chain: list[Link], number: int, samples: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times (n,), angles (n, 7) and torques of a recording, without noise."""
    ts = PERIOD / samples * np.arange(samples)
    q, v, dv = excitation(ts, number)
    return ts, q, torques(chain, q, v, dv, REGULARISATION)


def recording(chain: list[Link], number: int, seed: int, samples: int = SAMPLES, role: str = "train") -> Recording:
    """One recording; `number` says which motion, `seed` which noise."""
    ts, q, tau = clean_signals(chain, number, samples)
    rng = np.random.default_rng([2, seed, number])
    channels = {}
    for i, joint in enumerate(JOINTS):
        channels[f"{joint}_angle"] = Channel(q[:, i] + ANGLE_NOISE * rng.normal(size=len(ts)))
        channels[f"{joint}_torque"] = Channel(tau[:, i] + TORQUE_NOISE[i] * rng.normal(size=len(ts)))
    return Recording(f"motion{number}", ts, channels, role=role)


def truth_of(model: jmbs.Model) -> dict[str, float]:
    """True values by the names of the fit; the payload's centre of mass counts from where the model has it."""
    values = model.parameters()
    inertia = np.asarray(values["payload/inertia"]["value"])
    moments = inertia[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]
    inertial = [float(np.asarray(values["payload/mass"]["value"])), 0.0, 0.0, 0.0, *moments]
    found = {f"{INERTIAL}[{i}]": float(value) for i, value in enumerate(inertial)}
    return found | {path: float(np.asarray(values[path]["value"]).reshape(-1)[0]) for path in FRICTION}


def study_of(model: jmbs.Model, data: Sequence[Recording], seed: int) -> Study:
    """The study with starts that are 50 % off, up or down at random: the payload's mass, each coordinate of its centre
    of mass (from the flange), its inertia as a whole, and each friction."""
    rng = np.random.default_rng([3, seed])
    off = lambda: rng.choice([0.5, 1.5])  # noqa: E731
    truth = truth_of(model)
    centre = read_model(ARM, fixed="keep").mechanism.joints["grip"].child_frame.position
    inertial = np.array([truth[f"{INERTIAL}[{i}]"] for i in range(10)])
    shift = [(off() - 1) * -float(x) for x in centre]
    start = [off() * inertial[0], *shift, *(off() * inertial[4:])]
    parameters = {INERTIAL: Parameter(start)}
    parameters |= {path: Parameter(off() * truth[path]) for path in FRICTION}
    ties = {f"{joint}/friction/static": f"{joint}/friction/coulomb" for joint in JOINTS}
    sensors = {f"{joint}_angle": Sensor(f"{joint}/q", ANGLE_NOISE) for joint in JOINTS}
    for joint, noise in zip(JOINTS, TORQUE_NOISE, strict=True):
        sensors[f"{joint}_torque"] = Sensor(f"{joint}/actuation", float(noise))
    trajectory = {"basis": "fourier", "period": PERIOD, "harmonics": HARMONICS}
    estimator = Estimator("inverse_dynamics", trajectory=trajectory)
    return Study(model, tuple(data), parameters, sensors, ties, estimator=estimator, name="arm_payload", seed=seed)


def rows_of(fit: Fit, truth: dict[str, float]) -> dict[str, dict[str, Any]]:
    """By parameter truth, start, estimate, standard error, interval, and how far off in standard errors."""
    rows = {}
    for name, value in truth.items():
        entry = fit.parameters[name]
        low, high = entry.interval if entry.interval is not None else (np.nan, np.nan)
        rows[name] = {
            "truth": value,
            "start": entry.start,
            "estimate": entry.estimate,
            "standard_error": entry.standard_error,
            "z": (entry.estimate - value) / (entry.standard_error or np.nan),
            "inside": bool(low <= value <= high),
        }
    return rows


def add_repeat(table: dict[str, Any], seed: int, fit: Fit, truth: dict[str, float]) -> None:
    """One more repeat in the table of distances and hits, and what they come to so far."""
    for name, row in rows_of(fit, truth).items():
        table["z"].setdefault(name, []).append(round(row["z"], 3))
        table["inside"].setdefault(name, []).append(int(row["inside"]))
    table["repeats"] = seed + 1
    table["converged"] += fit.status == "converged"
    table["coverage"] = {name: float(np.mean(hits)) for name, hits in table["inside"].items()}


def coverage(model: jmbs.Model, chain: list[Link], repeats: int, small: Sequence[int], file: Path) -> dict[str, Any]:
    """How often 95 % intervals contain the truth, each repeat with noise and starts of its own.

    `file` holds what there is after each repeat; a file of as many recordings and samples is gone on from.
    """
    recordings, samples = small
    table: dict[str, Any] = {"recordings": recordings, "samples": samples, "repeats": 0, "converged": 0}
    table |= {"coverage": {}, "z": {}, "inside": {}}
    if file.is_file():
        found = json.loads(file.read_text(encoding="utf-8"))
        table = found if (found["recordings"], found["samples"]) == (recordings, samples) else table
    truth = truth_of(model)
    for seed in range(table["repeats"], repeats):
        data = [recording(chain, number, 100 + seed, samples) for number in range(recordings)]
        study = study_of(model, data, 100 + seed)
        fit = fit_study(study, check=check_fit(study, sensitivity=False))
        add_repeat(table, seed, fit, truth)
        file.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
        print(f"repeat {seed}: {fit.status}, {fit.evaluations['iterations']} iterations", flush=True)
    return table


def draw_coverage(result: dict[str, Any], file: Path) -> None:
    """Distances from the truth in standard errors, a column a parameter, from least to greatest; black: normal ones."""
    figure = Figure(figsize=(11, 4.5), layout="constrained")
    ax = figure.subplots()
    for i, (name, values) in enumerate(result["z"].items()):
        share = result["coverage"][name]
        ranks = (np.arange(len(values)) + 0.5) / len(values)
        ax.plot(i + 0.8 * (ranks - 0.5), ndtri(ranks), color="black", lw=0.8)
        ax.plot(i + 0.8 * (ranks - 0.5), sorted(values), color="C0" if share >= 0.9 else "C3")
        ax.text(i, 4.1, f"{100 * share:.0f}", ha="center", fontsize=8)
    ax.axhspan(-1.96, 1.96, color="0.9", zorder=0)
    ax.set_xticks(range(len(result["z"])), list(result["z"]), rotation=75, fontsize=7)
    ax.set_ylim(-4, 4.6)
    ax.set_ylabel("estimate less truth, standard errors")
    ax.set_title(f"{result['repeats']} repeats; above: per cent of the intervals that contain the truth")
    figure.savefig(file, dpi=100)


def large_fit(model: jmbs.Model, chain: list[Link], recordings: int, samples: int) -> dict[str, Any]:
    """The fit of all recordings, with one that is held out."""
    data = [recording(chain, number, 0, samples) for number in range(recordings)]
    held_out = recording(chain, recordings, 0, samples, "test")
    study = study_of(model, [*data, held_out], 0)
    started = time.perf_counter()
    check = check_fit(study)
    checked, used = time.perf_counter(), time.process_time()
    fit = fit_study(study, check=check, progress=lambda at: print(at, flush=True))
    seconds = {"check_with_compilation": checked - started, "fit": time.perf_counter() - checked}
    seconds["fit_of_processors"] = time.process_time() - used
    print(fit.summary())
    held = next(iter(fit.heldout.values()))
    heldout = {name: float(np.sqrt(np.mean(channel.whitened**2))) for name, channel in held.items()}
    return {
        "recordings": recordings,
        "samples": samples,
        "status": fit.status,
        "invisible": [direction.text for direction in fit.invisible_directions],
        "chi2_per_degree": fit.chi2_per_degree,
        "iterations": fit.evaluations["iterations"],
        "evaluations": fit.evaluations,
        "seconds": seconds,
        "heldout_rms_over_noise": heldout,
        "parameters": rows_of(fit, truth_of(model)),
    }


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Fits the arm, repeats it with other noise and starts, and writes `result.json`, `coverage.json` and pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recordings", type=int, default=20, help="of the large fit; 0: no large fit")
    parser.add_argument("--samples", type=int, default=SAMPLES)
    parser.add_argument("--repeats", type=int, default=50, help="in all, with those that coverage.json has; 0: none")
    parser.add_argument("--small", type=int, nargs=2, default=[2, 150], help="recordings and samples of each repeat")
    parser.add_argument("--out", type=Path, default=HERE)
    args = parser.parse_args(arguments)
    figures = args.out / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    jax.config.update("jax_enable_x64", True)
    model, chain = arm_model(), read_chain(ARM)
    file = args.out / "result.json"
    result: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    if args.recordings:
        result |= large_fit(model, chain, args.recordings, args.samples)
        file.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if args.repeats:
        result["coverage"] = coverage(model, chain, args.repeats, args.small, args.out / "coverage.json")
        draw_coverage(result["coverage"], figures / "coverage.png")
        file.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return result


if __name__ == "__main__":
    main()
