"""The damped oscillator against its closed form: motion, energy, entropy, and sensitivities by reverse mode."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference.runs import CONFIGS, case, rows_at

import jmbs

DATA = case("joint_damped_oscillator_entropy")
TOLERANCE = DATA["suggested_tolerance"]["high_order"]
PATHS = {
    "m": "mass/mass",
    "k": "rail/spring/stiffness",
    "d": "rail/friction/viscous",
    "q0": "initial/rail/q",
    "v0": "initial/rail/v",
}


@pytest.fixture(scope="module")
def model() -> jmbs.Model:
    return jmbs.compile(jmbs.load(CONFIGS / "damped_oscillator.yaml"))


@pytest.mark.parametrize("name", DATA["cases"])
def test_motion_energy_and_entropy(name: str, model: jmbs.Model, within):
    """Under-, critically, over- and undamped, by changing the parameters of one compiled model."""
    wanted = DATA["cases"][name]
    assert model.parameters()["environment/temperature"]["value"] == wanted["theta0"]
    model = model.with_parameters({path: wanted[key] for key, path in PATHS.items()})
    trajectory = jmbs.simulate(model, model.initial_state())
    rows = rows_at(trajectory, wanted["times"])
    within("q", trajectory.q["rail"][rows, 0] - np.array(wanted["q"]), TOLERANCE)
    within("p", wanted["m"] * trajectory.v["rail"][rows, 0] - np.array(wanted["p"]), TOLERANCE)
    within("energy", trajectory.total[rows] - np.array(wanted["mechanical_energy"]), TOLERANCE)
    within("entropy", trajectory.entropy_produced[rows] - np.array(wanted["entropy"]), TOLERANCE)
    # Heat goes to an environment of constant temperature, so its entropy counts the energy that is gone.
    within("T s - dissipated", wanted["theta0"] * trajectory.entropy_produced - trajectory.dissipated, TOLERANCE)
    whole = trajectory.total + wanted["theta0"] * trajectory.entropy_produced
    within("H + T s", whole - wanted["total_energy_H_plus_theta0_s"], TOLERANCE)


@pytest.mark.slow
def test_sensitivities_by_reverse_mode(model: jmbs.Model, within):
    """Position and entropy after 1 s by mass, stiffness, damping and initial state, through an adaptive run."""
    values = {key: jnp.asarray(DATA["cases"]["underdamped"][key]) for key in PATHS}

    def outcome(values):
        changed = model.with_parameters({PATHS[key]: value for key, value in values.items()})
        trajectory = jmbs.simulate(changed, ts=np.array([0.0, 1.0]), tolerance=1e-12)
        return jnp.stack([trajectory.q["rail"][-1, 0], trajectory.entropy_produced[-1]])

    sensitivities = jax.jit(jax.jacrev(outcome))(values)
    for key, wanted in DATA["sensitivities_underdamped_t1"].items():
        within(f"dq/d{key}", sensitivities[key][0] - wanted["dq_dT1"], TOLERANCE)
        within(f"ds/d{key}", sensitivities[key][1] - wanted["ds_dT1"], TOLERANCE)
