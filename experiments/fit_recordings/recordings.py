"""Recordings of a double pendulum and a four-bar linkage, by their own equations and scipy; nothing of jmbs made them.

`python -m experiments.fit_recordings.recordings` writes the CSV files of both studies anew.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.integrate

HERE = Path(__file__).parent
SPACING, LENGTH = 0.01, 3.0
KNOT = 0.02
"""Between the times at which torques are given, s; linear in between."""
GRAVITY = 9.81
TRUTH = {
    "double_pendulum": {
        "link1/mass": 0.85,
        "link1/inertia[1,1]": 0.0081,
        "link2/mass": 0.52,
        "link2/inertia[1,1]": 0.0046,
        "shoulder/friction/viscous": 0.012,
        "elbow/friction/viscous": 0.006,
    },
    "four_bar": {
        "coupler/mass": 0.5,
        "rocker/inertia[2,2]": 0.006,
        "bearing/friction/viscous": 0.03,
        "pivot/friction/viscous": 0.05,
    },
}


class Run(NamedTuple):
    """A recording: `torque` of time, the angles it starts from at rest, and the noise of the angles, rad."""

    torque: Callable[[np.ndarray], np.ndarray]
    start: tuple[float, ...]
    noise: float


RUNS = {
    "double_pendulum": {
        "driven": Run(lambda t: 1.2 * np.sin(4 * t) + 0.8 * np.sin(9 * t), (0.05, -0.03), 2e-3),
        "released": Run(np.zeros_like, (0.9, 0.4), 2e-3),
        "heldout": Run(lambda t: 1.0 * np.sin(6 * t), (-0.4, 0.6), 2e-3),
    },
    "four_bar": {
        "driven": Run(lambda t: 0.6 + 0.8 * np.sin(3 * t) + 0.5 * np.sin(8 * t), (1.0,), 1e-3),
        "swing": Run(lambda t: 0.6 * np.sin(5 * t), (2.0,), 1e-3),
        "heldout": Run(lambda t: 0.5 * np.sin(2 * t) + 0.4 * np.sin(7 * t), (1.5,), 1e-3),
    },
}


def double_pendulum(angles: np.ndarray, rates: np.ndarray, torque: float) -> np.ndarray:
    """Accelerations of both links' angles from the vertical (2,), by Lagrange's equations."""
    m1, J1, m2, J2, b1, b2 = TRUTH["double_pendulum"].values()
    c1, length, c2 = 0.14, 0.30, 0.12
    (a1, a2), (w1, w2) = angles, rates
    coupling, between = m2 * length * c2, a1 - a2
    mass = np.array(
        [
            [J1 + m1 * c1**2 + m2 * length**2, coupling * np.cos(between)],
            [coupling * np.cos(between), J2 + m2 * c2**2],
        ]
    )
    elbow = b2 * (w2 - w1)
    turning = coupling * np.sin(between) * np.array([w2**2, -(w1**2)])
    force = np.array([torque - b1 * w1 + elbow, -elbow]) - turning
    weight = GRAVITY * np.array([(m1 * c1 + m2 * length) * np.sin(a1), m2 * c2 * np.sin(a2)])
    return np.linalg.solve(mass, force - weight)


def four_bar(angles: np.ndarray, rates: np.ndarray, torque: float) -> np.ndarray:
    """Acceleration of the crank's angle (1,), by the equation of the one coordinate that is free."""
    m2, J3, b1, b4 = TRUTH["four_bar"].values()
    m1, J1, J2, m3 = 0.6, 0.002, 0.009, 0.4
    r, l, s, ground = 0.15, 0.45, 0.4, 0.5  # noqa: E741
    (crank,), (w,) = angles, rates
    e = lambda a: np.array([np.cos(a), np.sin(a)])  # noqa: E731
    n = lambda a: np.array([-np.sin(a), np.cos(a)])  # noqa: E731
    # The rocker's angle: its end is l away from the crank's end, above the line from there to the pivot.
    to_pivot = np.array([ground, 0.0]) - r * e(crank)
    distance = np.hypot(*to_pivot)
    inside = np.arccos((s**2 + distance**2 - l**2) / (2 * s * distance))
    rocker = np.arctan2(-to_pivot[1], -to_pivot[0]) - inside
    across = to_pivot + s * e(rocker)
    coupler = np.arctan2(across[1], across[0])
    # First and second derivatives of the closed loop, r e(crank) + l e(coupler) = (ground, 0) + s e(rocker).
    both = np.column_stack([l * n(coupler), -s * n(rocker)])
    k2, k3 = np.linalg.solve(both, -r * n(crank))
    h2, h3 = np.linalg.solve(both, r * e(crank) + l * k2**2 * e(coupler) - s * k3**2 * e(rocker))
    # The coupler's centre moves by `move` per crank angle, and that changes by `turn`.
    move = r * n(crank) + 0.5 * l * k2 * n(coupler)
    turn = -r * e(crank) + 0.5 * l * (h2 * n(coupler) - k2**2 * e(coupler))
    about_crank, about_pivot = J1 + m1 * r**2 / 4, J3 + m3 * s**2 / 4
    inertia = about_crank + m2 * move @ move + J2 * k2**2 + about_pivot * k3**2
    slope = m2 * move @ turn + J2 * k2 * h2 + about_pivot * k3 * h3
    weight = GRAVITY * (m1 * 0.5 * r * np.cos(crank) + m2 * move[1] + m3 * 0.5 * s * np.cos(rocker) * k3)
    return np.array([(torque - (b1 + b4 * k3**2) * w - slope * w**2 - weight) / inertia])


