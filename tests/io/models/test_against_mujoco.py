"""Two roads: poses, velocities and accelerations of an imported model are those that MuJoCo computes of the same file.

MuJoCo reads URDF too. Where it has joints in a row, the coordinates of the one joint here are translated below.
"""

from __future__ import annotations

import copy
import dataclasses
import re
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from quick import quick_jit

import jmbs
from jmbs.io import read_model

HERE = Path(__file__).parent
RTOL = 1e-9


@dataclasses.dataclass
class Motion:
    """A body's pose, twist (angular, linear) and its rate, all in body axes at the centre of mass."""

    rotation: np.ndarray
    position: np.ndarray
    twist: np.ndarray
    rate: np.ndarray


def of_mujoco(m: Any, d: Any, body: str, merged: bool) -> Motion:
    """The rigid body that `body` is the first of, with all that is welded to it if that is merged."""
    i = m.body(body).id
    welded = [k for k in range(m.nbody) if m.body_weldid[k] == m.body_weldid[i]] if merged else [i]
    centre = np.average(d.xipos[welded], axis=0, weights=m.body_mass[welded])
    rotation = d.xmat[i].reshape(3, 3)
    local = rotation.T @ (centre - d.xpos[i])
    velocity, acceleration = np.zeros(6), np.zeros(6)
    mujoco.mj_objectVelocity(m, d, mujoco.mjtObj.mjOBJ_XBODY, i, velocity, 1)
    mujoco.mj_objectAcceleration(m, d, mujoco.mjtObj.mjOBJ_XBODY, i, acceleration, 1)
    omega, alpha = velocity[:3], acceleration[:3]
    linear = velocity[3:] + np.cross(omega, local)
    inertial = acceleration[3:] + np.cross(alpha, local) + np.cross(omega, np.cross(omega, local))
    # MuJoCo's accelerations are those of an accelerometer, of a point; rates of components in body axes turn along.
    rate = inertial + rotation.T @ m.opt.gravity - np.cross(omega, linear)
    return Motion(rotation, centre, np.concatenate([omega, linear]), np.concatenate([alpha, rate]))


@eqx.filter_jit
def rates(model: Any, state: Any) -> Any:
    return model.dynamics(0.0, state).velocity


def of_jmbs(mechanism: jmbs.Mechanism, model: Any, values: dict[str, np.ndarray]) -> dict[str, Motion]:
    """Every body's motion from joint values by parameter path."""
    state = model.with_parameters(values).initial_state()
    velocity, plan = rates(model, state), model.dae.plan
    motions = {}
    for name, body in mechanism.bodies.items():
        momentum, pose = plan.junction_of[f"{name}/ke", "p"], np.asarray(state[plan.junction_of[f"{name}/pe", "q"]])
        force = np.asarray(velocity[plan.slots[momentum]])
        rate = np.concatenate([np.linalg.solve(body.inertia, force[:3]), force[3:] / body.mass])
        motions[name] = Motion(pose[:, :3], pose[:, 3], np.asarray(state[momentum]), rate)
    return motions


def assert_equal(here: Motion, there: Motion, rtol: float = RTOL) -> None:
    for field in dataclasses.fields(Motion):
        a, b = getattr(here, field.name), getattr(there, field.name)
        np.testing.assert_allclose(a, b, rtol=0, atol=rtol * max(1.0, np.max(np.abs(b))), err_msg=field.name)


def random_values(m: Any, d: Any, rng: np.random.Generator) -> dict[str, Any]:
    """A random state of all joints in MuJoCo's data, and the same by joint as values here."""
    mujoco.mj_resetData(m, d)
    step = rng.normal(size=m.nv) * 0.5
    mujoco.mj_integratePos(m, d.qpos, step, 1.0)
    d.qvel[:] = rng.normal(size=m.nv)
    return joint_values(m, d)


