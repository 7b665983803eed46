"""jmbs's worker: `jmbs.map_batch` of `jmbs.simulate`, compiled ahead of time, over one device per core."""

from __future__ import annotations

import contextlib
import importlib
import subprocess
import time
import unittest.mock
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jmbs
from experiments.benchmarks.cases import Case
from experiments.benchmarks.derivatives import KINDS, batch_program
from experiments.benchmarks.kinematics import quaternion, random_states
from experiments.benchmarks.mechanisms import system_of
from experiments.benchmarks.neutral import COORDINATES, RATES, System
from experiments.benchmarks.worker import KEPT_MEMBERS, Prepared, Unsupported, serve
from jmbs.rigid_body.articulated import articulated_accelerations
from jmbs.rigid_body.kinematics import kinematics
from jmbs.rigid_body.mass_matrix import less_loads, turned_inertias, wrenches_of

JOINTS = {"hinge": "revolute", "slide": "prismatic", "ball": "spherical", "free": "free"}
STENCIL = np.array([1 / 280, -4 / 105, 1 / 5, -4 / 5, 0, 4 / 5, -1 / 5, 4 / 105, -1 / 280])
"""Weights of the central difference of eighth order."""
SPACING = 5e-4
"""Of the states that the difference takes, s. Error of the method on the chain of 8, relative to its accelerations:
6e-10 at 2 ms (truncation), 1e-12 at 1 ms, 2e-13 here."""


def describe() -> dict[str, Any]:
    """Versions, the commit that was measured, and the device."""
    device = jax.devices()[0]
    return {"jmbs": _commit(), "jax": jax.__version__, "device": f"{device.platform}: {device.device_kind}"}


def _commit() -> str:
    """The commit of the sources, marked where files differ from it; a copy without history says so."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=10"]
    run = subprocess.run(command, cwd=Path(jmbs.__file__).parent, capture_output=True, text=True)
    return run.stdout.strip() if run.returncode == 0 else "sources without history"


def mechanism_of(system: System) -> jmbs.Mechanism:
    """The mechanism; body frames at the centres of mass, with the links' axes. Joints are named after their links."""
    mechanism = jmbs.Mechanism(system.name, gravity=[0.0, 0.0, -system.gravity])
    for link in system.links:
        mechanism.add_body(link.name, mass=link.mass, inertia=link.inertia)
    for link, q, v in zip(system.links, system.slices(COORDINATES), system.slices(RATES), strict=True):
        parent = system.links[link.parent] if link.parent >= 0 else None
        place = link.position if parent is None else link.position - parent.com
        mechanism.add_joint(
            _joint(link.name),
            JOINTS[link.joint],
            parent="ground" if parent is None else parent.name,
            child=link.name,
            parent_frame={"position": place, "quaternion": quaternion(link.rotation)},
            child_frame={"position": -link.com},
            axis=link.axis if link.joint in ("hinge", "slide") else None,
        )
        mechanism.set_initial(joints={_joint(link.name): {"q": system.q[q], "v": system.v[v]}})
    for loop in system.loops:
        a, b = system.links[loop.a], system.links[loop.b]
        frames = {"position": loop.point_a - a.com}, {"position": loop.point_b - b.com}
        mechanism.add_joint(loop.name, "revolute", a.name, b.name, *frames, axis=[0.0, 1.0, 0.0])
    return mechanism


def prepare(case: Case) -> Prepared:
    """The whole batch as one compiled call; initial states are assembled beforehand, outside what is timed."""
    if case.derivative not in KINDS:
        raise Unsupported(f"derivative {case.derivative}")
    system = system_of(case.mechanism, case.size)
    started = time.perf_counter()
    model = jmbs.compile(mechanism_of(system), dtype=case.precision)
    planned = time.perf_counter()
    states = initial_states(model, system, *random_states(system, case.batch))
    with without_derivative_rules() if case.derivative == "naive" else contextlib.nullcontext():
        run = simulation(model, case)
        program, figures = batch_program(case.derivative, run, states, jmbs.map_batch)
    figures["plan_s"] = planned - started

    def final(outcome: dict[str, Any]) -> tuple[np.ndarray, np.ndarray] | None:
        return None if case.derivative != "none" else neutral(system, outcome)

    return Prepared(program, final, figures)


