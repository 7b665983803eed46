"""Throughput of fused calls against batch size on the CUDA device of this machine, and how exact they are.

`python -m experiments.benchmarks.fused_on_device` times runs and reverse gradients of 100 RK4 steps by batch size, in
both precisions, and writes `fused_on_device.json`, which the page of benchmarks shows. Each program has its own
process, so that they compile at the same time; a lock lets one at a time use the device. `--write-references FILE`
computes on a CPU, in float64 by the plain program, what `--references FILE` compares with. `--codes jmbs mjx warp`
takes MJX and MuJoCo Warp along, where they are installed.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import datetime
import importlib.metadata
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import filelock
import jax
import numpy as np

import jmbs
from experiments.benchmarks import run_jmbs
from experiments.benchmarks.cases import Case
from experiments.benchmarks.cuda_kernels import KINDS, MECHANISMS, PRECISIONS
from experiments.benchmarks.derivatives import derivative_of
from experiments.benchmarks.kinematics import random_states
from experiments.benchmarks.mechanisms import system_of
from experiments.benchmarks.tables import number, table
from jmbs.fusing import fused_calls, fuses

RESULT = Path(__file__).parent / "fused_on_device.json"
BATCHES = {"run": (1024, 8192, 32768, 131072), "reverse gradient": (1024, 8192, 32768)}
OTHERS_BATCH = 8192
"""Of the codes that jmbs is beside."""
DISTINCT, COMPARED = 1024, 64
"""Members with states of their own, which larger batches repeat, and how many of them are compared."""
REPEATS = 7
SIZES = dict(MECHANISMS)


def case_of(mechanism: str, kind: str, precision: str, batch: int) -> Case:
    """100 RK4 steps, or their gradient."""
    return Case(mechanism, SIZES[mechanism], batch, precision=precision, derivative=KINDS[kind], device="gpu")


def start_of(case: Case) -> tuple[jmbs.Model, Any]:
    """The model, and the batch of states to start from, as the CPU assembles them."""
    system, count = system_of(case.mechanism, case.size), min(case.batch, DISTINCT)
    model = jmbs.compile(run_jmbs.mechanism_of(system), dtype=case.precision)
    with jax.default_device(jax.devices("cpu")[0]), fused_calls(False):
        states = run_jmbs.initial_states(model, system, *random_states(system, count))
    return model, jax.tree.map(lambda x: np.tile(x, (case.batch // count, *[1] * (x.ndim - 1))), states)


def jmbs_program(case: Case) -> tuple[Callable[[], Any], dict[str, Any]]:
    """All members' runs as one compiled call, and what was measured on the way."""
    model, states = start_of(case)
    states = jax.device_put(states, jax.devices()[0])
    one = derivative_of(case.derivative, run_jmbs.simulation(model, case))
    started = time.perf_counter()
    program = jax.jit(lambda states: jmbs.map_batch(one, states)).lower(states).compile()
    return lambda: jax.block_until_ready(program(states)), {"compile_s": time.perf_counter() - started}


def mjx_program(case: Case) -> tuple[Callable[[], Any], dict[str, Any]]:
    """The same of MJX."""
    from experiments.benchmarks.run_mjx import prepare

    jax.config.update("jax_enable_x64", case.precision == "float64")  # its model has JAX's default precision
    prepared = prepare(case)
    return prepared.run, {"compile_s": prepared.figures["trace_s"] + prepared.figures["compile_s"]}


def warp_program(case: Case) -> tuple[Callable[[], Any], dict[str, Any]]:
    """The same of MuJoCo Warp, its step captured once as a graph."""
    from experiments.benchmarks.run_warp import prepare

    prepared = prepare(case)
    return prepared.run, {"compile_s": prepared.figures["compile_s"]}


PROGRAMS = {"jmbs": jmbs_program, "mjx": mjx_program, "warp": warp_program}


def measured(code: str, case: Case, lock: filelock.BaseFileLock, wanted: list[np.ndarray] | None) -> dict[str, Any]:
    """Steps per second of all members together, seconds to compile and to load the kernel, and the largest difference
    from what is `wanted` of the first members, relative to its array."""
    program, figures = PROGRAMS[code](case)
    with lock:
        started = time.perf_counter()
        found = program()
        figures["first_s"] = time.perf_counter() - started
        seconds = []
        for _ in range(REPEATS):
            started = time.perf_counter()
            program()
            seconds.append(time.perf_counter() - started)
    if wanted is not None and code == "jmbs":
        figures["difference"] = max(map(_difference, jax.tree.leaves(found), wanted))
    return {"steps_per_second": case.batch * case.steps / statistics.median(seconds), "seconds": seconds} | figures


