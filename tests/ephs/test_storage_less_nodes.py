"""Efforts that no storage holds and no constraint fixes: dampers in series, resistor networks, inductors at a node."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ephs.circuits import (
    CHARGE,
    THETA0,
    Branch,
    Capacitor,
    Grounded,
    Inductor,
    Resistor,
    Solved,
    Sum,
    balanced,
    close,
    dynamics,
    effort,
    reference_rates,
    system,
)
from quick import quick_jit

import jmbs
from jmbs.ephs import ConstantFlow, Environment, FunctionEffort, FunctionFlow, flatten, power_port, reference_dae
from jmbs.errors import ModelError
from jmbs.library.mechanics.body import PotentialKineticCoupling
from jmbs.library.mechanics.friction import viscous_friction
from jmbs.library.oscillator import DISPLACEMENT, MOMENTUM, Mass, Spring
from jmbs.lie import Rn


def maxwell(drive, stiffness=5.0, damping=2.0):
    """A spring and a damper in series, `v_spring + v_damper = v_end`, driven at the end."""
    boxes = {
        "spring": Spring(jnp.asarray(stiffness)),
        "pkc": PotentialKineticCoupling(DISPLACEMENT, MOMENTUM),
        "damper": viscous_friction([damping], MOMENTUM),
        "series": Sum(power_port(MOMENTUM.space, MOMENTUM.name)),
        "env": Environment(),
    }
    junctions = {
        "q": "spring.q pkc.q",
        "v_spring": "pkc.p series.a",
        "v_damper": "damper.p_r series.b",
        "v_end": "series.c",
        "s": "damper.s env.s",
    }
    return system(boxes, junctions, ["v_end"], {"v_end": drive})


@pytest.mark.slow
def test_maxwell_element_with_prescribed_velocity():
    solved = Solved(maxwell(FunctionEffort(lambda t: 3.0 + jnp.sin(t))), {"q": 0.4}, t=0.7)
    velocity, force = 3.0 + np.sin(0.7), 5.0 * 0.4
    close(solved.effort("v_damper"), force / 2.0)
    close(solved.rate("q"), velocity - force / 2.0)
    close(solved.effort("v_spring"), velocity - force / 2.0)
    close(solved.power.supplied, force * velocity)
    close(solved.power.dissipated, force**2 / 2.0)
    balanced(solved)
    assert not solved.dae.kinematic


def test_maxwell_element_with_prescribed_force():
    force, rate = 1.5 * np.cos(0.7), -1.5 * np.sin(0.7)
    drive = FunctionFlow(lambda t, view: 1.5 * jnp.cos(t))
    solved = Solved(maxwell(drive), {"q": force / 5.0}, t=0.7, compiled=False)
    # The spring follows the force at once, q = F / k, so its velocity asks for the rate of the force.
    close(solved.rate("q"), rate / 5.0)
    close(solved.effort("v_damper"), force / 2.0)
    close(solved.effort("v_end"), rate / 5.0 + force / 2.0)
    close(solved.power.supplied, force * (rate / 5.0 + force / 2.0))
    balanced(solved)


def test_maxwell_element_moved_by_a_mass():
    built = maxwell(None)
    boxes = {**built.boxes, "mass": Mass(jnp.asarray(3.0))}
    junctions = {"q": "spring.q pkc.q", "a": "pkc.p series.a", "b": "damper.p_r series.b", "p": "series.c mass.p"}
    solved = Solved(system(boxes, {**junctions, "s": "damper.s env.s"}), {"q": 0.4, "p": 6.0}, compiled=False)
    close(solved.rate("p"), -5.0 * 0.4)
    close(solved.rate("q"), 2.0 - 5.0 * 0.4 / 2.0)
    balanced(solved)


def test_gradients_run_through_the_solve():
    dae = reference_dae(flatten(maxwell(effort(3.0))), THETA0, jnp.float64, kinematic=False)
    batch, _ = dae.plan.member_of["spring"]
    x = tuple(jnp.full((1, 1), 0.0 if block.environment else 0.4) for block in dae.plan.blocks)

    def rate(stiffness):
        changed = eqx.tree_at(lambda d: d.components[batch].stiffness, dae, stiffness[None])
        return changed.rates(0.0, x).velocity[dae.plan.slots["q"]][0]

    close(quick_jit(jax.grad(rate))(jnp.asarray(5.0)), -0.4 / 2.0)


def divider(second, drive):
    first = Resistor(1 / 3.0, nodes=("a", "b"))
    boxes = {"r1": first, "r2": second, "env": Environment()}
    junctions = {"input": "r1.a", "middle": "r1.b r2.x", "s": "r1.s r2.s env.s"}
    return system(boxes, junctions, ["input"], {"input": drive})


def test_resistor_divider():
    solved = Solved(divider(Resistor(1 / 6.0), effort(12.0)))
    close(solved.effort("middle"), 12.0 * 6.0 / 9.0)
    close(solved.power.supplied, 12.0**2 / 9.0)
    close(solved.power.dissipated, 12.0**2 / 9.0)
    balanced(solved)


def test_resistor_divider_under_a_current():
    solved = Solved(divider(Resistor(1 / 6.0), ConstantFlow(jnp.array([2.0]))), compiled=False)
    close(solved.effort("middle"), 12.0)
    close(solved.effort("input"), 18.0)
    close(solved.power.supplied, 36.0)
    balanced(solved)


def test_a_nonlinear_divider_is_solved_to_rounding():
    flat = flatten(divider(Resistor(1 / 6.0, cubic=0.5), FunctionEffort(lambda t: t)))
    dae = reference_dae(flat, THETA0, jnp.float64, kinematic=False)
    voltages = jnp.array([0.0, 0.1, 40.0, -400.0])
    rates = eqx.filter_vmap(reference_rates, in_axes=(None, 0, None))(dae, voltages, (jnp.zeros((1, 1)),))
    middle = rates.efforts[:, dae.plan.slots["middle"][0]]
    current = (middle + 0.5 * middle**3) / 6.0
    np.testing.assert_allclose((voltages - middle) / 3.0, current, rtol=1e-11)
    np.testing.assert_allclose(rates.power.supplied, voltages * current, rtol=1e-11)
    np.testing.assert_allclose(rates.power.dissipated, voltages * current, rtol=1e-11)


def two_inductors(drive=None):
    """1 H from the input to a node, 2 H from there to earth."""
    boxes = {"l1": Inductor(1.0), "l2": Inductor(2.0), "b1": Branch(), "b2": Grounded()}
    junctions = {"input": "b1.a", "node": "b1.b b2.x", "y1": "b1.y l1.y", "y2": "b2.y l2.y"}
    return system(boxes, junctions, ["input"], {"input": drive or effort(12.0)})


def test_two_inductors_meet_at_a_node():
    solved = Solved(two_inductors())
    close(solved.rate("y1"), 4.0)
    close(solved.rate("y2"), 8.0)
    close(solved.effort("node"), 8.0)
    close(solved.power.supplied, 0.0)
    model = solved.model
    rates = dynamics(model, 0.0, model.initial_state().replace("y1", 1.5).replace("y2", 3.0))
    np.testing.assert_allclose(rates.velocity, solved.rates.velocity, rtol=1e-11)
    close(rates.power.supplied, 12.0 * 1.5)


def test_two_capacitors_joined_by_a_constraint():
    """Dual to the inductors at a node: a row on stored efforts alone, `V_1 + V_2 = V_source`."""
    boxes = {"c1": Capacitor(1.0), "c2": Capacitor(2.0), "loop": Sum(CHARGE)}
    junctions = {"x1": "c1.x loop.a", "x2": "c2.x loop.b", "source": "loop.c"}
    drive = FunctionEffort(lambda t: 6.0 + 3.0 * t)
    solved = Solved(system(boxes, junctions, ["source"], {"source": drive}), {"x1": 2.0, "x2": 8.0})
    close(solved.rate("x1"), 2.0)
    close(solved.rate("x2"), 2.0)
    close(solved.power.supplied, 12.0)
    balanced(solved)


# -- what nothing determines ------------------------------------------------------------------------------------------


def refuse(built, junctions):
    with pytest.raises(ModelError) as caught:
        jmbs.compile(built)
    assert caught.value.path in {f"junctions/{name}" for name in junctions}
    assert "nothing determines" in str(caught.value.found)


def test_a_floating_resistor_is_refused_by_junction():
    boxes = {"r": Resistor(1 / 3.0, nodes=("a", "b")), "env": Environment()}
    refuse(system(boxes, {"left": "r.a", "right": "r.b", "s": "r.s env.s"}), ("left", "right"))


def test_an_unconnected_effort_is_refused_beside_determined_ones():
    boxes = {**divider(Resistor(1 / 6.0), effort(1.0)).boxes, "loose": Sum(power_port(Rn(1), "flux_linkage"))}
    junctions = {"input": "r1.a", "middle": "r1.b r2.x", "s": "r1.s r2.s env.s"}
    junctions |= {"one": "loose.a", "two": "loose.b", "three": "loose.c"}
    refuse(system(boxes, junctions, ["input"], {"input": effort(1.0)}), ("one", "two", "three"))
