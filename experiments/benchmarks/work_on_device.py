"""What users do, on the CUDA device of this machine and on its CPU: batches with their account, sweeps, environments.

`python -m experiments.benchmarks.work_on_device` times each task in a process of its own on either platform, on all
cores of the CPU, compares what they found, and writes `work_on_device.json`, which the page of benchmarks shows.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jmbs
from experiments.benchmarks.tables import number, table

ROOT = Path(__file__).parents[2]
RESULT = Path(__file__).parent / "work_on_device.json"
PLATFORMS = ("cpu", "cuda")
REPEATS, PATIENCE = 3, 200.0
SEED = 0

Found = dict[str, Any]
Task = Callable[[], Found]
"""Does the work and returns what is compared, by name."""


def _double_pendulums(members: int) -> tuple[Callable, Any]:
    """A member's model and state of a pair of angles, and the angles."""
    model = jmbs.compile(jmbs.load(ROOT / "experiments" / "sweeps" / "double_pendulum.yaml"))
    angles = jnp.asarray(np.random.default_rng(SEED).uniform(-3.0, 3.0, (members, 2)))

    def member(angles: Any) -> Any:
        start = {"initial/shoulder/q": angles[:1], "initial/elbow/q": angles[1:]}
        return model.with_parameters(start)

    return member, angles


def _of(trajectory: Any) -> Found:
    return {"q": trajectory.q, "energy": trajectory.total}


def fixed_steps(members: int) -> Task:
    """1000 RK4 steps with 51 saved times and the account of energy."""
    member, angles = _double_pendulums(members)
    return lambda: _of(jmbs.simulate_batch(member, angles, t1=5.0, save_every=0.1, solver="rk4", dt=5e-3))


def adaptive(members: int) -> Task:
    """Tsit5 at a tolerance of 1e-6, with 51 saved times and the account of energy."""
    member, angles = _double_pendulums(members)
    return lambda: _of(jmbs.simulate_batch(member, angles, t1=5.0, save_every=0.1, solver="tsit5", tolerance=1e-6))


def loops(members: int) -> Task:
    """A slider-crank with connecting rods of different masses: 1000 RK4 steps with 21 saved times and the account."""
    model = jmbs.compile(jmbs.load(ROOT / "configs" / "slider_crank.yaml"))
    masses = jnp.asarray(np.random.default_rng(SEED).uniform(0.5, 2.0, members))

    def member(mass: Any) -> Any:
        return model.with_parameters({"rod/mass": mass})

    return lambda: _of(jmbs.simulate_batch(member, masses, t1=1.0, save_every=0.05, solver="rk4", dt=1e-3))


def sweep(members: int) -> Task:
    """The study of `experiments/sweeps` with its store."""
    from jmbs.io.sweep_study import load_sweep

    study = load_sweep(ROOT / "experiments" / "sweeps" / "pendulums.yaml", [f"members={members}"])

    def run() -> Found:
        with tempfile.TemporaryDirectory() as folder:
            data = jmbs.sweep(study, Path(folder) / "store.zarr")
            return {str(name): np.asarray(data[name]) for name in ("final_q", "highest", "turned") if name in data}

    return run


def environments(members: int) -> Task:
    """100 steps of a cart with two poles under random forces, observations and rewards kept."""
    from experiments.benchmarks.learning_environment import by_environment, starts
    from experiments.cart_two_poles.cart import FORCE, cart, environment

    env, rng = environment(cart(), 500, 0.1), np.random.default_rng(SEED)
    episodes = starts(env, jnp.asarray(rng.normal(0.0, 0.1, (members, 6))), rng)
    actions = jnp.asarray(rng.uniform(-FORCE, FORCE, (members, 100, 1)))

    run = by_environment(env, episodes, actions)
    return lambda: dict(zip(("observation", "reward"), run()[1], strict=False))


TASKS: dict[str, tuple[Callable[[int], Task], int]] = {
    "fixed steps": (fixed_steps, 8192),
    "adaptive steps": (adaptive, 8192),
    "loops": (loops, 2048),
    "sweep": (sweep, 100_000),
    "environments": (environments, 8192),
}
"""By name: the task of so many members."""