def joint_values(m: Any, d: Any) -> dict[str, Any]:
    """Coordinates and velocities by joint as they are here."""
    values = {}
    for j in range(m.njnt):
        name, q, v = m.joint(j).name, m.jnt_qposadr[j], m.jnt_dofadr[j]
        match m.jnt_type[j]:
            case mujoco.mjtJoint.mjJNT_FREE:
                rotation = np.zeros(9)
                mujoco.mju_quat2Mat(rotation, d.qpos[q + 3 : q + 7])
                own = rotation.reshape(3, 3).T @ d.qvel[v : v + 3]
                values[name] = (d.qpos[q : q + 7].copy(), np.concatenate([d.qvel[v + 3 : v + 6], own]))
            case mujoco.mjtJoint.mjJNT_BALL:
                values[name] = (d.qpos[q : q + 4].copy(), d.qvel[v : v + 3].copy())
            case _:
                values[name] = (d.qpos[q : q + 1] - m.qpos0[q : q + 1], d.qvel[v : v + 1].copy())
    return values


def translated(values: dict[str, Any], names: dict[str, str]) -> dict[str, np.ndarray]:
    """By parameter path, with joints called as here."""
    by_path = {}
    for name, (q, v) in values.items():
        by_path |= {f"initial/{names.get(name, name)}/q": q, f"initial/{names.get(name, name)}/v": v}
    return by_path


def load_both(name: str, fixed: str = "merge", gears: bool = False) -> tuple[jmbs.Mechanism, Any, Any, Any]:
    mechanism = read_model(HERE / name, fixed).mechanism
    if not gears:
        mechanism.gears.clear()
    m = mujoco.MjModel.from_xml_path(str(HERE / name)) if name.endswith(".xml") else _urdf(HERE / name)
    m.opt.gravity[:] = mechanism.gravity  # URDF says nothing of gravity, and the two have different defaults
    # Contacts and limits are noted, not simulated; equalities have tests of their own.
    off = mujoco.mjtDisableBit
    m.opt.disableflags |= off.mjDSBL_CONTACT | off.mjDSBL_LIMIT | off.mjDSBL_EQUALITY
    return mechanism, jmbs.compile(mechanism), m, mujoco.MjData(m)


def _urdf(file: Path) -> Any:
    """MuJoCo's reading of a URDF, with fixed links as bodies of their own and without looking for meshes."""
    spec = mujoco.MjSpec.from_string(re.sub("<collision>.*?</collision>", "", file.read_text()))
    spec.compiler.fusestatic = False
    return spec.compile()


def assert_same_motions(
    mechanism: jmbs.Mechanism, model: Any, m: Any, d: Any, values: dict[str, np.ndarray], merged: bool = True
) -> None:
    mujoco.mj_forward(m, d)
    mujoco.mj_rnePostConstraint(m, d)
    for name, motion in of_jmbs(mechanism, model, values).items():
        assert_equal(motion, of_mujoco(m, d, name, merged))


@pytest.mark.parametrize("fixed", ["merge", pytest.param("keep", marks=pytest.mark.slow)])
def test_tree_of_a_urdf(fixed):
    mechanism, model, m, d = load_both("branched.urdf", fixed)
    assert ("left_hand" in mechanism.bodies) == (fixed == "keep")
    rng = np.random.default_rng(1)
    for _ in range(3):
        values = translated(random_values(m, d, rng), {"wheel": "wheel_joint"})
        assert_same_motions(mechanism, model, m, d, values, merged=fixed == "merge")


def test_floating_urdf():
    mechanism, model, m, d = load_both("floating.urdf")
    rng = np.random.default_rng(2)
    for _ in range(3):
        assert_same_motions(mechanism, model, m, d, translated(random_values(m, d, rng), {"arm": "arm_joint"}))


