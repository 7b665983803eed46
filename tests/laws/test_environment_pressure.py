"""An environment with a pressure: what gases can do against it is exergy, and the books close."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from gas_spring import AREA, GAMMA, RUN, START, gas_spring
from quick import quick_jit

import jmbs
from jmbs.ephs import Efforts
from jmbs.errors import ModelError
from jmbs.io import mechanism_config

PI0, THETA0 = 101325.0, 298.15


@pytest.fixture(scope="module")
def model() -> jmbs.Model:
    return jmbs.compile(gas_spring(environment_pressure=PI0))


@pytest.fixture(scope="module")
def sol(model) -> jmbs.Trajectory:
    return jmbs.simulate(model, **(RUN | {"audit": True, "dt": 5e-4}))


def test_the_atmosphere_pushes_back(model):
    state, free = model.initial_state(), jmbs.compile(gas_spring())
    rate = quick_jit(lambda model: model.forward_dynamics(0.0, state)[0])
    with_air, without = rate(model), rate(free)
    np.testing.assert_allclose(without - with_air, AREA * PI0 / 2.0, rtol=1e-12)
    changed = rate(model.with_parameters({"environment/pressure": 2 * PI0}))
    np.testing.assert_allclose(with_air - changed, AREA * PI0 / 2.0, rtol=1e-12)


def test_exergy_of_a_gas_and_both_laws(sol):
    """Exergy is `E + pi0 V - theta0 S`; what storages lose of it is destroyed; energy is kept with the atmosphere's."""
    volume, s = sol.states["volume"][:, 0], sol.states["heat"][:, 0]
    energy = 600.0 * np.exp(s / 2.0) * (START / volume) ** (GAMMA - 1)
    np.testing.assert_allclose(sol.stored["chamber"], energy + PI0 * volume - THETA0 * s, rtol=1e-12)
    whole = np.sum([sol.stored[path] for path in sol.stored], axis=0)
    destroyed = np.sum([sol.destroyed[path] for path in sol.destroyed], axis=0)
    scale = np.ptp(sol.kinetic)
    np.testing.assert_allclose(whole + destroyed, whole[0], atol=1e-6 * scale)
    np.testing.assert_allclose(sol.first_law_residual, 0.0, atol=1e-6 * scale)
    np.testing.assert_allclose(sol.outputs["chamber/pressure"], (GAMMA - 1) * energy / volume, rtol=1e-12)


def test_total_includes_what_a_gas_holds(sol):
    """All energy but the heat and the work that went to the environment; a gas gives work back, as a spring does."""
    volume, s = sol.states["volume"][:, 0], sol.states["heat"][:, 0]
    energy = 600.0 * np.exp(s / 2.0) * (START / volume) ** (GAMMA - 1)
    np.testing.assert_allclose(sol.total, sol.kinetic + energy, rtol=1e-12)
    assert dict(sol.labels.storage_kinds)["chamber"] == "fluid"


def test_components_see_absolute_pressures():
    e = {"volume": jnp.array([-2e4])}
    assert float(Efforts(e, jnp.asarray(THETA0), jnp.asarray(PI0)).pressure("volume")) == PI0 + 2e4
    assert float(Efforts(e, jnp.asarray(THETA0)).pressure("volume")) == 2e4


def test_configs_and_parameters_have_the_pressure(tmp_path, model):
    file = tmp_path / "air.yaml"
    environment = "environment: {temperature: 290.0, pressure: 90000.0}\n"
    file.write_text(f"schema: jmbs/1\n{environment}stores:\n  oil: {{type: thermal, capacity: 1}}\n", "utf-8")
    loaded = jmbs.load(file)
    assert (loaded.environment_temperature, loaded.environment_pressure) == (290.0, 9e4)
    assert mechanism_config(loaded)["environment"] == {"temperature": 290.0, "pressure": 9e4}
    assert model.parameters()["environment/pressure"]["unit"] == "Pa"
    assert "environment/pressure" not in jmbs.compile(gas_spring()).parameters()


@pytest.mark.parametrize("wrong", [-1.0, "high", float("nan")])
def test_a_wrong_pressure_is_refused(wrong, model):
    with pytest.raises(ModelError, match="environment/pressure"):
        jmbs.Mechanism(environment_pressure=wrong)
    with pytest.raises(ModelError, match="environment/pressure"):
        model.with_parameters({"environment/pressure": wrong})
    with pytest.raises(ModelError, match="environment/pressure"):
        jmbs.compile(gas_spring().system(), environment_pressure=wrong)
