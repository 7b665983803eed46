"""Runs as one kernel of a GPU, compiled and not run: a step of one member in registers, memory and instructions.

A run of RK4 steps of each mechanism is translated to C (`jmbs.fused`), compiled by `nvcc` and `ptxas` for compute
capability 9.0, and taken apart by `nvdisasm`. `python -m experiments.benchmarks.fused_sources` writes
`fused_sources.json`, which the page of benchmarks shows. Without the tools it says which is missing.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

import jmbs
from experiments.benchmarks.mechanisms import system_of
from experiments.benchmarks.run_jmbs import initial_states, mechanism_of
from experiments.benchmarks.tables import table
from jmbs.fused import Kernel, Options, translate

HERE = Path(__file__).parent
RESULT = HERE / "fused_sources.json"
ARCHITECTURE = "sm_90"
TOOLS = "nvcc", "ptxas", "nvdisasm"
STEPS = 100
MECHANISMS = {"chain of 8": ("chain", 8), "Panda": ("panda", 1), "humanoid": ("humanoid", 1)}
FORMS = {
    "constants, written out": (Options(), True),
    "constants, loops": (Options(unroll_below=1), True),
    "shared, written out": (Options(), False),
}
"""Whether parameters are constants of the program or arguments that all members share; and loops along the tree."""
STAGES = 4
"""Of RK4, a loop in a step."""
LONG = 300
"""Instructions of a loop that may be that of the steps or the stages."""
COLUMNS = ("source lines", "registers", "stack bytes", "spilled bytes", "instructions a step", "code kB", "compile s")
INTRODUCTION = """## One kernel a run, compiled and not run

A run of 100 RK4 steps as one program of one member, translated to C and compiled for compute capability 9.0; on no
device. *Instructions a step*: those of the loop over steps, of its four stages four times, with paths that are seldom
taken; *parameters* are constants of the program, as in fused calls, or arguments that all members share; the *tree* is
walked in loops or written out; *stack* and *spilled bytes* are local memory of one thread; *compile*: nvcc and ptxas.

