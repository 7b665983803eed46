"""A sweep as an array of jobs: each runs a shard, all write to one store. Needs `pip install 'jmbs[cluster]'`.

    python -m experiments.sweeps.cluster experiments/sweeps/pendulums.yaml pendulums.zarr --shards 8

Without Slurm, `--where local` starts the jobs as processes of this machine. A job that is killed, or whose time is
over, is started again by the same line: finished chunks are not repeated.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def run_shard(study: str, store: str, shard: str) -> str:
    """What a job does; the shard when it is done."""
    from jmbs.cli import main as jmbs

    status = jmbs(["sweep", study, "--out", store, "--shard", shard, "--resume"])
    if status:
        raise RuntimeError(f"shard {shard} ended with status {status}")
    return shard


def main(argv: list[str] | None = None) -> int:
    """Submits the array and waits for it; 1 if a job failed."""
    import submitit

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("study")
    parser.add_argument("store")
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--where", choices=("slurm", "local"), default="slurm")
    parser.add_argument("--minutes", type=int, default=60, help="time limit of a job")
    parser.add_argument("--cores", type=int, default=4, help="of a job")
    parser.add_argument("--logs", type=Path, default=Path("sweep-logs"), help="folder for what jobs print")
    options = parser.parse_args(argv)
    executor = submitit.AutoExecutor(folder=options.logs, cluster=options.where)
    executor.update_parameters(timeout_min=options.minutes, cpus_per_task=options.cores)
    shards = [f"{number}/{options.shards}" for number in range(1, options.shards + 1)]
    count = len(shards)
    jobs = executor.map_array(run_shard, [options.study] * count, [options.store] * count, shards)
    failed = [shard for shard, job in zip(shards, jobs, strict=True) if job.exception() is not None]
    for shard in failed:
        print(f"shard {shard} failed: see {options.logs}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
