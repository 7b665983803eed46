"""Robot, gyroscope and slider-crank in redundant coordinates, and as rigid bodies and joints, against references."""

from __future__ import annotations

import functools

import jax.numpy as jnp
import numpy as np
import pytest
from reference.runs import angle_between, case, largest

import jmbs
from jmbs.library.redundant import examples, rigid_examples

ROBOT, GYROSCOPE, SLIDER_CRANK = "berger_differential_drive", "berger_gyroscope", "berger_slider_crank"
TOLERANCE = {ROBOT: 1e-9, GYROSCOPE: 1e-7, SLIDER_CRANK: 1e-8}
FORCES = {
    "F_l": lambda t: 3 + 2 * jnp.sin(2 * t),
    "F_r": lambda t: 4 - 2 * jnp.cos(t),
    "M_gyroscope": lambda t: 0.5 + 0.3 * jnp.sin(3 * t),
    "M_crank": lambda t: 0.5 * jnp.cos(2 * t),
    "F": lambda t: -2 + jnp.sin(5 * t),
}


def along(force: str, *axes: float):
    """An input `(t, view)` along the given axes."""
    return lambda t, view: FORCES[force](t) * jnp.array(axes, t.dtype)


def reference(name: str) -> dict[str, np.ndarray]:
    """The reference's columns by name."""
    data = case(name)["reference"]
    columns = data.get("state_columns", data.get("columns"))
    return dict(zip(columns, np.array(data["state"]).T, strict=True)) | {
        key: np.array(value) for key, value in data.items() if key not in ("state", "columns", "state_columns")
    }


def simulated(model: jmbs.Model, name: str, inputs) -> jmbs.Trajectory:
    times = np.array([0.0, *case(name)["times"]])
    return jmbs.simulate(model, ts=times, t1=times[-1], solver="dopri8", tolerance=1e-10, inputs=inputs)


def after_start(values) -> np.ndarray:
    return np.asarray(values)[1:]


def books(run: jmbs.Trajectory, name: str, work: np.ndarray, within) -> None:
    """The work of the ports, and the first law."""
    within("work of ports (J)", after_start(run.supplied) - work, TOLERANCE[name])
    energy = np.max(run.kinetic)
    within("first law over energy", run.first_law_residual / energy, 1e-9)


# -- redundant coordinates --------------------------------------------------------------------------------------------


@functools.cache
def robot():
    model = jmbs.compile(examples.differential_drive(), initial={"zeta": [0, 0, 0], "w": [0.5, 0, 0.2]})
    return model, simulated(model, ROBOT, {"F_l": along("F_l", 1), "F_r": along("F_r", 1)})


@functools.cache
def gyroscope():
    model = jmbs.compile(examples.gimbal_gyroscope(), initial={"zeta": [0, 0.1, 0], "w": [100, 0.5, -0.3]})
    return model, simulated(model, GYROSCOPE, {"M": along("M_gyroscope", 1)})


@functools.cache
def slider_crank():
    system = examples.slider_crank(examples.crank(), examples.rod_with_slider())
    model = jmbs.compile(system, initial={**examples.slider_crank_positions(0.3), "crank/w": [10.0]})
    return model, simulated(model, SLIDER_CRANK, {"M": along("M_crank", 1), "F": along("F", 1)})


def test_robot(within):
    model, run = robot()
    wanted = reference(ROBOT)
    zeta, w = after_start(run.states["zeta"]), after_start(run.states["w"])
    for i, column in enumerate(("x(O')", "y(O')", "phi")):
        within(column, zeta[:, i] - wanted[column], TOLERANCE[ROBOT])
    within("vx", w[:, 0] - wanted["vx"], TOLERANCE[ROBOT])
    within("vy", w[:, 1], 1e-12)
    within("omega", w[:, 2] - wanted["omega"], TOLERANCE[ROBOT])
    books(run, ROBOT, wanted["work_of_ports"], within)


def test_gyroscope(within):
    model, run = gyroscope()
    wanted = reference(GYROSCOPE)
    zeta, w = after_start(run.states["zeta"]), after_start(run.states["w"])
    for i, angle in enumerate(("alpha", "beta", "gamma")):
        within(angle, zeta[:, i] - wanted[angle], TOLERANCE[GYROSCOPE])
    for i, axis in enumerate("xyz"):
        within(f"omega_{axis}", w[:, i] - wanted[f"omega_{axis}"], 10 * TOLERANCE[GYROSCOPE])
    books(run, GYROSCOPE, wanted["work_of_port"], within)


@pytest.mark.slow
def test_slider_crank_from_two_parts(within):
    model, run = slider_crank()
    wanted = reference(SLIDER_CRANK)
    zeta_crank, zeta_rod = after_start(run.states["crank/zeta"]), after_start(run.states["rod/zeta"])
    w_crank, w_rod = after_start(run.states["crank/w"]), after_start(run.states["rod/w"])
    within("phi1", zeta_crank[:, 0] - wanted["phi1"], TOLERANCE[SLIDER_CRANK])
    within("phi2", zeta_rod[:, 2] - wanted["phi2"], TOLERANCE[SLIDER_CRANK])
    within("x_B", zeta_rod[:, 0] - wanted["x_B"], TOLERANCE[SLIDER_CRANK])
    within("y_B", zeta_rod[:, 1], 1e-12)
    within("omega1", w_crank[:, 0] - wanted["omega1"], 10 * TOLERANCE[SLIDER_CRANK])
    within("omega2", w_rod[:, 2] - wanted["omega2"], 10 * TOLERANCE[SLIDER_CRANK])
    books(run, SLIDER_CRANK, wanted["work_of_ports"], within)


