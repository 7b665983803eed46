"""A mechanism in Exudyn's terms: trees in minimal coordinates, rows of windows in redundant planar coordinates.

Exudyn's kinematic tree has joints of one degree of freedom about or along x, y or z. A free joint is three slides and
three hinges in a row, a ball joint three hinges (rotation Rx Ry Rz), with links without mass between them.
"""

# The bindings are compiled, without stubs, and live in an environment of their own.
# pyright: reportAttributeAccessIssue=false, reportMissingImports=false
from __future__ import annotations

from typing import Any

import exudyn as exu
import numpy as np
from exudyn import itemInterface as items

from experiments.benchmarks.kinematics import rotation
from experiments.benchmarks.neutral import COORDINATES, RATES, System

AXES = "XYZ"


def tree(system: System) -> tuple[exu.SystemContainer, Any]:
    """A container and its system with one kinematic tree, initial values zero; no loops."""
    container = exu.SystemContainer()
    mbs = container.AddSystem()
    types, parents, turns, offsets, last = [], [], [], [], []
    for link in system.links:
        parent, turn, offset = (-1 if link.parent < 0 else last[link.parent]), link.rotation, link.position
        for name in _joint_types(link.joint, link.axis):
            types.append(getattr(exu.JointType, name))
            parents.append(parent)
            turns.append(turn)
            offsets.append(offset)
            parent, turn, offset = len(types) - 1, np.eye(3), np.zeros(3)
        last.append(parent)
    masses, centres, inertias = np.zeros(len(types)), np.zeros((len(types), 3)), np.zeros((len(types), 3, 3))
    for index, link in zip(last, system.links, strict=True):
        masses[index], centres[index], inertias[index] = link.mass, link.com, link.inertia
    zero = [0.0] * len(types)
    node = mbs.AddNode(
        items.NodeGenericODE2(
            referenceCoordinates=zero,
            initialCoordinates=zero,
            initialCoordinates_t=zero,
            numberOfODE2Coordinates=len(types),
        )
    )
    mbs.AddObject(
        items.ObjectKinematicTree(
            nodeNumber=node,
            gravity=[0.0, 0.0, -system.gravity],
            jointTypes=types,
            linkParents=parents,
            jointTransformations=exu.Matrix3DList(turns),
            jointOffsets=exu.Vector3DList(offsets),
            linkInertiasCOM=exu.Matrix3DList(list(inertias)),
            linkCOMs=exu.Vector3DList(list(centres)),
            linkMasses=list(masses),
        )
    )
    mbs.Assemble()
    return container, mbs


def _joint_types(joint: str, axis: np.ndarray) -> list[str]:
    slides, turns = [f"Prismatic{a}" for a in AXES], [f"Revolute{a}" for a in AXES]
    own = int(np.argmax(np.abs(axis)))
    return {"free": slides + turns, "ball": turns, "hinge": turns[own : own + 1], "slide": slides[own : own + 1]}[joint]


