"""Chains, an arm and closed loops of hinges reproduce what was obtained without jmbs.

Tolerances are those of the case files: largest absolute differences in SI units unless they are called relative. What a
file gives no tolerance for follows from what it does give, as said beside it.
"""

from __future__ import annotations

import functools

import jax
import numpy as np
import pytest
from mechanisms import chain, panda
from quick import forward_dynamics, inverse_dynamics, mass_matrix
from reference.runs import CONFIGS, angle_between, case, largest, rotations, rows_at, simulated

import jmbs
from jmbs.simulation import with_inputs

CHAIN, ARM, BRICARD, SQUEEZER = "chain_n_link_planar", "robot_panda", "iftomm_A04_bricard", "andrews_squeezer"

STARTS = ("horizontal", "bent30")
TO_ROUNDING = {"rtol": 1e-14, "atol": 1e-15}
"""The chain's file has no tolerance for a run at 1e-10, only how far its own methods agree; that calls for this."""
FIXED = 1e-4
"""Step of longer chains, s, where the control of steps to rounding would stop at its last digits."""

CHAINS = pytest.mark.parametrize(
    ("n", "start"),
    [pytest.param(n, start, marks=[pytest.mark.slow] * (n != 4)) for n in (1, 2, 4, 8, 16, 32, 64) for start in STARTS],
)


@functools.cache
def chain_model(n: int) -> jmbs.Model:
    return jmbs.compile(chain(n))


@functools.cache
def chain_runs(n: int) -> dict[str, jmbs.Trajectory]:
    """The run of each start.

    Long chains run as a batch: its articulated bodies round far less than the mass matrix of one alone
    (docs/tree.md), and the file's tolerance is ten times the rounding of its own methods.
    """
    data = case(CHAIN)
    angles = [data["cases"][f"{start}_N{n}"]["phi0"] for start in STARTS]
    times, batched = data["times"], n > 8
    steps = {"dt": FIXED} if batched else {"tolerance": TO_ROUNDING}

    def run(angle) -> jmbs.Trajectory:
        model = chain_model(n).with_parameters({"initial/joint1/q": [angle]})
        return jmbs.simulate(model, ts=times, t1=times[-1], solver="dopri8", **steps)

    if not batched:
        return {start: run(angle) for start, angle in zip(STARTS, angles, strict=True)}
    both = jax.jit(jax.vmap(run))(np.array(angles))
    return {start: jax.tree.map(lambda x, i=i: x[i], both) for i, start in enumerate(STARTS)}


def angle_tolerance(wanted: dict) -> np.ndarray:
    """Ten times the largest disagreement of the reference methods (rad), at each time: the file's suggestion."""
    methods = [values for name, values in wanted["agreement"].items() if name.endswith("_phi") and values is not None]
    return 10 * np.max(methods, axis=0)


@CHAINS
def test_angles_and_rates_of_a_chain(n: int, start: str, within):
    wanted, trajectory = case(CHAIN)["cases"][f"{start}_N{n}"], chain_runs(n)[start]
    phi, rates = (
        np.cumsum(np.concatenate([values[f"joint{i + 1}"] for i in range(n)], axis=1), axis=1)
        for values in (trajectory.q, trajectory.v)
    )
    tolerance = angle_tolerance(wanted)
    within("phi", largest(phi - np.array(wanted["phi"])), tolerance)
    # Errors oscillate at most at the frequency of links of mass m under the weight of all: 2 sqrt(n m g / (m L / n)).
    fastest = 2 * n * np.sqrt(case(CHAIN)["params"]["g"])
    within("phidot", largest(rates - np.array(wanted["phidot"])), fastest * tolerance)


@CHAINS
def test_tip_of_a_chain(n: int, start: str, within):
    """Angles that err by a tolerance move the tip of one metre of links by at most as many metres."""
    wanted, trajectory = case(CHAIN)["cases"][f"{start}_N{n}"], chain_runs(n)[start]
    down = -rotations(trajectory.quaternion[f"link{n}"])[:, :, 1]
    tip = np.asarray(trajectory.position[f"link{n}"]) + wanted["link_length"] / 2 * down
    within("tip", largest(tip[:, :2] - np.stack([wanted["tip_x"], wanted["tip_y"]], axis=1)), angle_tolerance(wanted))


