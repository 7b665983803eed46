"""Small mechanisms that together have every joint, element and drive, on either configuration group; and their states.

`MECHANISMS` makes them by name; `sample` gives a random consistent state of an open one, `internal` turns a state into
the arrays of its equations.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs import Mechanism
from jmbs.library.mechanics import motion_of
from jmbs.library.mechanics.specification import TableSpec
from jmbs.lie import SE3, cross, pose, quaternion_to_rotation

GRAVITY = (0.4, -0.6, -9.0)
THETA0 = 290.0
TURN = (0.5, 0.5, -0.1, 0.7)
TURN2 = (0.9, -0.1, 0.3, 0.3)


def _quaternion(wxyz) -> list[float]:
    return (np.array(wxyz) / np.linalg.norm(wxyz)).tolist()


def _frame(position, wxyz=(1.0, 0.0, 0.0, 0.0)) -> dict[str, list[float]]:
    return {"position": list(position), "quaternion": _quaternion(wxyz)}


def _mechanism(name: str, groups: dict[str, str]) -> Mechanism:
    mechanism = Mechanism(name, gravity=GRAVITY, environment_temperature=THETA0)
    for i, (body, group) in enumerate(groups.items()):
        inertia = [[0.4 + 0.1 * i, 0.03, -0.02], [0.03, 0.5, 0.01 * i], [-0.02, 0.01 * i, 0.35]]
        mechanism.add_body(body, mass=1.5 + 0.5 * i, inertia=inertia, group=group)
    mechanism.add_store("oil", capacity=5.0, temperature=310.0)
    return mechanism


def _groups(names: str, group: str) -> dict[str, str]:
    return dict.fromkeys(names, group)


def chain(groups: dict[str, str]) -> Mechanism:
    """Ground, revolute, a, universal, b, prismatic, c: springs, all kinds of friction, loads, a tabulated force."""
    m = _mechanism("chain", groups)
    dry = {"viscous": 0.3, "coulomb": 0.5, "static": 0.9, "stribeck_velocity": 0.6, "regularisation_velocity": 0.3}
    m.add_joint(
        "hinge",
        "revolute",
        "ground",
        "a",
        parent_frame=_frame((0.1, 0.0, 0.3), TURN),
        child_frame=_frame((-0.4, 0.1, 0.0), TURN2),
        axis=(0.2, 1.0, 0.3),
        spring={"stiffness": 4.0, "rest": 0.3},
        friction={**dry, "heats": "oil"},
    )
    m.add_joint(
        "cross",
        "universal",
        "a",
        "b",
        parent_frame=_frame((0.4, 0.0, 0.1)),
        child_frame=_frame((-0.3, 0.0, 0.2), TURN),
        axis=(1.0, 0.2, 0.0),
        axis2=(0.1, 0.0, 1.0),
        spring={"stiffness": [2.0, 3.0], "rest": [0.1, -0.2]},
        friction={"viscous": [0.2, 0.4]},
        actuation=[0.5, -0.7],
    )
    m.add_joint(
        "slide",
        "prismatic",
        "b",
        "c",
        parent_frame=_frame((0.3, 0.1, 0.0), TURN2),
        axis=(0.0, 0.4, 1.0),
        friction=dry,
        actuation=TableSpec([0.0, 1.0], [[1.0], [-2.0]]),
    )
    m.add_load("push", "b", point=(0.1, 0.2, -0.3), force=(1.0, -2.0, 0.5), torque=(0.3, 0.0, 0.2))
    m.add_load("thrust", "c", point=(-0.1, 0.0, 0.2), force=(0.5, 0.7, -1.0), torque=(0.0, 0.4, 0.2), frame="body")
    m.add_spring_damper(
        "tendon", "ground", "c", (0.0, 1.0, 2.0), (0.1, 0.1, 0.0), stiffness=6.0, damping=0.8, length=1.0, heats="oil"
    )
    return m


def tree(groups: dict[str, str]) -> Mechanism:
    """A base on a spherical joint that carries a cylindrical, a screw and, further out, a planar joint."""
    m = _mechanism("tree", groups)
    matrix = [[0.5, 0.1, 0.0], [0.1, 0.4, -0.2], [0.0, -0.2, 0.3]]
    m.add_joint(
        "ball",
        "spherical",
        "ground",
        "a",
        child_frame=_frame((0.3, 0.2, -0.1), TURN),
        spring={"stiffness": matrix, "rest": _quaternion(TURN2)},
        friction={"viscous": matrix, "coulomb": 0.6, "regularisation_velocity": 0.4, "heats": "oil"},
    )
    m.add_joint(
        "tube",
        "cylindrical",
        "a",
        "b",
        parent_frame=_frame((0.2, 0.0, 0.0), TURN2),
        child_frame=_frame((0.0, 0.3, 0.1)),
        axis=(0.3, 0.0, 1.0),
        friction={"viscous": [0.2, 0.3], "coulomb": [0.1, 0.4], "regularisation_velocity": 0.4},
        actuation=[0.6, 1.2],
    )
    m.add_joint(
        "bolt",
        "screw",
        "a",
        "c",
        parent_frame=_frame((-0.2, 0.1, 0.3)),
        child_frame=_frame((0.1, 0.0, -0.4), TURN),
        axis=(1.0, 1.0, 0.2),
        pitch=0.25,
        spring={"stiffness": 2.0},
    )
    m.add_joint(
        "table",
        "planar",
        "b",
        "d",
        child_frame=_frame((0.1, -0.2, 0.3), TURN2),
        axis=(0.1, 0.2, -1.0),
        spring={"stiffness": [3.0, 4.0, 1.0], "rest": [0.1, 0.0, 0.4]},
        friction={"viscous": [0.2, 0.1, 0.3], "coulomb": [0.5, 0.3], "regularisation_velocity": 0.4},
    )
    return m


def loose(groups: dict[str, str]) -> Mechanism:
    """A body on a free joint, another fixed to it, and one held only by a spring and a damper and a user's force."""
    m = _mechanism("loose", groups)
    m.add_joint(
        "air",
        "free",
        "ground",
        "a",
        parent_frame=_frame((0.5, 0.0, 1.0), TURN),
        child_frame=_frame((0.1, 0.2, 0.0)),
        spring={"stiffness": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "rest": [0.1, 0.2, 0.3, *_quaternion(TURN2)]},
        friction={"viscous": 0.2, "coulomb": [0.3, 0.1], "regularisation_velocity": 0.4},
    )
    m.add_joint("weld", "fixed", "a", "b", parent_frame=_frame((0.4, 0.0, 0.2), TURN2))
    m.add_spring_damper("band", "b", "c", (0.1, 0.0, 0.0), (0.0, 0.2, 0.0), stiffness=3.0, damping=0.5, length=0.2)
    m.add_force("wind", "c", lambda t, pose, velocity: t * pose[0, 3] - 0.3 * velocity)
    return m


