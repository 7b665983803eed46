"""C MuJoCo's worker: whole rollouts in C, members spread over threads by `mujoco.rollout`."""

# The bindings are compiled, without stubs, and live in an environment of their own.
# pyright: reportAttributeAccessIssue=false, reportMissingImports=false
from __future__ import annotations

import os
import time
from typing import Any

import mujoco
import numpy as np
from mujoco import rollout

from experiments.benchmarks.cases import Case
from experiments.benchmarks.kinematics import random_states
from experiments.benchmarks.mechanisms import system_of
from experiments.benchmarks.mjcf import acceleration_from_mujoco, from_mujoco, mjcf, to_mujoco
from experiments.benchmarks.neutral import System
from experiments.benchmarks.worker import KEPT_MEMBERS, Prepared, Unsupported, serve

INTEGRATORS = {"rk4": "RK4", "euler": "Euler"}


def describe() -> dict[str, Any]:
    """Version."""
    return {"mujoco": mujoco.__version__}


def prepare(case: Case) -> Prepared:
    """A rollout of the whole batch. Its threads live on between runs. It saves every state: MuJoCo offers no other."""
    if case.method not in INTEGRATORS or case.precision != "float64" or case.derivative != "none":
        raise Unsupported(f"{case.method} in {case.precision} with derivative {case.derivative}")
    system = system_of(case.mechanism, case.size)
    started = time.perf_counter()
    model = mujoco.MjModel.from_xml_string(mjcf(system, case.dt, INTEGRATORS[case.method]))
    built = time.perf_counter() - started
    threads = case.threads or len(os.sched_getaffinity(0))
    data = [mujoco.MjData(model) for _ in range(threads)]
    initial = _full_states(model, data[0], *to_mujoco(system, *random_states(system, case.batch)))
    runner = rollout.Rollout(nthread=threads if threads > 1 else 0)
    states = np.empty((case.batch, case.steps, initial.shape[1]))

    def run() -> np.ndarray:
        runner.rollout(model, data, initial, nstep=case.steps, state=states)
        return states

    def final(states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        # A full state is the time, then qpos, then qvel.
        end = states[:KEPT_MEMBERS, -1, 1 : 1 + model.nq + model.nv]
        return from_mujoco(system, end[:, : model.nq], end[:, model.nq :])

    note = "soft loop constraints" if system.loops else ""
    return Prepared(run, final, {"plan_s": built, "compile_s": 0.0, "threads": threads, "note": note})


def _full_states(model: mujoco.MjModel, data: mujoco.MjData, qpos: np.ndarray, qvel: np.ndarray) -> np.ndarray:
    kind = mujoco.mjtState.mjSTATE_FULLPHYSICS
    states = np.empty((len(qpos), mujoco.mj_stateSize(model, kind)))
    for i in range(len(qpos)):
        mujoco.mj_resetData(model, data)
        data.qpos, data.qvel = qpos[i], qvel[i]
        mujoco.mj_getState(model, data, states[i], kind)
    return states


def accelerations(system: System, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of a tree; raises `Unsupported` for loops, which are soft here."""
    if system.loops:
        raise Unsupported("loops are soft: accelerations are not those of hard constraints")
    model = mujoco.MjModel.from_xml_string(mjcf(system, 1e-3))
    data = mujoco.MjData(model)
    qpos, qvel = to_mujoco(system, q, v)
    qacc = np.empty_like(qvel)
    for i in range(len(q)):
        data.qpos, data.qvel = qpos[i], qvel[i]
        mujoco.mj_forward(model, data)
        qacc[i] = data.qacc
    return q, v, acceleration_from_mujoco(system, qpos, qvel, qacc)


if __name__ == "__main__":
    serve(describe, prepare, accelerations)