def measure(name: str, members: int, file: Path) -> Found:
    """Seconds of the first call and of the others; what was found goes into the file."""
    jax.config.update("jax_enable_x64", True)
    if os.environ.get("JAX_PLATFORMS") == "cpu":
        jmbs.use_all_cores()
    started = time.perf_counter()
    run = TASKS[name][0](members)
    found = jax.block_until_ready(run())
    first, seconds = time.perf_counter() - started, []
    for _ in range(REPEATS):
        started = time.perf_counter()
        jax.block_until_ready(run())
        seconds.append(time.perf_counter() - started)
    leaves = jax.tree_util.tree_leaves_with_path(found)
    np.savez(file, **{jax.tree_util.keystr(path): np.asarray(x) for path, x in leaves})
    return {"first_s": first, "seconds": statistics.median(seconds)}


def difference(one: Path, other: Path) -> float:
    """The median over an array's entries, relative to its largest entry; the largest of all arrays."""
    with np.load(one) as a, np.load(other) as b:
        return max(_difference(np.asarray(a[name], float), np.asarray(b[name], float)) for name in a.files)


def _difference(a: np.ndarray, b: np.ndarray) -> float:
    differences, size = np.abs(a - b), float(np.nanmax(np.abs(a), initial=0.0))
    return float(np.nanquantile(differences, 0.5)) / (size or 1.0) if differences.size else 0.0


def _said_by(command: list[str], environment: dict[str, str]) -> Found:
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return {"error": f"not done in {PATIENCE:.0f} s"}
    said = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return json.loads(said[-1]) if said else {"error": done.stderr[-1500:]}


def all_tasks(names: list[str], scale: float, platforms: list[str]) -> list[Found]:
    """Each on each platform, one after the other."""
    rows = []
    for name in names:
        members = max(1, int(TASKS[name][1] * scale))
        row: Found = {"task": name, "members": members}
        with tempfile.TemporaryDirectory() as folder:
            files = {platform: Path(folder) / f"{platform}.npz" for platform in platforms}
            for platform, file in files.items():
                command = [sys.executable, "-m", "experiments.benchmarks.work_on_device", "--one", name]
                command += ["--members", str(members), "--file", str(file)]
                row[platform] = _said_by(command, os.environ | {"JAX_PLATFORMS": platform})
            if all(file.exists() for file in files.values()) and len(files) == 2:
                row["difference"] = difference(*files.values())
        print(json.dumps(row), flush=True)
        rows.append(row)
    return rows


def section() -> str:
    """The section of the page of benchmarks, from the committed result."""
    found = json.loads(RESULT.read_text(encoding="utf-8"))
    lines = []
    for row in found["rows"]:
        what = (TASKS[row["task"]][0].__doc__ or "").strip().rstrip(".")
        times = [number(row[p].get(key), 3) for p in PLATFORMS for key in ("first_s", "seconds")]
        lines.append([what, f"{row['members']:,}", *times, number(row.get("difference"), 1)])
    head = ["task", "members", "CPU, first", "CPU", "GPU, first", "GPU", "difference"]
    return INTRODUCTION.format(**found) + table(head, lines)


INTRODUCTION = """## What users do, on a CUDA device

Seconds on one {device} and on {cores} cores of the CPU beside it, {date}, jax {jax}, all in float64: of the first
call, which traces and compiles, and of later ones, medians of three. *Difference*: the median over all entries from the
CPU's, relative to each array's largest; motions of double pendulums are chaotic, so that the largest say nothing.

"""


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", help=f"of {', '.join(TASKS)}; all of them if there are none")
    parser.add_argument("--scale", type=float, default=1.0, help="times the members of the table")
    parser.add_argument("--platforms", nargs="+", default=list(PLATFORMS))
    parser.add_argument("--out", type=Path, default=RESULT, help="the file of the result")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--members", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(args.one, args.members, args.file)))
        return
    found: Found = {"device": "", "cores": os.cpu_count(), "jax": jax.__version__, "date": str(datetime.date.today())}
    found["rows"] = all_tasks(args.tasks or list(TASKS), args.scale, args.platforms)
    found["device"] = jax.devices()[0].device_kind
    args.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