"""


def program_of(mechanism: str, size: int, precision: str) -> tuple[ClosedJaxpr, list[Any]]:
    """The steps of a run of one member, from first to last; and those of its arguments that no state changes."""
    system = system_of(mechanism, size)
    model = jmbs.compile(mechanism_of(system), dtype=precision)
    states = initial_states(model, system, system.q[None], system.v[None])
    state, static = eqx.partition(jax.tree.map(lambda x: x[0], states), eqx.is_array)

    def run(state: Any) -> Any:
        settings: dict[str, Any] = {"solver": "rk4", "dt": 1e-3, "t1": 1e-3 * STEPS, "audit": False, "throw": False}
        return eqx.filter(jmbs.simulate(model, eqx.combine(state, static), **settings), eqx.is_array)

    program = jax.make_jaxpr(run)(state)
    return max(_kernels(program, [None] * len(program.jaxpr.invars)), key=lambda found: _rounds(found[0].jaxpr))


def _kernels(program: ClosedJaxpr, args: Sequence[Any]) -> Iterator[tuple[ClosedJaxpr, list[Any]]]:
    """The largest of the program, with those of their arguments that are known if these are; None for others."""
    known: dict[Any, Any] = dict(zip(program.jaxpr.constvars, program.consts, strict=True))
    known.update(zip(program.jaxpr.invars, args, strict=True))
    for eqn in program.jaxpr.eqns:
        given = [atom.val if hasattr(atom, "val") else known.get(atom) for atom in eqn.invars]
        if eqn.primitive.name == "one_kernel":
            yield eqn.params["program"], given
        elif eqn.primitive.name == "jit":
            yield from _kernels(eqn.params["jaxpr"], given)
        if all(x is not None for x in given):
            values = eqn.primitive.bind(*given, **eqn.primitive.get_bind_params(eqn.params))
            known.update(zip(eqn.outvars, values if eqn.primitive.multiple_results else [values], strict=True))


def _rounds(jaxpr: Any) -> int:
    return max((eqn.params["length"] for eqn in jaxpr.eqns if eqn.primitive.name == "scan"), default=0)


def kernel_of(program: ClosedJaxpr, known: Sequence[Any], form: str) -> Kernel:
    """The kernel: what no state changes is shared by all members, or constant."""
    options, constant = FORMS[form]
    if not constant:
        return translate(program, [x is None for x in known], options=options)

    def rest(*args: Any) -> list[Any]:
        given = iter(args)
        return jaxpr_as_fun(program)(*(next(given) if x is None else x for x in known))[: -len(known)]

    shapes = [jax.ShapeDtypeStruct(t.shape, t.dtype) for t, x in zip(program.in_avals, known, strict=True) if x is None]
    return translate(jax.make_jaxpr(rest)(*shapes), [True] * len(shapes), options=options)


def measured(kernel: Kernel, folder: Path) -> dict[str, Any]:
    """What the compilers say of it."""
    text, ptx, cubin = (folder / f"kernel.{end}" for end in ("cu", "ptx", "cubin"))
    text.write_text(kernel.source, encoding="utf-8")
    start = time.perf_counter()
    _call("nvcc", f"-arch={ARCHITECTURE}", "-w", "-ptx", "-o", ptx, text)
    said = _call("ptxas", f"-arch={ARCHITECTURE}", "-v", "-o", cubin, ptx)
    seconds = time.perf_counter() - start
    number = lambda pattern: max(map(int, re.findall(pattern, said)), default=0)  # noqa: E731
    instructions, whole = instructions_of_step(_call("nvdisasm", "-c", cubin))
    return {
        "source lines": kernel.source.count("\n"),
        "registers": number(r"Used (\d+) registers"),
        "stack bytes": number(r"(\d+) bytes stack frame"),
        "spilled bytes": number(r"(\d+) bytes spill stores"),
        "instructions a step": instructions,
        "code kB": round(whole * 16 / 1024),
        "compile s": round(seconds),
    }


def _call(*command: Any) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


def instructions_of_step(listing: str) -> tuple[int, int]:
    """Of one step, and of the whole code, from what `nvdisasm -c` prints."""
    places: dict[str, int] = {}
    instructions: list[str] = []
    for line in listing.splitlines():
        if label := re.match(r"\s*(\.L_\S+):", line):
            places[label[1]] = len(instructions)
        elif instruction := re.match(r"\s*/\*[0-9a-f]+\*/\s+(.*?);", line):
            instructions.append(instruction[1])
    jumps = ((re.search(r"BRA.*`\((\.L_\S+)\)", text), i) for i, text in enumerate(instructions))
    loops = [(places[to[1]], i + 1) for to, i in jumps if to and places.get(to[1], i + 1) <= i]
    loops = sorted({loop for loop in loops if loop[1] - loop[0] > LONG}, key=lambda loop: loop[0] - loop[1])
    if not loops:
        return 0, len(instructions)
    steps, *inner = loops
    stages = next((loop for loop in inner if steps[0] <= loop[0] and loop[1] <= steps[1]), (0, 0))
    return steps[1] - steps[0] + (STAGES - 1) * (stages[1] - stages[0]), len(instructions)


def section() -> str:
    """The section of the page of benchmarks, from the committed numbers."""
    found = json.loads(RESULT.read_text(encoding="utf-8"))
    rows = [[*name.split(", "), *(f"{row[column]:,}" for column in COLUMNS)] for name, row in found["rows"].items()]
    versions = f"Compiled by nvcc {found['nvcc']}.\n\n"
    return f"{INTRODUCTION}{versions}" + table(["mechanism", "precision", "parameters", "tree", *COLUMNS], rows)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mechanisms", nargs="*", help=f"of {', '.join(MECHANISMS)}; all of them if there are none")
    parser.add_argument("--precision", nargs="*", default=["float32", "float64"])
    parser.add_argument("--forms", nargs="*", default=list(FORMS))
    parser.add_argument("--keep", type=Path, help="a folder for sources and machine code")
    wanted = parser.parse_args()
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        sys.exit(f"not on the path: {', '.join(missing)}; they come with NVIDIA's CUDA toolkit")
    jax.config.update("jax_enable_x64", True)
    rows = json.loads(RESULT.read_text(encoding="utf-8"))["rows"] if RESULT.exists() else {}
    version = re.findall(r"release ([\d.]+)", _call("nvcc", "--version"))[0]
    for name in wanted.mechanisms or MECHANISMS:
        for precision in wanted.precision:
            program, known = program_of(*MECHANISMS[name], precision)
            for form in wanted.forms:
                kernel = kernel_of(program, known, form)
                with tempfile.TemporaryDirectory() as folder:
                    place = wanted.keep or Path(folder)
                    row = rows[f"{name}, {precision}, {form}"] = measured(kernel, place)
                print(name, precision, form, row, flush=True)
                RESULT.write_text(json.dumps({"nvcc": version, "rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
