"""Find the friction laws of an arm's joints from recorded angles: a law that is too simple beside networks."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import arm
import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import jmbs
from jmbs.identification import Fit
from jmbs.library.learned import NetworkFriction

HERE = Path(__file__).parent
TRAINING, TESTS = (1, 2, 3, 4), (11, 12)
DAMPING = (0.5, 0.1)  # N m s/rad, what both fits start from
PRIOR = jmbs.Prior(0.0, 1.0)


def mechanism(friction: Sequence[Any]) -> jmbs.Mechanism:
    """The arm with a friction for each of its joints."""
    built = jmbs.Mechanism("arm", gravity=[0.0, 0.0, -arm.GRAVITY])
    parent, at = "ground", [0.0, 0.0, 0.0]
    links = zip(arm.JOINTS, ("upper", "lower"), arm.MASSES, arm.LENGTHS, arm.INERTIAS, friction, strict=True)
    for joint, link, mass, length, inertia, law in links:
        built.add_body(link, mass, [inertia] * 3)
        child_frame = [0.0, 0.0, length / 2]
        axis = [0.0, 1.0, 0.0]
        built.add_joint(joint, "revolute", parent, link, at, child_frame, axis=axis, friction=law, actuation=0.0)
        parent, at = link, [0.0, 0.0, -length / 2]
    built.set_initial(joints={name: {"q": [0.0], "v": [0.0]} for name in arm.JOINTS})
    return built


def recording(seed: int, role: str, t1: float) -> jmbs.Recording:
    """A motion of the arm as jmbs takes it."""
    swing = arm.swing(seed, t1)
    channels = dict(zip(arm.JOINTS, swing.angles.T, strict=True))
    inputs = {f"{name}/actuation": (swing.table, swing.torques[:, i]) for i, name in enumerate(arm.JOINTS)}
    return jmbs.Recording(f"{role}{seed}", swing.ts, channels, inputs, role)


def fitted(
    friction: Sequence[Any], unknown: dict[str, jmbs.Parameter], data: list[jmbs.Recording], iterations: int
) -> tuple[Fit, float]:
    """The fit of an arm with such friction, its start angles among the unknowns, and how long it took, s."""
    starts = {f"initial/{name}/q": jmbs.Parameter("measured", per="recording") for name in arm.JOINTS}
    sensors = {name: jmbs.Sensor(f"{name}/q", noise=arm.NOISE) for name in arm.JOINTS}
    estimator = jmbs.Estimator(tolerance=1e-4, max_iterations=iterations)
    started = time.perf_counter()
    fit = jmbs.fit(mechanism(friction), data, unknown | starts, sensors=sensors, estimator=estimator)
    return fit, time.perf_counter() - started


def errors(fit: Fit) -> dict[str, float]:
    """Root mean square of what held-out recordings differ from the fitted model by, rad, by joint."""
    found = {name: [by[name].residual for by in fit.heldout.values()] for name in arm.JOINTS}
    return {name: float(np.sqrt(np.mean(np.concatenate(rows) ** 2))) for name, rows in found.items()}


def laws_of(model: Any, count: int = 400) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """By joint rates (n,), rad/s, and what the model's friction brakes with at them, N m."""
    found = {}
    for name in arm.JOINTS:
        friction = model.dae.plan.member_of[f"{name}/mf"]
        component = jax.tree.map(lambda leaf, i=friction[1]: leaf[i], model.dae.components[friction[0]])
        v = np.linspace(-8.0, 8.0, count + 1)
        found[name] = v, np.asarray(jax.vmap(lambda u, c=component: c.force(u[None])[0])(jnp.asarray(v)))
    return found


def laws_hold(fit: Fit, recording: jmbs.Recording) -> dict[str, float]:
    """The energy account of a held-out motion of the fitted model, by steps of high accuracy."""
    model = fit.models[recording.name]
    run = jmbs.simulate(
        model, t1=float(recording.ts[-1]), save_every=0.01, tolerance=1e-9, inputs=dict(recording.inputs)
    )
    produced = np.diff(np.asarray(run.entropy_produced))
    return {
        "first_law_residual": float(np.max(np.abs(run.first_law_residual))),
        "dissipated": float(run.dissipated[-1]),
        "least_entropy_in_a_sample": float(produced.min()),
    }


def law_errors(laws: dict[str, tuple[np.ndarray, np.ndarray]], seen: np.ndarray) -> dict[str, float]:
    """Root mean square of the error of a law over the rates `seen` (n, 2) in training, beside that of the torque."""
    found = {}
    for (name, (v, force)), true, rates in zip(laws.items(), arm.LAWS, seen.T, strict=True):
        within = rates[np.abs(rates) < v[-1]]
        off = np.interp(within, v, force) - true.torque(within)
        found[name] = float(np.sqrt(np.mean(off**2) / np.mean(true.torque(within) ** 2)))
    return found


