"""A study by inverse dynamics: what it wants of models and sensors, and its recordings as arrays."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np

from jmbs.errors import ModelError
from jmbs.identification.motion import TORQUE, MotionMember, MotionProgram, Shown
from jmbs.identification.motion_basis import AbstractBasis, basis_of, require_seen
from jmbs.identification.output_names import OutputName
from jmbs.identification.prediction import FitProgram, Member
from jmbs.identification.study import Parameter, Recording, Study
from jmbs.simulation import Model, moving_joints

ORDERS = {"q": 0, "v": 1, "actuation": TORQUE}


def is_by_motion(study: Study) -> bool:
    """Whether recorded angles define the motion, and nothing is simulated."""
    return study.estimator.method == "inverse_dynamics"


def require_motion_output(where: str, given: str, output: OutputName) -> None:
    """Refuses what is neither a joint's coordinate, nor its rate or actuation."""
    if output.kind not in ORDERS:
        raise ModelError(where, given, "<joint>/q, <joint>/v or <joint>/actuation, for inverse dynamics")


def driven(recording: Recording, model: Model, outputs: Mapping[str, OutputName]) -> Recording:
    """The recording with no drive of the model's own at joints whose actuation is measured: it is all of it."""
    inputs = dict(recording.inputs)
    for name, output in outputs.items():
        port = f"{output.owner}/actuation"
        for section, given in (("inputs", recording.inputs), ("set", recording.set)):
            if output.kind == "actuation" and port in given:
                found, wanted = f"what sensor {name} measures", "an input or a measured torque of a joint"
                raise ModelError(f"recordings/{recording.name}/{section}/{port}", found, wanted)
        if output.kind == "actuation" and port in model.dae.drives:
            inputs[port] = 0.0
    return dataclasses.replace(recording, inputs=inputs)


def along_motion(
    study: Study, recording: Recording, program: FitProgram, member: Member
) -> tuple[MotionProgram, MotionMember]:
    """The program and arrays of a recording by inverse dynamics, from those of a run. Raises `ModelError`."""
    joints = moving_joints(member.model, f"recordings/{recording.name}/model")
    measured = _measured(study, program, joints)
    where = f"recordings/{recording.name}/channels"
    angles = {m.joint for m in measured if m.order == 0}
    if missing := [joint for i, joint in enumerate(joints) if i not in angles]:
        raise ModelError(where, f"none that measures {missing[0]}/q", "the angle of each joint that moves")
    if not any(m.order == TORQUE for m in measured):
        raise ModelError(where, "no measured torque", "<joint>/actuation of a joint, for inverse dynamics")
    basis = basis_of(study.estimator, recording, study.data, member.model.dtype)
    values = np.asarray(basis.values(jnp.asarray(recording.ts, member.times.dtype), 0), float)
    mix = _mix(basis, values)
    for i, joint in enumerate(joints):
        rows = [c for c, m in enumerate(measured) if m.order == 0 and m.joint == i]
        seen = np.any(np.asarray(member.weights)[rows, : len(values)] > 0, axis=0)
        require_seen(basis, recording.name, joint, values[seen])
    by_motion = MotionProgram(program.outputs, program.sensors, program.blocks, program.ties, measured, len(joints))
    whole = MotionMember(
        member.model,
        member.times,
        member.measured,
        member.weights,
        member.constants,
        member.transforms,
        member.fixed,
        basis,
        jnp.asarray(mix, member.times.dtype),
        jnp.ones(len(measured), member.times.dtype),
    )
    return by_motion, whole if recording.role == "train" else by_motion.held_out(whole)


def _measured(study: Study, program: FitProgram, joints: tuple[str, ...]) -> tuple[Shown, ...]:
    clocks: dict[str | float, int] = {}
    found = []
    for name, output in zip(program.sensors, program.outputs, strict=True):
        delay = study.sensors[name].delay
        clock = clocks.setdefault(name if isinstance(delay, Parameter) else float(delay), len(clocks))
        found.append(Shown(ORDERS[output.kind], joints.index(output.owner), clock))
    return tuple(found)


def _mix(basis: AbstractBasis, values: np.ndarray) -> np.ndarray:
    """What makes the functions that a recording reaches orthonormal over its samples; the others stay."""
    active = np.asarray(basis.idle) == 0
    mix = np.eye(len(active))
    triangle = np.asarray(np.linalg.qr(values[:, active], mode="r"))
    if triangle.shape[0] == triangle.shape[1] and np.all(np.abs(np.diag(triangle)) > 0):
        mix[np.ix_(active, active)] = np.linalg.inv(triangle)
    return mix
