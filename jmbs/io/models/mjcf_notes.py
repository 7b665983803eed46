"""What MJCF files say beyond bodies, joints and loops: a line for each thing that is not simulated."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from jmbs.io.models.mjcf_tendons import tendon_notes

# Options that say how MuJoCo computes, not what it simulates, or that are read elsewhere.
_READ = ("gravity", "disableflags")


def model_notes(mujoco: Any, model: Any, names: list[str], joint_names: list[str], bound: Collection[int]) -> list[str]:
    """The notes of a compiled model, with the names of its bodies and joints; `bound`: tendons that relations bind."""
    return [
        *_option_notes(mujoco, model),
        *_body_notes(model, names),
        *_joint_notes(model, joint_names),
        *_element_notes(model),
        *tendon_notes(model, bound),
    ]


def _option_notes(mujoco: Any, model: Any) -> Iterator[str]:
    """Options that differ from MuJoCo's defaults."""
    default = mujoco.MjModel.from_xml_string("<mujoco/>").opt
    for key in (key for key in dir(default) if not key.startswith("_") and key not in _READ):
        value, usual = getattr(model.opt, key), getattr(default, key)
        if not callable(value) and not np.array_equal(value, usual):
            yield f"option {key} {np.array2string(np.asarray(value))}: not used"
    for flag in mujoco.mjtDisableBit.__members__.values():
        if flag != mujoco.mjtDisableBit.mjNDISABLE and model.opt.disableflags & flag:
            name = flag.name.removeprefix("mjDSBL_").lower()
            yield f"flag {name} disabled: {'gravity is zero' if name == 'gravity' else 'not used'}"


def _body_notes(model: Any, names: list[str]) -> Iterator[str]:
    for i in range(model.nbody):
        if model.body_gravcomp[i]:
            yield f"body {names[i]}: gravcomp {model.body_gravcomp[i]:g}: not simulated"
        if model.body_mocapid[i] >= 0:
            yield f"body {names[i]}: mocap: fixed to the ground"
        first = model.body_geomadr[i]
        geoms = range(first, first + model.body_geomnum[i])
        touching = [g for g in geoms if model.geom_contype[g] or model.geom_conaffinity[g]]
        if touching:
            listed = ", ".join(model.geom(g).name or f"geom{g}" for g in touching)
            yield f"body {names[i]}: contact of {listed}: not simulated"


def _joint_notes(model: Any, joint_names: list[str]) -> Iterator[str]:
    for i in range(model.njnt):
        name = f"joint {joint_names[i]}"
        dof = model.jnt_dofadr[i]
        if model.jnt_limited[i]:
            low, high = model.jnt_range[i]
            yield f"{name}: range {low:g} to {high:g}: not enforced"
        if model.jnt_actfrclimited[i]:
            low, high = model.jnt_actfrcrange[i]
            yield f"{name}: actuatorfrcrange {low:g} to {high:g}: not enforced"
        if np.any(model.dof_dampingpoly[dof]) or np.any(model.jnt_stiffnesspoly[i]):
            yield f"{name}: damping or stiffness beyond the linear term: not simulated"
        if model.jnt_springyield[i]:
            yield f"{name}: yield of its spring: not simulated"


def _element_notes(model: Any) -> Iterator[str]:
    """Named elements that act or measure, and counts of those that are only drawn."""
    listed = {
        "actuator": model.nu,
        "sensor": model.nsensor,
        "pair": model.npair,
        "exclude": model.nexclude,
        "key": model.nkey,
        "site": model.nsite,
    }
    for kind, count in listed.items():
        for i in range(count):
            yield f"{kind} {getattr(model, kind)(i).name or i}: not simulated"
    drawn = {"cameras": model.ncam, "lights": model.nlight, "skins": model.nskin, "plugins": model.nplugin}
    drawn |= {"custom numbers, texts and tuples": model.nnumeric + model.ntext + model.ntuple}
    for kind, count in drawn.items():
        if count:
            yield f"{kind} ({count}): not read"
