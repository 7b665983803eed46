"""Kernels that a batch of runs launches on a CUDA device, counted in programs compiled ahead of time, without a device.

`JAX_PLATFORMS=cpu python -m experiments.benchmarks.cuda_kernels` compiles them for the device that `h200.txtpb`
describes and writes `cuda_kernels.json`; the page of benchmarks shows it. Needs JAX with its CUDA plug-in. Registers
and stack are `ptxas`'s, where that is on the path.
"""

from __future__ import annotations

import argparse
import collections
import functools
import json
import logging
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding

import jmbs
from experiments.benchmarks.cases import Case
from experiments.benchmarks.derivatives import derivative_of
from experiments.benchmarks.mechanisms import system_of
from experiments.benchmarks.run_jmbs import mechanism_of, simulation
from experiments.benchmarks.tables import table
from jmbs.fusing import fused_calls

HERE = Path(__file__).parent
TARGET, RESULT = HERE / "h200.txtpb", HERE / "cuda_kernels.json"
LAUNCHED = frozenset(
    """fusion copy copy-start reduce sort scatter gather dynamic-update-slice dynamic-slice slice concatenate transpose
    convolution dot broadcast pad add select iota custom-call""".split()
)
"""Operations of a compiled program that are kernels, or copies."""
MECHANISMS = (("chain", 8), ("humanoid", 1), ("panda", 1), ("four_bar", 2))
COUNTED = (*MECHANISMS, ("geared_panda", 1))
"""The first of them are measured on a device too."""
KINDS, PRECISIONS = {"run": "none", "reverse gradient": "reverse"}, ("float32", "float64")
ARCHITECTURE = "sm_90"
INTRODUCTION = """## Kernels on CUDA devices

100 RK4 steps of 8192 members from their states to final coordinates and rates, and the gradient of their squares by the
states, compiled ahead of time for an H200, without a device. *Kernels* are all that a run launches, *ours* among
them those of fused calls; registers and stack (bytes a member) are those that `ptxas` gives them for {architecture},
the largest where there are several. *Without*: kernels of the same program without fused calls, where it was compiled.
The fingers of the `geared_panda` open together, by a gear.

"""


def compiled_for(function: Callable, *shapes: Any) -> str:
    """The text of the compiled program of `function(*shapes)`."""
    where = topologies.get_topology_desc("1x1x1", platform="cuda", target_config=TARGET.read_text(), topology="1x1x1")
    place = SingleDeviceSharding(where.devices[0])
    placed = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place), shapes)
    return jax.jit(function, in_shardings=place, out_shardings=place).lower(*placed).compile().as_text()


def launches(text: str) -> dict[str, int]:
    """By kind of operation, how many a call of a compiled program launches; loops count as often as they go round,
    where that is written there, else once and under `unknown`."""
    bodies: dict[str, list[str]] = {}
    entry = name = ""
    for line in text.splitlines():
        if start := re.match(r"(ENTRY )?%?([\w.\-]+) \(.*\) -> .* \{$", line):
            name = start[2]
            bodies[name], entry = [], name if start[1] else entry
        elif name and (operation := re.match(r"\s+(?:ROOT )?%?[\w.\-]+ = .*? ([\w\-]+)\((.*)", line)):
            bodies[name].append(f"{operation[1]} {operation[2]}")

    @functools.cache
    def count(name: str) -> collections.Counter[str]:
        found: collections.Counter[str] = collections.Counter()
        for line in bodies[name]:
            kind = line.split(" ", 1)[0]
            inside = re.findall(r"(?:body|to_apply|computation)=%?([\w.\-]+)", line)
            if kind in LAUNCHED:
                found[kind] += 1
            elif kind == "while":
                trips = re.search(r"known_trip_count[^\d]*(\d+)", line)
                found["unknown"] += not trips
                found.update({k: n * int(trips[1] if trips else 1) for k, n in count(inside[0]).items()})
            elif kind == "conditional":
                found.update(max(map(count, _branches(line)), key=lambda c: c.total()))
            elif kind == "call":
                found.update(count(inside[0]))
        return found

    return dict(count(entry))


def _branches(line: str) -> list[str]:
    listed = re.search(r"branch_computations=\{(.*?)\}", line)
    names = listed[1].split(",") if listed else re.findall(r"(?:true|false)_computation=([^,\s]+)", line)
    return [name.strip().lstrip("%") for name in names]


def kernels_in(text: str) -> list[str]:
    """PTX of the fused calls in a compiled program."""
    found = re.findall(r'kernel_data = "((?:[^"\\]|\\.)*)"', text)
    return [re.sub(r"\\([0-9A-Fa-f]{2})", lambda code: chr(int(code[1], 16)), ptx) for ptx in found]


