"""A sweep of double pendulums with its store, beside the bare batch of the same runs: members per second and memory.

Both take turns, each turn a few chunks, since other programs on a machine slow whoever runs at the time; they are
compared by the time of the CPU, threads included.
"""

from __future__ import annotations

import argparse
import functools
import json
import resource
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

import jmbs
import jmbs.sweeping
from jmbs.io import load_sweep
from jmbs.simulation import map_batch, simulate
from jmbs.sweeping import Sweeping, SweepStudy
from jmbs.sweeping.varied import with_varied

HERE = Path(__file__).parent
STUDY = HERE / "pendulums.yaml"


def bare_batch(study: SweepStudy, chunk: int) -> Callable[[], Any]:
    """The runs of a chunk as anyone would write them: states at the end, nothing else kept, nothing written."""
    model = study.model

    def run(values: dict[str, Any]) -> Any:
        end = simulate(with_varied(model, study.varied, values), ts=[model.settings.t1], audit=False, throw=False)
        return end.q.array, end.v.array

    values = study.design.values(0, chunk)
    program = jax.jit(functools.partial(map_batch, run)).lower(values).compile()
    return lambda: jax.block_until_ready(program(values))


def peak_bytes() -> int:
    """Of this process's resident memory so far."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def clocks() -> np.ndarray:
    """Seconds on the wall, and of the CPU by this process."""
    return np.array([time.perf_counter(), time.process_time()])


def timed_turns(study: SweepStudy, store: Path, turns: int) -> dict[str, Any]:
    """Runs the sweep into the store, in shards, with a bare batch of as many members after each."""
    sweeping = Sweeping(study, store, shard=jmbs.sweeping.Shard(1, turns))
    chunk = sweeping.program.chunk
    bare = bare_batch(study, chunk)
    bare()
    sweeping.plan(timed=True)  # the first call is not counted
    rows = []
    for turn in range(1, turns + 1):
        part = Sweeping(study, store, shard=jmbs.sweeping.Shard(turn, turns))
        members, chunks = part.plan().members, len(part.chunks)
        started = clocks()
        part.run()
        swept, started = clocks() - started, clocks()
        for _ in range(chunks):
            bare()
        batched = (clocks() - started) * members / (chunks * chunk)
        row = {"members": members, "sweep_s": swept[0], "bare_s": batched[0]}
        rows.append(row | {"sweep_cpu_s": swept[1], "bare_cpu_s": batched[1]})
        print(f"turn {turn}: {json.dumps(rows[-1])}, {peak_bytes() / 1e6:.0f} MB at most", flush=True)
    ratios = [row["bare_cpu_s"] / row["sweep_cpu_s"] for row in rows]
    total = sum(row["sweep_s"] for row in rows)
    return {
        "members": study.members,
        "chunk": chunk,
        "devices": len(jax.devices()),
        "members_per_second": study.members / total,
        "bare_members_per_second": study.members / sum(row["bare_s"] for row in rows),
        "throughput_of_bare": {"median": float(np.median(ratios)), "lowest": min(ratios), "highest": max(ratios)},
        "peak_resident_bytes": peak_bytes(),
        "store_bytes": sum(file.stat().st_size for file in store.rglob("*") if file.is_file()),
        "turns": rows,
    }


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Measures and writes `throughput.json`; returns what it holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=HERE, help="where throughput.json goes")
    parser.add_argument("--members", type=int, default=100_000, help="of the sweep")
    parser.add_argument("--turns", type=int, default=5, help="of each of the two")
    options = parser.parse_args(argv)
    jmbs.use_all_cores()
    jax.config.update("jax_enable_x64", True)
    study = load_sweep(STUDY, [f"members={options.members}"])
    folder = Path(tempfile.mkdtemp(prefix="jmbs-sweep-"))
    try:
        result = timed_turns(study, folder / "pendulums.zarr", options.turns)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    (options.out / "throughput.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps({key: value for key, value in result.items() if key != "turns"}, indent=2))
    return result


if __name__ == "__main__":
    main()
