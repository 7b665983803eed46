"""A driven arm of two links by plain numpy and scipy, whose joints have a friction that jmbs has no formula for."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.integrate
from jaxtyping import Float

GRAVITY = 9.80665
MASSES, LENGTHS = (1.2, 0.8), (0.5, 0.4)
INERTIAS = tuple(m * length**2 / 12 for m, length in zip(MASSES, LENGTHS, strict=True))
JOINTS = ("shoulder", "elbow")
NOISE = 1e-3  # rad, standard deviation
SPACING, TABLE_SPACING = 0.01, 0.02  # s, of samples and of the torques' tables
FREQUENCIES = (0.4, 0.9, 1.7)  # Hz
AMPLITUDES = ((2.4, 1.6, 0.8), (0.35, 0.25, 0.15))  # N m


class FrictionLaw(NamedTuple):
    """Stribeck's friction, smooth at rest, with a drag that grows with the square of the rate."""

    coulomb: float
    static: float
    stribeck_velocity: float
    rest_velocity: float
    viscous: float
    drag: float

    def torque(self, v):
        """What brakes the joint at a rate, N m."""
        dry = self.coulomb + (self.static - self.coulomb) * np.exp(-((v / self.stribeck_velocity) ** 2))
        return np.tanh(v / self.rest_velocity) * dry + self.viscous * v + self.drag * v * np.abs(v)


LAWS = (FrictionLaw(0.25, 0.6, 0.5, 0.1, 0.04, 0.05), FrictionLaw(0.06, 0.16, 0.5, 0.1, 0.01, 0.012))


class Swing(NamedTuple):
    """A recorded motion: sample `ts` (n,), measured angles (n, 2), rates (n, 2), and torques (m, 2) at `table` (m,)."""

    ts: np.ndarray
    angles: np.ndarray
    rates: np.ndarray
    table: np.ndarray
    torques: np.ndarray


def accelerations(q: Float[np.ndarray, "2"], v: Float[np.ndarray, "2"], torque: Float[np.ndarray, "2"]):
    """Of the two joints, rad/s^2; at q = 0 the arm hangs down."""
    (m1, m2), (l1, l2), (i1, i2) = MASSES, LENGTHS, INERTIAS
    c1, c2 = l1 / 2, l2 / 2
    cosine, bend = np.cos(q[1]), m2 * l1 * c2 * np.sin(q[1])
    coupled = i2 + m2 * (c2**2 + l1 * c2 * cosine)
    first = i1 + m1 * c1**2 + m2 * (l1**2 + c2**2 + 2 * l1 * c2 * cosine) + i2
    mass = np.array([[first, coupled], [coupled, i2 + m2 * c2**2]])
    inertial = np.array([-bend * (2 * v[0] * v[1] + v[1] ** 2), bend * v[0] ** 2])
    lower = m2 * c2 * GRAVITY * np.sin(q[0] + q[1])
    weight = np.array([(m1 * c1 + m2 * l1) * GRAVITY * np.sin(q[0]) + lower, lower])
    friction = np.array([law.torque(rate) for law, rate in zip(LAWS, v, strict=True)])
    return np.linalg.solve(mass, torque - inertial - weight - friction)


def swing(seed: int, t1: float) -> Swing:
    """The arm let go at random angles and driven by three sines of random phases at each joint."""
    rng = np.random.default_rng(seed)
    table, ts = np.arange(0.0, t1 + TABLE_SPACING / 2, TABLE_SPACING), np.arange(0.0, t1 - SPACING / 2, SPACING)
    phases = rng.uniform(0, 2 * np.pi, (2, 3))
    angle = 2 * np.pi * np.asarray(FREQUENCIES) * table[:, None, None] + phases
    torques = np.sum(np.asarray(AMPLITUDES) * np.sin(angle), axis=2)
    start = np.concatenate([rng.uniform(-1.0, 1.0, 2), np.zeros(2)])

    def rate(t: float, y: np.ndarray, i: int) -> np.ndarray:
        share = (t - table[i]) / TABLE_SPACING
        return np.concatenate([y[2:], accelerations(y[:2], y[2:], torques[i] + share * (torques[i + 1] - torques[i]))])

    # Kinks of the torques lie on the ends of steps.
    states, y = [start], start
    for i in range(len(table) - 1):
        middle = table[i] + SPACING
        found = scipy.integrate.solve_ivp(
            *(rate, (table[i], table[i + 1]), y, "DOP853", [middle, table[i + 1]]), args=(i,), rtol=1e-9, atol=1e-11
        )
        y = found.y[:, -1]
        states += [*found.y.T]
    states = np.array(states)[: len(ts)]
    measured = states[:, :2] + NOISE * rng.normal(size=(len(ts), 2))
    return Swing(ts, measured, states[:, 2:], table, torques)