def _difference(found: Any, wanted: np.ndarray) -> float:
    found = np.asarray(found, float)[: len(wanted)]
    largest = np.abs(wanted).max(initial=0.0)
    return float(np.abs(found - wanted).max(initial=0.0) / (largest or 1.0))


def reference(case: Case) -> list[np.ndarray]:
    """What the plain program gives on the CPU, by leaf."""
    model, states = start_of(case)
    one = derivative_of(case.derivative, run_jmbs.simulation(model, case))
    with jax.default_device(jax.devices("cpu")[0]), fused_calls(False):
        return [np.asarray(x) for x in jax.tree.leaves(jax.jit(jax.vmap(one))(states))]


def write_references(file: Path) -> None:
    """What the plain program gives on the CPU, in float64, of all programs."""
    found: dict[str, Any] = {}
    for mechanism, _ in MECHANISMS:
        for kind in KINDS:
            values = reference(case_of(mechanism, kind, "float64", COMPARED))
            found |= {f"{mechanism} {kind} {i}": x for i, x in enumerate(values)}
            print(f"{mechanism}, {kind}", flush=True)
    np.savez_compressed(file, **found)


def references(file: Path | None, mechanism: str, kind: str) -> list[np.ndarray] | None:
    """Of one program, by leaf of its result."""
    if file is None:
        return None
    with np.load(file) as known:
        names = [name for name in known.files if name.startswith(f"{mechanism} {kind} ")]
        return [known[name] for name in sorted(names, key=lambda name: int(name.rsplit(" ", 1)[1]))]


def one_program(code: str, mechanism: str, kind: str, precision: str, args: argparse.Namespace) -> None:
    """A program at all batch sizes, a line of JSON for each; what fails says why, and the next one is tried."""
    lock = filelock.FileLock(os.environ["JMBS_DEVICE_LOCK"])
    for batch in args.batches or (BATCHES[kind] if code == "jmbs" else [OTHERS_BATCH]):
        row: dict[str, Any] = {"code": code, "mechanism": mechanism, "kind": kind, "precision": precision}
        row["batch"] = batch
        try:
            case = case_of(mechanism, kind, precision, batch)
            row |= measured(code, case, lock, references(args.references, mechanism, kind))
        except Exception as error:
            traceback.print_exc()
            row["error"] = f"{type(error).__name__}: {error}"[:300]
        print(json.dumps(row), flush=True)


