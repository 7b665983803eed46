"""Kills a sweep again and again, at random times, lets it go on, and compares its store with an undisturbed one."""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
STUDY = HERE / "pendulums.yaml"
PATIENCE = 600.0
"""Seconds that a sweep may take until it writes."""


def contents(store: Path) -> dict[str, bytes]:
    """All files of a store."""
    return {str(file.relative_to(store)): file.read_bytes() for file in store.rglob("*") if file.is_file()}


def command(store: Path, cache: Path, settings: list[str], *more: str) -> list[str]:
    """The sweep as one starts it."""
    sets = [part for setting in settings for part in ("--set", setting)]
    return [
        *(sys.executable, "-m", "jmbs", "sweep", str(STUDY), "--out", str(store), "--cache", str(cache)),
        *sets,
        *more,
    ]


def finished_chunks(store: Path) -> int:
    """Chunks whose members have a status."""
    return len([file for file in (store / "status" / "c").glob("*") if not file.name.endswith(".partial")])


def kill_while_it_writes(process: subprocess.Popen, store: Path, wait: float) -> int:
    """Sends SIGKILL some seconds after the process has written a chunk, or lets it end; the chunks finished then."""
    before, started = finished_chunks(store), time.monotonic()
    while process.poll() is None and finished_chunks(store) == before:
        if time.monotonic() - started > PATIENCE:
            process.kill()
            raise TimeoutError("the sweep has written nothing")
        time.sleep(0.01)
    try:
        process.wait(wait)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    return finished_chunks(store)


def killed_and_resumed(folder: Path, settings: list[str], kills: int, longest: float, seed: int = 0) -> dict[str, Any]:
    """Runs the study twice into `folder`, once with SIGKILLs up to `longest` seconds after it begins to write."""
    chance, cache, quiet = (
        random.Random(seed),
        folder / "cache",
        {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL},
    )
    subprocess.run(command(folder / "whole.zarr", cache, settings), check=True, **quiet)
    store, seen = folder / "killed.zarr", []
    for number in range(kills):
        resume = ["--resume"] if number else []
        process = subprocess.Popen(command(store, cache, settings, *resume), **quiet)
        seen.append(kill_while_it_writes(process, store, chance.uniform(0.0, longest)))
        print(f"kill {number + 1}: exit status {process.returncode}, {seen[-1]} chunks finished", flush=True)
    subprocess.run(command(store, cache, settings, "--resume"), check=True, **quiet)
    whole, killed = contents(folder / "whole.zarr"), contents(store)
    return {"kills": kills, "chunks_finished": seen, "files": len(whole), "same_bytes": whole == killed}


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Measures and writes `kills.json`; returns what it holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=HERE, help="where kills.json goes")
    parser.add_argument("--members", type=int, default=20_000, help="of the sweep")
    parser.add_argument("--chunk", type=int, default=128, help="members at a time")
    parser.add_argument("--kills", type=int, default=10, help="how often it is killed")
    parser.add_argument("--longest", type=float, default=3.0, help="seconds after its first chunk until it is killed")
    options = parser.parse_args(argv)
    folder = Path(tempfile.mkdtemp(prefix="jmbs-kills-"))
    try:
        settings = [f"members={options.members}", f"chunk={options.chunk}"]
        result = killed_and_resumed(folder, settings, options.kills, options.longest)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    (options.out / "kills.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=2))
    return result


if __name__ == "__main__":
    main()