def test_the_shipped_chain_is_the_one_tested_here():
    shipped, made = jmbs.load(CONFIGS / "chain_8.yaml"), chain(8)
    np.testing.assert_array_equal(shipped.gravity, made.gravity)
    assert shipped.joints.keys() == made.joints.keys()
    for name, body in made.bodies.items():
        assert shipped.bodies[name].mass == body.mass
        np.testing.assert_allclose(shipped.bodies[name].inertia, body.inertia, rtol=1e-15)
    for name, joint in made.joints.items():
        other = shipped.joints[name]
        assert (other.type, other.parent, other.child) == (joint.type, joint.parent, joint.child)
        np.testing.assert_array_equal(other.parent_frame.position, joint.parent_frame.position)
        np.testing.assert_array_equal(other.child_frame.position, joint.child_frame.position)
        np.testing.assert_array_equal(shipped.initial_joints[name]["q"], made.initial_joints[name]["q"])


@functools.cache
def arm() -> jmbs.Model:
    return jmbs.compile(panda())


def arm_order() -> list[int]:
    """Where the case's joints stand among the model's velocities."""
    found = [joint for joint, _ in arm().velocity_names]
    return [found.index(joint) for joint in case(ARM)["order"]]


@functools.cache
def arm_state(i: int) -> jmbs.State:
    values, wanted = {}, case(ARM)["states"][i]
    for joint, q, v in zip(case(ARM)["order"], wanted["q"], wanted["v"], strict=True):
        values |= {f"initial/{joint}/q": [q], f"initial/{joint}/v": [v]}
    return arm().with_parameters(values).initial_state()


ARM_STATES = pytest.mark.parametrize("i", range(10))


@pytest.mark.slow
def test_energies_of_the_arm(within):
    """To the accuracy of the reference, 1e-12 relative; the file suggests no tolerance."""
    for i, wanted in enumerate(case(ARM)["states"]):
        now = jmbs.simulate(arm(), arm_state(i), ts=[0.0])
        for kind in ("kinetic", "potential"):
            error = float(getattr(now, kind)[0]) - wanted[f"{kind}_energy"]
            within(f"{kind} {i}", error, 1e-12 * wanted[f"{kind}_energy"])


@ARM_STATES
def test_mass_matrix_of_the_arm(i: int, within):
    order = arm_order()
    found = np.asarray(mass_matrix(arm(), arm_state(i)))[np.ix_(order, order)]
    within("M", found - np.array(case(ARM)["states"][i]["M"]), case(ARM)["suggested_tolerance"]["M"])


@ARM_STATES
def test_inverse_dynamics_of_the_arm(i: int, within):
    """Without accelerations it is the bias: gravity, centrifugal and Coriolis forces."""
    order, wanted, tolerance = arm_order(), case(ARM)["states"][i], case(ARM)["suggested_tolerance"]["tau"]
    for name, given in (("bias", np.zeros(9)), ("tau_inverse_dynamics", np.array(wanted["a"]))):
        accelerations = np.zeros(9)
        accelerations[order] = given
        found = np.asarray(inverse_dynamics(arm(), arm_state(i), accelerations))[order]
        within(name, found - np.array(wanted[name]), tolerance)


@ARM_STATES
def test_forward_dynamics_of_the_arm(i: int, within):
    wanted = case(ARM)["states"][i]
    torques = {f"{joint}/actuation": [tau] for joint, tau in zip(case(ARM)["order"], wanted["tau"], strict=True)}
    found = np.asarray(forward_dynamics(with_inputs(arm(), torques), arm_state(i)))[arm_order()]
    relative = found / np.array(wanted["qdd_forward_dynamics"]) - 1
    within("qdd, relative", relative, case(ARM)["suggested_tolerance"]["qdd_relative"])


@pytest.mark.slow
def test_swing_of_the_arm(within):
    swing, trajectory = case(ARM)["swing"], simulated("panda_arm")
    rows = rows_at(trajectory, swing["times"])
    for name, values in (("q", trajectory.q), ("qd", trajectory.v)):
        found = np.concatenate([values[joint][rows] for joint in case(ARM)["order"][:7]], axis=1)
        within(name, largest(found - np.array(swing[name])), case(ARM)["suggested_tolerance"]["swing"])


def bricard_run():
    """The case, its trajectory, the rows of the case's times, and the tolerance."""
    data, trajectory = case(BRICARD), simulated("bricard")
    rows = rows_at(trajectory, data["times"])
    return data["reference"], trajectory, rows, data["suggested_tolerance"]["high_order_rtol1e10"]