def draw_laws(wrong: Any, learned: Any, seen: np.ndarray, target: Path) -> None:
    """The true law, both fitted ones, and where the rates of the training motions were."""
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    pairs = zip(figure.subplots(1, 2), arm.JOINTS, arm.LAWS, seen.T, strict=True)
    for axes, name, law, rates in pairs:
        v, force = learned[name]
        shown = np.abs(v) <= 1.15 * np.max(np.abs(rates))
        counts = axes.twinx()
        counts.hist(rates, 80, color="0.85")
        counts.set(yticks=[], ylim=(0, None))
        axes.set_zorder(counts.get_zorder() + 1)
        axes.patch.set_visible(False)
        axes.plot(v[shown], law.torque(v[shown]), color="black", lw=3, alpha=0.35, label="truth")
        axes.plot(v[shown], wrong[name][1][shown], color="tab:orange", label="viscous, fitted")
        axes.plot(v[shown], force[shown], color="tab:blue", lw=1.2, label="network, fitted")
        axes.set(xlabel=f"rate of the {name} (rad/s)", ylabel="friction torque (N m)")
        limit = 1.25 * float(np.max(np.abs(law.torque(v[shown]))))
        axes.set_ylim(-limit, limit)
    figure.axes[0].legend(loc="upper left", frameon=False)
    figure.savefig(target, dpi=80)


def draw_motion(wrong: Fit, learned: Fit, name: str, target: Path) -> None:
    """A held-out motion beside what both models say, and below by how much they are off."""
    figure = Figure(figsize=(9, 5.6), layout="constrained")
    panels = figure.subplots(2, 2, sharex=True, height_ratios=(3, 2))
    for joint, (above, below) in zip(arm.JOINTS, panels.T, strict=True):
        data = learned.heldout[name][joint]
        above.plot(data.ts, data.measured, color="black", lw=3, alpha=0.35, label="measured")
        for fit, label, color in ((wrong, "viscous", "tab:orange"), (learned, "network", "tab:blue")):
            channel = fit.heldout[name][joint]
            above.plot(channel.ts, channel.predicted, color=color, lw=1.2, label=label)
            below.semilogy(channel.ts, np.abs(channel.residual), color=color, lw=0.8)
        above.set_ylabel(f"{joint} (rad)")
        below.axhline(arm.NOISE, color="0.5", lw=0.8, ls="--")
        below.set(xlabel="time (s)", ylabel="off by (rad)", ylim=(1e-4, None))
    panels[0, 0].legend(frameon=False)
    figure.savefig(target, dpi=80)


def rounded(value: Any) -> Any:
    """Numbers with six digits, at any depth."""
    if isinstance(value, dict):
        return {key: rounded(entry) for key, entry in value.items()}
    return float(f"{value:.6g}") if isinstance(value, float) else value


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Runs the experiment, writes `result.json` and `figures/`, and returns what `result.json` holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=HERE, help="where result.json and figures/ go")
    parser.add_argument("--t1", type=float, default=5.0, help="length of each recording, s")
    parser.add_argument("--hidden", type=int, default=6, help="width of the networks")
    parser.add_argument("--iterations", type=int, default=100, help="of the last stage of a fit, at most")
    options = parser.parse_args(argv)
    jax.config.update("jax_enable_x64", True)

    data = [recording(seed, "train", options.t1) for seed in TRAINING]
    data += [recording(seed, "test", options.t1) for seed in TESTS]
    seen = np.concatenate([arm.swing(seed, options.t1).rates for seed in TRAINING])
    viscous = {f"{name}/friction/viscous": jmbs.Parameter() for name in arm.JOINTS}
    weights = {f"{name}/friction/*": jmbs.Parameter(prior=PRIOR) for name in arm.JOINTS}
    networks = [NetworkFriction(hidden=options.hidden, seed=i, damping=d) for i, d in enumerate(DAMPING)]
    questions = {
        "viscous": ([{"viscous": d} for d in DAMPING], viscous),
        "network": (networks, weights),
    }
    fits, laws, result = (
        {},
        {},
        {"noise": arm.NOISE, "recordings": len(data), "samples": 2 * sum(len(r.ts) for r in data)},
    )
    for name, (friction, unknown) in questions.items():
        fit, seconds = fitted(friction, unknown, data, options.iterations)
        fits[name], laws[name] = fit, laws_of(fit.model)
        of_model = [path for path, entry in fit.parameters.items() if entry.kind == "model"]
        result[name] = {
            "unknowns": len(of_model),
            "status": fit.status,
            "seconds": seconds,
            "iterations": fit.evaluations["iterations"],
            "jacobians": fit.evaluations["jacobians"],
            "chi2_per_degree": fit.chi2_per_degree,
            "heldout_error": errors(fit),
            "law_error": law_errors(laws[name], seen),
            "invisible_directions": len(fit.invisible_directions),
            **laws_hold(fit, data[-1]),
        }
        print(name, json.dumps(rounded(result[name]), indent=2), flush=True)
    wrong, learned = (result[name]["heldout_error"] for name in ("viscous", "network"))
    result["heldout_ratio"] = {name: wrong[name] / learned[name] for name in arm.JOINTS}
    result = rounded(result)

    figures = options.out / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    draw_laws(laws["viscous"], laws["network"], seen, figures / "laws.png")
    draw_motion(fits["viscous"], fits["network"], data[-1].name, figures / "heldout.png")
    (options.out / "result.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return result


if __name__ == "__main__":
    main()
