"""What each work-around for JAX and XLA is worth: time to run and to compile without it, in times of that with all.

`python -m experiments.benchmarks.workarounds` runs each task with one work-around off (the environment variable
JMBS_WITHOUT) in a process of its own, with all of them before, between and after, and writes `workarounds.json`, which
`docs/jaxext.md` shows between its marks. CPU times, the least of several; it takes half an hour.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from experiments.benchmarks.program_sizes import CONFIGS
from experiments.benchmarks.tables import number, table
from jmbs.jaxext.switches import VARIABLE, WORKAROUNDS

RESULT = Path(__file__).parent / "workarounds.json"
PAGE = Path(__file__).parents[2] / "docs" / "jaxext.md"
REPEATS, LEAST = 5, 0.3
"""Calls of a task are timed so often, each so many s long at least."""
TASKS = {
    "pendulum": "a pendulum alone, 1000 steps",
    "chain": "256 chains of 8 links, 100 steps",
    "chain, gradient": "a chain's reverse gradient by a mass, 100 steps",
    "chain, Jacobian": "a chain's forward Jacobian by four masses, 100 steps",
    "slider-crank": "a slider-crank alone, 200 steps",
    "slider-cranks": "64 slider-cranks, 50 steps",
    "humanoid": "256 humanoids, 100 steps",
    "four_bar": "256 pairs of four-bars, 100 steps",
}

MODELS = {
    "pendulum": ("pendulum", "rod/mass"),
    "chain": ("chain_8", "link1/mass"),
    "slider": ("slider_crank", "rod/mass"),
}
"""By how names of tasks begin, a shipped config and a mass in it."""
MECHANISMS = {"humanoid": 1, "four_bar": 2}
"""Of the other benchmarks, and their sizes."""


def _task(name: str) -> tuple[Callable, Any]:
    """A function and what it is called with."""
    import jax
    import jax.numpy as jnp

    import jmbs

    if name in MECHANISMS:
        return _of_many(name)
    config, path = next(found for start, found in MODELS.items() if name.startswith(start))
    model = jmbs.compile(jmbs.load(CONFIGS / f"{config}.yaml"))
    state = model.initial_state()
    steps = {"pendulum": 1000, "slider-crank": 200, "slider-cranks": 50}.get(name, 100)

    def final(mass: Any, adjoint: str = "auto") -> Any:
        changed = model.with_parameters({path: mass}) if jnp.ndim(mass) == 0 else _with_masses(model, mass)
        times = [0.0, steps * 1e-3]
        run = jmbs.simulate(changed, state, ts=times, dt=1e-3, solver="rk4", audit=False, adjoint=adjoint, throw=False)
        return run.saved.blocks[0][-1].ravel()

    match name:
        case "pendulum" | "slider-crank":
            return final, jnp.asarray(1.2)
        case "chain":
            return jax.vmap(final), jnp.linspace(0.5, 2.0, 256)
        case "slider-cranks":
            return jax.vmap(final), jnp.linspace(0.5, 2.0, 64)
        case "chain, gradient":
            return jax.grad(lambda mass: final(mass).sum()), jnp.asarray(1.2)
    return jax.jacfwd(lambda masses: final(masses, "forward")), jnp.full(4, 1.2)


def _of_many(mechanism: str) -> tuple[Callable, Any]:
    """100 RK4 steps of 256 members."""
    import jax

    import jmbs
    from experiments.benchmarks import run_jmbs
    from experiments.benchmarks.cases import Case
    from experiments.benchmarks.kinematics import random_states
    from experiments.benchmarks.mechanisms import system_of

    case = Case(mechanism, MECHANISMS[mechanism], 256, precision="float64")
    system = system_of(case.mechanism, case.size)
    model = jmbs.compile(run_jmbs.mechanism_of(system))
    states = run_jmbs.initial_states(model, system, *random_states(system, case.batch))
    return jax.vmap(run_jmbs.simulation(model, case)), states


def _with_masses(model: Any, masses: Any) -> Any:
    return model.with_parameters({f"link{i + 1}/mass": mass for i, mass in enumerate(masses)})


def measured(name: str) -> dict[str, float]:
    """CPU seconds to compile a task and to run it, in this process."""
    import jax

    jax.config.update("jax_enable_x64", True)
    function, given = _task(name)
    start = time.process_time()
    compiled = jax.jit(function).lower(given).compile()
    found = {"compile": time.process_time() - start}
    jax.block_until_ready(compiled(given))
    best = float("inf")
    for _ in range(REPEATS):
        start, calls = time.process_time(), 0
        while time.process_time() - start < LEAST:
            jax.block_until_ready(compiled(given))
            calls += 1
        best = min(best, (time.process_time() - start) / calls)
    return found | {"run": best}


def _in_process(task: str, without: str) -> dict[str, float] | None:
    """The same in a process of its own, without a work-around; None where that does not end well."""
    command = [sys.executable, "-m", "experiments.benchmarks.workarounds", "--measure", task]
    done = subprocess.run(
        command, env=os.environ | {VARIABLE: without}, capture_output=True, text=True, check=False, timeout=900
    )
    return json.loads(done.stdout) if done.returncode == 0 else None


def text() -> str:
    """The table for the page."""
    found = json.loads(RESULT.read_text(encoding="utf-8"))
    names = list(next(iter(found.values())))
    shown = {name: name if name == "all" else f"`{name}`" for name in names}
    rows = [[shown[name], *(_cell(found[task].get(name)) for task in TASKS)] for name in names]
    return table(["without", *TASKS.values()], rows)


def _cell(ratios: dict[str, float] | None) -> str:
    return "-" if ratios is None else f"{number(ratios['run'], 2)} ({number(ratios['compile'], 2)})"


def write_page() -> None:
    """Puts the table between the marks of the page."""
    page = PAGE.read_text(encoding="utf-8")
    marked = re.sub(r"(?s)(<!-- workarounds -->\n).*?(<!-- end -->)", lambda m: m[1] + text() + m[2], page)
    PAGE.write_text(marked, encoding="utf-8")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", default=list(TASKS), help="names of tasks (default: all)")
    parser.add_argument("--names", nargs="*", help="names of work-arounds, or all (default: each, and all)")
    parser.add_argument("--measure", metavar="TASK", help="measure one task in this process and print it as JSON")
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measured(given.measure)))
        return
    content = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else {}
    for task in given.tasks:
        names = given.names or [*WORKAROUNDS, "all"]
        half = len(names) // 2
        order = ["", *names[:half], "", *names[half:], ""]
        found = [(name, _in_process(task, name)) for name in order]
        whole = [times for name, times in found if not name and times]
        least = {key: min(times[key] for times in whole) for key in whole[0]}
        content[task] = {
            name: times and {key: times[key] / least[key] for key in times} for name, times in found if name
        }
        print(task, content[task], flush=True)
        RESULT.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    write_page()


if __name__ == "__main__":
    main()
