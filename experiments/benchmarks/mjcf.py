"""A mechanism as MJCF text and its states as MuJoCo's: for C MuJoCo, MJX and MuJoCo Warp alike."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.benchmarks.kinematics import quaternion, rotation
from experiments.benchmarks.neutral import COORDINATES, RATES, Link, System

HEADER = """<mujoco model="{name}">
<compiler angle="radian" autolimits="false" inertiafromgeom="false" balanceinertia="false"/>
<option timestep="{dt!r}" integrator="{integrator}" gravity="0 0 -{gravity!r}">
<flag contact="disable" {flags}/></option>
<worldbody>
"""


def mjcf(system: System, dt: float, integrator: str = "RK4") -> str:
    """The MJCF text. Trees switch MuJoCo's constraint solver off; loops are soft `connect` equalities with default
    softness, since MuJoCo has no hard ones. Every joint is frictionless and without limits, and nothing collides."""
    flags = "" if system.loops else 'constraint="disable"'
    header = HEADER.format(name=system.name, dt=dt, integrator=integrator, gravity=system.gravity, flags=flags)
    bodies = "".join(_body(system, i) for i, link in enumerate(system.links) if link.parent < 0)
    return header + bodies + "</worldbody>\n" + _equalities(system) + "</mujoco>\n"


def _body(system: System, index: int) -> str:
    link = system.links[index]
    axis = f' axis="{_numbers(link.axis)}"' if link.joint in ("hinge", "slide") else ""
    moments, axes = _principal(link.inertia)
    inertia = f'quat="{_numbers(quaternion(axes))}" diaginertia="{_numbers(moments)}"'
    children = "".join(_body(system, i) for i, other in enumerate(system.links) if other.parent == index)
    return (
        f'<body name="{link.name}" pos="{_numbers(link.position)}" quat="{_numbers(quaternion(link.rotation))}">\n'
        f'<joint name="{link.name}" type="{link.joint}"{axis}/>\n'
        f'<inertial pos="{_numbers(link.com)}" mass="{link.mass!r}" {inertia}/>\n{children}</body>\n'
    )


def _principal(inertia: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Moments `(3,)` and right-handed axes in columns.

    Not left to MuJoCo: 3.3.5 finds them to 6e-7 only, which showed in accelerations of the Panda at 4e-8.
    """
    moments, axes = np.linalg.eigh(inertia)
    axes[:, 2] *= np.sign(np.linalg.det(axes))
    return moments, axes


def _equalities(system: System) -> str:
    rows = []
    for loop in system.loops:
        a, b = system.links[loop.a].name, system.links[loop.b].name
        rows.append(f'<connect body1="{a}" body2="{b}" anchor="{_numbers(loop.point_a)}"/>\n')
    return f"<equality>\n{''.join(rows)}</equality>\n" if rows else ""


def _numbers(values: Any) -> str:
    return " ".join(repr(float(value)) for value in values)


def to_mujoco(system: System, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """MuJoCo's `qpos` (batch, nq) and `qvel` (batch, nv). Links are listed depth first, as MuJoCo numbers them; of
    rates only a free joint's differ: first the velocity in world axes, then the angular velocity in the link's."""
    qvel = v.copy()
    for _, coordinates, rates in _free(system):
        R = rotation(q[:, coordinates][:, 3:])
        w, velocity = v[:, rates][:, :3], v[:, rates][:, 3:]
        qvel[:, rates] = np.concatenate([np.einsum("bij,bj->bi", R, velocity), w], axis=1)
    return q.copy(), qvel


def from_mujoco(system: System, qpos: np.ndarray, qvel: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The inverse of `to_mujoco`."""
    v = qvel.copy()
    for _, coordinates, rates in _free(system):
        R = rotation(qpos[:, coordinates][:, 3:])
        velocity, w = qvel[:, rates][:, :3], qvel[:, rates][:, 3:]
        v[:, rates] = np.concatenate([w, np.einsum("bji,bj->bi", R, velocity)], axis=1)
    return qpos.copy(), v


def acceleration_from_mujoco(system: System, qpos: np.ndarray, qvel: np.ndarray, qacc: np.ndarray) -> np.ndarray:
    """Time derivatives `(batch, nv)` of the neutral rates, from MuJoCo's of its own."""
    _, v = from_mujoco(system, qpos, qvel)
    _, a = from_mujoco(system, qpos, qacc)
    for _, _, rates in _free(system):
        w, velocity = v[:, rates][:, :3], v[:, rates][:, 3:]
        # d(R^T u)/dt = R^T du/dt - w x R^T u
        a[:, rates][:, 3:] -= np.cross(w, velocity)
    return a


def _free(system: System) -> list[tuple[Link, slice, slice]]:
    rows = zip(system.links, system.slices(COORDINATES), system.slices(RATES), strict=True)
    return [row for row in rows if row[0].joint == "free"]
