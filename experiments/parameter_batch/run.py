"""A thousand spherical double pendulums in one compiled call: how energy and end positions spread, and who fails."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

import jmbs
from jmbs.simulation import members, status_name

HERE = Path(__file__).parent
CONFIG = HERE.parents[1] / "configs" / "spherical_double_pendulum.yaml"
LINKS = ("link1", "link2")
SEED = 0
MASS_SPREAD = 0.1  # standard deviation of the logarithm of each mass
INERTIA_SPREAD = 0.1  # likewise of the factor on each inertia matrix
SPEED_SPREAD = 0.5  # rad/s, standard deviation of each component of both initial angular velocities
SAVED = 50  # intervals between saved times
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


class Samples(NamedTuple):
    """Parameters of a batch; the last axes are link and component."""

    mass: Float[Array, "*N 2"]  # kg
    inertia_scale: Float[Array, "*N 2"]
    angular_velocity: Float[Array, "*N 2 3"]  # rad/s, body axes, which are the world's at the start


class Outcome(NamedTuple):
    """What is kept of each run; times are the saved ones."""

    position: Float[Array, "*N T 3"]  # m, centre of mass of the second link
    total: Float[Array, "*N T"]  # J
    kinetic: Float[Array, "*N T"]  # J
    constraint: Float[Array, "*N T"]  # m or rad, largest gap of the two joints
    status: jmbs.Status
    failure_time: Float[Array, "*N"]  # s, NaN after success


def draw_samples(model: jmbs.Model, count: int) -> Samples:
    """Seeded samples around the config's values."""
    known = {path: row["value"] for path, row in model.parameters().items()}
    mass = jnp.stack([known[f"{link}/mass"] for link in LINKS])
    speed = jnp.stack([known[f"initial/{link}/angular_velocity"] for link in LINKS])
    of_mass, of_inertia, of_speed = jax.random.split(jax.random.key(SEED), 3)
    return Samples(
        mass * jnp.exp(MASS_SPREAD * jax.random.normal(of_mass, (count, 2), model.dtype)),
        jnp.exp(INERTIA_SPREAD * jax.random.normal(of_inertia, (count, 2), model.dtype)),
        speed + SPEED_SPREAD * jax.random.normal(of_speed, (count, 2, 3), model.dtype),
    )


def spoil(samples: Samples) -> tuple[Samples, dict[int, str]]:
    """The same batch with three absurd members, and what is wrong with each."""
    count = samples.mass.shape[0]
    a, b, c = count // 4, count // 2, 3 * count // 4
    spoilt = Samples(
        samples.mass.at[a, 0].set(jnp.nan),
        samples.inertia_scale.at[b, 1].set(0.0),
        samples.angular_velocity.at[c, 1].set(1e6),
    )
    return spoilt, {a: "mass is NaN", b: "inertia is zero", c: "initial speed 1e6 rad/s"}


def member_run(model: jmbs.Model, t1: float, steps: int) -> Callable[[Samples], Outcome]:
    """The run of one member, for `vmap`: a sample without batch axis to its outcome."""
    known = model.parameters()

    def run(sample: Samples) -> Outcome:
        values: dict[str, Any] = {}
        for i, link in enumerate(LINKS):
            values[f"{link}/mass"] = sample.mass[i]
            values[f"{link}/inertia"] = sample.inertia_scale[i] * known[f"{link}/inertia"]["value"]
            values[f"initial/{link}/angular_velocity"] = sample.angular_velocity[i]
        # The joints sit 0.1 m from the centres along x, and body axes are the world's, so velocities follow.
        arm = jnp.asarray([0.1, 0.0, 0.0], model.dtype)
        half = jnp.cross(sample.angular_velocity, arm)
        values["initial/link1/velocity"] = half[0]
        values["initial/link2/velocity"] = 2 * half[0] + half[1]
        solution = jmbs.simulate(
            model.with_parameters(values), t1=t1, save_every=t1 / SAVED, dt=t1 / steps, solver="rk4", throw=False
        )
        gap = jnp.stack(list(solution.constraint_position.values())).max(axis=0)
        return Outcome(
            solution.position["link2"], solution.total, solution.kinetic, gap, solution.status, solution.failure_time
        )

    return run


def statuses(outcome: Outcome) -> list[str]:
    """Each member's status by name."""
    return [status_name(status) for status in members(outcome.status)]


def isolation(clean: Outcome, spoilt: Outcome, absurd: dict[int, str]) -> dict[str, Any]:
    """What became of the absurd members, and by how much all others differ from the batch without them."""
    others = np.setdiff1d(np.arange(clean.total.shape[0]), list(absurd))
    names, times = statuses(spoilt), np.asarray(spoilt.failure_time)
    rows = []
    for i, reason in absurd.items():
        rows.append({"member": i, "made absurd": reason, "status": names[i], "failure_time": float(times[i])})
        print(f"member {i:4d}: {reason:<28} -> {names[i]} after t = {times[i]:g} s")
    same = statuses(clean)
    difference = max(
        float(np.max(np.abs(np.asarray(a)[others] - np.asarray(b)[others])))
        for a, b in ((clean.position, spoilt.position), (clean.total, spoilt.total))
    )
    untouched = all(names[i] == same[i] for i in others)
    print(f"the other {len(others)} members: same status {untouched}, largest difference {difference:g}")
    return {"absurd_members": rows, "others_same_status": untouched, "others_largest_difference": difference}