def to_tree(system: System, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Exudyn's coordinates and rates `(n,)` of one state."""
    coordinates, rates = [], []
    for link, i, j in zip(system.links, system.slices(COORDINATES), system.slices(RATES), strict=True):
        qi, vi = q[i], v[j]
        if link.joint in ("hinge", "slide"):
            coordinates.append(qi * link.axis.sum())
            rates.append(vi * link.axis.sum())
            continue
        R = rotation(qi[-4:])
        angles = _angles(R)
        turning = np.linalg.solve(_rates_to_omega(angles), vi[:3])
        coordinates += [qi[:-4], angles]
        rates += [R @ vi[3:] if link.joint == "free" else [], turning]
    return np.concatenate(coordinates), np.concatenate(rates)


def from_tree(system: System, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The inverse of `to_tree`."""
    coordinates, rates, at = [], [], 0
    for link in system.links:
        width = RATES[link.joint]
        qi, vi = q[at : at + width], v[at : at + width]
        at += width
        if link.joint in ("hinge", "slide"):
            coordinates.append(qi * link.axis.sum())
            rates.append(vi * link.axis.sum())
            continue
        wxyz = _quaternion(qi[-3:])
        coordinates += [qi[:-3], wxyz]
        rates += [_rates_to_omega(qi[-3:]) @ vi[-3:], rotation(wxyz).T @ vi[:3] if link.joint == "free" else []]
    return np.concatenate(coordinates), np.concatenate(rates)


def acceleration_from_tree(system: System, q: np.ndarray, v: np.ndarray, a: np.ndarray) -> np.ndarray:
    """Derivatives `(nv,)` of the neutral rates, from Exudyn's coordinates and their derivatives."""
    rates, at = [], 0
    for link in system.links:
        width = RATES[link.joint]
        qi, vi, ai = q[at : at + width], v[at : at + width], a[at : at + width]
        at += width
        if link.joint in ("hinge", "slide"):
            rates.append(ai * link.axis.sum())
            continue
        angles, turning = qi[-3:], vi[-3:]
        R, omega = rotation(_quaternion(angles)), _rates_to_omega(angles) @ turning
        rates.append(_rates_to_omega(angles) @ ai[-3:] + _rates_to_omega_rate(angles, turning) @ turning)
        if link.joint == "free":
            rates.append(R.T @ ai[:3] - np.cross(omega, R.T @ vi[:3]))
    return np.concatenate(rates)


def _angles(R: np.ndarray) -> np.ndarray:
    return np.array([np.arctan2(-R[1, 2], R[2, 2]), np.arcsin(R[0, 2]), np.arctan2(-R[0, 1], R[0, 0])])


def _quaternion(angles: np.ndarray) -> np.ndarray:
    (cx, cy, cz), (sx, sy, sz) = np.cos(angles / 2), np.sin(angles / 2)
    return np.array(
        [
            cx * cy * cz - sx * sy * sz,
            sx * cy * cz + cx * sy * sz,
            cx * sy * cz - sx * cy * sz,
            cx * cy * sz + sx * sy * cz,
        ]
    )


def _rates_to_omega(angles: np.ndarray) -> np.ndarray:
    """From the angles' rates to the angular velocity in the child's axes."""
    (_, cy, cz), (_, sy, sz) = np.cos(angles), np.sin(angles)
    return np.array([[cy * cz, sz, 0.0], [-cy * sz, cz, 0.0], [sy, 0.0, 1.0]])


def _rates_to_omega_rate(angles: np.ndarray, rates: np.ndarray) -> np.ndarray:
    (_, cy, cz), (_, sy, sz) = np.cos(angles), np.sin(angles)
    _, y, z = rates
    return np.array(
        [
            [-sy * cz * y - cy * sz * z, cz * z, 0.0],
            [sy * sz * y - cy * cz * z, -sz * z, 0.0],
            [cy * y, 0.0, 0.0],
        ]
    )


def windows(system: System, q: np.ndarray, v: np.ndarray) -> tuple[exu.SystemContainer, Any]:
    """A container and its system of rigid bodies in the plane (x right, y up: the world's x and z) at one state."""
    container = exu.SystemContainer()
    mbs = container.AddSystem()
    ground = mbs.AddObject(items.ObjectGround())
    bodies: list[int] = []
    angles, turning, tops, speeds = [], [], [], []
    for i, link in enumerate(system.links):
        # A hinge about y turns z towards x, which is clockwise in this plane.
        above = link.parent >= 0
        base = tops[link.parent] if above else link.position[[0, 2]]
        moving = speeds[link.parent] if above else np.zeros(2)
        angles.append((angles[link.parent] if above else 0.0) - q[i])
        turning.append((turning[link.parent] if above else 0.0) - v[i])
        reach = _turned(link.com[[0, 2]], angles[i])
        across = turning[i] * np.array([-reach[1], reach[0]])
        node = mbs.AddNode(
            items.NodeRigidBody2D(
                referenceCoordinates=[*(base + reach), angles[i]], initialVelocities=[*(moving + across), turning[i]]
            )
        )
        body = mbs.AddObject(items.ObjectRigidBody2D(mass=link.mass, inertia=link.inertia[1, 1], nodeNumber=node))
        weight = [0.0, -link.mass * system.gravity, 0.0]
        mbs.AddLoad(items.LoadForceVector(markerNumber=_marker(mbs, body, [0.0, 0.0]), loadVector=weight))
        holder, point = (bodies[link.parent], _local(system, link.parent, link.position)) if above else (ground, base)
        _join(mbs, holder, point, body, -link.com[[0, 2]])
        bodies.append(body)
        tops.append(base + 2 * reach)
        speeds.append(moving + 2 * across)
    for loop in system.loops:
        points = _local(system, loop.a, loop.point_a), _local(system, loop.b, loop.point_b)
        _join(mbs, bodies[loop.a], points[0], bodies[loop.b], points[1])
    mbs.Assemble()
    return container, mbs


def _local(system: System, index: int, point: np.ndarray) -> np.ndarray:
    return (point - system.links[index].com)[[0, 2]]


def _turned(point: np.ndarray, angle: float) -> np.ndarray:
    c, s = np.cos(angle), np.sin(angle)
    return np.array([c * point[0] - s * point[1], s * point[0] + c * point[1]])


def _marker(mbs: Any, body: int, point: Any) -> int:
    return mbs.AddMarker(items.MarkerBodyPosition(bodyNumber=body, localPosition=[*point, 0.0]))


def _join(mbs: Any, a: int, point_a: Any, b: int, point_b: Any) -> None:
    markers = [_marker(mbs, a, point_a), _marker(mbs, b, point_b)]
    mbs.AddObject(items.ObjectJointRevolute2D(markerNumbers=markers))


def from_windows(system: System, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Relative hinge angles and rates of the tree's joints, from all bodies' displacements and rates."""
    angles, turning = -q.reshape(-1, 3)[:, 2], -v.reshape(-1, 3)[:, 2]
    parents = [link.parent for link in system.links]
    relative = [[x[i] - (x[p] if p >= 0 else 0.0) for i, p in enumerate(parents)] for x in (angles, turning)]
    return np.array(relative[0]), np.array(relative[1])
