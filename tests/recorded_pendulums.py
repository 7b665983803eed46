"""Recordings of a damped pendulum by scipy's integrator, with noise; nothing of jmbs made them."""

from __future__ import annotations

import functools

import numpy as np
import scipy.integrate

import jmbs
from jmbs.identification import (
    Channel,
    Check,
    Fit,
    Input,
    Parameter,
    Recording,
    Sensor,
    Study,
    check_fit,
    fit_study,
)

MASS, INERTIA, LENGTH, DAMPING, GRAVITY, NOISE = 1.3, 0.02, 0.4, 0.11, 9.81, 2e-3
TRUTH = {"bob/mass": MASS, "bob/inertia[1,1]": INERTIA, "hinge/friction/viscous": DAMPING}
SPACING = 0.01
TABLE = np.arange(0.0, 2.001, 0.02)
STARTS = {"free": 1.1, "driven": -0.4, "test": 0.7}


def mechanism(mass: float = MASS, inertia: float = INERTIA, damping: float = DAMPING) -> jmbs.Mechanism:
    """A pendulum about the y axis that hangs down at q = 0."""
    mechanism = jmbs.Mechanism("pendulum")
    mechanism.add_body("bob", mass, [inertia, inertia, inertia])
    frame = {"position": [0.0, 0.0, LENGTH]}
    friction = {"viscous": damping}
    axis = [0.0, 1.0, 0.0]
    mechanism.add_joint(
        "hinge", "revolute", "ground", "bob", child_frame=frame, axis=axis, friction=friction, actuation=0.0
    )
    mechanism.set_initial(joints={"hinge": {"q": [0.5], "v": [0.0]}})
    return mechanism


def torque(name: str) -> np.ndarray:
    """The torque at the times of TABLE, N m; linear in between."""
    return 0.8 * np.sin(5 * TABLE) + 0.5 * np.sin(11 * TABLE) if name == "driven" else np.zeros_like(TABLE)


def motion(name: str, ts: np.ndarray, mass=MASS, inertia=INERTIA, damping=DAMPING, start=None) -> np.ndarray:
    """The angle at times, rad."""
    drive = torque(name)
    about_hinge = inertia + mass * LENGTH**2

    def rates(t, y):
        moment = np.interp(t, TABLE, drive) - damping * y[1] - mass * GRAVITY * LENGTH * np.sin(y[0])
        return [y[1], moment / about_hinge]

    # Kinks of the table lie on the ends of steps.
    angles, y = np.empty(len(ts)), np.array([STARTS[name] if start is None else start, 0.0])
    angles[0] = y[0]
    for begin, end in zip(TABLE, TABLE[1:], strict=False):
        inside = (ts > begin + 1e-9) & (ts <= end + 1e-9)
        if not inside.any() and end > ts[-1]:
            break
        times = np.clip(np.append(ts[inside], end), begin, end)
        found = scipy.integrate.solve_ivp(rates, (begin, end), y, "DOP853", np.unique(times), rtol=1e-11, atol=1e-12)
        y = found.y[:, -1]
        angles[inside] = np.interp(np.minimum(ts[inside], end), found.t, found.y[0])
    return angles


def recording(name: str, seed: int, role: str = "train") -> Recording:
    """One recording of 2 s, with noise."""
    ts = np.arange(0.0, 2.0 - 1e-9, SPACING)
    angles = motion(name, ts) + NOISE * np.random.default_rng(seed).normal(size=ts.shape)
    return Recording(name, ts, {"q": Channel(angles)}, {"hinge/actuation": Input(TABLE, torque(name))}, role)


def study(names=("free", "driven"), seed: int = 0, noise: float | str = NOISE, **more) -> Study:
    """The study of these recordings: three parameters 50 % off, and the first angle of each recording."""
    data = tuple(recording(n, seed + i, "test" if n == "test" else "train") for i, n in enumerate(names))
    parameters = {
        "bob/mass": Parameter(1.5 * MASS),
        "bob/inertia[1,1]": Parameter(1.5 * INERTIA),
        "hinge/friction/viscous": Parameter(0.5 * DAMPING),
        "initial/hinge/q": Parameter("measured", per="recording"),
    }
    return Study(jmbs.compile(mechanism()), data, parameters, {"q": Sensor("hinge/q", noise)}, **more)


@functools.cache
def _fitted() -> tuple[Study, Check, Fit]:
    given = study(("free", "driven", "test"), derived={"rate": "hinge/friction/viscous / bob/mass"})
    check = check_fit(given)
    return given, check, fit_study(given, check=check)


def fitted() -> tuple[Study, Fit]:
    """Two recordings fitted and one held out, once for all tests of a process."""
    given, _, fit = _fitted()
    return given, fit


def checked() -> Check:
    """What was said of that study before it was fitted."""
    return _fitted()[1]
