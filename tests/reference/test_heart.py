"""The shipped configs of single joints and fast tops reproduce motions that were obtained without jmbs.

Tolerances are those of the case files: largest absolute differences in SI units. What a file gives no tolerance for
follows from the rates: quantities quadratic in them (energies, reactions) get twice their relative tolerance.
"""

from __future__ import annotations

import numpy as np
import pytest
from reference.runs import angle_between, case, largest, rotations, rows_at, simulated

CONFIG_OF = {
    "joint_revolute_skew": "joint_revolute_skew",
    "joint_prismatic_incline": "joint_prismatic_incline",
    "joint_screw": "joint_screw",
    "joint_spherical_steady_top": "joint_spherical_steady_top",
    "free_rigid_body_dzhanibekov": "free_rigid_body",
    "mt2013_heavy_top": "heavy_top",
    "bca_heavy_top": "heavy_top_bca",
    "mt2013_spherical_double_pendulum": "spherical_double_pendulum",
}
FAST = ("mt2013_heavy_top", "bca_heavy_top", "mt2013_spherical_double_pendulum")
SLOW = (
    "mt2013_spherical_double_pendulum",
    "joint_spherical_steady_top",
    "free_rigid_body_dzhanibekov",
    "joint_revolute_skew",
    "joint_prismatic_incline",
)
"""Their like are the other tops, bodies and joints here."""


def marked(names):
    return [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in names]


def tolerances(name: str) -> dict[str, float]:
    """Of positions and velocities (m, m/s), rotations (rad) and angular velocities (rad/s)."""
    given = case(name)["suggested_tolerance"]
    if "high_order" in given:
        return dict.fromkeys(("r", "rotation", "omega"), given["high_order"])
    given = given["high_order_rtol1e10"]
    omega = given.get("omega_body", given.get("omega"))
    return {"r": given.get("r", given["rotation_rad"]), "rotation": given["rotation_rad"], "omega": omega}


def run_of(name: str):
    """The case, its trajectory, and the rows of the case's times."""
    trajectory = simulated(CONFIG_OF[name])
    return case(name), trajectory, rows_at(trajectory, case(name)["times"])


def quadratic_tolerance(name: str, omega) -> float:
    """Relative, for what is quadratic in angular velocities `omega` (T, 3)."""
    return 2 * tolerances(name)["omega"] / np.max(np.linalg.norm(omega, axis=1))


@pytest.mark.parametrize("name", marked(CONFIG_OF))
def test_motion_of_every_body(name: str, within):
    data, trajectory, rows = run_of(name)
    tolerance = tolerances(name)
    bodies = {key: value for key, value in data["reference"].items() if key in trajectory.position}
    if not bodies:  # the slider on its incline, whose case gives the path only
        within("r", trajectory.position["slider"][rows] - np.array(data["reference"]["r"]), tolerance["r"])
    for body, wanted in bodies.items():
        within(f"{body} r", largest(trajectory.position[body][rows] - np.array(wanted["r"])), tolerance["r"])
        angle = angle_between(trajectory.quaternion[body][rows], wanted["quat_wxyz"])
        within(f"{body} rotation", angle, tolerance["rotation"])
        omega = largest(trajectory.angular_velocity[body][rows] - np.array(wanted["omega_body"]))
        within(f"{body} omega_body", omega, tolerance["omega"])
        # Velocities are angular velocities times arms of at most 1 m.
        v = largest(trajectory.velocity[body][rows] - np.array(wanted["v_world"]))
        within(f"{body} v_world", v, tolerance["omega"])


@pytest.mark.parametrize(
    ("name", "joint", "q", "v"),
    [
        ("joint_revolute_skew", "hinge", "theta", "thetadot"),
        ("joint_prismatic_incline", "rail", "x", "xdot"),
        ("joint_screw", "thread", "phi", "phidot"),
    ],
)
def test_joint_coordinates(name: str, joint: str, q: str, v: str, within):
    data, trajectory, rows = run_of(name)
    tolerance = tolerances(name)
    within(q, trajectory.q[joint][rows, 0] - np.array(data["reference"][q]), tolerance["r"])
    within(v, trajectory.v[joint][rows, 0] - np.array(data["reference"][v]), tolerance["omega"])


@pytest.mark.parametrize("name", ("joint_revolute_skew", "joint_prismatic_incline", "joint_screw"))
def test_dissipated_energy_and_entropy(name: str, within):
    data, trajectory, rows = run_of(name)
    tolerance = tolerances(name)["r"]
    within("dissipated", trajectory.dissipated[rows] - np.array(data["reference"]["dissipated_energy"]), tolerance)
    within("entropy", trajectory.entropy_produced[rows] - np.array(data["reference"]["entropy"]), tolerance)


