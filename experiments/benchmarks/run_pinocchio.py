"""Pinocchio's worker: evaluations of forward dynamics in C++; Pinocchio brings no integrator loop to compare with."""

# The bindings are compiled, without stubs, and live in an environment of their own.
# pyright: reportAttributeAccessIssue=false, reportMissingImports=false
from __future__ import annotations

import os
import time
from typing import Any

import numpy as np
import pinocchio as pin

from experiments.benchmarks.cases import Case
from experiments.benchmarks.kinematics import random_states
from experiments.benchmarks.mechanisms import system_of
from experiments.benchmarks.neutral import COORDINATES, RATES, System
from experiments.benchmarks.worker import Prepared, Unsupported, serve

STAGES = {"rk4": 4, "euler": 1}
"""Evaluations of the dynamics in a step."""
MOST_IN_PYTHON = 8
"""Members of a batch that a loop in Python goes through: the rate of more would be the same."""


def describe() -> dict[str, Any]:
    """Version."""
    return {"pinocchio": pin.__version__}


def model_of(system: System) -> pin.Model:
    """The tree; joints carry the links' names."""
    model = pin.Model()
    model.gravity.linear = np.array([0.0, 0.0, -system.gravity])
    indices = []
    for link in system.links:
        joint = {"ball": pin.JointModelSpherical, "free": pin.JointModelFreeFlyer}.get(link.joint)
        if joint is None:
            turning = link.joint == "hinge"
            along = (pin.JointModelRevoluteUnaligned if turning else pin.JointModelPrismaticUnaligned)(link.axis)
            joint = lambda along=along: along  # noqa: E731
        parent = indices[link.parent] if link.parent >= 0 else 0
        place = pin.SE3(link.rotation, link.position)
        index = model.addJoint(parent, joint(), place, link.name)
        model.appendBodyToJoint(index, pin.Inertia(link.mass, link.com, link.inertia), pin.SE3.Identity())
        indices.append(index)
    return model


def to_pinocchio(system: System, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pinocchio's `q` (batch, nq), with quaternions xyzw, and `v` (batch, nv), a free joint's velocity first."""
    q, v = q.copy(), v.copy()
    for link, part in zip(system.links, system.slices(COORDINATES), strict=True):
        if link.joint in ("ball", "free"):
            columns = slice(part.stop - 4, part.stop)
            q[:, columns] = np.roll(q[:, columns], -1, axis=1)
    return q, _swapped(system, v)


def _swapped(system: System, v: np.ndarray) -> np.ndarray:
    v = v.copy()
    for link, part in zip(system.links, system.slices(RATES), strict=True):
        if link.joint == "free":
            v[:, part] = np.roll(v[:, part], 3, axis=1)
    return v


def prepare(case: Case) -> Prepared:
    """As many evaluations as the steps need, of the batch's initial states, and nothing of the integrator.

    Trees: the articulated-body algorithm over a pool of threads in C++. Loops: constrained dynamics one by one, with
    Python's overhead, which no function for a pool avoids.
    """
    if case.method not in STAGES or case.precision != "float64" or case.derivative != "none" or case.audit:
        raise Unsupported(f"{case.method} in {case.precision} with derivative {case.derivative}")
    system = system_of(case.mechanism, case.size)
    started = time.perf_counter()
    model = model_of(system)
    built = time.perf_counter() - started
    members = min(case.batch, MOST_IN_PYTHON) if system.loops else case.batch
    q, v = to_pinocchio(system, *random_states(system, members))
    evaluations = case.steps * STAGES[case.method]
    threads = case.threads or len(os.sched_getaffinity(0))
    if system.loops:
        run = _constrained(system, model, q, v, evaluations)
        note = f"{STAGES[case.method]} evaluations per step, no integrator, called from Python"
    else:
        run = _pooled(model, q, v, evaluations, threads)
        note = f"{STAGES[case.method]} evaluations per step, no integrator"
    figures = {"plan_s": built, "compile_s": 0.0, "threads": threads, "members": members, "note": note}
    return Prepared(run, lambda _: None, figures)


def _pooled(model: pin.Model, q: np.ndarray, v: np.ndarray, evaluations: int, threads: int):
    pool = pin.ModelPool(model, threads)
    # One call has as many columns as make its own cost small, even for a batch of one.
    repeats = min(evaluations, max(1, 256 // len(q)))
    calls, rest = divmod(evaluations, repeats)
    columns = [np.asfortranarray(np.tile(x, (repeats, 1)).T) for x in (q, v, np.zeros_like(v))]
    last = [np.asfortranarray(x[:, : rest * len(q)]) for x in columns]

    def run() -> None:
        for _ in range(calls):
            pin.abaInParallel(threads, pool, *columns)
        if rest:
            pin.abaInParallel(threads, pool, *last)

    return run


def _constrained(system: System, model: pin.Model, q: np.ndarray, v: np.ndarray, evaluations: int):
    data, (loops, loop_data) = model.createData(), constraints(system, model)
    pin.initConstraintDynamics(model, data, loops, loop_data)
    settings, still = pin.ProximalSettings(1e-12, 1e-10, 10), np.zeros(model.nv)

    def run() -> None:
        for _ in range(evaluations):
            for i in range(len(q)):
                pin.constraintDynamics(model, data, q[i], v[i], still, loops, loop_data, settings)

    return run


def constraints(system: System, model: pin.Model) -> tuple[Any, Any]:
    """Models and data: a point of each loop's first link that stays on one of its second."""
    models, data = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
    for loop in system.loops:
        joints = [model.getJointId(system.links[i].name) for i in (loop.a, loop.b)]
        places = [pin.SE3(np.eye(3), point) for point in (loop.point_a, loop.point_b)]
        kind = pin.ContactType.CONTACT_3D
        models.append(pin.RigidConstraintModel(kind, model, joints[0], places[0], joints[1], places[1]))
        data.append(models[-1].createData())
    return models, data


def accelerations(system: System, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of trees and of loops, whose constraints are hard here too."""
    model = model_of(system)
    data, (loops, loop_data) = model.createData(), constraints(system, model)
    settings, still = pin.ProximalSettings(1e-14, 1e-12, 100), np.zeros(model.nv)
    if system.loops:
        pin.initConstraintDynamics(model, data, loops, loop_data)
    rows = []
    for qi, vi in zip(*to_pinocchio(system, q, v), strict=True):
        if system.loops:
            rows.append(pin.constraintDynamics(model, data, qi, vi, still, loops, loop_data, settings).copy())
        else:
            rows.append(pin.aba(model, data, qi, vi, still).copy())
    # Pinocchio's free joint has body-fixed rates too, so only the order of its entries differs.
    return q, v, _swapped(system, np.array(rows))


if __name__ == "__main__":
    serve(describe, prepare, accelerations)
