"""The motor: a lossless coupling, its parts together against the closed form, and a mechanism on its shaft."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from documents import run_examples
from library.laws import assert_dirac
from library.random_states import KEYS, assert_close, gradient, normal
from quick import quick_jit
from scipy.linalg import expm

import jmbs
from jmbs import Mechanism, ModelError
from jmbs.library.motor import SHAFT, MotorCoupling, Rotor, dc_motor

R, L, K, INERTIA = 1.0, 5e-3, 0.5, 0.02
"""The motor of the documentation's example."""


def test_the_coupling_conserves_power():
    assert_dirac(MotorCoupling(0.3))


def test_torque_and_back_emf_have_one_constant():
    J, _ = MotorCoupling(0.3).structure({})
    current, speed = 2.0, 40.0
    # Flows go into the coupling: it takes the back-emf from the circuit and gives the torque to the shaft.
    assert_close(J @ jnp.array([current, speed]), [0.3 * speed, -0.3 * current])


def test_the_rotors_effort_is_its_speed():
    p = normal(KEYS[0], 1)
    assert_close(gradient(Rotor(0.2), {"shaft": p})["shaft"], p / 0.2)
    assert_close(Rotor(0.2).state_from_effort({"shaft": p / 0.2})["shaft"], p)


@pytest.mark.parametrize("heats_environment", [True, False])
@pytest.mark.parametrize("rotor_inertia", [None, 0.1])
def test_outer_ports(heats_environment, rotor_inertia):
    motor = dc_motor(R, L, K, rotor_inertia, heats_environment=heats_environment)
    assert set(motor.ports) == {"supply", "shaft"} | (set() if heats_environment else {"s"})
    assert motor.ports["shaft"].quantity == SHAFT
    assert ("rotor" in motor.boxes) == (rotor_inertia is not None)


def test_wrong_parameters_are_refused():
    with pytest.raises(ModelError, match="rotor/inertia"):
        dc_motor(R, L, K, -0.1)
    with pytest.raises(ModelError, match="motor_coupling/torque_constant"):
        dc_motor(R, L, None)


def test_a_step_of_voltage_against_the_closed_form():
    """A linear system, `y' = A y + b`: its current and speed, and the energy that became heat."""
    sol, v = run_examples("components/motor.md")["sol"], 12.0
    A, b = np.array([[-R / L, -K / L], [K / INERTIA, 0.0]]), np.array([v / L, 0.0])
    still = -np.linalg.solve(A, b)
    assert still == pytest.approx([0.0, v / K])
    current, speed = np.array([still - expm(t * A) @ still for t in np.asarray(sol.ts)]).T
    np.testing.assert_allclose(sol.states["i"][:, 0], current, rtol=0, atol=1e-9)
    np.testing.assert_allclose(sol.states["shaft"][:, 0], speed, rtol=0, atol=1e-9)
    supplied = v * INERTIA / K * speed  # torque k i speeds the rotor up, so the charge is inertia speed / k
    np.testing.assert_allclose(sol.supplied, supplied, rtol=0, atol=1e-9)
    np.testing.assert_allclose(sol.kinetic, INERTIA * speed**2 / 2, rtol=0, atol=1e-9)
    np.testing.assert_allclose(sol.potential, L * current**2 / 2, rtol=0, atol=1e-9)
    lost = supplied - INERTIA * speed**2 / 2 - L * current**2 / 2
    np.testing.assert_allclose(sol.dissipated, lost, rtol=0, atol=1e-9)


def test_a_motor_drives_a_joint_and_heats_a_store():
    """Rates of current, speed and winding, with the rotor's inertia added to the body's, and parameters by name."""
    v, i, omega, hot, body, start = 12.0, 3.0, 7.0, 330.0, 0.05, 293.15
    m = Mechanism("drive", gravity=(0.0, 0.0, 0.0))
    m.add_body("wheel", mass=1.0, inertia=[body, body, body])
    m.add_joint("axle", "revolute", "ground", "wheel", friction={"viscous": 0.1})
    m.add_store("winding", 4.0, hot)
    m.add_system("motor", dc_motor(R, L, 0.4, INERTIA, 0.0039, heats_environment=False))
    m.connect("shaft", ["motor.shaft", "axle.p_r"])
    m.connect("heat", ["motor.s", "winding.s"])
    m.connect("supply", ["motor.supply"], flow=v)
    m.set_initial(joints={"axle": {"v": omega}}, states={"motor/i": i})
    model = jmbs.compile(m).with_parameters({"motor/coupling/torque_constant": K})
    rates = quick_jit(lambda model, state: model.dynamics(0.0, state))(model, model.initial_state())
    rate = lambda path, port: np.asarray(rates.velocity[model.dae.plan.slots[model.dae.plan.junction_of[path, port]]])  # noqa: E731
    warm = R * (1 + 0.0039 * (hot - start))
    assert_close(rate("motor/inductor", "phi"), [v - warm * i - K * omega])
    acceleration = (K * i - 0.1 * omega) / (body + INERTIA)
    assert_close(rate("wheel/ke", "p"), [0, 0, body * acceleration, 0, 0, 0])
    assert_close(rate("motor/rotor", "shaft"), [INERTIA * acceleration])
    assert_close(rate("winding", "s"), [warm * i**2 / hot])
    assert float(rates.power.supplied) == pytest.approx(v * i, rel=1e-12)
