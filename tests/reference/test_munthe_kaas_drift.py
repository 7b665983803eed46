"""How constraints and energy drift without stabilisation: fourth-order Munthe-Kaas on SE(3) and on SO(3)xR3.

On SE(3) the joint to ground is a subgroup that the scheme cannot leave. Everything else drifts with the fourth power of
the step, as much as in an independent implementation of the published scheme.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest
from reference.runs import CONFIGS, case, rotations

import jmbs

TABLE = case("mt2013_munthe_kaas_figures")["results"]
FILES = {
    "heavy_top": "mt2013_heavy_top",
    "spherical_double_pendulum": "mt2013_spherical_double_pendulum",
    "two_floating_bodies": "mt2013_two_floating_bodies",
    "three_bar_loop": "mt2013_spherical_3bar",
}
KEYS = {
    "heavy_top": "5.1_heavy_top",
    "spherical_double_pendulum": "5.2_double_pendulum",
    "two_floating_bodies": "5.3_two_floating_bodies",
    "three_bar_loop": "5.4_3bar(our geometry)",
}
GROUPS, STEPS = ("SE3", "SO3xR3"), (1e-3, 5e-4)
QUICK = {("heavy_top", "SE3"): STEPS}
"""The runs of these, with these steps, are not slow."""
RUNS = [(config, group, dt) for config in FILES for group in GROUPS for dt in STEPS]
ROUNDING = 1e-11  # m


def marked(runs: list[tuple]) -> list:
    return [pytest.param(*r, marks=[pytest.mark.slow] * (r[2] not in QUICK.get(r[:2], ()))) for r in runs]


@functools.cache
def model_of(config: str, group: str) -> jmbs.Model:
    overrides = [f"bodies.{body['name']}.group={group}" for body in case(FILES[config])["bodies"]]
    return jmbs.compile(jmbs.load(CONFIGS / f"{config}.yaml", overrides=overrides))


@functools.cache
def run(config: str, group: str, dt: float, t1: float = 1.0) -> tuple[list[float], float, jmbs.Trajectory]:
    """The largest gap of each joint (m) and the largest change of energy (J), with the trajectory."""
    model = model_of(config, group)
    options = {"solver": "rk4", "dt": dt, "constraints": "none", "formulation": "absolute"}
    trajectory = jmbs.simulate(model, model.initial_state(), t1=t1, save_every=0.01, **options)
    gaps = [float(np.linalg.norm(gap, axis=1).max()) for gap in joint_gaps(trajectory, case(FILES[config])["joints"])]
    return gaps, float(np.abs(trajectory.total - trajectory.total[0]).max()), trajectory


def joint_gaps(trajectory: jmbs.Trajectory, joints: list[dict]) -> list[np.ndarray]:
    """From the bodies' poses, which is how the table was made: point on body b minus point on body a (T, 3)."""

    def point(body: str, where: list[float]) -> np.ndarray:
        if body == "ground":
            return np.asarray(where, float)
        return np.asarray(trajectory.position[body]) + rotations(trajectory.quaternion[body]) @ np.asarray(where, float)

    return [point(j["body_b"], j["point_b"]) - point(j["body_a"], j["point_a"]) for j in joints]


def row_of(key: str, group: str, dt: float) -> dict | None:
    return next((row for row in TABLE[key]["runs"] if (row["group"], row["dt"]) == (group, dt)), None)


def grounded(config: str) -> list[bool]:
    """Which joints are to the ground."""
    return [joint["body_a"] == "ground" for joint in case(FILES[config])["joints"]]


def compare(config: str, gaps, energy, row, group: str, within) -> None:
    """Within a factor two of the table's row; ground joints on SE(3) to rounding."""
    for i, (gap, wanted) in enumerate(zip(gaps, row["max_violation_m"], strict=True)):
        if grounded(config)[i] and group == "SE3":
            within("ground joint (m)", gap, ROUNDING)
        else:
            within(f"joint {i}: log2 of {gap:.3e} over {wanted:.3e} m", np.log2(gap / wanted), 1.0)
    wanted = row["max_abs_energy_error"]
    within(f"energy: log2 of {energy:.3e} over {wanted:.3e} J", np.log2(energy / wanted), 1.0)


@pytest.mark.parametrize(("config", "group", "dt"), marked([r for r in RUNS if row_of(KEYS[r[0]], *r[1:])]))
def test_drift_is_that_of_the_published_scheme(config: str, group: str, dt: float, within):
    gaps, energy, _ = run(config, group, dt)
    compare(config, gaps, energy, row_of(KEYS[config], group, dt), group, within)


@pytest.mark.parametrize(("config", "group", "dt"), marked(RUNS))
def test_reported_residual_is_the_gap(config: str, group: str, dt: float):
    """`constraint_position` gives the largest entry where the table has the length, and sees the same."""
    gaps, _, trajectory = run(config, group, dt)
    for gap, joint in zip(gaps, trajectory.labels.joints, strict=True):
        residual = trajectory.constraint_position[joint]
        assert gap / np.sqrt(3) - 1e-14 <= np.max(residual) <= gap + 1e-14


@pytest.mark.parametrize(("config", "group", "dt"), marked([r for r in RUNS if r[2] == STEPS[-1]]))
def test_drift_is_of_fourth_order(config: str, group: str, dt: float, within):
    coarse, fine = run(config, group, STEPS[0]), run(config, group, dt)
    for i, (a, b) in enumerate(zip(coarse[0], fine[0], strict=True)):
        if grounded(config)[i] and group == "SE3":
            within("ground joint (m)", max(a, b), ROUNDING)
        else:
            within(f"joint {i}: order {np.log2(a / b):.2f}", np.log2(a / b) - 4, 0.15)
    assert np.log2(coarse[1] / fine[1]) >= 3.8


@pytest.mark.slow
def test_joints_between_bodies_drift_alike_on_both_groups(within):
    (_, a), (_, b) = (run("spherical_double_pendulum", group, STEPS[0])[0] for group in GROUPS)
    within(f"log2 of {a:.2e} over {b:.2e} m", np.log2(a / b), 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
def test_heavy_top_for_five_seconds(group: str, within):
    gaps, energy, _ = run("heavy_top", group, 1e-3, t1=5.0)
    compare("heavy_top", gaps, energy, row_of("5.1_heavy_top_5s", group, 1e-3), group, within)