def all_programs(args: argparse.Namespace) -> None:
    """Each in a process of its own; writes the results after each."""
    programs = [
        f"{code}/{mechanism}/{kind}/{precision}"
        for kind in args.kinds
        for code in args.codes
        for mechanism in args.mechanisms
        for precision in args.precisions
        # Loops of other codes are soft, their derivatives take minutes to compile, and Warp is in float32.
        if code == "jmbs" or (kind == "run" and mechanism != "four_bar" and (code, precision) != ("warp", "float64"))
    ]
    logs = Path(tempfile.mkdtemp(prefix="jmbs-fused-"))
    settings = {"JMBS_DEVICE_LOCK": str(logs / "device.lock"), "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    device = jax.devices()[0].device_kind
    print(f"{device}; messages of the processes: {logs}", flush=True)
    found: dict[str, Any] = {"device": device, "jax": jax.__version__, "date": str(datetime.date.today())}
    found |= {"versions": {code: _version(code) for code in args.codes}, "rows": []}

    def run(program: str) -> None:
        command = [sys.executable, "-m", "experiments.benchmarks.fused_on_device", "--program", program]
        command += ["--batches", *map(str, args.batches)] if args.batches else []
        command += ["--references", str(args.references)] if args.references else []
        with open(logs / f"{program.replace('/', '-')}.log", "w") as log:
            process = subprocess.Popen(
                command, env=settings | os.environ, stdout=subprocess.PIPE, stderr=log, text=True
            )
            assert process.stdout is not None
            for line in process.stdout:
                if not line.startswith("{"):  # MJX says what else is not installed
                    continue
                found["rows"].append(json.loads(line))
                print({key: x for key, x in found["rows"][-1].items() if key != "seconds"}, flush=True)
                args.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        if process.wait():
            print(f"{program}: {Path(log.name).read_text()[-1500:]}", flush=True)

    with concurrent.futures.ThreadPoolExecutor(args.workers) as pool:
        list(pool.map(run, programs))


def _version(code: str) -> str:
    names = {"jmbs": ["jmbs"], "mjx": ["mujoco-mjx", "jax"], "warp": ["mujoco-warp", "warp-lang"]}[code]
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
    return code


INTRODUCTION = """## On a CUDA device

100 RK4 steps, from states to final coordinates and rates, and the gradient of their squares by the states, on one
{device}, {date}, jax {jax}: millions of steps a second of all members together, by how many these are, each the
median of {repeats} calls. *Gradient*: value and gradient, in times of a run, at 8192 members. *Difference*: the largest
from the plain program on a CPU in float64, of {compared} members, relative to each array's largest entry.

"""


def section() -> str:
    """The section of the page of benchmarks, from the committed result."""
    found = json.loads(RESULT.read_text(encoding="utf-8"))
    rows = {tuple(row[key] for key in KEYS): row for row in found["rows"] if "error" not in row}
    batches = BATCHES["run"]
    lines = []
    for mechanism, size in MECHANISMS:
        for precision in PRECISIONS:
            for kind in KINDS:
                each = [rows.get(("jmbs", mechanism, kind, precision, batch)) for batch in batches]
                run, own = (rows.get(("jmbs", mechanism, k, precision, OTHERS_BATCH)) for k in ("run", kind))
                times = number(run["steps_per_second"] / own["steps_per_second"], 2) if run and own else "-"
                rates = [number(row and row["steps_per_second"] / 1e6) for row in each]
                differences = [row["difference"] for row in each if row and "difference" in row]
                difference = number(max(differences, default=None), 1)
                name = Case(mechanism, size).name
                lines.append([f"{name}, {kind}, {precision}", *rates, "" if kind == "run" else times, difference])
    head = ["program", *(f"{batch:,}" for batch in batches), "gradient", "difference"]
    text = INTRODUCTION.format(**{k: found[k] for k in ("device", "date", "jax")}, repeats=REPEATS, compared=COMPARED)
    return text + table(head, lines) + _beside(rows, found["versions"])


KEYS = ("code", "mechanism", "kind", "precision", "batch")


def _beside(rows: dict[tuple, dict[str, Any]], versions: dict[str, str]) -> str:
    """Runs of other codes in the same table of rows."""
    lines = []
    for code, version in versions.items():
        found = [rows.get((code, m, "run", "float32", OTHERS_BATCH)) for m, _ in MECHANISMS]
        lines.append([version, *(number(row and row["steps_per_second"] / 1e6) for row in found)])
    head = ["code", *(Case(*which).name for which in MECHANISMS)]
    return f"\nThe same beside other codes, runs of {OTHERS_BATCH} members in float32:\n\n" + table(head, lines)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mechanisms", nargs="*", help="chain, humanoid, panda, four_bar; all of them if there are none")
    parser.add_argument("--codes", nargs="+", default=["jmbs"], choices=PROGRAMS)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--precisions", nargs="+", default=list(PRECISIONS), choices=PRECISIONS)
    parser.add_argument("--batches", nargs="+", type=int, help="in place of those of the table")
    parser.add_argument("--references", type=Path, help="compare with these")
    parser.add_argument("--write-references", type=Path, metavar="FILE", help="compute them on the CPU, no more")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="programs that compile at the same time")
    parser.add_argument("--out", type=Path, default=RESULT, help="the file of the result")
    parser.add_argument("--program", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.mechanisms = args.mechanisms or list(SIZES)
    jax.config.update("jax_enable_x64", True)
    if args.write_references:
        write_references(args.write_references)
    elif not fuses():
        parser.error(f"found the device {jax.devices()[0].device_kind}, wanted a CUDA device")
    elif args.program:
        one_program(*args.program.split("/"), args)
    else:
        all_programs(args)


if __name__ == "__main__":
    main()
