"""Batches of adaptive runs: what members wait for each other, in lockstep, in pieces, in sorted buckets and in rounds.

`python -m experiments.benchmarks.adaptive_batches` prints the tables of `docs/decisions/rounds.md`. Times are CPU times
of this process, taken in turns, the least of each.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

import jmbs
from experiments.benchmarks.tables import table
from jmbs.simulation.batch import PIECE
from jmbs.simulation.rounds import Round

CONFIG = Path(__file__).parents[2] / "configs" / "pendulum.yaml"
FRICTION = "hinge/friction/viscous"
RUN = {"solver": "tsit5", "audit": False}
SPREAD = {"t1": 1.0, "save_every": 0.1, "tolerance": 1e-6}
LONG = {"t1": 30.0, "save_every": 3.0, "tolerance": 1e-9}
HOPELESS = 1e7
"""Friction, N m s: so stiff that an explicit method runs to the largest number of steps."""


def pieces_work(tries: np.ndarray) -> int:
    """Tries that are computed where members wait for the slowest of their piece."""
    whole = np.pad(tries, (0, -len(tries) % PIECE)).reshape(-1, PIECE)
    return int(PIECE * whole.max(axis=1).sum())


def spread_of_stiffness(members: int) -> str:
    """A thousandfold spread: work by road, relative to the sum of the members' own."""
    friction = 10.0 ** np.random.default_rng(0).uniform(0.0, 3.0, members)
    rounds: list[Round] = []
    sol = jmbs.simulate_batch(_pendulum(), friction, report=rounds.extend, **SPREAD, **RUN)
    tries = np.asarray(sol.stats["steps"])
    work = {
        "lockstep (`jax.vmap`)": members * int(tries.max()),
        "pieces (`map_batch`)": pieces_work(tries),
        "buckets sorted by friction": pieces_work(tries[np.argsort(friction)]),
        "buckets sorted by the tries that they will take": pieces_work(np.sort(tries)),
        "rounds (`simulate_batch`)": sum(each.work for each in rounds),
    }
    own = int(tries.sum())
    print(f"tries from {tries.min()} to {tries.max()}, {own} in all, {len(rounds)} rounds")
    return table(["road", "work / own work"], [[road, f"{tried / own:.2f}"] for road, tried in work.items()])


def hopeless_members(members: int, turns: int) -> str:
    """Two members that run to the largest number of steps, and none: times of both roads."""
    sound = np.random.default_rng(0).uniform(0.02, 0.1, members)
    bad = sound.copy()
    bad[[members // 3, members // 2]] = HOPELESS
    model = _pendulum()
    pieces = jax.jit(lambda batch: jmbs.map_batch(_simulated(model), batch))
    in_rounds = lambda batch: jmbs.simulate_batch(model, batch, **LONG, **RUN)  # noqa: E731
    roads = {"rounds (`simulate_batch`)": lambda batch: in_rounds(batch).q.array, "pieces (`map_batch`)": pieces}
    best = {road: [np.inf, np.inf] for road in roads}
    steps = np.asarray(in_rounds(bad).stats["steps"])
    print(f"tries: median {np.median(steps):.0f}, largest {steps.max()}")
    for _ in range(turns + 1):
        for road, run in roads.items():
            for i, batch in enumerate((sound, bad)):
                best[road][i] = min(best[road][i], _cpu_time(run, batch))
    rows = [[road, f"{a:.2f}", f"{b:.2f}", f"{100 * (b / a - 1):+.0f} %"] for road, (a, b) in best.items()]
    return table(["road", "none bad, s", "2 bad, s", "slower"], rows)


def _pendulum() -> Callable[[Any], jmbs.Model]:
    model = jmbs.compile(jmbs.load(CONFIG))
    return lambda friction: model.with_parameters({FRICTION: friction})


def _simulated(model: Callable[[Any], jmbs.Model]) -> Callable[[Any], jax.Array]:
    return lambda friction: jmbs.simulate(model(friction), throw=False, **LONG, **RUN).q.array


def _cpu_time(run: Callable[[np.ndarray], jax.Array], batch: np.ndarray) -> float:
    start = time.process_time()
    jax.block_until_ready(run(batch))
    return time.process_time() - start


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=10_000)
    parser.add_argument("--turns", type=int, default=3)
    given = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    print(spread_of_stiffness(given.members // 5), flush=True)
    print(hopeless_members(given.members, given.turns), flush=True)


if __name__ == "__main__":
    main()
