"""Three systems in redundant coordinates against the same systems made of rigid bodies and joints."""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import jmbs
from jmbs.io import summarise
from jmbs.library.redundant import examples, rigid_examples

HERE = Path(__file__).parent
SETTINGS = {"solver": "dopri8", "tolerance": 1e-10}
LENGTH_CRANK, LENGTH_ROD = 0.1, 0.3


@dataclasses.dataclass
class Roads:
    """One system simulated on two roads: `motion` by label, `(T,)` on the first; differences `(T,)` to the second."""

    redundant: jmbs.Trajectory
    rigid: jmbs.Trajectory
    motion: dict[str, np.ndarray]
    difference: dict[str, np.ndarray]

    def report(self) -> dict[str, Any]:
        """Largest differences, and the account of both runs."""
        largest = {name: float(np.max(np.abs(values))) for name, values in self.difference.items()}
        return {"largest_difference": largest, "redundant": account(self.redundant), "rigid": account(self.rigid)}


def account(run: jmbs.Trajectory) -> dict[str, Any]:
    """Steps, independent constraint rows, and what the first law leaves over, relative to the energy."""
    return {
        "steps": int(run.stats["steps"]),
        "constraint_rows": int(run.constraint_rank[0]),
        "first_law_residual_over_energy": float(np.max(np.abs(run.first_law_residual)) / np.max(run.kinetic)),
        "warnings": summarise(run)["warnings"],
    }


def simulate(model: jmbs.Model, ts: np.ndarray, inputs: Any = None) -> jmbs.Trajectory:
    """A run that saves at the given times."""
    return jmbs.simulate(model, ts=ts, t1=ts[-1], inputs=inputs or {}, **SETTINGS)


def along(force: Any, *axes: float) -> Any:
    """An input `(t, view)` that points along the given axes."""
    return lambda t, view: force(t) * jnp.array(axes, t.dtype)


def robot(end: float) -> Roads:
    """The robot, driven by forces at its two wheels."""
    ts = np.linspace(0.0, 5.0 * end, 251)
    left, right = (lambda t: 3 + 2 * jnp.sin(2 * t)), (lambda t: 4 - 2 * jnp.cos(t))
    model = jmbs.compile(examples.differential_drive(), initial={"zeta": [0, 0, 0], "w": [0.5, 0, 0.2]})
    run = simulate(model, ts, {"F_l": along(left, 1), "F_r": along(right, 1)})

    mechanism = rigid_examples.differential_drive_mechanism()
    mechanism.set_initial(joints={"floor": {"q": [0, 0, 0], "v": [0.5, 0, 0.2]}})
    inputs = {"left/force": along(left, 1, 0, 0), "right/force": along(right, 1, 0, 0)}
    rigid = simulate(mechanism.compile(), ts, inputs)
    zeta, other = np.asarray(run.states["zeta"]), np.asarray(rigid.q["floor"])
    names = ("x (m)", "y (m)", "heading (rad)")
    motion = {name: zeta[:, i] for i, name in enumerate(names)}
    return Roads(run, rigid, motion, {name: zeta[:, i] - other[:, i] for i, name in enumerate(names)})


def gyroscope(end: float) -> Roads:
    """The gyroscope, with a torque about its second gimbal's axis: its spin axis circles and advances."""
    ts = np.linspace(0.0, 3.0 * end, 1501)
    torque = lambda t: 0.5 + 0.3 * jnp.sin(3 * t)  # noqa: E731
    model = jmbs.compile(examples.gimbal_gyroscope(), initial={"zeta": [0, 0.1, 0], "w": [100, 0.5, -0.3]})
    run = simulate(model, ts, {"M": along(torque, 1)})

    mechanism = rigid_examples.gyroscope_mechanism(torque)
    tilt = [np.cos(0.05), 0, np.sin(0.05), 0]
    mechanism.set_initial(bodies={"disc": {"quaternion": tilt, "angular_velocity": [100, 0.5, -0.3]}})
    rigid = simulate(mechanism.compile(), ts)
    alpha, beta, gamma = np.asarray(run.states["zeta"]).T
    axis = np.stack([np.cos(gamma) * np.cos(beta), np.sin(gamma) * np.cos(beta), -np.sin(beta)], axis=1)
    difference = {f"spin axis {name}": d for name, d in zip("xyz", (axis - spin_axis(rigid)).T, strict=True)}
    return Roads(run, rigid, {"alpha (rad)": alpha, "beta (rad)": beta, "gamma (rad)": gamma}, difference)


