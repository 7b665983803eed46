"""Energy is conserved and entropy never decreases, in every shipped mechanism that has friction."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from reference.runs import CONFIGS, simulated

import jmbs

# Configs that already ask for ten digits run as they stand; the others are told to.
AS_THEY_STAND = ("joint_revolute_skew", "joint_prismatic_incline", "joint_screw", "damped_oscillator")
TIGHTENED = ("pendulum", "slider_crank", "planar", "cylindrical")
SLOW = ("slider_crank", "planar", "cylindrical")
END = {"slider_crank": 1.0}
CONFIG = pytest.mark.parametrize(
    "config", [*AS_THEY_STAND, *(pytest.param(c, marks=[pytest.mark.slow] * (c in SLOW)) for c in TIGHTENED)]
)


@functools.cache
def tight(config: str) -> jmbs.Trajectory:
    if config in AS_THEY_STAND:
        return simulated(config)
    model = jmbs.compile(jmbs.load(CONFIGS / f"{config}.yaml"))
    t1 = END.get(config, 2.0)
    return jmbs.simulate(model, model.initial_state(), t1=t1, solver="dopri8", tolerance=1e-10)


def scale(trajectory: jmbs.Trajectory) -> float:
    """The largest kinetic energy or change of potential energy, J: where potential energy is zero is a convention."""
    return float(max(np.max(trajectory.kinetic), np.ptp(trajectory.potential)))


@CONFIG
def test_first_law(config: str, within):
    trajectory = tight(config)
    within("residual over energy scale", trajectory.first_law_residual / scale(trajectory), 1e-9)
    assert np.max(trajectory.dissipated) > 1e-3 * scale(trajectory)


@CONFIG
def test_second_law(config: str):
    """Entropy starts at zero, never decreases, and at a constant temperature counts what was dissipated."""
    trajectory = tight(config)
    entropy = np.asarray(trajectory.entropy_produced)
    assert entropy[0] == 0 and np.all(np.diff(entropy) >= -1e-15 * entropy[-1])
    error = np.abs(trajectory.exergy_destroyed - trajectory.dissipated)
    assert np.max(error) <= 1e-12 * np.max(trajectory.dissipated)


@CONFIG
def test_projection_adds_little(config: str, within):
    """What the projection onto the constraints adds stands in the account, and is of the size of the tolerance."""
    trajectory = tight(config)
    within("projection work over energy scale", trajectory.projection_work / scale(trajectory), 1e-8)


def test_oscillator_turns_energy_into_entropy(within):
    trajectory = simulated("damped_oscillator")
    lost = float(trajectory.total[0]) - np.asarray(trajectory.total)
    within("s - (H(0) - H(t)) / theta0 (J/K)", trajectory.entropy_produced - lost / 300.0, 1e-10)
