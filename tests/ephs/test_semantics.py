"""The reference meaning of systems beyond mechanics, against closed forms: circuits with storage at every node."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from ephs.circuits import (
    FLUX,
    THETA0,
    Capacitor,
    Gear,
    Grounded,
    Inductor,
    Resistor,
    Solved,
    balanced,
    close,
    reference_rates,
    system,
)

from jmbs.ephs import Environment, FunctionEffort, FunctionFlow, Quantity, flatten, reference_dae
from jmbs.library.mechanics.elements import ThermalStore
from jmbs.library.mechanics.friction import viscous_friction
from jmbs.library.oscillator import MOMENTUM, Mass
from jmbs.lie import Rn


def test_rc():
    boxes = {"c": Capacitor(0.5), "r": Resistor(1 / 8.0), "env": Environment()}
    solved = Solved(system(boxes, {"x": "c.x r.x", "s": "r.s env.s"}), {"x": 3.0})
    voltage = 3.0 / 0.5
    close(solved.rate("x"), -voltage / 8.0)
    close(solved.rate("s"), voltage**2 / 8.0 / THETA0)
    close(solved.power.dissipated, voltage**2 / 8.0)
    balanced(solved)


def test_rlc():
    resistor = Resistor(7.0, port=FLUX, nodes=("y",))
    boxes = {"c": Capacitor(0.5), "l": Inductor(2.0), "link": Grounded(), "r": resistor, "env": Environment()}
    junctions = {"x": "c.x link.x", "y": "link.y l.y r.y", "s": "r.s env.s"}
    solved = Solved(system(boxes, junctions), {"x": 3.0, "y": -4.0})
    voltage, current = 6.0, -2.0
    close(solved.rate("x"), -current)
    close(solved.rate("y"), voltage - 7.0 * current)
    close(solved.power.dissipated, 7.0 * current**2)
    balanced(solved)
    assert solved.dae.kinematic


def test_a_current_source_charges_a_capacitor():
    drive = FunctionFlow(lambda t, view: 2.0 + jnp.atleast_1d(t) * view.effort("c", "x"))
    solved = Solved(system({"c": Capacitor(0.5)}, {"x": "c.x"}, ["x"], {"x": drive}), {"x": 3.0}, t=0.25)
    close(solved.rate("x"), 2.0 + 0.25 * 6.0)
    close(solved.power.supplied, 6.0 * (2.0 + 0.25 * 6.0))
    balanced(solved)


def test_heat_into_a_thermal_store_at_its_own_temperature():
    store = ThermalStore(jnp.asarray(4.0), jnp.asarray(350.0))
    boxes = {"c": Capacitor(0.5), "r": Resistor(1 / 8.0), "store": store}
    solved = Solved(system(boxes, {"x": "c.x r.x", "s": "r.s store.s"}), {"x": 3.0, "s": 0.6})
    theta = 350.0 * np.exp(0.6 / 4.0)
    close(solved.effort("s"), theta - THETA0)
    close(solved.rate("x"), -6.0 / 8.0)
    close(solved.rate("s"), 36.0 / 8.0 / theta)
    balanced(solved, theta)


@pytest.mark.parametrize("eliminate", [True, False])
def test_a_transformer_eliminated_or_kept_as_a_constraint(eliminate):
    boxes = {"c": Capacitor(0.5), "gear": Gear(3.0), "r": Resistor(1 / 8.0), "env": Environment()}
    flat = flatten(system(boxes, {"x": "c.x gear.a", "y": "gear.b r.x", "s": "r.s env.s"}))
    dae = reference_dae(flat, THETA0, jnp.float64, eliminate=eliminate)
    states = {"x": 3.0, "s": 0.0}
    x = tuple(jnp.array([[states[name]] for name in block.junctions]) for block in dae.plan.blocks)
    rates = reference_rates(dae, 0.0, x)
    close(rates.efforts[dae.plan.slots["y"]][0], 18.0)
    close(rates.velocity[dae.plan.slots["x"]][0], -3.0 * 18.0 / 8.0)
    close(rates.power.dissipated, 18.0**2 / 8.0)


def test_prescribed_effort_at_a_storage():
    boxes = {"c": Capacitor(0.5), "r": Resistor(1 / 8.0), "env": Environment()}
    built = system(
        boxes, {"x": "c.x r.x", "s": "r.s env.s"}, ["x"], {"x": FunctionEffort(lambda t: 6.0 + jnp.sin(4.0 * t))}
    )
    solved = Solved(built, {"x": 3.0})
    close(solved.rate("x"), 0.5 * 4.0)
    close(solved.power.supplied, 6.0 * (2.0 + 6.0 / 8.0))
    balanced(solved)


def test_prescribed_motion_of_a_mass():
    boxes = {"mass": Mass(jnp.asarray(3.0)), "damper": viscous_friction([2.0], MOMENTUM), "env": Environment()}
    drive = FunctionEffort(lambda t: 5.0 * t + 1.0)
    built = system(boxes, {"p": "mass.p damper.p_r", "s": "damper.s env.s"}, ["p"], {"p": drive})
    solved = Solved(built, {"p": 1.0})
    close(solved.rate("p"), 15.0)
    close(solved.power.supplied, 1.0 * (15.0 + 2.0))
    balanced(solved)


def test_a_quantity_has_a_readable_name():
    assert str(Quantity(Rn(1), "charge")) == "(R1, charge)"
