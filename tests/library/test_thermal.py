"""Conduction between stores and to the environment, alone and in a mechanism, and friction that heat changes."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from documents import run_examples
from library.laws import assert_second_law
from library.random_states import THETA0
from quick import quick_jit

import jmbs
from jmbs import Mechanism, ModelError
from jmbs.ephs import Efforts, Quantity, flatten
from jmbs.io.config import read_config
from jmbs.library.mechanics.friction import Friction, TemperatureDependentFriction, viscous_friction
from jmbs.library.thermal import Conduction, convection
from jmbs.lie import Rn
from jmbs.simulation.mechanics import component

MOMENTUM = Quantity(Rn(1), "momentum")
DRY = [jnp.array([value]) for value in (0.7, 2.0, 3.5, 0.4, 0.05)]
FRICTION = {
    "viscous": viscous_friction([0.7], MOMENTUM),
    "dry": Friction(*DRY, momentum=MOMENTUM, groups=((0,),)),
}


def test_conduction_obeys_both_laws():
    assert_second_law(Conduction(3.0))


def test_heat_flows_from_hot_to_cold():
    hot, cold, conductance = 350.0, 310.0, 2.0
    efforts = {"s1": jnp.array([hot - THETA0]), "s2": jnp.array([cold - THETA0])}
    flows = Conduction(conductance).onsager({}, Efforts(efforts, jnp.asarray(THETA0)))
    flows = flows @ jnp.concatenate(list(efforts.values())) / THETA0
    heat = conductance * (hot - cold)
    np.testing.assert_allclose(flows, [heat / hot, -heat / cold], rtol=1e-13)


@pytest.mark.parametrize("value", [-1.0, float("nan"), "much"])
def test_a_wrong_conductance_is_refused(value):
    with pytest.raises(ModelError, match="conduction/conductance"):
        Conduction(value)


@pytest.fixture(scope="module")
def example():
    return run_examples("components/thermal.md")


def test_two_stores_meet_at_their_mean(example):
    sol, (c1, t1), (c2, t2), conductance = example["sol"], (5.0, 350.0), (10.0, 300.0), 2.0
    decay = np.exp(-conductance * (1 / c1 + 1 / c2) * np.asarray(sol.ts))
    mean = (c1 * t1 + c2 * t2) / (c1 + c2)
    hot, cold = mean + (t1 - mean) * decay, mean + (t2 - mean) * decay
    np.testing.assert_allclose(sol.temperature["hot"], hot, rtol=0, atol=1e-9)
    np.testing.assert_allclose(sol.temperature["cold"], cold, rtol=0, atol=1e-9)
    entropy = c1 * np.log(hot / t1) + c2 * np.log(cold / t2)
    np.testing.assert_allclose(sol.entropy_produced, entropy, rtol=0, atol=1e-9)
    np.testing.assert_allclose(sol.destroyed["wall"], 290.0 * entropy, rtol=0, atol=1e-9)
    # The stores' exergy is all that there is to destroy, and energy is conserved.
    lost = sum(value[0] - value for value in sol.stored.values())
    np.testing.assert_allclose(lost, sol.destroyed["wall"], rtol=0, atol=1e-9)
    np.testing.assert_allclose(sol.first_law_residual, 0.0, atol=1e-8)


# -- in a mechanism ---------------------------------------------------------------------------------------------------


def store_mechanism():
    m = Mechanism("stores", environment_temperature=THETA0)
    m.add_store("winding", 5.0, 360.0)
    m.add_store("housing", 20.0, 310.0)
    m.add_conduction("insulation", "winding", "housing", 1.5)
    m.add_conduction("cooling", "environment", "housing", 0.8)
    return m


def test_conductions_of_a_mechanism():
    """Both heat flows into the stores, either way round, and parameters by name."""
    model = jmbs.compile(store_mechanism())
    assert {"insulation/conductance", "cooling/conductance"} < model.parameters().keys()
    model = model.with_parameters({"insulation/conductance": 2.0})
    rates = quick_jit(lambda model, state: model.dynamics(0.0, state))(model, model.initial_state())
    plan = model.dae.plan
    found = {name: float(rates.velocity[plan.slots[plan.junction_of[name, "s"]]][0]) for name in ("winding", "housing")}
    between, out = 2.0 * (360.0 - 310.0), 0.8 * (310.0 - THETA0)
    assert found["winding"] == pytest.approx(-between / 360.0, rel=1e-12)
    assert found["housing"] == pytest.approx((between - out) / 310.0, rel=1e-12)


@pytest.mark.parametrize(
    ("ends", "found"),
    [(("winding", "wall"), "wall"), (("winding", "winding"), "winding"), (("ground", "winding"), "ground")],
)
def test_conduction_between_wrong_ends_is_refused(ends, found):
    m = store_mechanism()
    with pytest.raises(ModelError, match=rf"elements/leak/[ab]: found '?{found}"):
        m.add_conduction("leak", *ends, 1.0)
        m.validate()


def test_convection_is_conduction_to_the_environment():
    flat = flatten(convection(2.0))
    assert sorted(flat.components) == ["conduction", "env"]
    assert [sorted(j.ports) for j in flat.junctions] == [[("conduction", "s2"), ("env", "s")], [("conduction", "s1")]]


# -- friction that depends on temperature ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", FRICTION)
def test_friction_thins_and_keeps_both_laws(name):
    warm = TemperatureDependentFriction(FRICTION[name], jnp.asarray(0.02), jnp.asarray(300.0))
    assert_second_law(warm)
    at = lambda theta: Efforts({"p_r": jnp.array([0.3]), "s": jnp.array([theta - THETA0])}, jnp.asarray(THETA0))  # noqa: E731
    force = lambda component, theta: float(component.onsager({}, at(theta))[0, 0] / theta)  # noqa: E731
    assert force(warm, 300.0) == pytest.approx(force(FRICTION[name], 300.0), rel=1e-14)
    assert force(warm, 350.0) == pytest.approx(np.exp(-1.0) * force(FRICTION[name], 350.0), rel=1e-14)


def hinge(**friction):
    m = Mechanism("hinge", gravity=(0.0, 0.0, 0.0))
    m.add_body("rotor", mass=1.0, inertia=[0.1, 0.1, 0.1])
    m.add_store("bearing", 5.0, 340.0)
    m.add_joint("axle", "revolute", "ground", "rotor", friction={"heats": "bearing", **friction})
    m.set_initial(joints={"axle": {"v": 3.0}})
    return m


def test_a_warm_joint_brakes_less():
    """The friction of a mechanism's joint against the formula, with parameters changed by their names."""
    m = hinge(viscous=0.2, temperature_coefficient=0.03, reference_temperature=300.0, coulomb=0.5)
    model = jmbs.compile(m)
    names = {"viscous", "coulomb", "temperature_coefficient", "reference_temperature"}
    assert {f"axle/friction/{name}" for name in names} < model.parameters().keys()
    model = model.with_parameters({"axle/friction/viscous": 0.3, "axle/friction/temperature_coefficient": 0.02})
    efforts = Efforts({"p_r": jnp.array([3.0]), "s": jnp.array([340.0 - THETA0])}, jnp.asarray(THETA0))
    M = component(model.dae, "axle/mf").onsager({}, efforts)
    torque = np.exp(-0.02 * 40.0) * (0.3 * 3.0 + 0.5)
    flows = M @ jnp.concatenate(list(efforts.values())) / THETA0
    np.testing.assert_allclose(flows, [torque, -3.0 * torque / 340.0], rtol=1e-12)


