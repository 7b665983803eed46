"""Fits with a known answer: MuJoCo's own test problems of identification, rebuilt, a cart, and chaotic motion."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import mujoco
import numpy as np

import jmbs
from jmbs.identification import Channel, Estimator, Input, Parameter, Recording, Sensor, Study
from jmbs.library.mechanics import SimulationSpec

QUIET = 1e-4
"""What counts as one standard deviation of samples without noise."""
STEP = 5e-5
"""Of MuJoCo's RK4 that makes recordings, s."""


@dataclasses.dataclass(frozen=True)
class Case:
    """A study and the true values of its unknowns; `note`: what made the recordings."""

    name: str
    study: Study
    truth: Mapping[str, float]
    note: str


@dataclasses.dataclass(frozen=True)
class Link:
    """A body at the end of a joint: `kind` hinge or slide about or along `axis`, `at` the parent's frame; numbers in
    SI, the centre of mass at `com` on the z axis."""

    kind: str
    axis: tuple[int, int, int]
    at: float
    com: float
    mass: float
    inertia: tuple[float, float, float]
    damping: float
    armature: float = 0.0
    stiffness: float = 0.0


SPRING_MASS = (Link("slide", (1, 0, 0), 0.0, 0.0, 1.0, (2e-3,) * 3, 4.0, stiffness=80.0),)
ARM = (
    Link("hinge", (0, 0, 1), 0.15, 0.06, 1.2, (0.012, 0.012, 0.006), 1.1, 0.5),
    Link("hinge", (0, 1, 0), 0.12, 0.07, 0.9, (0.009, 0.009, 0.004), 0.9, 0.4),
    Link("hinge", (0, 1, 0), 0.14, 0.06, 0.7, (0.006, 0.006, 0.003), 0.7, 0.3),
    Link("hinge", (1, 0, 0), 0.12, 0.05, 0.5, (0.004, 0.004, 0.002), 0.4, 0.2),
    Link("hinge", (0, 1, 0), 0.10, 0.04, 0.3, (0.002, 0.002, 0.001), 0.2, 0.1),
)
TABLE = 5e-3
"""Between two times of a drive, s; it is linear in between."""


def mechanism_of(name: str, links: tuple[Link, ...]) -> jmbs.Mechanism:
    """The chain of links as a mechanism, at rest at zero."""
    mechanism = jmbs.Mechanism(name)
    before, centre = "ground", 0.0
    for i, link in enumerate(links, start=1):
        body, joint = f"link{i}", f"joint{i}"
        mechanism.add_body(body, link.mass, list(link.inertia))
        mechanism.add_joint(
            joint,
            {"hinge": "revolute", "slide": "prismatic"}[link.kind],
            before,
            body,
            parent_frame={"position": [0.0, 0.0, link.at - centre]},
            child_frame={"position": [0.0, 0.0, -link.com]},
            axis=[float(entry) for entry in link.axis],
            friction={"viscous": link.damping},
            spring={"stiffness": link.stiffness} if link.stiffness else None,
            armature=link.armature or None,
            actuation=0.0,
        )
        before, centre = body, link.com
    mechanism.set_initial(joints={f"joint{i}": {"q": [0.0], "v": [0.0]} for i in range(1, len(links) + 1)})
    return mechanism


def mjcf_of(links: tuple[Link, ...], integrator: str = "RK4", step: float = STEP) -> str:
    """The same chain for MuJoCo, with a motor at each joint."""
    text, ends = "", ""
    for i, link in enumerate(links, start=1):
        axis, inertia = (" ".join(str(x) for x in values) for values in (link.axis, link.inertia))
        text += (
            f'<body name="link{i}" pos="0 0 {link.at}">'
            f'<inertial pos="0 0 {link.com}" mass="{link.mass}" diaginertia="{inertia}"/>'
            f'<joint name="joint{i}" type="{link.kind}" axis="{axis}" damping="{link.damping}" '
            f'armature="{link.armature}" stiffness="{link.stiffness}"/>'
        )
        ends += "</body>"
    motors = "".join(f'<motor joint="joint{i}"/>' for i in range(1, len(links) + 1))
    return (
        f'<mujoco><option integrator="{integrator}" timestep="{step}" gravity="0 0 -9.80665"/>'
        f"<worldbody>{text}{ends}</worldbody><actuator>{motors}</actuator></mujoco>"
    )