def simulation(model: jmbs.Model, case: Case) -> Callable[[jmbs.State], Any]:
    """The run of one member, from its state to the final `q` and `v` by joint; with audit to the trajectory too."""
    t1 = case.steps * case.dt
    control: dict[str, Any] = {"dt": case.dt} if case.tolerance is None else {"tolerance": case.tolerance}
    control |= {"solver": case.method, "audit": case.audit, "throw": False}

    def run(state: jmbs.State) -> Any:
        trajectory = jmbs.simulate(model, state, t1=t1, ts=np.array([0.0, t1]), **control)
        # All names at once: one by one, each would be an output of the program.
        final = jax.tree.map(lambda x: x[-1], {"q": trajectory.q, "v": trajectory.v})
        return final | {"trajectory": trajectory} if case.audit else final

    return run


@contextlib.contextmanager
def without_derivative_rules() -> Iterator[None]:
    """Whatever is traced inside is differentiated through the recursion itself, of which all is kept: the baseline for
    jmbs's own rules."""

    def naive(tree: Any, links: Any, q: Any, v: Any, forces: Any, loads: Any) -> Any:
        kin = kinematics(tree, links, q, v, local=True)
        inertia = turned_inertias(links, kin)
        needed = less_loads(kin, wrenches_of(links, kin, inertia), loads)
        return articulated_accelerations(tree, links, kin, forces, inertia, needed)[0]

    where, policies = importlib.import_module("jmbs.tree.tree_dae"), jax.checkpoint_policies
    everything = unittest.mock.patch.object(policies, "save_only_these_names", lambda *_: policies.everything_saveable)
    with unittest.mock.patch.object(where, "forward_dynamics", naive), everything:
        yield


def initial_states(model: jmbs.Model, system: System, q: np.ndarray, v: np.ndarray) -> jmbs.State:
    """A batch of consistent states from neutral ones."""

    def one(q: Any, v: Any) -> jmbs.State:
        given = {}
        parts = zip(system.links, system.slices(COORDINATES), system.slices(RATES), strict=True)
        for link, coordinates, rates in parts:
            given[f"initial/{_joint(link.name)}/q"] = q[coordinates]
            given[f"initial/{_joint(link.name)}/v"] = v[rates]
        return model.with_parameters(given).initial_state()

    return jax.jit(jax.vmap(one))(jnp.asarray(q, model.dtype), jnp.asarray(v, model.dtype))


def neutral(system: System, outcome: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """The final coordinates and rates of the first members."""
    joints = [_joint(link.name) for link in system.links]
    q, v = (np.concatenate([outcome[part][j][:KEPT_MEMBERS] for j in joints], axis=1) for part in ("q", "v"))
    return q, v


def accelerations(system: System, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """By differences along accurate runs from the given states, at their middle: whatever jmbs's formulation is.

    Without projection, which would correct the rates after each step and so hide errors of the accelerations.
    """
    model = jmbs.compile(mechanism_of(system), dtype="float64")
    ts = SPACING * np.arange(len(STENCIL))
    joints = [_joint(link.name) for link in system.links]

    def run(state: jmbs.State) -> tuple[Any, Any]:
        trajectory = jmbs.simulate(
            model, state, ts=ts, t1=ts[-1], solver="dopri8", dt=SPACING, constraints="none", audit=False
        )
        q, v = (jnp.concatenate([part[j] for j in joints], axis=1) for part in (trajectory.q, trajectory.v))
        return q, v

    qs, vs = (np.asarray(x) for x in jax.jit(jax.vmap(run))(initial_states(model, system, q, v)))
    middle = len(STENCIL) // 2
    return qs[:, middle], vs[:, middle], np.einsum("t,btj->bj", STENCIL, vs) / SPACING


def _joint(link: str) -> str:
    return f"{link}_joint"


if __name__ == "__main__":
    jmbs.use_all_cores()
    serve(describe, prepare, accelerations)
