"""Reads MJCF files: MuJoCo compiles them, so that defaults, frames and inertias of geoms are resolved as it does."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np

from jmbs.errors import ModelError
from jmbs.io.config_error import ConfigError
from jmbs.io.models.frames import make_pose, rotation_from_quaternion
from jmbs.io.models.missing import missing_package
from jmbs.io.models.mjcf_joints import MjcfJoint, joint_between
from jmbs.io.models.mjcf_loops import gears, loop_joints
from jmbs.io.models.mjcf_notes import model_notes
from jmbs.io.models.mjcf_tendons import tendon_gears
from jmbs.io.models.tree import GROUND, ModelJoint, ModelLink, ModelTree
from jmbs.library.mechanics import LARGEST

_NUMBERS = (
    *("body_mass", "body_inertia", "body_ipos", "body_pos", "jnt_pos", "jnt_stiffness", "qpos0", "qpos_spring"),
    *(
        "dof_damping",
        "dof_frictionloss",
        "dof_armature",
        "jnt_axis",
        "body_quat",
        "body_iquat",
        "site_pos",
        "site_quat",
        "eq_data",
    ),
)
"""Arrays of a compiled model that are read here."""


def read_mjcf(file: Path) -> ModelTree:
    """The tree of a `<mujoco>` file. Raises `ConfigError`."""
    try:
        mujoco = importlib.import_module("mujoco")
    except ImportError as error:
        raise missing_package(file, "mujoco", "MJCF") from error
    model, warnings = _compiled(mujoco, file)
    if model.nflex:
        raise ConfigError(file, "deformable", f"{model.nflex} flexible bodies", "rigid bodies only")
    _refuse_large(model, file)
    name = model.names.split(b"\0", 1)[0].decode()
    tree = ModelTree(file.stem if name in ("", "MuJoCo Model") else name)
    gravity_is_off = model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_GRAVITY
    tree.gravity = np.zeros(3) if gravity_is_off else model.opt.gravity.copy()
    names = [GROUND, *(model.body(i).name or f"body{i}" for i in range(1, model.nbody))]
    joint_names = [_joint_name(model, i, names) for i in range(model.njnt)]
    try:
        for body in range(1, model.nbody):
            tree.links[names[body]] = _link(model, body, names[body])
            tree.joints.append(_joint(mujoco, model, body, names, joint_names, tree.notes))
        tree.loops += loop_joints(mujoco, model, names, tree.notes)
        tree.gears += gears(mujoco, model, joint_names, tree.joints, tree.notes)
        relations, bound = tendon_gears(mujoco, model, joint_names, tree.joints, tree.notes)
        tree.gears += relations
    except ModelError as error:
        raise ConfigError(file, error.path, error.found, error.wanted) from error
    tree.notes += [f"MuJoCo warns: {' '.join(warning.split())}" for warning in warnings]
    tree.notes += model_notes(mujoco, model, names, joint_names, bound)
    return tree


def _compiled(mujoco: Any, file: Path) -> tuple[Any, list[str]]:
    """MuJoCo's compiled model and its warnings, which it would otherwise write to a file in the current folder."""
    warnings: list[str] = []
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(warnings.append)
    try:
        return mujoco.MjModel.from_xml_path(str(file)), warnings
    except ValueError as error:
        raise ConfigError(file, "", f"a model that MuJoCo refuses ({error})", "valid MJCF") from None
    finally:
        mujoco.set_mju_user_warning(before)


def _refuse_large(model: Any, file: Path) -> None:
    """Refuses a compiled model with numbers that overflow, or that did when MuJoCo compiled it."""
    for key in _NUMBERS:
        wrong = ~(np.abs(getattr(model, key)) <= LARGEST)
        if np.any(wrong):
            found = f"{getattr(model, key)[wrong][0]:g}, where MuJoCo has compiled the file"
            raise ConfigError(file, key, found, f"finite numbers, none beyond {LARGEST:g} in magnitude")


def _link(model: Any, body: int, name: str) -> ModelLink:
    turn = rotation_from_quaternion(model.body_iquat[body])
    inertia = turn @ np.diag(model.body_inertia[body]) @ turn.T
    mass = float(model.body_mass[body])
    return ModelLink(name, f"body/{name}", mass, model.body_ipos[body].copy(), (inertia + inertia.T) / 2)


def _joint_name(model: Any, joint: int, names: list[str]) -> str:
    """The name of a joint; one without is called after its body, with a number where the body has several."""
    body = model.jnt_bodyid[joint]
    number = f"{joint - model.body_jntadr[body] + 1}" if model.body_jntnum[body] > 1 else ""
    return model.joint(joint).name or f"{names[body]}_joint{number}"


def _joint(
    mujoco: Any, model: Any, body: int, names: list[str], joint_names: list[str], notes: list[str]
) -> ModelJoint:
    """The one joint that a body's joints make together, a fixed one where it has none."""
    first = model.body_jntadr[body]
    indices = range(first, first + model.body_jntnum[body])
    joints = [_mjcf_joint(mujoco, model, i, joint_names[i]) for i in indices]
    place = make_pose(model.body_pos[body], rotation_from_quaternion(model.body_quat[body]))
    return joint_between(names[model.body_parentid[body]], names[body], place, joints, notes)


def _mjcf_joint(mujoco: Any, model: Any, joint: int, name: str) -> MjcfJoint:
    kind = mujoco.mjtJoint(model.jnt_type[joint]).name.removeprefix("mjJNT_").lower()
    q, dof = model.jnt_qposadr[joint], model.jnt_dofadr[joint]
    size = {"free": 7, "ball": 4}.get(kind, 1)
    return MjcfJoint(
        name,
        kind,
        model.jnt_pos[joint].copy(),
        model.jnt_axis[joint].copy(),
        float(model.dof_damping[dof]),
        float(model.dof_frictionloss[dof]),
        float(model.jnt_stiffness[joint]),
        float(model.dof_armature[dof]),
        model.qpos0[q : q + size].copy(),
        model.qpos_spring[q : q + size].copy(),
    )