def relative_drift(outcome: Outcome) -> np.ndarray:
    """Change of the total energy since the start as a share of the initial kinetic energy (successful members, T)."""
    good = np.array([name == "successful" for name in statuses(outcome)])
    total, kinetic = np.asarray(outcome.total)[good], np.asarray(outcome.kinetic)[good]
    return (total - total[:, :1]) / kinetic[:, :1]


def draw_positions(outcome: Outcome, samples: Samples, t1: float, target: Path) -> None:
    """End positions of the second link from two sides, coloured by the factor on its inertia."""
    end = np.asarray(outcome.position)[:, -1]
    factor = np.asarray(samples.inertia_scale)[:, 1]
    low, high = np.quantile(factor, (0.02, 0.98))
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    axes = figure.subplots(1, 2)
    for axis, (i, j) in zip(axes, ((0, 1), (0, 2)), strict=True):
        points = axis.scatter(end[:, i], end[:, j], c=factor, s=9, lw=0, vmin=low, vmax=high)
        axis.set(xlabel=f"{'xyz'[i]} (m)", ylabel=f"{'xyz'[j]} (m)")
        axis.set_aspect("equal", adjustable="datalim")
    figure.colorbar(points, ax=axes, label="factor on the second link's inertia")
    figure.suptitle(f"Centre of mass of the second link at t = {t1:g} s, {len(end)} members")
    figure.savefig(target, dpi=100)


def draw_energy(outcome: Outcome, t1: float, target: Path) -> None:
    """Quantiles of the relative energy drift over time, and its histogram at the end."""
    drift = relative_drift(outcome)
    times = np.linspace(0.0, t1, drift.shape[1])
    outer, inner, middle, inner_top, outer_top = np.quantile(drift, QUANTILES, axis=0)
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2), sharey=True)
    left.axhline(0, color="0.5", lw=0.8)
    left.fill_between(times, outer, outer_top, color="tab:blue", alpha=0.2, lw=0, label="5 to 95 % of members")
    left.fill_between(times, inner, inner_top, color="tab:blue", alpha=0.4, lw=0, label="25 to 75 %")
    left.plot(times, middle, color="tab:blue", label="median")
    left.set(xlabel="time (s)", ylabel="energy drift / initial kinetic energy", xlim=(0, t1))
    left.legend(frameon=False, loc="best")
    right.hist(drift[:, -1], bins=30, orientation="horizontal", color="tab:blue")
    right.axhline(0, color="0.5", lw=0.8)
    right.set(xlabel=f"members, at t = {t1:g} s")
    figure.savefig(target, dpi=110)


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Runs the experiment, writes `result.json` and `figures/`, and returns what `result.json` holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=HERE, help="where result.json and figures/ go")
    parser.add_argument("--members", type=int, default=1000, help="size of the batch, at least 8")
    parser.add_argument("--steps", type=int, default=500, help="fixed steps from start to end")
    parser.add_argument("--t1", type=float, default=0.5, help="length of the runs, s")
    options = parser.parse_args(argv)
    if options.members < 8:
        parser.error("--members: at least 8 are needed, three of which are made absurd")
    jax.config.update("jax_enable_x64", True)

    model = jmbs.compile(jmbs.load(CONFIG))
    samples = draw_samples(model, options.members)
    batched = jax.jit(jax.vmap(member_run(model, options.t1, options.steps)))
    started = time.perf_counter()
    program = batched.lower(samples).compile()
    compiled = time.perf_counter()
    jax.block_until_ready(program(samples))  # the first call also moves data and warms up
    warm = time.perf_counter()
    clean = jax.block_until_ready(program(samples))
    ran = time.perf_counter() - warm
    device = jax.devices()[0]
    print(f"{options.members} members x {options.steps} steps on {device.platform} ({device.device_kind})")
    print(f"compile {compiled - started:.2f} s, run {ran:.3f} s, {options.members / ran:.0f} members/s")

    spoilt_samples, absurd = spoil(samples)
    spoilt = program(spoilt_samples)
    drift = np.abs(relative_drift(clean))
    names = statuses(clean)
    result = {
        "members": options.members,
        "steps": options.steps,
        "t1": options.t1,
        "seed": SEED,
        "device": f"{device.platform}: {device.device_kind}",
        "compile_over_run": round((compiled - started) / ran, 2),
        "successful": names.count("successful"),
        "absolute_energy_drift_quantiles": {str(q): float(np.quantile(drift[:, -1], q)) for q in QUANTILES},
        "largest_energy_drift": float(drift.max()),
        "largest_joint_gap": float(np.nanmax(np.asarray(clean.constraint))),
        "end_position_mean": np.nanmean(np.asarray(clean.position)[:, -1], axis=0).tolist(),
        "end_position_deviation": np.nanstd(np.asarray(clean.position)[:, -1], axis=0).tolist(),
        "isolation": isolation(clean, spoilt, absurd),
    }
    print(f"energy drift at the end: median {np.median(drift[:, -1]):.1e}, largest ever {drift.max():.1e}")

    figures = options.out / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    draw_positions(clean, samples, options.t1, figures / "end_positions.png")
    draw_energy(clean, options.t1, figures / "energy.png")
    (options.out / "result.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return result


if __name__ == "__main__":
    main()