def planar(q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Velocities of a planar joint are along the child's axes, its coordinates along the parent's."""
    c, s = np.cos(q[2]), np.sin(q[2])
    return q, np.array([c * v[0] + s * v[1], c * v[1] - s * v[0], v[2]])


@pytest.mark.slow
def test_all_joints_of_mjcf():
    """Springs, damping, reference positions, inertias of geoms, and joints in a row that make one."""
    mechanism, model, m, d = load_both("machine.xml")
    rng = np.random.default_rng(3)
    for _ in range(3):
        values = random_values(m, d, rng)
        row = lambda *names, values=values: tuple(map(np.concatenate, zip(*map(values.pop, names), strict=True)))  # noqa: E731
        values["yoke_fork"] = row("yoke", "fork")
        opposite = np.array([1.0, -1.0])  # the stroke is counted along the axis of the spin, which is the opposite one
        values["spin_stroke"] = tuple(opposite * part for part in row("spin", "stroke"))
        values["rootz_rootx_rooty"] = planar(*row("rootz", "rootx", "rooty"))
        values["hip1_hip2_shaft_hip3"] = row("hip1", "hip2", "shaft", "hip3")
        row("wrist1", "wrist2", "wrist3")
        mujoco.mj_forward(m, d)
        wrist, velocity = m.body("wrist").id, np.zeros(6)
        mujoco.mj_objectVelocity(m, d, mujoco.mjtObj.mjOBJ_XBODY, wrist, velocity, 1)
        (place, speed), (turn, spin) = row("cx", "cy", "cz"), values.pop("ct")
        along = np.zeros(3)
        mujoco.mju_rotVecQuat(along, speed, turn * [1, -1, -1, -1])  # a free joint's velocities are in the child's axes
        values["cx_cy_cz_ct"] = np.concatenate([place, turn]), np.concatenate([spin, along])
        values["wrist1_wrist2_wrist3"] = d.xquat[wrist].copy(), velocity[:3]
        assert_same_motions(mechanism, model, m, d, translated(values, {"crank": "crank_joint"}))


def mass_matrix(m: Any, d: Any) -> np.ndarray:
    mass = np.zeros((m.nv, m.nv))
    for column, unit in zip(mass, np.eye(m.nv), strict=True):
        mujoco.mj_mulM(m, d, column, unit)
    return mass


def exact_accelerations(m: Any, d: Any) -> np.ndarray:
    """Accelerations under hard equalities, from MuJoCo's mass matrix, forces and Jacobian: it solves for soft ones."""
    mass = mass_matrix(m, d)
    J, rate = jacobian(m, d, 0.0), (jacobian(m, d, 1e-5) - jacobian(m, d, -1e-5)) @ d.qvel / 2e-5
    saddle = np.block([[mass, J.T], [J, np.zeros((len(J), len(J)))]])
    force = d.qfrc_passive - d.qfrc_bias
    return np.linalg.lstsq(saddle, np.concatenate([force, -rate]), rcond=1e-12)[0][: m.nv]


def jacobian(m: Any, d: Any, h: float) -> np.ndarray:
    """Of the equalities, after moving on for the time `h` (s)."""
    moved = copy.copy(d)
    mujoco.mj_integratePos(m, moved.qpos, d.qvel, h)
    mujoco.mj_forward(m, moved)
    return moved.efc_J.reshape(-1, m.nv)


@pytest.mark.slow
@pytest.mark.parametrize("speed, rtol", [(0.0, 1e-9), (1.0, 1e-6)])
def test_loops_of_mjcf(four_bar, speed, rtol):
    """A connect that closes a four-bar, and a weld; at rest exactly, in motion to the differences' accuracy."""
    mechanism, model, m, d = four_bar
    mujoco.mj_resetData(m, d)
    d.eq_active[2:] = 0  # the equality between joints, which is noted
    velocity = speed * np.random.default_rng(4).normal(size=m.nv)
    J = jacobian(m, d, 0.0)
    d.qvel[:] = velocity - np.linalg.lstsq(J, J @ velocity, rcond=1e-12)[0]
    mujoco.mj_forward(m, d)
    assert len(d.efc_pos) == 9 and np.max(np.abs(d.efc_pos)) < 1e-12
    d.qacc[:] = exact_accelerations(m, d)
    mujoco.mj_rnePostConstraint(m, d)
    values = translated(joint_values(m, d), {"left": "left_joint", "right": "right_joint"})
    for name, motion in of_jmbs(mechanism, model, values).items():
        assert_equal(motion, of_mujoco(m, d, name, True), rtol)


@pytest.fixture(scope="module")
def four_bar():
    return with_equalities(*load_both("four_bar.xml"))


def with_equalities(mechanism: jmbs.Mechanism, model: Any, m: Any, d: Any) -> tuple[jmbs.Mechanism, Any, Any, Any]:
    m.opt.disableflags &= ~int(mujoco.mjtDisableBit.mjDSBL_EQUALITY)
    m.opt.jacobian = mujoco.mjtJacobian.mjJAC_DENSE
    return mechanism, model, m, d


@pytest.mark.slow
@pytest.mark.parametrize("name, count", [("branched.urdf", 1), ("geared.xml", 2)])
def test_gears(name, count):
    """What `mimic` says in a URDF, which MuJoCo takes for an equality, and linear equalities between joints in MJCF."""
    mechanism, model, m, d = with_equalities(*load_both(name, gears=True))
    rng = np.random.default_rng(5)
    d.qpos[:] = rng.normal(size=m.nq)
    mujoco.mj_forward(m, d)
    J = d.efc_J.reshape(-1, m.nv).copy()
    assert len(mechanism.gears) == len(J) == count
    d.qpos[:] -= np.linalg.pinv(J) @ d.efc_pos
    velocity = rng.normal(size=m.nv)
    d.qvel[:] = velocity - np.linalg.pinv(J) @ J @ velocity
    mujoco.mj_forward(m, d)
    assert np.max(np.abs(d.efc_pos)) < 1e-12
    d.qacc[:] = exact_accelerations(m, d)
    mujoco.mj_rnePostConstraint(m, d)
    values = translated(joint_values(m, d), {"wheel": "wheel_joint"})
    for body, motion in of_jmbs(mechanism, model, values).items():
        assert_equal(motion, of_mujoco(m, d, body, True))


EXACT = 1e-10


def dof_numbers(model: Any, m: Any) -> np.ndarray:
    """MuJoCo's number of each velocity here."""
    names, counts = [joint for joint, _ in model.velocity_names], {}
    found = []
    for name in names:
        found.append(m.joint(name.removesuffix("_joint")).dofadr[0] + counts.get(name, 0))
        counts[name] = counts.get(name, 0) + 1
    return np.array(found)


@quick_jit
def equations(model: Any, state: Any) -> Any:
    return model.mass_matrix(state), model.forward_dynamics(jnp.zeros(()), state)


def assert_same_equations(model: Any, m: Any, d: Any, accelerations: np.ndarray, values: dict[str, np.ndarray]) -> None:
    """In velocities that both have: a free joint's are not along the same axes."""
    changed = model.with_parameters(values)
    M, dv = equations(changed, changed.initial_state())
    order = dof_numbers(model, m)
    same = np.isin(m.jnt_type[m.dof_jntid[order]], mujoco.mjtJoint.mjJNT_FREE, invert=True)
    order, M, dv = order[same], M[np.ix_(same, same)], dv[same]
    mass, wanted = mass_matrix(m, d)[np.ix_(order, order)], accelerations[order]
    np.testing.assert_allclose(M, mass, rtol=0, atol=EXACT * np.max(np.abs(mass)))
    np.testing.assert_allclose(dv, wanted, rtol=0, atol=EXACT * np.max(np.abs(wanted)))
    assert np.max(np.abs(M - mass + np.diag(m.dof_armature[order]))) > 0.01 * np.max(np.abs(mass))


@pytest.mark.parametrize("gears", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_rotors_of_a_tree(gears: bool):
    mechanism, model, m, d = load_both("geared.xml", gears=gears)
    assert np.all(m.dof_armature > 0) and bool(mechanism.gears) == gears
    rng = np.random.default_rng(6)
    d.qpos[:], d.qvel[:] = rng.normal(size=m.nq), rng.normal(size=m.nv)
    if gears:
        with_equalities(mechanism, model, m, d)
        mujoco.mj_forward(m, d)
        J = d.efc_J.reshape(-1, m.nv).copy()
        d.qpos[:] -= np.linalg.pinv(J) @ d.efc_pos
        d.qvel[:] -= np.linalg.pinv(J) @ J @ d.qvel
    mujoco.mj_forward(m, d)
    wanted = exact_accelerations(m, d) if gears else d.qacc.copy()
    assert_same_equations(model, m, d, wanted, translated(joint_values(m, d), {}))


@pytest.mark.slow
def test_rotors_of_a_loop():
    """A four-bar that starts to fall sideways, with rotors on its cranks, and on a ball."""
    mechanism, model, m, d = with_equalities(*load_both("four_bar.xml"))
    mujoco.mj_resetData(m, d)
    d.eq_active[2:], m.opt.gravity[:] = 0, [3.0, 2.0, -9.0]
    mujoco.mj_forward(m, d)
    assert model.tree.only_loops is not None and model.tree.rotors is not None
    values = translated(joint_values(m, d), {"left": "left_joint", "right": "right_joint"})
    values["gravity"] = m.opt.gravity.copy()
    assert_same_equations(model, m, d, exact_accelerations(m, d), values)
