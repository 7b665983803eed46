"""MJCF's equality constraints: between bodies joints that close loops, connect spherical, weld fixed; joints gears."""

from __future__ import annotations

from typing import Any

import numpy as np

from jmbs.io.models.frames import make_pose, rotation_from_quaternion
from jmbs.io.models.tree import ModelGear, ModelJoint


def loop_joints(mujoco: Any, model: Any, names: list[str], notes: list[str]) -> list[ModelJoint]:
    """The loop joints of a compiled model whose bodies are called `names`; other equalities become notes."""
    kinds, joints = mujoco.mjtEq, []
    for i in range(model.neq):
        kind, name = kinds(model.eq_type[i]), _name(mujoco, model, i)
        if kind in (kinds.mjEQ_JOINT, kinds.mjEQ_TENDON):
            continue
        if kind not in (kinds.mjEQ_CONNECT, kinds.mjEQ_WELD):
            notes.append(f"equality {name} ({_kind(mujoco, model, i)}): not simulated")
        elif not model.eq_active0[i]:
            notes.append(f"equality {name}: inactive in the file, not simulated")
        else:
            ends = _site_ends if model.eq_objtype[i] == mujoco.mjtObj.mjOBJ_SITE else _body_ends
            (body1, frame1), (body2, frame2) = ends(model, i, kind == kinds.mjEQ_WELD)
            type_ = "fixed" if kind == kinds.mjEQ_WELD else "spherical"
            joints.append(ModelJoint(name, type_, names[body1], names[body2], frame1, frame2))
            notes.append(f"equality {name}: simulated as a {type_} joint, exactly where MuJoCo's gives way a little")
    return joints


def gears(mujoco: Any, model: Any, names: list[str], joints: list[ModelJoint], notes: list[str]) -> list[ModelGear]:
    """The gears of a compiled model whose joints are called `names` and became `joints`; else a note.

    MuJoCo's `q1 - q1_0 = a0 + a1 (q2 - q2_0) + ...` counts from zero motion, as coordinates here do.
    """
    simple, made = {joint.name for joint in joints if joint.type in ("revolute", "prismatic")}, []
    for i in (i for i in range(model.neq) if model.eq_type[i] == mujoco.mjtEq.mjEQ_JOINT):
        name, ends = _name(mujoco, model, i), [names[j] for j in (model.eq_obj1id[i], model.eq_obj2id[i]) if j >= 0]
        offset, ratio, *higher = (float(a) for a in model.eq_data[i][:5])
        if not model.eq_active0[i]:
            notes.append(f"equality {name}: inactive in the file, not simulated")
        elif len(ends) == 2 and simple.issuperset(ends) and not any(higher):
            made.append(ModelGear(name, (ends[0], 0), (ends[1], 0), ratio, offset))
            notes.append(f"equality {name}: simulated as a gear, exactly where MuJoCo's gives way a little")
        else:
            notes.append(f"equality {name} (joint): not simulated, only linear ones of two bodies' single joints are")
    return made


def _name(mujoco: Any, model: Any, i: int) -> str:
    return model.eq(i).name or f"{_kind(mujoco, model, i)}{i}"


def _kind(mujoco: Any, model: Any, i: int) -> str:
    return mujoco.mjtEq(model.eq_type[i]).name.removeprefix("mjEQ_").lower()


def _body_ends(model: Any, i: int, weld: bool) -> tuple[tuple[int, np.ndarray], tuple[int, np.ndarray]]:
    """The bodies of an equality, with the frames on them that it makes one."""
    data, turn = model.eq_data[i], np.eye(3)
    if weld:  # the anchor on body 2, then where it is on body 1, and how body 2 stands there
        first = make_pose(data[3:6], rotation_from_quaternion(data[6:10]))
        return (model.eq_obj1id[i], first), (model.eq_obj2id[i], make_pose(data[:3], turn))
    return (model.eq_obj1id[i], make_pose(data[:3], turn)), (model.eq_obj2id[i], make_pose(data[3:6], turn))


def _site_ends(model: Any, i: int, weld: bool) -> tuple[tuple[int, np.ndarray], tuple[int, np.ndarray]]:
    """The same for an equality between sites."""
    del weld
    ends = []
    for site in (model.eq_obj1id[i], model.eq_obj2id[i]):
        frame = make_pose(model.site_pos[site], rotation_from_quaternion(model.site_quat[site]))
        ends.append((model.site_bodyid[site], frame))
    return ends[0], ends[1]
