"""Which method a model's friction wants: dry friction, smoothed near rest, is stiff where it holds light parts."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from jmbs.io.models.frames import inverse, make_pose, rotation_from_quaternion
from jmbs.library.mechanics import JointSpec, Mechanism, dry_groups, motion_of
from jmbs.lie import tangent

STIFF = 2e3
"""1/s. Explicit methods need steps of a millisecond and less beyond; implicit ones take longer for each, and compile
longer, but are stable whatever the step."""
METHOD = "kvaerno5"


class Decay(NamedTuple):
    """The fastest decay of a motion by friction alone, near rest: its `rate`, 1/s, and the `joint` that moves most."""

    rate: float
    joint: str


def fastest_decay(mechanism: Mechanism) -> Decay | None:
    """The fastest decay at zero motion, None without friction.

    The largest eigenvalue of `D a = s M a`, with the mass matrix M of the joints that form the tree, and D the slope of
    friction at rest.
    """
    if all(joint.friction is None for joint in mechanism.joints.values()):
        return None
    from scipy.linalg import block_diag, eigh  # here, because only models with friction need it

    moving, mass = _mass_matrix(mechanism)
    damping = np.asarray(block_diag(*(_slope(joint) for joint in moving)))
    rates, motions = eigh(damping, mass)
    sizes = np.split(motions[:, -1] ** 2 * np.diag(damping), np.cumsum([joint.dimension for joint in moving])[:-1])
    return Decay(float(rates[-1]), moving[int(np.argmax([size.sum() for size in sizes]))].name)


def resolved_smoothing(mechanism: Mechanism, dt: float) -> dict[str, list[float]]:
    """Velocities, m/s or rad/s, by joint below which to smooth dry friction, so that fixed steps `dt` (s) resolve it.

    Twice what friction takes away in a step from a joint whose neighbours give way: iterations of implicit methods
    start at the step's start, and do not find where a joint comes to rest within it.
    """
    moving, mass = _mass_matrix(mechanism)
    ease = np.split(np.diag(np.linalg.inv(mass)), np.cumsum([joint.dimension for joint in moving])[:-1])
    found = {}
    for joint, by_coordinate in zip(moving, ease, strict=True):
        if joint.friction is not None and np.any(joint.friction.static):
            dry, parts = np.asarray(joint.friction.static), _dry_parts(joint)
            largest = np.zeros(len(dry))
            np.maximum.at(largest, parts, by_coordinate)
            found[joint.name] = np.maximum(2 * dt * dry * largest, joint.friction.regularisation_velocity).tolist()
    return found


def choose_method(mechanism: Mechanism) -> list[str]:
    """Lets the mechanism's runs be implicit where its friction is stiff; the note that says so, if it is."""
    decay = fastest_decay(mechanism)
    if decay is None or decay.rate <= STIFF:
        return []
    mechanism.simulation = dataclasses.replace(mechanism.simulation, method=METHOD)
    return [
        f"simulation: near rest friction slows motion of joint {decay.joint} at {decay.rate:.2g} 1/s, for which "
        f"explicit methods need steps below {2 / decay.rate:.1g} s: the method is {METHOD}, which is implicit, unless "
        "simulation.method says another"
    ]


def _mass_matrix(mechanism: Mechanism) -> tuple[list[JointSpec], Float[np.ndarray, "n n"]]:
    """The joints that form the tree, and the mass matrix of their velocities at zero motion."""
    moving, columns = _columns(mechanism)
    mass = np.sum([rows.T @ _inertia(mechanism, body) @ rows for body, rows in columns.items()], axis=0)
    rotors = [np.zeros(joint.dimension) if joint.armature is None else joint.armature for joint in moving]
    mass = mass + np.diag(np.concatenate(rotors))
    # In gimbal lock, where no run starts, there is no inertia in some direction.
    return moving, mass + 1e-12 * np.max(mass) * np.eye(len(mass))


def _columns(mechanism: Mechanism) -> tuple[list[JointSpec], dict[str, Float[np.ndarray, "6 n"]]]:
    """The joints of the tree, and how their velocities move each body at zero motion, in that body's axes."""
    places = {"ground": np.eye(4)}
    above: dict[str, list[JointSpec]] = {"ground": []}
    frames: dict[str, np.ndarray] = {}
    waiting = list(mechanism.joints.values())
    while reached := [joint for joint in waiting if joint.parent in places]:
        for joint in reached:
            if joint.child not in places:
                frames[joint.name] = places[joint.parent] @ _pose(joint.parent_frame)
                places[joint.child] = frames[joint.name] @ inverse(_pose(joint.child_frame))
                above[joint.child] = [*above[joint.parent], joint]
        waiting = [joint for joint in waiting if joint not in reached]
    moving = [joint for joint in mechanism.joints.values() if joint.name in frames]
    twists = {joint.name: _twists(joint) for joint in moving}

    def of_body(body: str) -> np.ndarray:
        moved = [
            _adjoint(inverse(places[body]) @ frames[joint.name]) @ twists[joint.name]
            if joint in above[body]
            else np.zeros((6, joint.dimension))
            for joint in moving
        ]
        return np.concatenate(moved, axis=1)

    return moving, {body: of_body(body) for body in places if body != "ground"}


def _twists(joint: JointSpec) -> Float[np.ndarray, "6 k"]:
    """The twists of the child's joint frame by velocities, at zero motion."""
    motion = motion_of(joint)
    return np.asarray(tangent(motion, motion.group.identity()))


def _slope(joint: JointSpec) -> Float[np.ndarray, "k k"]:
    """The derivative of a joint's friction by its velocity, at rest."""
    f, k = joint.friction, joint.dimension
    if f is None:
        return np.zeros((k, k))
    dry = np.asarray(f.static) / np.asarray(f.regularisation_velocity)
    viscous = np.asarray(f.viscous)
    return (viscous if viscous.ndim == 2 else np.diag(viscous)) + np.diag(dry[_dry_parts(joint)])


def _dry_parts(joint: JointSpec) -> list[int]:
    """Which part of the dry friction acts on each velocity."""
    return [part for i in range(joint.dimension) for part, group in enumerate(dry_groups(joint)) if i in group]


def _inertia(mechanism: Mechanism, body: str) -> Float[np.ndarray, "6 6"]:
    spec = mechanism.bodies[body]
    none = np.zeros((3, 3))
    return np.block([[spec.inertia, none], [none, spec.mass * np.eye(3)]])


def _pose(frame) -> Float[np.ndarray, "4 4"]:
    return make_pose(np.asarray(frame.position), rotation_from_quaternion(np.asarray(frame.quaternion)))


def _adjoint(pose: Float[np.ndarray, "4 4"]) -> Float[np.ndarray, "6 6"]:
    """How twists, angular first, of one frame are seen in another."""
    R, r = pose[:3, :3], pose[:3, 3]
    return np.block([[R, np.zeros((3, 3))], [np.cross(np.eye(3), r) @ R, R]])
