"""Poses as `(4, 4)` arrays in numpy: what reading a model needs, in float64 whatever JAX is set to."""

from __future__ import annotations

import numpy as np


def make_pose(position: np.ndarray, rotation: np.ndarray) -> np.ndarray:
    """The pose with `position` `(3,)` m and `rotation` `(3, 3)`."""
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = rotation, position
    return pose


def inverse(pose: np.ndarray) -> np.ndarray:
    """The inverse of a pose."""
    back = pose[:3, :3].T
    return make_pose(-back @ pose[:3, 3], back)


def rotation_from_quaternion(wxyz: np.ndarray) -> np.ndarray:
    """The rotation `(3, 3)` of a unit quaternion `(4,)` wxyz."""
    w, x, y, z = wxyz
    hat = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + 2 * w * hat + 2 * hat @ hat


def rotation_from_rpy(rpy: np.ndarray) -> np.ndarray:
    """The rotation `(3, 3)` of URDF's roll, pitch, yaw (rad): turns about fixed x, then y, then z."""
    (cr, cp, cy), (sr, sp, sy) = np.cos(rpy), np.sin(rpy)
    roll = np.array([[1, 0, 0], [0, cr, -sr], [0, sr, cr]])
    pitch = np.array([[cp, 0, sp], [0, 1, 0], [-sp, 0, cp]])
    yaw = np.array([[cy, -sy, 0], [sy, cy, 0], [0, 0, 1]])
    return yaw @ pitch @ roll


def quaternion_from_rotation(rotation: np.ndarray) -> np.ndarray:
    """The unit quaternion `(4,)` wxyz, `w >= 0`, of a rotation `(3, 3)`.

    Its outer product with itself is linear in the rotation; the largest column of that is free of cancellation.
    """
    r = rotation
    square = np.empty((4, 4))
    square[0, 0] = 1 + np.trace(r)
    square[1:, 0] = square[0, 1:] = r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1]
    square[1:, 1:] = r + r.T + (1 - np.trace(r)) * np.eye(3)
    column = square[:, np.argmax(np.diag(square))]
    quaternion = column / np.linalg.norm(column)
    return -quaternion if quaternion[0] < 0 else quaternion
