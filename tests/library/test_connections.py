"""Systems beside a mechanism: ports joined by connections, driven, started where they are told, and refused."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from quick import balance, dynamics

import jmbs
from jmbs.ephs import System, pattern, power_port, state_port
from jmbs.errors import ModelError
from jmbs.library.mechanics import TableSpec
from jmbs.lie import Rn

FLUX, SHAFT, CHARGE = (power_port(Rn(1), name) for name in ("flux_linkage", "relative_momentum_R1", "charge"))


class Coil(eqx.Module):
    inductance: float

    @property
    def ports(self):
        return {"i": FLUX}

    def energy(self, x):
        return 0.5 * x["i"][0] ** 2 / self.inductance


class Gyrator(eqx.Module):
    """Torque `k i`, back electromotive force `k omega`."""

    constant: float

    @property
    def ports(self):
        return {"i": FLUX, "shaft": SHAFT}

    def structure(self, x):
        del x
        return self.constant * jnp.array([[0.0, 1.0], [-1.0, 0.0]]), None


class Reader(eqx.Module):
    """Carries a charge port and reads one: without a storage it has no meaning."""

    @property
    def ports(self):
        return {"q": CHARGE, "x": state_port(Rn(1), "charge")}

    def structure(self, x):
        del x
        return jnp.zeros((1, 1)), None


def flywheel(damping=0.0):
    mechanism = jmbs.Mechanism("flywheel", gravity=(0.0, 0.0, 0.0))
    mechanism.add_body("wheel", mass=1.0, inertia=[0.1, 0.1, 0.2])
    mechanism.add_joint("hinge", "revolute", "ground", "wheel", axis=(0, 0, 1), friction={"viscous": damping})
    return mechanism


def motor():
    """Coil and gyrator in one pattern, with the supply and the shaft exposed."""
    boxes = {"coil": Coil(0.5), "emf": Gyrator(0.3)}
    interfaces = {name: box.ports for name, box in boxes.items()}
    wiring = pattern(interfaces, {"i": "coil.i emf.i", "shaft": "emf.shaft"}, outer={"supply": "i", "shaft": "shaft"})
    return System(wiring, boxes)


def driven():
    mechanism = flywheel()
    mechanism.add_system("motor", motor())
    mechanism.connect("shaft", ["motor.shaft", "hinge.p_r"])
    mechanism.connect("supply", ["motor.supply"], flow=lambda t: 2.0 * jnp.cos(t))
    mechanism.set_initial(joints={"hinge": {"v": [1.5]}}, states={"motor/i": 0.25})
    return mechanism


@pytest.fixture(scope="module")
def model():
    return jmbs.compile(driven())


@pytest.mark.slow
def test_a_motor_turns_a_joint(model):
    """The states that were given, and the rates that `L di/dt = V - k w`, `J dw/dt = k i` ask for."""
    state = model.initial_state()
    np.testing.assert_allclose(state["motor/i"], [0.25], rtol=1e-14)
    np.testing.assert_allclose(state["wheel/p"][:3], [0.0, 0.0, 1.5], atol=1e-14)
    rates = dynamics(model, 0.4, state)
    plan = model.dae.plan
    current = 0.25 / 0.5
    np.testing.assert_allclose(rates.velocity[plan.slots["motor/i"]], 2.0 * np.cos(0.4) - 0.3 * 1.5, rtol=1e-13)
    np.testing.assert_allclose(rates.velocity[plan.slots["wheel/p"]][2], 0.3 * current, rtol=1e-13)
    np.testing.assert_allclose(rates.power.supplied, 2.0 * np.cos(0.4) * current, rtol=1e-13)


def test_the_balance_closes_at_every_port(model):
    found = balance(model, 0.4, model.initial_state())
    for name, residual in found.junction.items():
        assert np.all(np.abs(residual) <= 1e-13 * (1e-3 + found.flow_size[name])), name
    stored = {"motor/coil", "wheel/ke", "wheel/pe", "hinge/pe"}
    for path, power in found.power.items():
        assert path in stored or abs(float(power)) < 1e-13, path
    supplied = 2.0 * np.cos(0.4) * 0.5
    np.testing.assert_allclose(sum(float(found.power[path]) for path in stored), supplied, rtol=1e-12)


def test_parameters_and_inputs_of_systems(model):
    assert {"motor/coil/inductance", "motor/emf/constant", "initial/motor/i"} <= set(model.parameters())
    changed = model.with_parameters({"motor/coil/inductance": 1.0, "initial/motor/i": 0.5})
    state = changed.initial_state()
    np.testing.assert_allclose(dynamics(changed, 0.0, state).velocity[changed.dae.plan.slots["wheel/p"]][2], 0.15)
    still = jmbs.simulation.with_inputs(model, {"supply": 0.0})
    np.testing.assert_allclose(dynamics(still, 0.0, state).power.supplied, 0.0)


def test_a_prescribed_speed():
    """An effort at the joint's port turns the wheel as told; its power is supplied, and assembly starts it so."""
    mechanism = flywheel(damping=0.7)
    mechanism.connect("spin", ["hinge.p_r"], effort=lambda t: 2.0 + jnp.sin(3.0 * t))
    model = jmbs.compile(mechanism)
    state = model.initial_state()
    np.testing.assert_allclose(state["wheel/p"][2], 2.0, rtol=1e-13)
    rates = dynamics(model, 0.0, state)
    acceleration = rates.velocity[model.dae.plan.slots["wheel/p"]][2] / 0.2
    np.testing.assert_allclose(acceleration, 3.0, rtol=1e-12)
    np.testing.assert_allclose(rates.power.supplied, (0.2 * 3.0 + 0.7 * 2.0) * 2.0, rtol=1e-12)


