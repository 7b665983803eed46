"""Mechanisms of any size, made by functions: chains, an arm, a humanoid, rows of four-bars, and random ones."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
from reference.runs import case

from jmbs import Mechanism
from jmbs.library.mechanics import motion_of
from jmbs.library.mechanics.joint_specification import JOINT_DIMENSIONS
from jmbs.library.mechanics.specification import JointSpec
from jmbs.library.motor import dc_motor
from jmbs.lie import SE3, pose, quaternion_to_rotation, rotation_to_quaternion

GRAVITY = (0.0, 0.0, -9.81)


def chain(n: int, angle: float = np.pi / 2) -> Mechanism:
    """A planar pendulum of n equal rods, 1 m and 1 kg together, straight at `angle` (rad) from the downward vertical.

    Motion is in the x-y plane, gravity along -y; a rod hangs along -y of its body, so joint angles add up to its angle.
    """
    length = mass = 1 / n
    mechanism = Mechanism(f"chain_{n}", gravity=(0.0, -9.81, 0.0))
    top, bottom = {"position": [0.0, length / 2, 0.0]}, {"position": [0.0, -length / 2, 0.0]}
    for i in range(1, n + 1):
        # The moment of a rod about itself plays no part; a small one would make the equations ill-conditioned.
        mechanism.add_body(f"link{i}", mass=mass, inertia=[mass * length**2 / 12] * 3)
        parent, frame = (f"link{i - 1}", bottom) if i > 1 else ("ground", None)
        mechanism.add_joint(f"joint{i}", "revolute", parent, f"link{i}", frame, top)
        mechanism.set_initial(joints={f"joint{i}": {"q": [angle if i == 1 else 0.0], "v": [0.0]}})
    return mechanism


def panda() -> Mechanism:
    """The Franka Emika Panda with its hand: nine joints without friction, in the order of the reference case.

    A body has the axes of its joint frame and its origin at the centre of mass.
    """
    data = case("robot_panda")
    mechanism = Mechanism("panda", gravity=data["gravity"])
    names, centres = ["ground"], [np.zeros(3)]
    for body in data["bodies"]:
        parent, centre = body["parent"], np.array(body["com"])
        name = body["joint"].removeprefix("panda_").replace("finger_joint", "finger").replace("joint", "link")
        mechanism.add_body(name, mass=body["mass"], inertia=body["inertia_com"])
        quaternion = rotation_to_quaternion(jnp.asarray(body["joint_placement_R"]))
        position = np.array(body["joint_placement_p"]) - centres[parent]
        mechanism.add_joint(
            body["joint"],
            body["type"],
            names[parent],
            name,
            parent_frame={"position": position, "quaternion": np.asarray(quaternion)},
            child_frame={"position": -centre},
            axis=body["axis_joint_frame"],
        )
        names.append(name)
        centres.append(centre)
    return mechanism


X, Y, Z = (1, 0, 0), (0, 1, 0), (0, 0, 1)
# Body, parent, joint type, axes; the joint in the parent's body frame, the body's centre from there (m); mass (kg);
# edges (m) of a homogeneous box of the same inertia. x points forward, y to the left, z up; limbs are the left ones.
TRUNK: tuple[tuple[Any, ...], ...] = (
    ("pelvis", "ground", "free", (), (0, 0, 1), (0, 0, 0), 11.0, (0.2, 0.3, 0.18)),
    ("torso", "pelvis", "universal", (X, Y), (0, 0, 0.1), (0, 0, 0.25), 26.0, (0.22, 0.36, 0.5)),
    ("head", "torso", "revolute", (Z,), (0, 0, 0.27), (0.02, 0, 0.13), 5.0, (0.2, 0.16, 0.24)),
    ("pack", "torso", "prismatic", (Z,), (-0.14, 0, 0), (-0.08, 0, 0.02), 4.0, (0.14, 0.3, 0.4)),
)
LIMBS: tuple[tuple[Any, ...], ...] = (
    ("upper_arm", "torso", "spherical", (), (0, 0.22, 0.2), (0, 0, -0.14), 2.1, (0.09, 0.09, 0.3)),
    ("forearm", "upper_arm", "universal", (Y, Z), (0, 0, -0.15), (0.01, 0, -0.12), 1.3, (0.07, 0.07, 0.26)),
    ("hand", "forearm", "fixed", (), (0, 0, -0.13), (0, 0, -0.08), 0.5, (0.09, 0.03, 0.18)),
    ("thigh", "pelvis", "spherical", (), (0, 0.1, -0.08), (0, 0, -0.2), 8.0, (0.15, 0.14, 0.42)),
    ("shin", "thigh", "revolute", (Y,), (0, 0, -0.22), (0.01, 0, -0.19), 3.6, (0.1, 0.1, 0.4)),
    ("foot", "shin", "revolute", (Y,), (-0.01, 0, -0.21), (0.06, 0, -0.04), 1.0, (0.2, 0.09, 0.06)),
    ("toes", "foot", "fixed", (), (0.1, 0, -0.01), (0.03, 0, 0), 0.2, (0.06, 0.09, 0.03)),
)


def humanoid() -> Mechanism:
    """A tree of 18 bodies with 30 degrees of freedom in free flight, with moderate random joint rates (rad/s, m/s)."""
    mechanism, rng = Mechanism("humanoid", gravity=GRAVITY), np.random.default_rng(0)
    trunk = [row[0] for row in TRUNK]
    rows = [(*row, "", 1) for row in TRUNK]
    rows += [(*row, prefix, side) for prefix, side in (("left_", 1), ("right_", -1)) for row in LIMBS]
    for body, parent, kind, axes, place, centre, mass, edges, prefix, side in rows:
        mirror = np.array([1, side, 1])
        squares = np.square(edges)
        mechanism.add_body(prefix + body, mass=mass, inertia=mass / 12 * (squares.sum() - squares))
        joint = f"{prefix}{body}_joint"
        mechanism.add_joint(
            joint,
            kind,
            parent if parent == "ground" or parent in trunk else prefix + parent,
            prefix + body,
            parent_frame={"position": mirror * place},
            child_frame={"position": -mirror * centre},
            **dict(zip(("axis", "axis2"), axes, strict=False)),
        )
        size = mechanism.joints[joint].dimension
        mechanism.set_initial(joints={joint: {"v": 0.5 * rng.normal(size=size)}})
    return mechanism


def n_four_bar(n: int) -> Mechanism:
    """A row of n four-bars that share their upright bars: 2n + 1 rods of 1 m and 1 kg, one motion (IFToMM A02).

    All hinges turn about y. At the start the uprights stand along z, and the tops move along x at 1 m/s. As in every
    plane loop of hinges some constraints are redundant, and more of them are where all bars lie in line.
    """
    mechanism = Mechanism(f"four_bars_{n}", gravity=GRAVITY)
    rod = [1 / 12, 1 / 12, 1 / 12]  # as in `chain`: motion in a plane feels the moment across it only
    low, high = {"position": [0.0, 0.0, -0.5]}, {"position": [0.0, 0.0, 0.5]}
    left, right = {"position": [-0.5, 0.0, 0.0]}, {"position": [0.5, 0.0, 0.0]}
    for i in range(n + 1):
        mechanism.add_body(f"upright{i}", mass=1.0, inertia=rod)
        foot = {"position": [float(i), 0.0, 0.0]}
        mechanism.add_joint(f"foot{i}", "revolute", "ground", f"upright{i}", foot, low, axis=Y)
        mechanism.set_initial(joints={f"foot{i}": {"q": [0.0], "v": [1.0]}})
    for i in range(n):
        mechanism.add_body(f"bar{i}", mass=1.0, inertia=rod)
        mechanism.add_joint(f"left{i}", "revolute", f"upright{i}", f"bar{i}", high, left, axis=Y)
    for i in range(n):
        mechanism.add_joint(f"right{i}", "revolute", f"upright{i + 1}", f"bar{i}", high, right, axis=Y)
    bars = [f"{end}{i}" for end in ("left", "right") for i in range(n)]
    mechanism.set_initial(joints={name: {"q": [0.0], "v": [-1.0]} for name in bars})
    return mechanism


TYPES = (
    *("revolute", "free", "prismatic", "spherical", "screw"),
    *("universal", "cylindrical", "planar", "fixed", "composite"),
)
LOOP_TYPES = tuple(kind for kind in TYPES if kind != "free")
"""A free joint closes nothing."""


def random_mechanism(seed: int, bodies: int, loops: int = 0) -> Mechanism:
    """A random tree on the ground, in which ten bodies have a joint of every type, with loops that just close.

    Joint `j<i>` carries body `b<i>`; joints `loop<i>` join two bodies, or one and the ground, in the poses that the
    tree has at the start. Frames, axes, inertias and gravity are random, aligned with nothing. A tree has random joint
    rates; with loops nothing moves at the start.
    """
    rng = np.random.default_rng(seed)
    mechanism = Mechanism(f"random_{seed}", gravity=9.81 * _unit(rng, 3))
    poses: dict[str, Any] = {"ground": SE3.identity()}
    kinds = [str(kind) for _ in range(0, bodies, len(TYPES)) for kind in rng.permutation(TYPES)]
    for i, kind in enumerate(kinds[:bodies]):
        parent, outer, inner = str(rng.choice(list(poses))), _random_frame(rng), _random_frame(rng)
        geometry, q = _geometry(rng, kind), _coordinates(rng, kind)
        mechanism.add_body(f"b{i}", mass=rng.uniform(0.5, 2.0), inertia=_inertia(rng))
        mechanism.add_joint(f"j{i}", kind, parent, f"b{i}", outer, inner, **geometry)
        v = np.zeros(_freedom(kind)) if loops else rng.normal(size=_freedom(kind))
        mechanism.set_initial(joints={f"j{i}": {"q": q, "v": v}})
        moved = SE3.compose(SE3.compose(poses[parent], _pose(outer)), _motion(kind, geometry, q))
        poses[f"b{i}"] = SE3.compose(moved, SE3.inverse(_pose(inner)))
    for i in range(loops):
        kind, child = str(rng.choice(LOOP_TYPES)), f"b{rng.integers(bodies)}"
        parent, outer = str(rng.choice([name for name in poses if name != child])), _random_frame(rng)
        geometry, q = _geometry(rng, kind), _coordinates(rng, kind)
        # The closure q1 o1 I(q) = q2 o2, solved for o2.
        moved = SE3.compose(SE3.compose(poses[parent], _pose(outer)), _motion(kind, geometry, q))
        inner = SE3.compose(SE3.inverse(poses[child]), moved)
        mechanism.add_joint(f"loop{i}", kind, parent, child, outer, _frame(inner), **geometry)
        mechanism.set_initial(joints={f"loop{i}": {"q": q}})
    return mechanism


def with_rotors(mechanism: Mechanism, seed: int = 0, only: str = "") -> Mechanism:
    """The mechanism with rotors in half of the coordinates of its joints, of those whose names begin with `only`."""
    rng = np.random.default_rng(seed)
    for name, spec in mechanism.joints.items():
        if spec.dimension and name.startswith(only):
            armature = rng.uniform(0.1, 1.0, spec.dimension) * rng.integers(2, size=spec.dimension)
            armature[rng.integers(spec.dimension)] = rng.uniform(0.1, 1.0)
            mechanism.joints[name] = dataclasses.replace(spec, armature=armature)
    return mechanism


def with_motors(mechanism: Mechanism, only: str = "") -> Mechanism:
    """The mechanism with motors, whose rotors have inertia, on joints of one freedom whose names begin with `only`."""
    for i, name in enumerate(name for name, spec in mechanism.joints.items() if spec.dimension == 1):
        if name.startswith(only):
            mechanism.add_system(f"motor_{name}", dc_motor(1.0, 5e-3, 0.4, 0.3 + 0.2 * i))
            mechanism.connect(f"shaft_{name}", [f"motor_{name}.shaft", f"{name}.p_r"])
            mechanism.connect(f"supply_{name}", [f"motor_{name}.supply"], flow=3.0)
            mechanism.set_initial(states={f"motor_{name}/i": 1.5 - i})
    return mechanism


def _unit(rng, n: int) -> np.ndarray:
    vector = rng.normal(size=n)
    return vector / np.linalg.norm(vector)


def _inertia(rng) -> np.ndarray:
    """That of random masses: any such tensor obeys the triangle inequality."""
    points = 0.2 * rng.normal(size=(4, 3))
    spread = points.T @ points
    return np.trace(spread) * np.eye(3) - spread


def _random_frame(rng) -> dict[str, np.ndarray]:
    return {"position": 0.3 * rng.normal(size=3), "quaternion": _unit(rng, 4)}


def _geometry(rng, kind: str) -> dict[str, Any]:
    """Axes and pitch of a joint type; axes of several are well apart."""
    axis = _unit(rng, 3)
    across = np.cross(axis, _unit(rng, 3))
    if kind == "composite":
        turns = [{"type": "revolute", "axis": a, "position": 0.3 * rng.normal(size=3)} for a in (axis, across)]
        return {"motions": [turns[0], {"type": "prismatic", "axis": across + 0.3 * axis}, turns[1]]}
    has_axis = kind not in ("fixed", "spherical", "free")
    values = {"axis": axis} if has_axis else {}
    values |= {"axis2": across / np.linalg.norm(across) + 0.3 * axis} if kind == "universal" else {}
    return values | ({"pitch": rng.uniform(0.1, 0.4)} if kind == "screw" else {})


def _coordinates(rng, kind: str) -> np.ndarray:
    """Random joint coordinates (rad, m) as configs give them."""
    if kind == "spherical":
        return _unit(rng, 4)
    if kind == "free":
        return np.concatenate([0.5 * rng.normal(size=3), _unit(rng, 4)])
    return 0.5 * rng.normal(size=_freedom(kind))


def _freedom(kind: str) -> int:
    known = JOINT_DIMENSIONS[kind]
    return 3 if known is None else known


def _motion(kind: str, geometry: dict[str, Any], q: np.ndarray):
    """The pose (3, 4) of the child's joint frame in the parent's."""
    motion = motion_of(JointSpec("joint", kind, "ground", "body", geometry=geometry))
    return motion.inclusion(motion.group.from_coordinates(jnp.asarray(q)))


def _pose(frame: dict[str, np.ndarray]):
    return pose(quaternion_to_rotation(jnp.asarray(frame["quaternion"])), jnp.asarray(frame["position"]))


def _frame(q) -> dict[str, np.ndarray]:
    return {"position": np.asarray(q[:, 3]), "quaternion": np.asarray(rotation_to_quaternion(q[:, :3]))}