def spin_axis(run: jmbs.Trajectory) -> np.ndarray:
    """The disc's x axis in world axes (T, 3)."""
    w, x, y, z = np.asarray(run.quaternion["disc"]).T
    return np.stack([1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)], axis=1)


def slider_crank(end: float) -> tuple[Roads, dict[str, Any]]:
    """The slider-crank from two parts, as rigid bodies, and with a rigid crank that drives a redundant rod."""
    ts = np.linspace(0.0, 3.0 * end, 301)
    torque, force = (lambda t: 0.5 * jnp.cos(2 * t)), (lambda t: -2 + jnp.sin(5 * t))
    system = examples.slider_crank(examples.crank(length=LENGTH_CRANK), examples.rod_with_slider(length=LENGTH_ROD))
    start = examples.slider_crank_positions(0.3, LENGTH_CRANK, LENGTH_ROD)
    model = jmbs.compile(system, initial={**start, "crank/w": [10.0]})
    run = simulate(model, ts, {"M": along(torque, 1), "F": along(force, 1)})

    rigid_inputs = {"A/actuation": along(torque, 1), "B/actuation": along(force, 1, 0)}
    rigid = simulate(rigid_examples.slider_crank_mechanism().compile(), ts, rigid_inputs)
    mixed_inputs = {"A/actuation": along(torque, 1), "F": along(force, 1)}
    mixed = simulate(rigid_examples.mixed_slider_crank().compile(), ts, mixed_inputs)

    crank, rod = (np.asarray(run.states[f"{part}/zeta"]) for part in ("crank", "rod"))
    motion = {"crank angle (rad)": crank[:, 0], "x_B (m)": rod[:, 0], "rod angle (rad)": rod[:, 2]}
    of_rigid = (rigid.q["A"][:, 0], rigid.q["B"][:, 0], rigid.q["B"][:, 1])
    of_mixed = (mixed.q["A"][:, 0], mixed.states["rod/zeta"][:, 0], mixed.states["rod/zeta"][:, 2])
    apart = lambda others: {n: v - np.asarray(o) for (n, v), o in zip(motion.items(), others, strict=True)}  # noqa: E731
    gap_x = LENGTH_CRANK * np.cos(crank[:, 0]) - rod[:, 0] - LENGTH_ROD * np.cos(rod[:, 2])
    gap_y = LENGTH_CRANK * np.sin(crank[:, 0]) - rod[:, 1] - LENGTH_ROD * np.sin(rod[:, 2])
    mixed_report = {
        "largest_difference": {name: float(np.max(np.abs(d))) for name, d in apart(of_mixed).items()},
        **account(mixed),
        "gap_at_C_of_the_coupled_parts_m": float(np.max(np.hypot(gap_x, gap_y))),
    }
    return Roads(run, rigid, motion, apart(of_rigid)), mixed_report


def gimbal_lock() -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The disc turned about the second gimbal's axis, in Euler angles and on the rotation group."""
    ts = np.linspace(0.0, 1.2, 121)
    model = jmbs.compile(examples.gimbal_gyroscope(), initial={"zeta": [0, 0.1, 0], "w": [0, 2.0, 0]})
    run = jmbs.simulate(model, ts=ts, t1=ts[-1], throw=False, **SETTINGS)
    mechanism = rigid_examples.gyroscope_mechanism(lambda t: 0.0 * t)
    tilt = [np.cos(0.05), 0, np.sin(0.05), 0]
    mechanism.set_initial(bodies={"disc": {"quaternion": tilt, "angular_velocity": [0, 2.0, 0]}})
    rigid = simulate(mechanism.compile(), ts)
    axis = spin_axis(rigid)
    turned = np.unwrap(np.arctan2(-axis[:, 2], axis[:, 0]))
    report = {
        "status_in_euler_angles": summarise(run)["status"],
        "ends_at_s": float(run.failure_time),
        "gimbal_lock_at_s": (np.pi / 2 - 0.1) / 2.0,
        "status_on_the_group": summarise(rigid)["status"],
        "largest_error_on_the_group_rad": float(np.max(np.abs(turned - 0.1 - 2.0 * ts))),
    }
    return report, {"t": ts, "euler": np.asarray(run.states["zeta"][:, 1]), "group": turned}


