"""MuJoCo Warp's worker: the step captured once as a graph on a GPU and launched again and again."""

# The bindings are compiled, without stubs, and live in an environment of their own.
# pyright: reportAttributeAccessIssue=false, reportMissingImports=false
from __future__ import annotations

import tempfile
import time
from typing import Any

import mujoco
import mujoco_warp as mjw
import numpy as np
import warp as wp

from experiments.benchmarks.cases import Case
from experiments.benchmarks.kinematics import random_states
from experiments.benchmarks.mechanisms import system_of
from experiments.benchmarks.mjcf import acceleration_from_mujoco, from_mujoco, mjcf, to_mujoco
from experiments.benchmarks.neutral import System
from experiments.benchmarks.worker import KEPT_MEMBERS, Prepared, Unsupported, serve

INTEGRATORS = {"rk4": "RK4", "euler": "Euler"}

# A kernel cache of earlier runs would hide the time to compile.
CACHE = tempfile.TemporaryDirectory(prefix="jmbs-benchmarks-warp-")
wp.config.kernel_cache_dir = CACHE.name
wp.config.quiet = True


def describe() -> dict[str, Any]:
    """Versions and the device."""
    wp.init()
    return {"warp": wp.config.version, "mujoco": mujoco.__version__, "device": wp.get_device().name}


def prepare(case: Case) -> Prepared:
    """The batch as worlds of one model, in single precision, which is the only one that Warp's MuJoCo has."""
    if case.method not in INTEGRATORS or case.precision != "float32" or case.derivative != "none" or case.audit:
        raise Unsupported(f"{case.method} in {case.precision} with derivative {case.derivative}")
    wp.init()
    system = system_of(case.mechanism, case.size)
    device = wp.get_device("cuda:0" if case.device == "gpu" else "cpu")
    started = time.perf_counter()
    with wp.ScopedDevice(device):
        host = mujoco.MjModel.from_xml_string(mjcf(system, case.dt, INTEGRATORS[case.method]))
        model, data = mjw.put_model(host), mjw.make_data(host, nworld=case.batch, **_room(system))
        starts = [wp.array(x, dtype=float) for x in to_mujoco(system, *random_states(system, case.batch))]
        planned = time.perf_counter()
        mjw.step(model, data)
        wp.synchronize()
        compiled = time.perf_counter()
        step = _step(model, data, device)

    def run() -> Any:
        with wp.ScopedDevice(device):
            wp.copy(data.qpos, starts[0])
            wp.copy(data.qvel, starts[1])
            data.time.zero_()
            for _ in range(case.steps):
                step()
            wp.synchronize()
        return data

    def final(data: Any) -> tuple[np.ndarray, np.ndarray]:
        return from_mujoco(system, *(x.numpy()[:KEPT_MEMBERS].astype(float) for x in (data.qpos, data.qvel)))

    note = "soft loop constraints" if system.loops else ""
    figures = {"plan_s": planned - started, "compile_s": compiled - planned, "note": note}
    return Prepared(run, final, figures)


def _room(system: System) -> dict[str, int]:
    """Without loops there is nothing to constrain: no rows, so that no solver runs on empty ones."""
    return {} if system.loops else {"njmax": 0, "nconmax": 0}


def _step(model: Any, data: Any, device: Any) -> Any:
    if not device.is_cuda:
        return lambda: mjw.step(model, data)
    with wp.ScopedCapture() as capture:
        mjw.step(model, data)
    return lambda: wp.capture_launch(capture.graph)


def accelerations(system: System, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of a tree, in single precision; raises `Unsupported` for loops, which are soft here."""
    if system.loops:
        raise Unsupported("loops are soft: accelerations are not those of hard constraints")
    host = mujoco.MjModel.from_xml_string(mjcf(system, 1e-3))
    qpos, qvel = to_mujoco(system, q, v)
    model, data = mjw.put_model(host), mjw.make_data(host, nworld=len(q))
    wp.copy(data.qpos, wp.array(qpos, dtype=float))
    wp.copy(data.qvel, wp.array(qvel, dtype=float))
    mjw.forward(model, data)
    return q, v, acceleration_from_mujoco(system, qpos, qvel, data.qacc.numpy().astype(float))


if __name__ == "__main__":
    serve(describe, prepare, accelerations)
