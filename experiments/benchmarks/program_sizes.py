"""Sizes of programs: StableHLO operations of a run of each shipped config, lowered for this machine and not compiled.

What a program takes to compile grows with them, so they are watched like its speed. `python -m
experiments.benchmarks.program_sizes` counts them anew and writes `program_sizes.json`; the page of benchmarks shows it,
and tests hold every number under a bound.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

import jmbs
from experiments.benchmarks.tables import table
from jmbs.simulation.assembly import assemble

HERE = Path(__file__).parent
CONFIGS = HERE.parents[1] / "configs"
RESULT = HERE / "program_sizes.json"
FIXED = {"solver": "rk4", "dt": 1e-3, "t1": 0.1, "save_every": 0.01}
COLUMNS = ("RK4", "default", "default, audited", "reverse gradient", "forward Jacobian", "initial state")
INTRODUCTION = """## Sizes of programs

StableHLO operations of one run as one program, from a given state, lowered on a CPU and not compiled. *RK4* and
*default* (the config's own method) are without audit; the derivatives are those of a final coordinate in a run with
RK4, by one parameter and by three. *Initial state* is the assembly of a consistent one, which every run from a config
begins with.

"""


def count(function: Callable, *args: Any) -> int:
    """StableHLO operations, and calls, of `jax.jit(function)`."""
    lines = jax.jit(function).lower(*args).as_text().splitlines()
    text = "\n".join(line for line in lines if not line.lstrip().startswith(("module", "#")))
    return len(re.findall(r"\b(?:stablehlo|chlo)\.\w+", text)) + len(re.findall(r"\bcall @", text))


def sizes(config: Path) -> dict[str, int]:
    """By column."""
    model = jmbs.compile(jmbs.load(config))
    state, names = model.initial_state(), _varied(model)
    arrays, static = eqx.partition(model, eqx.is_array)
    values = {name: jnp.asarray(model.parameters()[name]["value"]) for name in names}

    def run(arrays, state, **settings) -> Any:
        trajectory = jmbs.simulate(eqx.combine(arrays, static), state, throw=False, **settings)
        return eqx.filter(trajectory, eqx.is_array)

    def final(values, arrays, state) -> jax.Array:
        changed = eqx.combine(arrays, static).with_parameters(values)
        trajectory = jmbs.simulate(changed, state, throw=False, audit=False, **FIXED)
        read = trajectory.q or trajectory.states or trajectory.position
        return next(value for value in read.values() if value.shape[-1])[-1].ravel()[0]

    def begun(arrays) -> Any:
        return eqx.filter(assemble(eqx.combine(arrays, static), jnp.zeros(()), differentiable=False), eqx.is_array)

    one = {name: values[name] for name in names[:1]}
    return {
        "RK4": count(lambda *given: run(*given, audit=False, **FIXED), arrays, state),
        "default": count(lambda *given: run(*given, audit=False), arrays, state),
        "default, audited": count(run, arrays, state),
        "reverse gradient": count(jax.grad(final), one, arrays, state),
        "forward Jacobian": count(jax.jacfwd(final), values, arrays, state),
        "initial state": count(begun, arrays),
    }


def _varied(model: jmbs.Model) -> list[str]:
    """Three parameters, masses and other numbers first."""
    table = {name: entry for name, entry in model.parameters().items() if not name.startswith(("initial", "env"))}
    return sorted(table, key=lambda name: (table[name]["shape"] != (), not name.endswith("/mass")))[:3]


def section() -> str:
    """The section of the page of benchmarks, from the committed counts."""
    found = json.loads(RESULT.read_text(encoding="utf-8"))
    rows = [[name, *(f"{row[column]:,}" for column in COLUMNS)] for name, row in found["configs"].items()]
    return f"{INTRODUCTION}Counted with jax {found['jax']}.\n\n" + table(["config", *COLUMNS], rows)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("configs", nargs="*", help="names of shipped configs; all of them if there are none")
    wanted = parser.parse_args().configs or sorted(path.stem for path in CONFIGS.glob("*.yaml"))
    jax.config.update("jax_enable_x64", True)
    before = json.loads(RESULT.read_text(encoding="utf-8"))["configs"] if RESULT.exists() else {}
    for name in wanted:
        before[name] = sizes(CONFIGS / f"{name}.yaml")
        print(f"{name:28s}" + "".join(f"{before[name][column]:>10d}" for column in COLUMNS), flush=True)
    found = {"jax": jax.__version__, "configs": dict(sorted(before.items()))}
    RESULT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