def test_coupled_velocities_keep_the_pin_together(within):
    """Nothing but the initial data holds the positions at C together: their gap is what integration adds."""
    _, run = slider_crank()
    angle, rod = run.states["crank/zeta"][:, 0], run.states["rod/zeta"]
    gap_x = 0.1 * jnp.cos(angle) - rod[:, 0] - 0.3 * jnp.cos(rod[:, 2])
    gap_y = 0.1 * jnp.sin(angle) - rod[:, 1] - 0.3 * jnp.sin(rod[:, 2])
    within("gap at C (m)", jnp.hypot(gap_x, gap_y), 1e-8)


# -- the same from rigid bodies and joints ----------------------------------------------------------------------------


@pytest.mark.slow
def test_robot_as_a_rigid_body(within):
    mechanism = rigid_examples.differential_drive_mechanism()
    mechanism.set_initial(joints={"floor": {"q": [0, 0, 0], "v": [0.5, 0, 0.2]}})
    inputs = {"left/force": along("F_l", 1, 0, 0), "right/force": along("F_r", 1, 0, 0)}
    run = simulated(mechanism.compile(), ROBOT, inputs)
    model, other = robot()
    within("zeta", run.q["floor"] - other.states["zeta"], TOLERANCE[ROBOT])
    within("w", after_start(run.v["floor"]) - after_start(other.states["w"]), TOLERANCE[ROBOT])
    within("centre", after_start(run.position["robot"])[:, :2] - reference(ROBOT)["com_xy"], TOLERANCE[ROBOT])
    books(run, ROBOT, reference(ROBOT)["work_of_ports"], within)


@pytest.mark.slow
def test_gyroscope_as_a_rigid_body(within):
    mechanism = rigid_examples.gyroscope_mechanism(FORCES["M_gyroscope"])
    start = case(GYROSCOPE)["bodies"][0]
    given = {"quaternion": start["quat0_wxyz"], "angular_velocity": start["omega0_body"]}
    mechanism.set_initial(bodies={"disc": given})
    run = simulated(mechanism.compile(), GYROSCOPE, {})
    model, other = gyroscope()
    wanted = reference(GYROSCOPE)
    rotation = angle_between(after_start(run.quaternion["disc"]), wanted["quat_wxyz"])
    within("rotation (rad)", rotation, TOLERANCE[GYROSCOPE])
    difference = after_start(run.angular_velocity["disc"]) - after_start(other.states["w"])
    within("omega", largest(difference), 10 * TOLERANCE[GYROSCOPE])
    books(run, GYROSCOPE, wanted["work_of_port"], within)


@pytest.mark.slow
def test_gyroscope_as_a_rigid_body_knows_no_gimbal_lock(within):
    """Turned about the second gimbal's axis through 90 degrees and beyond."""
    mechanism = rigid_examples.gyroscope_mechanism(lambda t: 0.0 * t)
    mechanism.set_initial(bodies={"disc": {"angular_velocity": [0, 2.0, 0]}})
    run = jmbs.simulate(mechanism.compile(), t1=2.0, save_every=0.5, solver="rk4", dt=0.01)
    turned = angle_between(run.quaternion["disc"], np.tile([1.0, 0, 0, 0], (len(run.ts), 1)))
    within("rotation (rad)", turned - np.minimum(2.0 * run.ts, 2 * np.pi - 2.0 * run.ts), 1e-9)


@pytest.mark.slow
def test_slider_crank_as_rigid_bodies(within):
    inputs = {"A/actuation": along("M_crank", 1), "B/actuation": along("F", 1, 0)}
    run = simulated(rigid_examples.slider_crank_mechanism().compile(), SLIDER_CRANK, inputs)
    _, other = slider_crank()
    within("phi1", run.q["A"] - other.states["crank/zeta"], TOLERANCE[SLIDER_CRANK])
    within("x_B", run.q["B"][:, 0] - other.states["rod/zeta"][:, 0], TOLERANCE[SLIDER_CRANK])
    within("phi2", run.q["B"][:, 1] - other.states["rod/zeta"][:, 2], TOLERANCE[SLIDER_CRANK])
    books(run, SLIDER_CRANK, reference(SLIDER_CRANK)["work_of_ports"], within)


@pytest.mark.slow
def test_rigid_crank_with_a_rod_in_redundant_coordinates(within):
    inputs = {"A/actuation": along("M_crank", 1), "F": along("F", 1)}
    run = simulated(rigid_examples.mixed_slider_crank().compile(), SLIDER_CRANK, inputs)
    wanted = reference(SLIDER_CRANK)
    within("phi1", after_start(run.q["A"])[:, 0] - wanted["phi1"], TOLERANCE[SLIDER_CRANK])
    within("phi2", after_start(run.states["rod/zeta"])[:, 2] - wanted["phi2"], TOLERANCE[SLIDER_CRANK])
    within("x_B", after_start(run.states["rod/zeta"])[:, 0] - wanted["x_B"], TOLERANCE[SLIDER_CRANK])
    books(run, SLIDER_CRANK, wanted["work_of_ports"], within)