EQUATIONS = {"double_pendulum": double_pendulum, "four_bar": four_bar}


def motion(case: str, run: Run, ts: np.ndarray) -> np.ndarray:
    """Angles (T, n) of the joints at times `ts`, which lie on knots or between, rad."""
    equations, n = EQUATIONS[case], len(run.start)
    knots = np.arange(0.0, LENGTH + KNOT, KNOT)
    torques = run.torque(knots)
    y = np.concatenate([_from_joints(np.array(run.start)), np.zeros(n)])
    found = np.empty((len(ts), n))
    for begin, end in zip(knots, knots[1:], strict=False):

        def rates(t, y):
            return np.concatenate([y[n:], equations(y[:n], y[n:], np.interp(t, knots, torques))])

        inside = (ts >= begin - 1e-9) & (ts < end - 1e-9)
        times = np.append(np.clip(ts[inside], begin, end), end)
        piece = scipy.integrate.solve_ivp(rates, (begin, end), y, "DOP853", times, rtol=1e-11, atol=1e-12)
        found[inside], y = piece.y[:n, :-1].T, piece.y[:, -1]
    return np.stack([_to_joints(angles) for angles in found])


def _from_joints(q: np.ndarray) -> np.ndarray:
    return np.cumsum(q)


def _to_joints(angles: np.ndarray) -> np.ndarray:
    return np.diff(angles, prepend=0.0)


def write(case: str, folder: Path) -> None:
    """The CSV files of a study: t in s, angles in degrees, the torque in N m; noise from a seed."""
    ts = np.arange(0.0, LENGTH - 1e-9, SPACING)
    names = ["shoulder", "elbow"] if case == "double_pendulum" else ["crank"]
    for seed, (name, run) in enumerate(RUNS[case].items()):
        angles = motion(case, run, ts)
        angles = angles + run.noise * np.random.default_rng(seed).normal(size=angles.shape)
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["t", *names])
            writer.writerows(
                [f"{t:.2f}", *(f"{a:.4f}" for a in np.degrees(row))] for t, row in zip(ts, angles, strict=True)
            )
        knots = np.arange(0.0, LENGTH + KNOT, KNOT)
        if not run.torque(knots).any():
            continue
        with (folder / f"{name}_torque.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["t", "torque"])
            writer.writerows([f"{t:.2f}", f"{u:.17g}"] for t, u in zip(knots, run.torque(knots), strict=True))


if __name__ == "__main__":
    for case in RUNS:
        write(case, HERE / case)
