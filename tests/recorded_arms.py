"""Recordings of a planar arm of two links along known motions, by Lagrange's equations in closed form, with noise."""

from __future__ import annotations

import numpy as np

import jmbs
from jmbs.identification import Channel, Estimator, Parameter, Recording, Sensor, Study

GRAVITY, PERIOD, HARMONICS, SPACING = 9.80665, 2.0, 4, 0.02
LENGTHS, CENTRES = (0.5, 0.4), (0.25, 0.2)
TRUTH = {
    "upper/inertia[1,1]": 0.03,
    "lower/mass": 0.8,
    "lower/inertia[1,1]": 0.015,
    "shoulder/friction/viscous": 0.3,
    "elbow/friction/viscous": 0.1,
}
UPPER_MASS = 1.2
ANGLE_NOISE, TORQUE_NOISE = 1e-3, 2e-2
FOURIER = {"basis": "fourier", "period": PERIOD, "harmonics": HARMONICS}


def mechanism(reverse: bool = False) -> jmbs.Mechanism:
    """The arm, about the y axis, hanging down at zero; with `reverse` the elbow is written from its child."""
    arm = jmbs.Mechanism("arm")
    arm.add_body("upper", UPPER_MASS, [TRUTH["upper/inertia[1,1]"]] * 3)
    arm.add_body("lower", TRUTH["lower/mass"], [TRUTH["lower/inertia[1,1]"]] * 3)
    axis, viscous = [0.0, 1.0, 0.0], lambda joint: {"viscous": TRUTH[f"{joint}/friction/viscous"]}
    at = lambda z: {"position": [0.0, 0.0, z]}  # noqa: E731
    arm.add_joint(
        "shoulder", "revolute", "ground", "upper", child_frame=at(CENTRES[0]), axis=axis, friction=viscous("shoulder")
    )
    ends = ("upper", at(CENTRES[0] - LENGTHS[0])), ("lower", at(CENTRES[1]))
    (parent, before), (child, after) = ends[::-1] if reverse else ends
    arm.add_joint(
        "elbow",
        "revolute",
        parent,
        child,
        parent_frame=before,
        child_frame=after,
        axis=[0.0, -1.0, 0.0] if reverse else axis,
        friction=viscous("elbow"),
    )
    return arm


def motion(ts: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Angles (n, 2), rates and accelerations of a Fourier series."""
    rng = np.random.default_rng([7, seed])
    rates = 2 * np.pi / PERIOD * np.arange(1, HARMONICS + 1)
    a, b = (0.8 / np.arange(1, HARMONICS + 1)[:, None] * rng.normal(size=(HARMONICS, 2)) for _ in range(2))
    phase = ts[:, None] * rates
    q = np.cos(phase) @ a + np.sin(phase) @ b
    v = -np.sin(phase) @ (rates[:, None] * a) + np.cos(phase) @ (rates[:, None] * b)
    dv = -np.cos(phase) @ (rates[:, None] ** 2 * a) - np.sin(phase) @ (rates[:, None] ** 2 * b)
    return q, v, dv


def torques(q: np.ndarray, v: np.ndarray, dv: np.ndarray) -> np.ndarray:
    """Those at shoulder and elbow (n, 2), N m, by Lagrange's equations."""
    m1, (m2, I1, I2) = UPPER_MASS, (TRUTH[k] for k in ("lower/mass", "upper/inertia[1,1]", "lower/inertia[1,1]"))
    (l1, _), (c1, c2) = LENGTHS, CENTRES
    (q1, q2), (v1, v2), (a1, a2) = q.T, v.T, dv.T
    coupling = m2 * l1 * c2
    weight2 = m2 * GRAVITY * c2 * np.sin(q1 + q2)
    elbow = (I2 + m2 * c2**2) * (a1 + a2) + coupling * (np.cos(q2) * a1 + np.sin(q2) * v1**2) + weight2
    shoulder = elbow + (I1 + m1 * c1**2 + m2 * l1**2) * a1 + (m1 * c1 + m2 * l1) * GRAVITY * np.sin(q1)
    shoulder += coupling * (np.cos(q2) * (a1 + a2) - np.sin(q2) * (v1 + v2) ** 2)
    friction = np.array([TRUTH["shoulder/friction/viscous"], TRUTH["elbow/friction/viscous"]])
    return np.stack([shoulder, elbow], axis=1) + friction * v


def recording(seed: int, role: str = "train", noise: float = 1.0) -> Recording:
    """One of two periods, with noise."""
    ts = np.arange(0.0, 2 * PERIOD - 1e-9, SPACING)
    rng = np.random.default_rng([8, seed])
    shown = {}
    moved = motion(ts, seed)
    for values, name, deviation in ((moved[0], "q", ANGLE_NOISE), (torques(*moved), "t", TORQUE_NOISE)):
        noisy = values + noise * deviation * rng.normal(size=values.shape)
        shown |= {f"{name}{i + 1}": Channel(noisy[:, i]) for i in range(2)}
    return Recording(f"{role}{seed}", ts, shown, role=role)


def study(seeds=(0, 1), tests=(), trajectory=FOURIER, noise: float = 1.0, **more) -> Study:
    """The study of some recordings: five parameters, 50 % off up or down."""
    data = (*(recording(s, noise=noise) for s in seeds), *(recording(s, "test", noise) for s in tests))
    parameters = {path: Parameter((1.5, 0.5)[i % 2] * value) for i, (path, value) in enumerate(TRUTH.items())}
    sensors = {
        "q1": Sensor("shoulder/q", ANGLE_NOISE),
        "q2": Sensor("elbow/q", ANGLE_NOISE),
        "t1": Sensor("shoulder/actuation", TORQUE_NOISE),
        "t2": Sensor("elbow/actuation", TORQUE_NOISE),
    }
    estimator = Estimator("inverse_dynamics", trajectory=trajectory)
    given = {"estimator": estimator, "parameters": parameters, "sensors": sensors, **more}
    return Study(jmbs.compile(mechanism()), data, **given)