def hitch() -> tuple[dict[str, Any], dict[str, Any]]:
    """A truck that turns until its trailer's hitch passes 90 degrees, its rows written in two forms."""
    angle, speed = 1.0, 0.5
    w = [speed, speed * np.cos(angle), 2.0, speed * np.sin(angle)]
    report, curves = {}, {}
    for form, eliminated in {"constant rank": False, "speed of the truck eliminated": True}.items():
        system = examples.truck_with_trailers(1, eliminated=eliminated)
        model = jmbs.compile(system, initial={"zeta": [0, 0, angle, 0], "w": w})
        run = jmbs.simulate(model, t1=0.8, save_every=0.02, **SETTINGS)
        zeta = np.asarray(run.states["zeta"])
        report[form] = account(run)
        curves[form] = np.degrees(zeta[:, 2] - zeta[:, 3]), np.asarray(run.constraint_margin)
    return report, curves


def draw_motions(roads: dict[str, Roads], target: Path) -> None:
    """The robot's path, the gyroscope's spin axis, the slider's travel."""
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    path, axis, slider = figure.subplots(1, 3)
    motion = roads["robot"].motion
    path.plot(motion["x (m)"], motion["y (m)"], color="tab:blue")
    path.set(title="robot: path of the axle", xlabel="x (m)", ylabel="y (m)")
    motion, first = roads["gyroscope"].motion, slice(0, 300)
    axis.plot(motion["gamma (rad)"][first], motion["beta (rad)"][first], color="tab:orange", lw=0.9)
    axis.set(title="gyroscope: spin axis", xlabel="gamma (rad)", ylabel="beta (rad)")
    motion, ts = roads["slider_crank"].motion, np.asarray(roads["slider_crank"].redundant.ts)
    slider.plot(ts, motion["x_B (m)"], color="tab:green")
    slider.set(title="slider-crank: the slider", xlabel="time (s)", ylabel="x (m)")
    figure.savefig(target, dpi=110)


def draw_agreement(roads: dict[str, Roads], target: Path) -> None:
    """How far the two roads lie apart, and what the first law leaves over."""
    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    for colour, (name, pair) in zip(("tab:blue", "tab:orange", "tab:green"), roads.items(), strict=True):
        ts = np.asarray(pair.redundant.ts)
        apart = np.max(np.abs(np.stack(list(pair.difference.values()))), axis=0)
        law = np.abs(pair.redundant.first_law_residual) / np.max(pair.redundant.kinetic)
        axes.semilogy(ts[1:], np.maximum(apart[1:], 1e-17), color=colour, label=f"{name.replace('_', '-')}: distance")
        axes.semilogy(ts[1:], np.maximum(law[1:], 1e-17), color=colour, ls=":", label="first law, redundant")
    axes.set(xlabel="time (s)", ylabel="distance (m, rad); residual over energy", ylim=(1e-17, 1e-9))
    axes.legend(ncols=3, loc="upper right", fontsize="small")
    figure.savefig(target, dpi=110)


def draw_singularities(lock: dict[str, np.ndarray], curves: dict[str, Any], target: Path) -> None:
    """Left: gimbal lock. Right: the smallest singular value of the rows as the hitch passes 90 degrees."""
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(lock["t"], np.degrees(lock["group"]), color="tab:blue", label="rotation group")
    left.plot(lock["t"], np.degrees(lock["euler"]), color="tab:red", lw=3, ls="--", label="Euler angle beta")
    left.axhline(90, color="0.6", lw=0.8)
    left.set(xlabel="time (s)", ylabel="turned (degrees)", title="gimbal lock ends a run in Euler angles")
    left.legend(frameon=False)
    for form, (angle, margin) in curves.items():
        right.plot(angle, margin, "o-", ms=3, label=form)
    right.axvline(90, color="0.6", lw=0.8)
    right.set(xlabel="hitch angle (degrees)", ylabel="smallest singular value", title="rows of a truck with trailer")
    right.legend(frameon=False)
    figure.savefig(target, dpi=110)


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Runs the experiment, writes `result.json` and `figures/`, and returns what `result.json` holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=HERE, help="where result.json and figures/ go")
    parser.add_argument("--length", type=float, default=1.0, help="of the three motions, as a part of the full one")
    options = parser.parse_args(argv)
    jax.config.update("jax_enable_x64", True)

    crank, mixed = slider_crank(options.length)
    roads = {"robot": robot(options.length), "gyroscope": gyroscope(options.length), "slider_crank": crank}
    lock_report, lock = gimbal_lock()
    hitch_report, curves = hitch()
    result = {name: pair.report() for name, pair in roads.items()}
    result |= {"mixed_slider_crank": mixed, "gimbal_lock": lock_report, "hitch_at_90_degrees": hitch_report}

    figures = options.out / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    draw_motions(roads, figures / "motions.png")
    draw_agreement(roads, figures / "agreement.png")
    draw_singularities(lock, curves, figures / "singularities.png")
    (options.out / "result.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return result


if __name__ == "__main__":
    main()