def test_mechanical_energy_of_the_skew_hinge(within):
    data, trajectory, rows = run_of("joint_revolute_skew")
    wanted = np.array(data["reference"]["mechanical_energy"])
    within("mechanical energy", trajectory.total[rows] - wanted, tolerances("joint_revolute_skew")["r"])


def test_reaction_of_the_skew_hinge(within):
    """The wrench on the child at its joint frame, which has the body's axes; spring and damper are included."""
    data, trajectory, rows = run_of("joint_revolute_skew")
    R, wrench = rotations(trajectory.quaternion["body"][rows]), np.asarray(trajectory.reaction["hinge"][rows])
    tolerance = tolerances("joint_revolute_skew")["r"]
    force, moment = (np.einsum("tij,tj->ti", R, part) for part in (wrench[:, 3:], wrench[:, :3]))
    within("force", largest(force - np.array(data["reference"]["joint_force_on_body_world"])), tolerance)
    within("moment", largest(moment - np.array(data["reference"]["joint_moment_on_body_about_joint_world"])), tolerance)


def test_reaction_of_the_slider(within):
    """Across the rail the wrench carries the weight; along it there are the spring and the damper."""
    data, trajectory, rows = run_of("joint_prismatic_incline")
    params, reference = data["params"], data["reference"]
    wrench, tolerance = np.asarray(trajectory.reaction["rail"][rows]), tolerances("joint_prismatic_incline")["r"]
    within("normal force", np.linalg.norm(wrench[:, 4:], axis=1) - reference["joint_normal_force"], tolerance)
    along = -params["k"] * np.array(reference["x"]) - params["c"] * np.array(reference["xdot"])
    # The stiffness of 80 N/m turns the tolerance of the travel into one of the force.
    within("spring and damper", wrench[:, 3] - along, params["k"] * tolerance)


@pytest.mark.parametrize("name", marked(FAST))
def test_energies_of_fast_bodies(name: str, within):
    data, trajectory, rows = run_of(name)
    reference = data["reference"]
    kinetic = np.array(reference["kinetic_energy"])
    omega = np.concatenate([b["omega_body"] for b in reference.values() if isinstance(b, dict)])
    tolerance = quadratic_tolerance(name, omega) * kinetic.max()
    within("kinetic", trajectory.kinetic[rows] - kinetic, tolerance)
    within("potential", trajectory.potential[rows] - np.array(reference["potential_energy"]), tolerance)
    within("total", trajectory.total[rows] - np.array(reference["total_energy"]), tolerance)


@pytest.mark.parametrize("name", ("mt2013_heavy_top", "bca_heavy_top"))
def test_pivot_of_fast_tops(name: str, within):
    """The reaction force, and the angular momentum about the pivot, which the case gives in world axes."""
    data, trajectory, rows = run_of(name)
    reference, body = data["reference"], data["bodies"][0]
    R, omega = rotations(trajectory.quaternion["top"][rows]), np.asarray(trajectory.angular_velocity["top"][rows])
    relative = quadratic_tolerance(name, omega)

    force = np.einsum("tij,tj->ti", R, np.asarray(trajectory.reaction["pivot"][rows, 3:]))
    wanted = np.array(reference["pivot_reaction_force_on_body_world"])
    within("reaction force", largest(force - wanted), relative * np.abs(wanted).max())
    assert np.abs(trajectory.reaction["pivot"][:, :3]).max() <= 1e-9 * np.abs(wanted).max()

    spin = np.einsum("tij,jk,tk->ti", R, np.array(body["inertia_com"]), omega)
    r, v = (np.asarray(x["top"][rows]) for x in (trajectory.position, trajectory.velocity))
    wanted = np.array(reference["angular_momentum_about_pivot_world"])
    within("angular momentum", largest(spin + body["mass"] * np.cross(r, v) - wanted), relative * np.abs(wanted).max())


def test_free_body_keeps_its_momentum_and_energy(within):
    data, trajectory, rows = run_of("free_rigid_body_dzhanibekov")
    body, tolerance = data["bodies"][0], tolerances("free_rigid_body_dzhanibekov")["omega"]
    R = rotations(trajectory.quaternion["body"][rows])
    spin = np.asarray(trajectory.angular_velocity["body"][rows]) @ np.array(body["inertia_com"])
    wanted = np.array(data["reference"]["angular_momentum_world"])
    within("angular momentum", largest(np.einsum("tij,tj->ti", R, spin) - wanted), tolerance)
    translation = 0.5 * body["mass"] * np.sum(np.square(body["v0_world"]))
    within("energy", trajectory.kinetic[rows] - translation - data["reference"]["rotational_energy"], tolerance)
