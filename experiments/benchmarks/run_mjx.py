"""MuJoCo MJX's worker: `jax.vmap` of a scan of `mjx.step`, compiled ahead of time, over one device per core."""

# The bindings are compiled, without stubs, and live in an environment of their own.
# pyright: reportAttributeAccessIssue=false, reportMissingImports=false
from __future__ import annotations

import os
import time
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from mujoco import mjx

from experiments.benchmarks.cases import Case
from experiments.benchmarks.derivatives import batch_program
from experiments.benchmarks.kinematics import random_states
from experiments.benchmarks.mechanisms import system_of
from experiments.benchmarks.mjcf import acceleration_from_mujoco, from_mujoco, mjcf, to_mujoco
from experiments.benchmarks.neutral import System
from experiments.benchmarks.worker import KEPT_MEMBERS, Prepared, Unsupported, serve

INTEGRATORS = {"rk4": "RK4", "euler": "Euler"}
DERIVATIVES = ("none", "reverse", "forward")


def describe() -> dict[str, Any]:
    """Versions and the device."""
    device = jax.devices()[0]
    versions = {"jax": jax.__version__, "mujoco": mujoco.__version__}
    return versions | {"device": f"{device.platform}: {device.device_kind}"}


def prepare(case: Case) -> Prepared:
    """The whole batch as one compiled call. Its derivatives are JAX's own, through all of MJX's arithmetic."""
    if case.method not in INTEGRATORS or case.derivative not in DERIVATIVES or case.audit:
        raise Unsupported(f"{case.method} with derivative {case.derivative}")
    system = system_of(case.mechanism, case.size)
    if system.loops and case.derivative != "none":
        raise Unsupported("derivatives through the iterations of the constraint solver")
    started = time.perf_counter()
    host = mujoco.MjModel.from_xml_string(mjcf(system, case.dt, INTEGRATORS[case.method]))
    model = mjx.put_model(host)
    blank = mjx.make_data(model)
    planned = time.perf_counter()
    dtype = jnp.dtype(case.precision)
    states = spread(tuple(jnp.asarray(x, dtype) for x in to_mujoco(system, *random_states(system, case.batch))))

    def rollout(state: Any) -> Any:
        data = blank.replace(qpos=state[0], qvel=state[1])
        data, _ = jax.lax.scan(lambda d, _: (mjx.step(model, d), None), data, length=case.steps)
        return data.qpos, data.qvel

    program, figures = batch_program(case.derivative, rollout, states)
    figures |= {"plan_s": planned - started, "note": "soft loop constraints" if system.loops else ""}

    def final(outcome: Any) -> tuple[np.ndarray, np.ndarray] | None:
        if case.derivative != "none":
            return None
        return from_mujoco(system, *(np.asarray(x, float)[:KEPT_MEMBERS] for x in outcome))

    return Prepared(program, final, figures)


def one_device_per_core() -> None:
    """JAX sees one device in a CPU, whose cores mostly idle; to be called before its first use."""
    jax.config.update("jax_num_cpu_devices", len(os.sched_getaffinity(0)))


def spread(states: Any) -> Any:
    """The states with their leading axes over all devices, where these divide them."""
    count, leaves = jax.device_count(), jax.tree.leaves(states)
    if count == 1 or leaves[0].shape[0] % count:
        return states
    mesh = jax.sharding.Mesh(jax.devices(), ("members",))
    return jax.device_put(states, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("members")))


def accelerations(system: System, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of a tree; raises `Unsupported` for loops, which are soft here."""
    if system.loops:
        raise Unsupported("loops are soft: accelerations are not those of hard constraints")
    model = mjx.put_model(mujoco.MjModel.from_xml_string(mjcf(system, 1e-3)))
    blank = mjx.make_data(model)
    forward = jax.jit(jax.vmap(lambda qpos, qvel: mjx.forward(model, blank.replace(qpos=qpos, qvel=qvel)).qacc))
    qpos, qvel = to_mujoco(system, q, v)
    return q, v, acceleration_from_mujoco(system, qpos, qvel, np.asarray(forward(qpos, qvel), float))


if __name__ == "__main__":
    one_device_per_core()
    serve(describe, prepare, accelerations)
