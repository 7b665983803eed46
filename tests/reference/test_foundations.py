"""A degenerate body and constraints on velocities: the shipped configs reproduce motions obtained without jmbs.

Tolerances are those of the case files: largest absolute differences in SI units; energies and forces have their own.
"""

from __future__ import annotations

import numpy as np
import pytest
from reference.runs import angle_between, case, largest, rotations, rows_at, simulated


def tolerance(name: str) -> float:
    (given,) = case(name)["suggested_tolerance"].values()
    return given


def test_the_sliding_rod(within):
    """Only the direction of the rod's axis and its rate are its motion, not the rotation about it."""
    data, trajectory, limit = case("lewis_sliding_rod"), simulated("sliding_rod"), tolerance("lewis_sliding_rod")
    rows, wanted = rows_at(trajectory, data["times"]), data["reference"]
    R, omega = rotations(trajectory.quaternion["rod"][rows]), np.asarray(trajectory.angular_velocity["rod"][rows])
    axis = R[:, :, 2]
    omega_world = np.einsum("tij,tj->ti", R, omega)
    within("r", largest(trajectory.position["rod"][rows] - np.array(wanted["r"])), limit)
    within("v", largest(trajectory.velocity["rod"][rows] - np.array(wanted["v_world"])), limit)
    within("axis", largest(axis - np.array(wanted["u"])), limit)
    within("rate of the axis", largest(np.cross(omega_world, axis) - np.array(wanted["udot"])), limit)
    within("angular velocity", largest(omega_world - np.array(wanted["omega_world_perp"])), limit)
    assert np.all(omega[1:, 2] == 0)
    force = trajectory.multipliers["tip"][rows, 0]
    within("normal force", force - np.array(wanted["normal_force"]), 10 * limit)
    within("energy", trajectory.total[rows] - np.array(wanted["total_energy"]), limit)


@pytest.mark.slow
def test_the_knife_edge(within):
    name = "nh_knife_edge_incline"
    data, trajectory, limit = case(name), simulated("knife_edge"), tolerance(name)
    rows, wanted = rows_at(trajectory, data["times"]), data["reference"]
    for axis, key in enumerate("xy"):
        within(key, trajectory.position["skate"][rows, axis] - np.array(wanted[key]), limit)
    within("phi", trajectory.q["ice"][rows, 2] - np.array(wanted["phi"]), limit)
    within("v", trajectory.v["ice"][rows, 0] - np.array(wanted["v"]), limit)
    force = trajectory.multipliers["edge"][rows, 0]
    within("lateral force", force - np.array(wanted["lateral_force_eyprime"]), 10 * limit)
    within("slip", trajectory.constraint_velocity["edge"], limit)
    within("energy", trajectory.total - trajectory.total[0], limit)


@pytest.mark.slow
def test_the_rolling_disk(within):
    name = "nh_vertical_rolling_disk"
    data, trajectory, limit = case(name), simulated("rolling_disk"), tolerance(name)
    rows, wanted = rows_at(trajectory, data["times"]), data["body_reference"]
    within("r", largest(trajectory.position["disk"][rows] - np.array(wanted["r"])), limit)
    within("v", largest(trajectory.velocity["disk"][rows] - np.array(wanted["v_world"])), limit)
    within("rotation", angle_between(trajectory.quaternion["disk"][rows], wanted["quat_wxyz"]), limit)
    omega = trajectory.angular_velocity["disk"][rows] - np.array(wanted["omega_body"])
    within("omega", largest(omega), 10 * limit)
    within("slip", trajectory.constraint_velocity["ground_contact"], limit)
    within("height and tilt", trajectory.constraint_position["upright"], limit)
    # The torques' work: their rates are constants and linear in time.
    p, t = data["params"], np.asarray(trajectory.ts)
    roll = p["thetadot0"] * t + 0.5 * p["torque_roll"] / (p["I_roll"] + p["m"] * p["R"] ** 2) * t**2
    steer = p["phidot0"] * t + 0.5 * p["torque_steer"] / p["J_vertical"] * t**2
    within("work", trajectory.supplied - (p["torque_roll"] * roll + p["torque_steer"] * steer), limit)


@pytest.mark.slow
def test_the_ball_on_a_turntable(within):
    """`dv/dt = w z x v` with `w = Omega k / (1 + k)`, `k = I / (m radius^2) = 2/5`: a circle; and the account closes.

    From the force `m dv/dt` at the touching point, the moment `I domega/dt = -radius n x m dv/dt`, and the rate of
    `v - radius omega x n = Omega n x r`.
    """
    trajectory = simulated("ball_on_turntable")
    t, r = np.asarray(trajectory.ts), np.asarray(trajectory.position["ball"])
    z, v = r[:, 0] + 1j * r[:, 1], np.asarray(trajectory.velocity["ball"])[:, :2] @ [1, 1j]
    w = 3.5 * 2 / 7
    wanted = z[0] + v[0] * (np.exp(1j * w * t) - 1) / (1j * w)
    within("circle", np.abs(z - wanted), 1e-9)
    within("velocity", np.abs(v - v[0] * np.exp(1j * w * t)), 1e-9)
    within("height", r[:, 2] - 0.1, 1e-12)
    force = np.asarray(trajectory.multipliers["table"])
    within("friction", np.abs(force[:, 0] + 1j * force[:, 1] - 0.5j * w * v), 1e-8)
    within("normal force", force[:, 2] - 0.5 * 9.81, 1e-8)
    assert np.ptp(trajectory.supplied) > 0.1
    within("first law", trajectory.first_law_residual, 1e-10)
