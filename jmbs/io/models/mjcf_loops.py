"""MJCF's equality constraints between bodies as joints that close loops: connect spherical, weld fixed."""

from __future__ import annotations

from typing import Any

import numpy as np

from jmbs.io.models.frames import make_pose, rotation_from_quaternion
from jmbs.io.models.tree import ModelJoint


def loop_joints(mujoco: Any, model: Any, names: list[str], notes: list[str]) -> list[ModelJoint]:
    """The loop joints of a compiled model whose bodies are called `names`; other equalities become notes."""
    kinds, joints = mujoco.mjtEq, []
    for i in range(model.neq):
        kind = kinds(model.eq_type[i])
        name = model.eq(i).name or f"{kind.name.removeprefix('mjEQ_').lower()}{i}"
        if kind not in (kinds.mjEQ_CONNECT, kinds.mjEQ_WELD):
            notes.append(f"equality {name} ({kind.name.removeprefix('mjEQ_').lower()}): not simulated")
        elif not model.eq_active0[i]:
            notes.append(f"equality {name}: inactive in the file, not simulated")
        else:
            ends = _site_ends if model.eq_objtype[i] == mujoco.mjtObj.mjOBJ_SITE else _body_ends
            (body1, frame1), (body2, frame2) = ends(model, i, kind == kinds.mjEQ_WELD)
            type_ = "fixed" if kind == kinds.mjEQ_WELD else "spherical"
            joints.append(ModelJoint(name, type_, names[body1], names[body2], frame1, frame2))
            notes.append(f"equality {name}: simulated as a {type_} joint, exactly where MuJoCo's gives way a little")
    return joints


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