def four_bar(groups: dict[str, str]) -> Mechanism:
    """A planar loop of four hinges in space: three of its constraints are redundant."""
    m = _mechanism("four_bar", groups)
    half = {"a": 0.2, "b": 0.45, "c": 0.35}
    ends = {name: (_frame((-h, 0.0, 0.0)), _frame((h, 0.0, 0.0))) for name, h in half.items()}
    m.add_joint("crank", "revolute", "ground", "a", child_frame=ends["a"][0], actuation=0.8)
    m.add_joint("knee", "revolute", "a", "b", ends["a"][1], ends["b"][0], friction={"viscous": 0.2, "heats": "oil"})
    m.add_joint("elbow", "revolute", "b", "c", ends["b"][1], ends["c"][0], spring={"stiffness": 1.5})
    m.add_joint("rocker", "revolute", "ground", "c", _frame((1.0, 0.0, 0.0)), ends["c"][1], friction={"viscous": 0.1})
    m.set_initial(joints={"crank": {"q": 0.9, "v": 1.3}})
    return m


MIXED = {"a": "SE3", "b": "SO3xR3", "c": "SE3"}
"""Both groups in one mechanism: every joint converts between them."""

MECHANISMS: dict[str, Callable[[], Mechanism]] = {
    "chain": functools.partial(chain, _groups("abc", "SE3")),
    "chain direct": functools.partial(chain, _groups("abc", "SO3xR3")),
    "chain mixed": functools.partial(chain, MIXED),
    "tree": functools.partial(tree, _groups("abcd", "SE3")),
    "tree direct": functools.partial(tree, _groups("abcd", "SO3xR3")),
    "loose": functools.partial(loose, _groups("abc", "SE3")),
    "loose mixed": functools.partial(loose, MIXED),
    "four_bar": functools.partial(four_bar, _groups("abc", "SE3")),
    "four_bar direct": functools.partial(four_bar, _groups("abc", "SO3xR3")),
}


