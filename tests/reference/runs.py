"""Runs of the shipped configs, each once per test session, and the distances between motions."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np

import jmbs

HERE = Path(__file__).parent
CONFIGS = HERE.parent.parent / "configs"


@functools.cache
def simulated(config: str) -> jmbs.Trajectory:
    """The trajectory of `configs/<config>.yaml`, run as it stands."""
    model = jmbs.compile(jmbs.load(CONFIGS / f"{config}.yaml"))
    return jmbs.simulate(model, model.initial_state())


@functools.cache
def case(name: str) -> dict[str, Any]:
    """A reference case; shared, so not to be changed."""
    return json.loads((HERE / "data" / f"{name}.json").read_text(encoding="utf-8"))


def rows_at(trajectory: jmbs.Trajectory, times) -> np.ndarray:
    """The indices at which the trajectory saved the given times."""
    saved = np.asarray(trajectory.ts)
    rows = np.argmin(np.abs(saved[None, :] - np.asarray(times, float)[:, None]), axis=1)
    np.testing.assert_allclose(saved[rows], times, rtol=0, atol=1e-9)
    return rows


def largest(difference) -> np.ndarray:
    """The largest absolute entry at each time."""
    difference = np.abs(np.asarray(difference))
    return difference.reshape(len(difference), -1).max(axis=1)


def angle_between(a, b) -> np.ndarray:
    """The angle (rad) of the rotation from `a` to `b` (T, 4), whatever the quaternions' signs."""
    a, b = (np.asarray(q) / np.linalg.norm(q, axis=1, keepdims=True) for q in (a, b))
    # The chord, since the arc cosine of the inner product loses half the digits.
    chord = np.minimum(np.linalg.norm(a - b, axis=1), np.linalg.norm(a + b, axis=1))
    return 4 * np.arcsin(chord / 2)


def rotations(quaternions) -> np.ndarray:
    """Rotation matrices (T, 3, 3) of unit quaternions `wxyz` (T, 4)."""
    w, x, y, z = np.asarray(quaternions).T
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), -1, 0)