def recorded(links: tuple[Link, ...], ts: np.ndarray, table: np.ndarray, drives: np.ndarray) -> np.ndarray:
    """Coordinates and rates (n, 2 joints) at times by MuJoCo, from drives (m, joints) at times of a table (m,)."""
    model = mujoco.MjModel.from_xml_string(mjcf_of(links))
    data = mujoco.MjData(model)
    wanted, seen = set(np.round(ts / STEP).astype(int).tolist()), []
    # MuJoCo holds a control over a step: that of its middle.
    middles = (np.arange(max(wanted) + 1) + 0.5) * STEP
    held = np.stack([np.interp(middles, table, drive) for drive in drives.T], axis=1)
    for i, control in enumerate(held):
        if i in wanted:
            seen.append(np.concatenate([data.qpos, data.qvel]))
        data.ctrl[:] = control
        mujoco.mj_step(model, data)
    return np.array(seen)


def chain_case(
    name: str, links: tuple[Link, ...], drives: np.ndarray, end: float, unknown: Mapping[str, tuple[float, float]]
) -> Case:
    """A chain that was driven and recorded by MuJoCo, every coordinate and rate without noise; `unknown`: by path the
    start and the truth."""
    table, ts = np.arange(0.0, end + TABLE / 2, TABLE), np.arange(0.0, end, 0.01)
    seen = recorded(links, ts, table, drives)
    joints = [f"joint{i}" for i in range(1, len(links) + 1)]
    names = [f"{joint}/{key}" for key in ("q", "v") for joint in joints]
    channels = {output: Channel(seen[:, i]) for i, output in enumerate(names)}
    inputs = {f"{joint}/actuation": Input(table, drives[:, i]) for i, joint in enumerate(joints)}
    parameters = {path: Parameter(start) for path, (start, _) in unknown.items()}
    sensors = {output: Sensor(output, QUIET) for output in names}
    model = jmbs.compile(mechanism_of(name, links))
    study = Study(model, (Recording("driven", ts, channels, inputs),), parameters, sensors, name=name)
    return Case(name, study, {path: truth for path, (_, truth) in unknown.items()}, "MuJoCo, RK4, 0.05 ms")


def spring_mass() -> Case:
    """The mass of a driven oscillator, from twice the truth."""
    t = np.arange(0.0, 3.0 + TABLE / 2, TABLE)
    drive = 4.0 * np.sin(2 * np.pi * 1.2 * t) + 2.0 * np.sin(2 * np.pi * 3.1 * t)
    return chain_case("spring_mass", SPRING_MASS, drive[:, None], 3.0, {"link1/mass": (2.0, 1.0)})


def arm() -> Case:
    """The rotors' inertias of five joints, from 0.01."""
    t = np.arange(0.0, 2.0 + TABLE / 2, TABLE)
    waves = ((4.5, 0.6, 0.1), (4.0, 0.8, 0.4), (3.0, 0.5, 0.9), (1.8, 1.0, 1.6), (0.9, 0.7, 2.2))
    drives = np.stack([size * np.sin(2 * np.pi * rate * t + phase) for size, rate, phase in waves], axis=1)
    unknown = {f"joint{i}/armature": (0.01, link.armature) for i, link in enumerate(ARM, start=1)}
    return chain_case("arm", ARM, drives, 2.0, unknown)


