"""Laws of electrical components, and circuits against their closed forms."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from documents import run_examples
from library.laws import assert_dirac, assert_second_law
from library.random_states import KEYS, THETA0, assert_close, gradient, normal

import jmbs
from jmbs import ModelError
from jmbs.ephs import Efforts
from jmbs.library.electric import Branch, Capacitor, Inductor, Resistor, series_coupling, series_rlc

COPPER = Resistor(3.0, 0.0039)


@pytest.mark.parametrize("resistor", [Resistor(3.0), COPPER], ids=["constant", "copper"])
def test_a_resistor_obeys_both_laws(resistor):
    assert_second_law(resistor)


def test_resistance_grows_with_temperature_and_never_turns_negative():
    def resistance(component, theta):
        efforts = Efforts({"i": jnp.array([0.2]), "s": jnp.array([theta - THETA0])}, jnp.asarray(THETA0))
        return float(component.onsager({}, efforts)[0, 0] / theta)

    assert resistance(COPPER, 293.15) == pytest.approx(3.0, rel=1e-14)
    assert resistance(COPPER, 393.15) == pytest.approx(3.0 * 1.39, rel=1e-13)
    assert resistance(Resistor(3.0, 0.1), 200.0) == 0.0


@pytest.mark.parametrize("component", [Branch(), series_coupling()], ids=["branch", "series coupling"])
def test_connections_conserve_power(component):
    assert_dirac(component)


def test_a_branch_obeys_kirchhoffs_laws():
    J, _ = Branch().structure({})
    v_a, v_b, i = 5.0, 3.0, 0.7
    # Flows go into the component: the current leaves node a, enters node b; the series sees minus the voltage.
    assert_close(J @ jnp.array([v_a, v_b, i]), [i, -i, -(v_a - v_b)])


def test_efforts_of_storages_are_voltage_and_current():
    x = normal(KEYS[0], 1)
    assert_close(gradient(Capacitor(2e-3), {"q": x})["q"], x / 2e-3)
    assert_close(gradient(Inductor(0.3), {"phi": x})["phi"], x / 0.3)
    assert_close(Inductor(0.3).state_from_effort({"phi": x})["phi"], 0.3 * x)


@pytest.mark.parametrize(
    ("make", "path"),
    [
        (lambda: Capacitor(0.0), "capacitor/capacitance"),
        (lambda: Inductor(-1e-3), "inductor/inductance"),
        (lambda: Resistor(-2.0), "resistor/resistance"),
        (lambda: Resistor(2.0, float("nan")), "resistor/temperature_coefficient"),
        (lambda: series_rlc(1.0, "a coil", 1e-3), "inductor/inductance"),
    ],
)
def test_wrong_parameters_are_refused(make, path):
    with pytest.raises(ModelError, match=path):
        make()


@pytest.fixture(scope="module")
def example():
    return run_examples("components/electric.md")


def rlc(t, R, L, C, v, q0, i0):
    """Charge and current of an underdamped series circuit on a constant voltage."""
    decay = R / (2 * L)
    omega = np.sqrt(1 / (L * C) - decay**2)
    a, b = q0 - C * v, (i0 + decay * (q0 - C * v)) / omega
    wave = np.exp(-decay * t) * (a * np.cos(omega * t) + b * np.sin(omega * t))
    slope = np.exp(-decay * t) * (b * omega * np.cos(omega * t) - a * omega * np.sin(omega * t))
    return C * v + wave, slope - decay * wave


def test_a_series_circuit_against_its_closed_form(example):
    sol, (R, L, C, v) = example["sol"], (2.0, 0.1, 1e-3, 5.0)
    q, i = rlc(np.asarray(sol.ts), R, L, C, v, 1e-3, 0.2)
    np.testing.assert_allclose(sol.states["q"][:, 0], q, rtol=0, atol=1e-11)
    np.testing.assert_allclose(sol.states["i"][:, 0], i, rtol=0, atol=1e-9)
    np.testing.assert_allclose(sol.supplied, v * (q - q[0]), rtol=0, atol=1e-10)
    stored = q**2 / (2 * C) + L * i**2 / 2
    np.testing.assert_allclose(sol.dissipated, v * (q - q[0]) - (stored - stored[0]), rtol=0, atol=1e-10)
    np.testing.assert_allclose(sol.destroyed["resistor"], sol.dissipated, rtol=0, atol=1e-10)


def test_capacitors_share_their_charge_through_a_branch(example):
    """The charge that has moved is that of both capacitors in series on the first one's initial voltage."""
    sol, c1, c2, L, R, q0 = example["sharing"], 1e-3, 3e-3, 0.05, 10.0, 4e-3
    moved, current = rlc(np.asarray(sol.ts), R, L, c1 * c2 / (c1 + c2), q0 / c1, 0.0, 0.0)
    np.testing.assert_allclose(sol.states["one"][:, 0], q0 - moved, rtol=0, atol=1e-11)
    np.testing.assert_allclose(sol.states["two"][:, 0], moved, rtol=0, atol=1e-11)
    energy = (q0 - moved) ** 2 / (2 * c1) + moved**2 / (2 * c2) + L * current**2 / 2
    np.testing.assert_allclose(sol.dissipated, energy[0] - energy, rtol=0, atol=1e-10)


def test_a_config_without_bodies(configs):
    """The capacitor ends on the source's voltage; what was supplied is stored or became heat that left the wire."""
    sol = jmbs.simulate(jmbs.load(configs / "rlc.yaml").compile())
    assert float(sol.states["series"][0, 0]) == pytest.approx(0.2)
    assert float(sol.states["node"][-1, 0]) == pytest.approx(5.0 * 1e-3, rel=1e-4)
    assert np.max(sol.temperature["core"]) > 298.0
    assert float(sol.temperature["core"][-1]) == pytest.approx(293.15, abs=0.1)
    np.testing.assert_allclose(sol.first_law_residual, 0.0, atol=1e-10)
    for production in sol.production.values():
        assert np.all(production >= 0)
