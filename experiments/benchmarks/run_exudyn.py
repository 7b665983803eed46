"""Exudyn's worker: one mechanism at a time, its whole time loop in C++."""

# The bindings are compiled, without stubs, and live in an environment of their own.
# pyright: reportAttributeAccessIssue=false, reportMissingImports=false
from __future__ import annotations

import time
from typing import Any

import exudyn as exu
import numpy as np

from experiments.benchmarks import exudyn_models
from experiments.benchmarks.cases import Case
from experiments.benchmarks.kinematics import random_states
from experiments.benchmarks.mechanisms import system_of
from experiments.benchmarks.neutral import System
from experiments.benchmarks.worker import KEPT_MEMBERS, Prepared, Unsupported, serve

METHODS = {"rk4": "RK44", "dopri5": "DOPRI5", "euler": "ExplicitEuler"}
MOST_MEMBERS = KEPT_MEMBERS
"""Of a batch, which is done one after the other: the rate of more would be the same."""
STEP = 1e-3
"""Of the one explicit Euler step that yields accelerations, s; its length cancels."""


def describe() -> dict[str, Any]:
    """Version."""
    return {"exudyn": exu.__version__}


def prepare(case: Case) -> Prepared:
    """The first members' runs, one after the other."""
    if case.method not in METHODS or case.precision != "float64" or case.derivative != "none" or case.audit:
        raise Unsupported(f"{case.method} in {case.precision} with derivative {case.derivative}")
    system = system_of(case.mechanism, case.size)
    members = min(case.batch, MOST_MEMBERS)
    states = list(zip(*random_states(system, members), strict=True))
    started = time.perf_counter()
    one = _window_run(system, states, case) if system.loops else _tree_run(system, states, case)
    built = time.perf_counter() - started

    def run() -> list[tuple[np.ndarray, np.ndarray]]:
        return [one(i) for i in range(members)]

    def final(outcome: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
        ends = [(exudyn_models.from_windows if system.loops else exudyn_models.from_tree)(system, *x) for x in outcome]
        q, v = zip(*ends, strict=True)
        if system.loops:
            q = [x + start for x, (start, _) in zip(q, states, strict=True)]
        return np.array(q), np.array(v)

    note = "implicit trapezoidal rule of index 2, planar redundant coordinates" if system.loops else ""
    return Prepared(run, final, {"plan_s": built, "compile_s": 0.0, "members": members, "note": note})


def _tree_run(system: System, states: list[tuple[np.ndarray, np.ndarray]], case: Case):
    container, mbs = exudyn_models.tree(system)
    starts = [exudyn_models.to_tree(system, *state) for state in states]
    solver = getattr(exu.DynamicSolverType, METHODS[case.method])

    def one(i: int) -> tuple[np.ndarray, np.ndarray]:
        assert container is not None  # it must outlive the system
        _start(mbs, *starts[i])
        return _solve(mbs, _settings(case.steps, case.dt), solver)

    return one


def _window_run(system: System, states: list[tuple[np.ndarray, np.ndarray]], case: Case):
    models = [exudyn_models.windows(system, *state) for state in states]

    def one(i: int) -> tuple[np.ndarray, np.ndarray]:
        return _solve(models[i][1], _settings(case.steps, case.dt), exu.DynamicSolverType.TrapezoidalIndex2)

    return one


def _start(mbs: Any, q: np.ndarray, v: np.ndarray) -> None:
    mbs.systemData.SetODE2Coordinates(q, exu.ConfigurationType.Initial)
    mbs.systemData.SetODE2Coordinates_t(v, exu.ConfigurationType.Initial)


def _solve(mbs: Any, settings: Any, solver: Any) -> tuple[np.ndarray, np.ndarray]:
    mbs.SolveDynamic(settings, solverType=solver)
    current = exu.ConfigurationType.Current
    return np.array(mbs.systemData.GetODE2Coordinates(current)), np.array(mbs.systemData.GetODE2Coordinates_t(current))


def _settings(steps: int, dt: float) -> Any:
    settings = exu.SimulationSettings()
    settings.timeIntegration.numberOfSteps = steps
    settings.timeIntegration.endTime = steps * dt
    settings.timeIntegration.automaticStepSize = False
    settings.timeIntegration.verboseMode = 0
    settings.solution.file.write = False
    settings.solution.sensors.active = False
    return settings


def accelerations(system: System, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of a tree, from one explicit Euler step, whose change of rates is the step times the accelerations."""
    if system.loops:
        raise Unsupported("the planar model with loops has an implicit solver")
    container, mbs = exudyn_models.tree(system)
    rows = []
    for state in zip(q, v, strict=True):
        start = exudyn_models.to_tree(system, *state)
        _start(mbs, *start)
        _, rates = _solve(mbs, _settings(1, STEP), exu.DynamicSolverType.ExplicitEuler)
        rows.append(exudyn_models.acceleration_from_tree(system, *start, (rates - start[1]) / STEP))
    return q, v, np.array(rows)


if __name__ == "__main__":
    serve(describe, prepare, accelerations)