def cart(loaded: bool) -> Case:
    """A cart that coasts against viscous friction, whose ratio to the mass alone is seen; `loaded`: with a second
    recording under 1 kg more. Positions in closed form, noise 1 mm."""
    mass, damping, speed, noise = 2.3, 1.7, 1.0, 1e-3

    def mechanism(load: float | None) -> jmbs.Mechanism:
        mechanism = jmbs.Mechanism("cart")
        mechanism.add_body("cart", 1.5 * mass, [0.01, 0.02, 0.02])
        friction = {"viscous": 0.5 * damping}
        mechanism.add_joint("rail", "prismatic", "ground", "cart", axis=[1.0, 0.0, 0.0], friction=friction)
        if load is not None:
            mechanism.add_body("load", load, [0.01, 0.01, 0.01])
            mechanism.add_joint("bolt", "fixed", "cart", "load")
        mechanism.set_initial(joints={"rail": {"q": [0.0], "v": [speed]}})
        return mechanism

    rng, ts = np.random.default_rng(0), np.arange(0.0, 3.0, 0.01)
    recordings = []
    for name, load in (("empty", None), ("loaded", 1.0))[: 1 + loaded]:
        whole = mass + (load or 0.0)
        x = speed * whole / damping * (1 - np.exp(-damping / whole * ts)) + noise * rng.normal(size=ts.shape)
        own = None if load is None else jmbs.compile(mechanism(load))
        recordings.append(Recording(name, ts, {"x": Channel(x)}, model=own))
    parameters = {
        "cart/mass": Parameter(),
        "rail/friction/viscous": Parameter(),
        "initial/rail/q": Parameter("measured", per="recording"),
        "initial/rail/v": Parameter("measured", per="recording"),
    }
    rate = {"rate": "rail/friction/viscous / cart/mass"}
    sensors = {"x": Sensor("rail/q", noise)}
    name = "cart_loaded" if loaded else "cart"
    study = Study(jmbs.compile(mechanism(None)), tuple(recordings), parameters, sensors, derived=rate, name=name)
    return Case(name, study, {"cart/mass": mass, "rail/friction/viscous": damping}, "closed form, noise 1 mm")


def double_pendulum(end: float = 10.0, step: float = 2.5e-3) -> Case:
    """A double pendulum that turns over and is lightly damped: both angles with noise of 2 mrad, five unknowns 50 %
    off and both first angles. The recording has the fit's own steps: other steps leave it by more than the noise."""
    truth = {
        "link1/mass": 1.2,
        "link1/inertia[1,1]": 0.02,
        "link2/inertia[1,1]": 0.015,
        "shoulder/friction/viscous": 0.004,
        "elbow/friction/viscous": 0.002,
    }
    mechanism = jmbs.Mechanism("double_pendulum")
    mechanism.simulation = SimulationSpec(method="rk4", dt=step)
    mechanism.add_body("link1", truth["link1/mass"], [truth["link1/inertia[1,1]"]] * 3)
    mechanism.add_body("link2", 0.8, [truth["link2/inertia[1,1]"]] * 3)
    ends = {"shoulder": ("ground", "link1", 0.0, 0.25), "elbow": ("link1", "link2", -0.25, 0.2)}
    for joint, (parent, child, above, below) in ends.items():
        mechanism.add_joint(
            *(joint, "revolute", parent, child),
            parent_frame={"position": [0.0, 0.0, above]},
            child_frame={"position": [0.0, 0.0, below]},
            axis=[0.0, 1.0, 0.0],
            friction={"viscous": truth[f"{joint}/friction/viscous"]},
        )
    mechanism.set_initial(joints={"shoulder": {"q": [2.4], "v": [0.0]}, "elbow": {"q": [1.2], "v": [0.0]}})
    model, ts, noise = jmbs.compile(mechanism), np.arange(0.0, end, 0.01), 2e-3
    run = jmbs.simulate(model, ts=ts, dt=step, solver="rk4", audit=False)
    rng = np.random.default_rng(0)
    channels = {joint: Channel(np.asarray(run.q[joint][:, 0]) + noise * rng.normal(size=ts.shape)) for joint in ends}
    off = dict(zip(truth, (1.5, 1.5, 0.5, 1.5, 0.5), strict=True))
    parameters = {path: Parameter(off[path] * value) for path, value in truth.items()}
    parameters |= {f"initial/{joint}/q": Parameter("measured", per="recording") for joint in ends}
    sensors = {joint: Sensor(f"{joint}/q", noise) for joint in ends}
    study = Study(model, (Recording("free", ts, channels),), parameters, sensors, name="double_pendulum")
    return Case("double_pendulum", study, truth, f"jmbs, RK4, {1e3 * step:g} ms")


FULL, GROWING = Estimator(horizon="full"), Estimator()
CASES: dict[str, tuple[Callable[[], Case], tuple[Estimator, ...]]] = {
    "spring_mass": (spring_mass, (FULL, GROWING)),
    "arm": (arm, (FULL, GROWING)),
    "cart": (lambda: cart(loaded=False), (GROWING,)),
    "cart_loaded": (lambda: cart(loaded=True), (GROWING,)),
    "double_pendulum": (double_pendulum, (Estimator("multiple_shooting", segments=40), GROWING)),
}
"""By name what makes a case, and how it is estimated."""