class Motion(NamedTuple):
    """A state on any group: `poses` (3, 4), `twists` (6,) in body axes, elements of joints, entropies of stores."""

    poses: dict[str, Float[Array, "3 4"]]
    twists: dict[str, Float[Array, "6"]]
    joints: dict[str, Array]
    entropies: dict[str, Float[Array, "1"]]


def _frame_pose(frame) -> Float[Array, "3 4"]:
    return pose(quaternion_to_rotation(jnp.asarray(frame.quaternion)), jnp.asarray(frame.position))


def sample(mechanism: Mechanism, key: Float[Array, ""]) -> Motion:
    """A random state, by a number of it, that meets all joints of an open mechanism, whose joints come parent first."""
    motions = {name: motion_of(spec) for name, spec in mechanism.joints.items()}
    free = [body for body in mechanism.bodies if body not in {spec.child for spec in mechanism.joints.values()}]

    def poses(joints, roots):
        """Poses of all bodies, by composition along the joints."""
        found = {"ground": SE3.identity(), **roots}
        for name, spec in mechanism.joints.items():
            frame = SE3.compose(found[spec.parent], _frame_pose(spec.parent_frame))
            frame = SE3.compose(frame, motions[name].inclusion(joints[name]))
            found[spec.child] = SE3.compose(frame, SE3.inverse(_frame_pose(spec.child_frame)))
        return {body: found[body] for body in mechanism.bodies}

    count = itertools.count(1)
    # As those of a generator would be, but cheap to compile.
    normal = lambda n: np.sqrt(2.0) * jnp.sin(1e3 * key * np.sqrt(next(count) + 0.1 * np.arange(n)))  # noqa: E731
    joints = {name: motion.group.exp(0.5 * normal(motion.group.dim)) for name, motion in motions.items()}
    rates = {name: motions[name].group.lift(q, normal(motions[name].group.dim)) for name, q in joints.items()}
    roots = {body: SE3.exp(0.5 * normal(6)) for body in free}
    root_rates = {body: SE3.lift(q, normal(6)) for body, q in roots.items()}
    found, moving = jax.jvp(poses, (joints, roots), (rates, root_rates))
    twists = {body: SE3.lower(found[body], moving[body]) for body in found}
    return Motion(found, twists, joints, {store: normal(1) for store in mechanism.stores})


def internal(mechanism: Mechanism, dae, motion: Motion) -> tuple[Array, ...]:
    """The motion as the arrays that the equations take, on the groups of the mechanism's bodies."""
    junction = dae.plan.junction_of
    values = {}
    for name, spec in mechanism.bodies.items():
        q, u = motion.poses[name], motion.twists[name]
        v = u[3:] if spec.group == "SE3" else q[:, :3] @ u[3:]
        values[junction[f"{name}/pe", "q"]] = q
        values[junction[f"{name}/ke", "p"]] = jnp.concatenate([jnp.asarray(spec.inertia) @ u[:3], spec.mass * v])
    values |= {junction[f"{name}/pe", "q_r"]: q for name, q in motion.joints.items()}
    values |= {junction[name, "s"]: s for name, s in motion.entropies.items() if (name, "s") in junction}
    for name, spec in mechanism.elements.items():
        ends = []
        for body, point in ((spec.a, spec.point_a), (spec.b, spec.point_b)):
            q = SE3.identity() if body == "ground" else motion.poses[body]
            ends.append(q[:, :3] @ jnp.asarray(point) + q[:, 3])
        values[junction[f"{name}/pe", "l"]] = jnp.linalg.norm(ends[1] - ends[0])[None]
    return tuple(
        jnp.stack([values.get(name, block.space.identity()) for name in block.junctions]) for block in dae.plan.blocks
    )


def accelerations(mechanism: Mechanism, dae, motion: Motion, velocity: Array) -> dict[str, Float[Array, "6"]]:
    """Per body the rate of `I omega` in body axes and the acceleration of the centre of mass in world axes."""
    result = {}
    for name, spec in mechanism.bodies.items():
        rate = velocity[dae.plan.slots[dae.plan.junction_of[f"{name}/ke", "p"]]]
        linear = rate[3:] / spec.mass
        if spec.group == "SE3":
            u = motion.twists[name]
            linear = motion.poses[name][:, :3] @ (linear + cross(u[:3], u[3:]))
        result[name] = jnp.concatenate([rate[:3], linear])
    return result
