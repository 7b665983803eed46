"""Throughput of fused calls against batch size on the CUDA device of this machine, and how far they are from a CPU.

**It has not run on a device yet.** `python -m experiments.benchmarks.fused_on_device` times runs and reverse gradients
of 100 RK4 steps by batch size, in both precisions, compares the first members with the plain program on the CPU, and
writes `results/fused-<device>.json` after each. `python -m experiments.benchmarks.run --gpu` is beside MJX and MuJoCo
Warp.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

import jmbs
from experiments.benchmarks.cases import Case
from experiments.benchmarks.cuda_kernels import KINDS, MECHANISMS, PRECISIONS
from experiments.benchmarks.derivatives import derivative_of
from experiments.benchmarks.kinematics import random_states
from experiments.benchmarks.mechanisms import system_of
from experiments.benchmarks.run_jmbs import initial_states, mechanism_of, simulation
from jmbs.fusing import fused_calls, fuses

RESULTS = Path(__file__).parent / "results"
BATCHES = (256, 1024, 4096, 8192, 32768)
COMPARED = 64
"""Members that the CPU computes too."""
REPEATS = 7


def measured(case: Case, repeats: int = REPEATS) -> dict[str, Any]:
    """Steps per second of all members together, the compile time in s, and the largest relative difference from the
    plain program on the CPU."""
    system = system_of(case.mechanism, case.size)
    model = jmbs.compile(mechanism_of(system), dtype=case.precision)
    cpu = jax.devices("cpu")[0]
    with jax.default_device(cpu), fused_calls(False):
        states = initial_states(model, system, *random_states(system, case.batch))
    one = derivative_of(case.derivative, simulation(model, case))
    on_device = jax.device_put(states, jax.devices()[0])
    started = time.perf_counter()
    program = jax.jit(lambda states: jmbs.map_batch(one, states)).lower(on_device).compile()
    compiled = time.perf_counter() - started
    found = jax.block_until_ready(program(on_device))
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        jax.block_until_ready(program(on_device))
        seconds.append(time.perf_counter() - started)
    with jax.default_device(cpu), fused_calls(False):
        few = jax.tree.map(lambda x: x[:COMPARED], states)
        wanted = jax.jit(jax.vmap(lambda state: one(state)))(few)
    median = statistics.median(seconds)
    return {
        "steps_per_second": case.batch * case.steps / median,
        "seconds": seconds,
        "compile_s": compiled,
        "difference": max(map(_difference, jax.tree.leaves(found), jax.tree.leaves(wanted))),
    }


def _difference(found: Any, wanted: Any) -> float:
    found, wanted = np.asarray(found)[: len(wanted)], np.asarray(wanted)
    largest = np.abs(wanted).max(initial=0.0)
    return float(np.abs(found - wanted).max(initial=0.0) / (largest or 1.0))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mechanisms", nargs="*", help="chain, humanoid, panda, four_bar; all of them if there are none")
    parser.add_argument("--batches", nargs="*", type=int, default=BATCHES)
    args = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    if not fuses():
        parser.error(f"found the device {jax.devices()[0].device_kind}, wanted a CUDA device")
    name = jax.devices()[0].device_kind.lower().replace(" ", "-")
    rows: list[dict[str, Any]] = []
    for mechanism, size in MECHANISMS:
        for kind in KINDS if mechanism in (args.mechanisms or dict(MECHANISMS)) else ():
            for precision in PRECISIONS:
                for batch in args.batches:
                    case = Case(mechanism, size, batch, precision=precision, derivative=KINDS[kind])
                    rows.append({"program": f"{case.name}, {kind}, {precision}", "batch": batch} | measured(case))
                    print(rows[-1], flush=True)
                    found = {"device": name, "jax": jax.__version__, "rows": rows}
                    (RESULTS / f"fused-{name}.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
