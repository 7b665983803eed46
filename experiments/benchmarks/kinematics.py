"""Random states of a mechanism, and where its links are: numpy only, the same in every environment."""

from __future__ import annotations

import numpy as np

from experiments.benchmarks.neutral import COORDINATES, System


def random_states(system: System, batch: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Seeded states `q` (batch, nq) and `v` (batch, nv) about the system's own; the first members do not depend on
    the size of the batch. A mechanism with loops keeps its coordinates and scales its rates by up to a fifth or so."""
    # RandomState is frozen: other generators of numpy may draw other numbers in another version of it.
    q = np.tile(system.q, (batch, 1))
    v = np.tile(system.v, (batch, 1))
    for i in range(batch):
        draw = np.random.RandomState(seed * 1_000_003 + i).standard_normal
        v[i] *= 1.0 + 0.2 * draw()
        v[i] += system.spread * draw(len(system.v))
        q[i] += system.spread * draw(len(system.q))
    for link, part in zip(system.links, system.slices(COORDINATES), strict=True):
        if link.joint in ("ball", "free"):
            quaternion = q[:, part][:, -4:]
            quaternion /= np.linalg.norm(quaternion, axis=1, keepdims=True)
    return q, v


def positions(system: System, q: np.ndarray) -> np.ndarray:
    """Centres of mass `(batch, links, 3)`, m, in the world, at coordinates `q` (batch, nq)."""
    frames: list[tuple[np.ndarray, np.ndarray]] = []
    centres = []
    for link, part in zip(system.links, system.slices(COORDINATES), strict=True):
        R, r = frames[link.parent] if link.parent >= 0 else (np.eye(3)[None], np.zeros((1, 3)))
        r = r + R @ link.position
        R = R @ link.rotation
        turn, shift = _motion(link.joint, link.axis, q[:, part])
        r = r + np.einsum("bij,bj->bi", np.broadcast_to(R, (len(q), 3, 3)), shift)
        R = R @ turn
        frames.append((R, r))
        centres.append(r + R @ link.com)
    return np.stack(np.broadcast_arrays(*centres), axis=1)


def _motion(joint: str, axis: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rotation `(batch, 3, 3)` and displacement `(batch, 3)` of a joint."""
    still, zero = np.tile(np.eye(3), (len(q), 1, 1)), np.zeros((len(q), 3))
    match joint:
        case "hinge":
            half = 0.5 * q
            return rotation(np.concatenate([np.cos(half), np.sin(half) * axis], axis=1)), zero
        case "slide":
            return still, q * axis
        case "ball":
            return rotation(q), zero
    return rotation(q[:, 3:]), q[:, :3]


def rotation(wxyz: np.ndarray) -> np.ndarray:
    """Rotation matrices `(..., 3, 3)` of unit quaternions `(..., 4)`."""
    w, x, y, z = np.moveaxis(wxyz / np.linalg.norm(wxyz, axis=-1, keepdims=True), -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def quaternion(R: np.ndarray) -> np.ndarray:
    """The unit quaternion wxyz of one rotation matrix, of either sign."""
    K = np.array(
        [
            [R[0, 0] + R[1, 1] + R[2, 2], R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]],
            [0, R[0, 0] - R[1, 1] - R[2, 2], R[1, 0] + R[0, 1], R[2, 0] + R[0, 2]],
            [0, 0, R[1, 1] - R[0, 0] - R[2, 2], R[2, 1] + R[1, 2]],
            [0, 0, 0, R[2, 2] - R[0, 0] - R[1, 1]],
        ]
    )
    # The quaternion is the eigenvector of the largest eigenvalue (I. Bar-Itzhack, 2000); exact at half turns too.
    return np.linalg.eigh(K, UPLO="U")[1][:, -1]


def position_errors(system: System, q: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Largest distance, m, of any centre of mass from where it ought to be, per member: `(batch,)`."""
    gap = positions(system, q) - positions(system, reference)
    return np.linalg.norm(gap, axis=2).max(axis=1)
