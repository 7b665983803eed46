"""The first stages of all starts side by side: what each asks for next is one batch, on devices that like batches.

On CPUs starts go one after the other: another program would take longer to compile than it saves.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jmbs.identification.estimation import (
    EARLY_ITERATIONS,
    EARLY_TOLERANCE,
    after_stage,
    at_first_stage,
    beliefs_of,
    horizons_of,
    limits_of,
    stages_of,
)
from jmbs.identification.least_squares import Iterate, Limits, Search, search
from jmbs.identification.position import Position, Progress, iterations_before
from jmbs.identification.problem import FitProblem
from jmbs.jaxext import runs_on_cpu
from jmbs.programs import cached_jit

Seen = Callable[[Position, Progress], None]


def are_batched(problem: FitProblem) -> bool:
    """Whether starts go side by side: of shooting with a growing horizon, on anything but CPUs."""
    asked = problem.study.estimator
    return asked.starts > 1 and asked.method == "shooting" and asked.horizon == "growing" and not runs_on_cpu()


def first_stages(problem: FitProblem, positions: tuple[Position, ...], seen: Seen) -> tuple[Position, ...]:
    """Takes all starts to the begin of their last stage, each as it would go alone; those that are further stay.

    `seen` is called after each iteration of one, with the position of the first that holds all in `waiting`.
    """
    estimator = problem.study.estimator
    stages = stages_of(estimator)
    at = [at_first_stage(problem, stages, position) for position in positions]
    last = limits_of(problem)
    limits = dataclasses.replace(last, tolerance=EARLY_TOLERANCE, most=EARLY_ITERATIONS)
    for number, stage in enumerate(stages[:-1]):
        horizons, samples = horizons_of(problem, stage.part)

        def show(k: int, iterate: Iterate, number: int = number, samples: int = samples) -> None:
            at[k] = dataclasses.replace(at[k], iterate=iterate)
            done = sum(iterations_before(position)[0] for position in at)
            cost = 2 * iterate.cost / max(samples, 1)
            shown = Progress(number + 1, len(stages), done, cost, iterate.step, iterate.change)
            seen(dataclasses.replace(at[0], waiting=tuple(at)), shown)

        under_way = [k for k, position in enumerate(at) if position.stage == number]
        for k, iterate in _side_by_side(problem, at, under_way, limits, horizons, show).items():
            at[k] = after_stage(problem, stages, dataclasses.replace(at[k], iterate=iterate))
    return tuple(at)


def _side_by_side(
    problem: FitProblem,
    at: list[Position],
    under_way: list[int],
    limits: Limits,
    horizons: Mapping[str, float],
    show: Callable[[int, Iterate], None],
) -> dict[int, Iterate]:
    """One stage of those under way, by number. A batch is always of all starts, so that one program serves it."""
    asked: dict[int, np.ndarray] = {}
    searches: dict[int, Search] = {}
    found: dict[int, Iterate] = {}
    for k in under_way:
        searches[k] = search(at[k].iterate, limits, lambda iterate, k=k: show(k, iterate))
        _go_on(k, searches[k], None, asked, found)
    vectors = np.stack([position.iterate.x for position in at])
    while asked:
        for k, x in asked.items():
            vectors[k] = x
        rows = _rows(problem, vectors, horizons)
        problem.counts.simulations += len(asked) * len(problem.training)
        problem.counts.jacobians += len(asked) * len(problem.training)
        for k in list(asked):
            _go_on(k, searches[k], (rows[0][k], rows[1][k]), asked, found)
    return found


def _go_on(
    k: int, one: Search, answer: tuple[np.ndarray, Any] | None, asked: dict[int, np.ndarray], found: dict[int, Iterate]
) -> None:
    """Hands a search its answer, None at its begin, and keeps what it asks for next, or where it ended."""
    try:
        asked[k] = next(one) if answer is None else one.send(answer)
    except StopIteration as end:
        found[k] = end.value
        asked.pop(k, None)


def _rows(
    problem: FitProblem, vectors: np.ndarray, horizons: Mapping[str, float]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Residuals (m,) and Jacobians (m, p) of all rows at each of the vectors (s, p); see `rows_of`."""
    count, p = vectors.shape
    residuals: list[list[np.ndarray]] = [[] for _ in range(count)]
    jacobians: list[list[np.ndarray]] = [[] for _ in range(count)]
    for e in problem.training:
        local, until = (jnp.asarray(a, e.member.model.dtype) for a in (vectors[:, e.local], horizons[e.recording.name]))
        residual, jacobian = (np.asarray(array, float) for array in _many(e.program, e.member, local, until))
        for k in range(count):
            whole = np.zeros((residual[k].size, p))
            whole[:, e.local] = jacobian[k].reshape(residual[k].size, -1)
            residuals[k].append(residual[k].reshape(-1))
            jacobians[k].append(whole)
    for k, x in enumerate(vectors):
        more, derivative = beliefs_of(problem, x, pull=True)
        residuals[k].append(more)
        jacobians[k].append(derivative)
    return [np.concatenate(rows) for rows in residuals], [np.concatenate(rows) for rows in jacobians]


@cached_jit
def _many(program: Any, member: Any, local: jax.Array, until: jax.Array) -> tuple[jax.Array, jax.Array]:
    return jax.vmap(lambda one: program.evaluate(member, one, until))(local)