@pytest.mark.slow
def test_motion_of_bricards_mechanism(within):
    reference, trajectory, rows, tolerance = bricard_run()
    within("a", trajectory.q["hinge1"][rows, 0] - np.array(reference["a"]), tolerance)
    within("adot", trajectory.v["hinge1"][rows, 0] - np.array(reference["adot"]), tolerance)
    for body in trajectory.position:
        wanted = reference[body]
        within(f"{body} r", largest(trajectory.position[body][rows] - np.array(wanted["r"])), tolerance)
        within(f"{body} rotation", angle_between(trajectory.quaternion[body][rows], wanted["quat_wxyz"]), tolerance)
        omega = largest(trajectory.angular_velocity[body][rows] - np.array(wanted["omega_body"]))
        within(f"{body} omega_body", omega, tolerance)
        within(f"{body} v_world", largest(trajectory.velocity[body][rows] - np.array(wanted["v_world"])), tolerance)


@pytest.mark.slow
def test_energies_of_bricards_mechanism(within):
    """Energies to twice the relative tolerance of the rate that they are quadratic in."""
    reference, trajectory, rows, tolerance = bricard_run()
    relative = 2 * tolerance / np.max(np.abs(reference["adot"]))
    for kind in ("kinetic", "potential", "total"):
        error = getattr(trajectory, kind)[rows] - np.array(reference[f"{kind}_energy"])
        within(kind, error, relative * max(reference["kinetic_energy"]))


JOINT_OF = {"beta": "O", "Theta": "F", "gamma": "B", "Phi": "G", "delta": "A5", "Omega": "H", "epsilon": "A7"}
"""The joint of the squeezer's config by the angle of its case that it turns through."""


def squeezer_run():
    """The case, its trajectory, the rows of the case's times, and the tolerances, which it states for 0.03 s."""
    data, trajectory = case(SQUEEZER), simulated("andrews_squeezer")
    return data, trajectory, rows_at(trajectory, data["times"]), data["suggested_tolerance"]["t0p03"]


@pytest.mark.slow
def test_angles_and_rates_of_the_squeezer(within):
    data, trajectory, rows, tolerance = squeezer_run()
    q, v = (
        np.concatenate([values[JOINT_OF[name]][rows] for name in data["angles"]], axis=1)
        for values in (trajectory.q, trajectory.v)
    )
    within("q", largest(q - np.array(data["reference"]["q"])), tolerance["q"])
    within("v, relative", largest(v / np.array(data["reference"]["v"]) - 1), tolerance["v_relative"])


@pytest.mark.slow
def test_bodies_of_the_squeezer(within):
    """Positions to the angles' tolerance on an arm of 0.1 m, more than it has; velocities relative to the largest."""
    data, trajectory, rows, tolerance = squeezer_run()
    for body, columns in data["reference"]["bodies"].items():
        x, y, angle, vx, vy, omega = np.array(columns).T
        zero = np.zeros_like(x)
        within(f"{body} r", largest(trajectory.position[body][rows] - np.stack([x, y, zero], 1)), 0.1 * tolerance["q"])
        turned = np.stack([np.cos(angle / 2), zero, zero, np.sin(angle / 2)], axis=1)
        within(f"{body} angle", angle_between(trajectory.quaternion[body][rows], turned), tolerance["q"])
        for name, found, wanted in (
            ("v", trajectory.velocity[body][rows], np.stack([vx, vy, zero], 1)),
            ("omega", trajectory.angular_velocity[body][rows], np.stack([zero, zero, omega], 1)),
        ):
            within(f"{body} {name}", largest(found - wanted), tolerance["v_relative"] * np.abs(wanted).max())


@pytest.mark.slow
def test_energies_of_the_squeezer(within):
    data, trajectory, rows, _ = squeezer_run()
    reference, tolerance = data["reference"], data["suggested_tolerance"]["IFToMM_energy_balance_J"]
    accounts = {"kinetic": "kinetic_energy", "potential": "spring_energy", "supplied": "motor_work"}
    found = {name: np.asarray(getattr(trajectory, name)) for name in ("total", *accounts)}
    for name, wanted in accounts.items():
        within(name, found[name][rows] - np.array(reference[wanted]), tolerance)
    within("balance", found["total"] - found["total"][0] - found["supplied"], tolerance)
