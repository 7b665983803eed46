"""How long a first result takes: `jmbs run CONFIG`, files and pictures written, beside a pendulum written by hand.

`python -m experiments.benchmarks.first_result` runs each shipped config and `pendulum_by_hand.py` as processes in
turns, without kept programs and with them, and writes `first_result.json`, which the page of benchmarks shows. Run it
on a quiet machine: it is wall time that it compares. It takes a quarter of an hour.
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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.benchmarks import hardware
from experiments.benchmarks.program_sizes import CONFIGS
from experiments.benchmarks.tables import number, table

BY_HAND = Path(__file__).parent / "pendulum_by_hand.py"
RESULT = Path(__file__).parent / "first_result.json"
KINDS = {"cold": "without kept programs", "warm": "with kept programs"}


def measured(config: str, turns: dict[str, int], scratch: Path) -> dict[str, Any]:
    """Times of `jmbs run` in those of the pendulum by hand, the median of turns, for each kind of start."""
    command = [sys.executable, "-m", "jmbs", "run", str(CONFIGS / f"{config}.yaml"), "--out", str(scratch / "out")]
    by_hand = [sys.executable, str(BY_HAND), str(scratch / "by_hand.npz")]
    kept = {"JAX_COMPILATION_CACHE_DIR": str(scratch / "by_hand"), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    roads = {
        "cold": ([*command, "--force", "--no-cache"], {}),
        "warm": ([*command, "--force", "--cache", str(scratch / "cache")], kept),
    }
    found: dict[str, Any] = {}
    for kind, (run, environment) in roads.items():
        if not turns[kind]:
            continue
        if kind == "warm":  # once to fill what is kept
            _seconds(run, {}), _seconds(by_hand, environment)
        pairs = [(_seconds(run, {}), _seconds(by_hand, environment)) for _ in range(turns[kind])]
        ratios = [one / other for one, other in pairs]
        found[kind] = {"ratio": statistics.median(ratios), "least": min(ratios), "most": max(ratios)}
    return found


def _seconds(command: Sequence[str], environment: dict[str, str]) -> float:
    start = time.perf_counter()
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with status {done.returncode}: {done.stderr.strip()}")
    return seconds


def section(file: Path = RESULT) -> str:
    """The table for the page of benchmarks."""
    content = json.loads(file.read_text(encoding="utf-8"))
    head = (
        "## The first result\n\n"
        "Wall time of `jmbs run CONFIG` as a process, result and pictures written, in times of the process of a\n"
        "pendulum written by hand with diffrax that saves its two curves "
        "([`pendulum_by_hand.py`](../experiments/benchmarks/pendulum_by_hand.py)).\n"
        "Medians of turns, in brackets the least and the most of several. Wanted: without kept programs at most 3 for\n"
        "the pendulum and 8 for any other, with them at most 1.5 for the pendulum.\n"
        f"`python -m experiments.benchmarks.first_result`, {content['machine']}, jax {content['jax']}, "
        f"{content['date']}.\n\n"
    )
    rows = [[name, *(_cell(found.get(kind)) for kind in KINDS)] for name, found in content["configs"].items()]
    return head + table(["config", *KINDS.values()], rows)


def _cell(found: dict[str, float] | None) -> str:
    if found is None:
        return "-"
    ratio = number(found["ratio"])
    once = found["least"] == found["most"]
    return ratio if once else f"{ratio} ({number(found['least'])} to {number(found['most'])})"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("configs", nargs="*", help="names of shipped configs (default: all)")
    parser.add_argument("--cold", type=int, default=3, help="turns without kept programs (default: 3)")
    parser.add_argument("--warm", type=int, default=7, help="turns with kept programs (default: 7)")
    given = parser.parse_args()
    import jax

    content = json.loads(RESULT.read_text(encoding="utf-8")) if given.configs and RESULT.exists() else {"configs": {}}
    for name in given.configs or sorted(file.stem for file in CONFIGS.glob("*.yaml")):
        with tempfile.TemporaryDirectory() as scratch:
            content["configs"][name] = measured(name, {"cold": given.cold, "warm": given.warm}, Path(scratch))
        print(name, content["configs"][name], flush=True)
    content |= {"machine": hardware.describe(gpu=False)["name"], "jax": jax.__version__}
    content["date"] = datetime.date.today().isoformat()
    RESULT.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    print(section())


if __name__ == "__main__":
    main()