def test_friction_without_a_coefficient_stays_light():
    model = jmbs.compile(hinge(viscous=0.2))
    assert "axle/friction/temperature_coefficient" not in model.parameters()


@pytest.mark.parametrize(("key", "value"), [("temperature_coefficient", "a"), ("reference_temperature", 0.0)])
def test_wrong_temperatures_of_friction_are_refused(key, value):
    with pytest.raises(ModelError, match=f"joints/axle/friction/{key}"):
        hinge(**{key: value})


# -- in a config ------------------------------------------------------------------------------------------------------


def test_a_config_says_the_same(configs):
    m = jmbs.load(configs / "motor_slider_crank.yaml")
    fan, friction = m.conductions["fan"], m.joints["axle"].friction
    assert (fan.a, fan.b, fan.conductance) == ("winding", "environment", 0.2)
    assert (friction.temperature_coefficient, friction.reference_temperature) == (0.02, 298.15)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("elements.fan.conductance=-1", "elements/fan/conductance: found -1"),
        ("elements.fan.b=wall", "elements/fan/b: found 'wall', wanted environment or the name of a store"),
        ("elements.fan.type=conducton", "elements/fan/type: found 'conducton', wanted conduction"),
        ("joints.axle.friction.temperature_coefficient=warm", "temperature_coefficient: found 'warm'"),
    ],
)
def test_wrong_configs_are_refused(configs, override, message):
    with pytest.raises(ModelError, match=message):
        read_config(configs / "motor_slider_crank.yaml", [override])