def assembled(ptx: str) -> dict[str, int]:
    """Registers and bytes of stack of a kernel, by `ptxas`; nothing without it."""
    if shutil.which("ptxas") is None:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "kernel.ptx")
        source.write_text(ptx)
        command = ["ptxas", "-v", f"-arch={ARCHITECTURE}", "-o", f"{folder}/kernel.cubin", str(source)]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"ptxas refuses a kernel: {done.stderr[:1000]}")
    said = done.stderr
    numbers = {"registers": r"Used (\d+) registers", "stack": r"(\d+) bytes stack", "spilled": r"(\d+) bytes spill st"}
    return {name: max(map(int, re.findall(form, said)), default=0) for name, form in numbers.items()}


def described(mechanism: str, size: int) -> jmbs.Mechanism:
    """A mechanism of the benchmarks; or the arm whose fingers open together, as its gripper's do, by a gear."""
    made = mechanism_of(system_of(mechanism.removeprefix("geared_"), size))
    if mechanism == "geared_panda":
        driver, joint = (name for name in made.joints if "finger" in name)
        made.add_constraint("gripper", "gear", joint=joint, driver=driver, ratio=1.0)
    return made


def figures(mechanism: str, size: int, precision: str, kind: str, fused: bool = True) -> dict[str, Any]:
    """Of one program."""
    case = Case(mechanism, size, batch=8192, precision=precision, derivative=KINDS[kind])
    model = jmbs.compile(described(mechanism, size), dtype=precision)
    one = derivative_of(case.derivative, simulation(model, case))
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct((case.batch, *x.shape), x.dtype), model.initial_state())
    started = time.perf_counter()
    with fused_calls(fused):
        mapped = (lambda states: jmbs.map_batch(one, states)) if fused else jax.vmap(one)
        text = compiled_for(mapped, shapes)
    seconds = time.perf_counter() - started
    found, codes = launches(text), kernels_in(text)
    parts = [assembled(code) for code in codes]
    most = {name: max(part[name] for part in parts) for name in (parts[0] if parts else {})}
    total = sum(number for name, number in found.items() if name != "unknown")
    more = {"ours": len(codes), "ptx_bytes": sum(map(len, codes)), "compile_s": round(seconds, 1)}
    return {"kernels": total, "launches": found, **more, **most}


def section() -> str:
    """The section of the page of benchmarks, from the committed counts."""
    found = json.loads(RESULT.read_text(encoding="utf-8"))
    rows = []
    for name, row in found["programs"].items():
        numbers = [row.get(key) for key in ("kernels", "ours", "registers", "stack")]
        plain = [found["plain"].get(name, {}).get("kernels")] if found["plain"] else []
        rows.append([name, *("-" if x is None else f"{x:,}" for x in [*numbers, *plain])])
    head = ["program", "kernels", "ours", "registers", "stack", *(["without"] if found["plain"] else [])]
    return INTRODUCTION.format(architecture=ARCHITECTURE) + f"With jax {found['jax']}.\n\n" + table(head, rows)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mechanisms", nargs="*", help=f"{', '.join(dict(COUNTED))}; all of them if there are none")
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--precisions", nargs="*", default=PRECISIONS, choices=PRECISIONS)
    parser.add_argument("--plain", action="store_true", help="without fused calls")
    parser.add_argument("--debug", action="store_true", help="say what becomes of each fused call")
    args = parser.parse_args()
    logging.basicConfig(format="%(message)s")
    logging.getLogger("jmbs").setLevel(logging.DEBUG if args.debug else logging.WARNING)
    jax.config.update("jax_enable_x64", True)
    for mechanism, size in COUNTED:
        for kind in args.kinds if mechanism in (args.mechanisms or dict(COUNTED)) else ():
            for precision in args.precisions:
                case = Case(mechanism, size)
                row = figures(mechanism, size, precision, kind, not args.plain)
                _write("plain" if args.plain else "programs", f"{case.name}, {kind}, {precision}", row)


def _write(part: str, name: str, row: dict[str, Any]) -> None:
    found = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else {"programs": {}, "plain": {}}
    found[part][name] = row
    order = [f"{Case(*m).name}, {kind}, {precision}" for m in COUNTED for kind in KINDS for precision in PRECISIONS]
    found = {"jax": jax.__version__} | {
        p: {n: found[p][n] for n in order if n in found[p]} for p in ("programs", "plain")
    }
    RESULT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(name, {key: value for key, value in row.items() if key != "launches"}, flush=True)


if __name__ == "__main__":
    main()
