"""A loop over `model.step` beside a run with as many fixed steps: operations of both programs, and times in turns.

`python -m experiments.benchmarks.stepping` prints the table of `docs/stepping.md`: CPU times of this process, the least
of each; without audit, saved at the end alone.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import jmbs
from experiments.benchmarks.program_sizes import CONFIGS, count
from experiments.benchmarks.tables import table

DT = 1e-3
CASES = {"pendulum": 100_000, "chain_8": 5000, "slider_crank": 500}
"""Config, and how many steps a single member takes, so many that a call's own time is little; a batch takes a tenth."""
ROADS: tuple[str, ...] = (
    "run",
    "inner states",
    "inner states, one kernel",
    "inner states, `steps=10`",
    "states",
    "states, one kernel",
    "states, `steps=10`",
)


def roads(model: jmbs.Model, steps: int) -> dict[str, Callable[[jmbs.State], Any]]:
    """Functions of a state that take so many steps."""

    def run(state: jmbs.State) -> jax.Array:
        times = [0.0, steps * DT]
        return jmbs.simulate(model, state, ts=times, dt=DT, solver="rk4", audit=False, throw=False).q.array

    def inner(state: jmbs.State) -> Any:
        step = lambda inner, _: (model.step(inner, None, DT), None)  # noqa: E731
        return jax.lax.scan(step, model.inner_state(state), None, steps)[0].blocks

    def inner_tens(state: jmbs.State) -> Any:
        step = lambda inner, _: (model.step(inner, None, 10 * DT, steps=10), None)  # noqa: E731
        return jax.lax.scan(step, model.inner_state(state), None, steps // 10)[0].blocks

    def outer(state: jmbs.State) -> Any:
        return jax.lax.scan(lambda state, _: (model.step(state, None, DT), None), state, None, steps)[0].blocks

    def tens(state: jmbs.State) -> Any:
        step = lambda state, _: (model.step(state, None, 10 * DT, steps=10), None)  # noqa: E731
        return jax.lax.scan(step, state, None, steps // 10)[0].blocks

    as_one = [functools.partial(jmbs.as_one_kernel, loop) for loop in (inner, outer)]
    return dict(zip(ROADS, (run, inner, as_one[0], inner_tens, outer, as_one[1], tens), strict=True))


def measured(name: str, batch: int, turns: int) -> list[list[str]]:
    """A row for each road."""
    model = jmbs.compile(jmbs.load(CONFIGS / f"{name}.yaml"))
    settings = dataclasses.replace(model.settings, method="rk4", dt=DT, rtol=None, atol=None)
    model, state = dataclasses.replace(model, settings=settings), model.initial_state()
    steps = CASES[name] if batch == 1 else CASES[name] // 10
    mapped = (lambda function: function) if batch == 1 else jax.vmap
    functions = {road: jax.jit(mapped(function)) for road, function in roads(model, steps).items()}
    state = eqx.filter(state, eqx.is_array)
    if batch > 1:
        state = jax.tree.map(lambda x: jnp.broadcast_to(x, (batch, *x.shape)), state)
    best: dict[str, float] = dict.fromkeys(ROADS, np.inf)
    for _ in range(turns + 1):
        for road, function in functions.items():
            start = time.process_time()
            jax.block_until_ready(function(state))
            best[road] = min(best[road], time.process_time() - start)
    rows = []
    for road, function in functions.items():
        each = best[road] / steps / batch * 1e6
        ratio = best[road] / best["run"]
        rows.append([name, str(batch), road, f"{count(function, state):,}", f"{each:.3g}", f"{ratio:.2f}"])
    return rows


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("configs", nargs="*", default=list(CASES))
    parser.add_argument("--turns", type=int, default=8)
    given = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    rows = []
    for name in given.configs:
        for batch in (1, 256):
            rows += measured(name, batch, given.turns)
            print(rows[-len(ROADS) :], flush=True)
    print(table(["config", "members", "loop over", "operations", "us per step and member", "time / run"], rows))


if __name__ == "__main__":
    main()