def test_a_table_drives_a_port():
    mechanism = flywheel()
    mechanism.connect("push", "hinge.p_r", flow=TableSpec([0.0, 2.0], [[0.0], [4.0]]))
    model = jmbs.compile(mechanism)
    rates = dynamics(model, 0.5, model.initial_state())
    np.testing.assert_allclose(rates.velocity[model.dae.plan.slots["wheel/p"]][2], 1.0, rtol=1e-13)


def test_systems_without_a_body():
    mechanism = jmbs.Mechanism("coil")
    mechanism.add_system("coil", Coil(2.0))
    mechanism.connect("supply", "coil.i", flow=3.0)
    sol = jmbs.simulate(jmbs.compile(mechanism), t1=1.0, save_every=0.5, dt=0.5, solver="rk4")
    np.testing.assert_allclose(sol.states["supply"][:, 0], [0.0, 1.5, 3.0], rtol=1e-14)
    np.testing.assert_allclose(sol.supplied[-1], 3.0**2 / 4.0, rtol=1e-14)
    np.testing.assert_allclose(sol.stored["coil"][-1], sol.supplied[-1], rtol=1e-14)


def refusal(build):
    with pytest.raises(ModelError) as caught:
        build()
    return caught.value.path, caught.value.found, caught.value.wanted


def connected(*ports, name="wire", **drive):
    mechanism = driven()
    mechanism.connect(name, list(ports), **drive)
    return mechanism.system()


@pytest.mark.parametrize(
    ("build", "path", "found", "wanted"),
    [
        (lambda: connected("moter.shaft"), "connections/wire", "moter", "nearest known is motor"),
        (lambda: connected("motor.shft"), "connections/wire", "motor.shft", "nearest known is shaft"),
        (lambda: connected("motor.supply", "hinge.p_r"), "junctions/", "flux_linkage", "equal quantities"),
        (lambda: connected("hinge.p_r", name="shaft"), "connections/shaft", "already", "only once"),
        (lambda: connected("hinge.p_r", flow=1.0, effort=1.0), "connections/wire", "both", "one of them"),
        (lambda: connected("hinge.p_r", flow=[1.0, 2.0]), "connections/wire/flow", "[1.0, 2.0]", "a number"),
        (lambda: driven().add_system("wheel", Coil(1.0)), "systems/wheel", "already that of a body", "only once"),
        (lambda: driven().add_system("thing", 3.0), "systems/thing", "float", "one of energy"),
        (lambda: jmbs.Mechanism("none").system(), "bodies", "none", "at least one body"),
    ],
)
def test_wrong_connections_are_refused(build, path, found, wanted):
    error = refusal(build)
    assert error[0].startswith(path) and found in error[1] and wanted in error[2], error


def test_a_wrong_state_is_refused():
    mechanism = driven()
    mechanism.set_initial(states={"motor/j": 1.0})
    path, found, wanted = refusal(lambda: jmbs.compile(mechanism))
    assert path == "initial/states/motor/j" and "no such state" in found and "motor/i" in wanted


def test_a_reader_without_a_storage_is_refused():
    mechanism = flywheel()
    mechanism.add_system("reader", Reader())
    path, found, _ = refusal(lambda: jmbs.compile(mechanism))
    assert path.startswith("junctions/reader") and "without a storage" in found
