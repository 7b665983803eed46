"""A motor drives a slider-crank while winding and bearing warm up: both laws over three energy domains at once."""

from __future__ import annotations

import equinox as eqx
import numpy as np
import pytest
from quick import quick_jit

import jmbs

LOSSES = {"axle/mf", "guide/mf", "motor/resistor", "housing", "fan", "cooling"}


@pytest.fixture(scope="module")
def model(configs):
    return jmbs.compile(jmbs.load(configs / "motor_slider_crank.yaml"))


@pytest.fixture(scope="module")
def parameters(model):
    return {
        name: float(entry["value"].squeeze())
        for name, entry in model.parameters().items()
        if entry["shape"] in ((), (1,))
    }


def assert_both_laws(sol):
    """The account closes to 1e-8 of the electrical work, and no component ever destroys less than nothing."""
    work = float(sol.supplied[-1])
    assert work > 0
    assert np.max(np.abs(sol.first_law_residual)) < 1e-8 * work
    gained = sum(value - value[0] for value in sol.stored.values())
    account = gained + sum(sol.destroyed.values()) - sol.supplied - sol.projection_work
    assert np.max(np.abs(account)) < 1e-8 * work
    assert abs(float(sol.projection_work[-1])) < 1e-8 * work
    losing = {name for name, value in sol.destroyed.items() if value[-1] > 0}
    assert losing == LOSSES
    for name, production in sol.production.items():
        assert np.all(production >= 0), name


@pytest.mark.slow
def test_a_cold_start(model, parameters):
    """Half a second: the current rises at once, the winding warms before the bearing, the crank catches up."""

    def simulate(model):
        return jmbs.simulate(model, t1=0.5, save_every=0.05)

    sol = quick_jit(simulate)(model)
    assert_both_laws(sol)
    winding, bearing = sol.temperature["winding"], sol.temperature["bearing"]
    assert winding[-1] > bearing[-1] > bearing[0] == winding[0] == pytest.approx(298.15)
    # Power that goes in at the terminals: the voltage times the current, whose integral is the charge.
    resistance = 1.0 * (1 + parameters["motor/resistor/temperature_coefficient"] * (np.asarray(winding) - 293.15))
    current = np.asarray(sol.states["motor/i"][:, 0])
    np.testing.assert_allclose(
        sol.production["motor/resistor"], resistance * current**2 / np.asarray(winding), rtol=1e-9, atol=1e-12
    )
    for store, closure in ((winding, "fan"), (bearing, "cooling")):
        heat = parameters[f"{closure}/conductance"] * (np.asarray(store) - 298.15)
        wanted = heat * (1 / 298.15 - 1 / np.asarray(store))
        np.testing.assert_allclose(sol.production[closure], wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_from_cold_start_to_steady_state(model, parameters):
    sol = jmbs.simulate(model)
    assert_both_laws(sol)
    ts = np.asarray(sol.ts)
    winding, bearing = (np.asarray(sol.temperature[name]) for name in ("winding", "bearing"))
    late, last = (ts >= 30.0) & (ts < 35.0), ts >= 35.0
    for temperature in (winding, bearing):
        assert temperature[last].mean() - 298.15 > 15.0
        assert abs(temperature[last].mean() - temperature[late].mean()) < 5e-3
    copper = mean_heat(sol, "motor/resistor", winding, last)
    friction = mean_heat(sol, "axle/mf", bearing, last)
    given = lambda name, a, b: parameters[f"{name}/conductance"] * np.mean((a - b)[last])  # noqa: E731
    across = given("housing", winding, bearing)
    assert given("fan", winding, 298.15) + across == pytest.approx(copper, rel=2e-3)
    assert given("cooling", bearing, 298.15) == pytest.approx(friction + across, rel=2e-3)
    # What goes in as electrical work comes out as heat: nothing is stored any more.
    power = np.ptp(np.asarray(sol.supplied)[last]) / np.ptp(ts[last])
    guide = mean_heat(sol, "guide/mf", np.full_like(ts, 298.15), last)
    assert copper + friction + guide == pytest.approx(power, rel=1e-2)


def mean_heat(sol, name, temperature, when):
    """The mean power, W, that a component turns to heat at nearly constant temperature, from its exergy account."""
    rate = np.ptp(np.asarray(sol.destroyed[name])[when]) / np.ptp(np.asarray(sol.ts)[when])
    return rate * temperature[when].mean() / 298.15


@pytest.mark.slow
def test_a_colder_lubricant_brakes_more(model):
    """The same start with a bearing whose friction does not thin: the crank stays slower."""
    run = eqx.filter_jit(lambda model: jmbs.simulate(model, t1=6.0, save_every=0.01).v["axle"][-300:, 0].mean())
    assert run(model) > run(model.with_parameters({"axle/friction/temperature_coefficient": 0.0})) + 0.3
