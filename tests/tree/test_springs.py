"""Springs of the tree's joints, which need no reference semantics, against the general equations, which ask it; and
forward Jacobians with springs and other components."""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from quick import quick_jit

import jmbs
from jmbs.library.mechanics import TableSpec
from jmbs.simulation.formulation import formulation_of
from jmbs.tree import (
    OpenTree,
    TreeWithGears,
    TreeWithLoops,
)
from jmbs.tree.couplings import all_forces
from jmbs.tree.reactions import seen
from jmbs.tree.tree_with_constraints import TreeWithConstraints

GRAVITY = (0.0, 0.0, -9.81)
INERTIA = {"inertia": [0.02, 0.03, 0.015]}


class Hardening(eqx.Module):
    """A law of a user: `V = 1/4 stiffness q^4`."""

    stiffness: Array

    def energy(self, q):
        return 0.25 * self.stiffness * jnp.sum(q**4)


def arm() -> jmbs.Mechanism:
    """A hinge with friction, a ball joint and a hinge by a law, all with springs, and a hinge without."""
    m = jmbs.Mechanism("arm", gravity=GRAVITY)
    back, front = {"position": [-0.2, 0.0, 0.05]}, {"position": [0.2, 0.1, 0.0]}
    springs = {
        "shoulder": {"stiffness": 3.0, "rest": 0.2},
        "elbow": {"stiffness": [2.0, 1.0, 0.5]},
        "wrist": Hardening(jnp.asarray(4.0)),
        "finger": None,
    }
    parent = "ground"
    for name, spring in springs.items():
        m.add_body(name, mass=0.8, **INERTIA)
        kind = {"type": "spherical"} if name == "elbow" else {"type": "revolute", "axis": [0.0, 1.0, 0.2]}
        more = {} if spring is None else {"spring": spring}
        more |= {"friction": {"viscous": 0.1}} if name == "shoulder" else {}
        m.add_joint(f"{name}_joint", kind.pop("type"), parent, name, front, back, **kind, **more)
        parent = name
    m.set_initial(joints={"shoulder_joint": {"q": [0.4], "v": [1.0]}, "wrist_joint": {"q": [0.5], "v": [-0.7]}})
    m.set_initial(joints={"elbow_joint": {"q": [0.8, 0.36, -0.48, 0.0], "v": [0.3, -0.4, 0.8]}})
    return m


def wheels() -> jmbs.Mechanism:
    """Two wheels that a gear binds, one on a spring."""
    m = jmbs.Mechanism("wheels", gravity=GRAVITY)
    for name, spring in (("input", {"stiffness": 2.0}), ("output", None)):
        m.add_body(name, mass=1.0, **INERTIA)
        more = {} if spring is None else {"spring": spring}
        m.add_joint(f"{name}_shaft", "revolute", "ground", name, axis=[0.0, 0.0, 1.0], **more)
    m.add_constraint("mesh", "gear", joint="output_shaft", driver="input_shaft", ratio=-2.0)
    m.set_initial(joints={"input_shaft": {"q": [0.3], "v": [0.5]}})
    return m


def loop() -> jmbs.Mechanism:
    """A crank on a spring, a rod and a rocker, which close a loop."""
    m = jmbs.Mechanism("loop", gravity=GRAVITY)
    Y = [0.0, 1.0, 0.0]
    for name in ("crank", "rod", "rocker"):
        m.add_body(name, mass=0.5, **INERTIA)
    ends = [{"position": [x, 0.0, 0.0]} for x in (-0.5, 0.5)]
    m.add_joint("bearing", "revolute", "ground", "crank", None, ends[0], axis=Y, spring={"stiffness": 5.0})
    m.add_joint("crank_pin", "revolute", "crank", "rod", ends[1], ends[0], axis=Y, friction={"viscous": 0.1})
    m.add_joint("foot", "revolute", "ground", "rocker", {"position": [1.0, 0.0, 0.0]}, ends[0], axis=Y)
    m.add_joint("rocker_pin", "revolute", "rod", "rocker", ends[1], ends[1], axis=Y)
    m.set_initial(joints={"bearing": {"q": [-1.2], "v": [1.0]}})
    return m


def geared_loop() -> jmbs.Mechanism:
    """The loop with a wheel that a gear binds to its crank."""
    m = loop()
    m.add_body("output", mass=1.0, **INERTIA)
    m.add_joint("output_shaft", "revolute", "ground", "output", [0.0, 0.0, 0.1], [0.02, 0.0, 0.0], axis=[0.0, 1.0, 0.0])
    m.add_constraint("mesh", "gear", joint="output_shaft", driver="bearing", ratio=-2.0)
    return m


def tied_wheels() -> jmbs.Mechanism:
    return _tied(wheels())


def tied_geared_loop() -> jmbs.Mechanism:
    return _tied(geared_loop())


def _tied(m: jmbs.Mechanism) -> jmbs.Mechanism:
    """With a spring and damper at the output, a load, a user's force, and a store of heat."""
    m.add_spring_damper("tie", "ground", "output", [0.5, 0.0, 0.3], [0.0, 0.2, 0.1], stiffness=20.0, damping=0.3)
    m.add_load("wind", next(iter(m.bodies)), [0.1, 0.0, 0.0], force=[0.0, 2.0, 1.0])
    m.add_force("drag", "output", lambda t, pose, velocity: -0.1 * velocity * jnp.abs(velocity))
    m.add_store("oil", 50.0)
    more = {"friction": {"viscous": 0.2, "heats": "oil", "temperature_coefficient": 0.01}}
    m.joints["output_shaft"] = dataclasses.replace(m.joints["output_shaft"], **more)
    return m


MECHANISMS = {
    "arm": (arm, OpenTree, True),
    "wheels": (wheels, TreeWithGears, True),
    "tied wheels": (tied_wheels, TreeWithGears, False),
    "loop": (loop, TreeWithLoops, True),
    "geared loop": (geared_loop, TreeWithLoops, True),
    "tied geared loop": (tied_geared_loop, TreeWithLoops, False),
}


@pytest.mark.parametrize(
    "name", ["arm", *(pytest.param(name, marks=pytest.mark.slow) for name in MECHANISMS if name != "arm")]
)
def test_rates_forces_and_reactions_are_those_of_the_general_equations(name):
    make, kind, alone = MECHANISMS[name]
    model = jmbs.compile(make())

    @quick_jit
    def both(model, state):
        formulation = formulation_of(model)
        own, y = formulation.dae, formulation.start(state)
        assert isinstance(own, kind) and own.layout.springs and (own.alone is not None) == alone
        other = TreeWithConstraints if own.layout.other_rows.size else OpenTree
        layout = dataclasses.replace(own.layout, alone=None)
        general = other(own.reference, own.links, own.splits, layout, False)
        forces, loads = own.forces(0.0, y)
        loads = jnp.zeros((len(own.layout.body_slots), 6)) if loads is None else loads
        rates = [dae.rates(0.0, y) for dae in (own, general)]
        return [
            (rates[i], seen(dae, 0.0, y, rates[0].velocity), ((forces, loads), all_forces(dae, 0.0, y))[i])
            for i, dae in enumerate((own, general))
        ]

    found, wanted = map(jax.tree.leaves, both(model, model.initial_state()))
    assert np.max(np.abs(found[0])) > 1.0
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


def bushing() -> jmbs.Model:
    """A link on a ball joint, and on a spring between frames whose joint closes a loop without a row."""
    m = jmbs.Mechanism(gravity=GRAVITY)
    m.add_body("link", 1.0, **INERTIA)
    m.add_joint("pivot", "spherical", "ground", "link", child_frame={"position": [0, 0.1, 0.3]})
    spring = {"stiffness": [1.0, 2.0, 1.5, 30.0, 20.0, 40.0], "rest": [0, 0, 0, 1, 0, 0, 0]}
    m.add_joint("bushing", "free", "ground", "link", spring=spring)
    return m.compile()


@pytest.mark.slow
def test_a_free_joint_beside_others_binds_nothing():
    """Saved times could not be observed in the tree."""

    @quick_jit
    def at_start(model, state):
        formulation = formulation_of(model)
        own, y = formulation.dae, formulation.start(state)
        found = seen(own, 0.0, y, own.rates(0.0, y).velocity)
        return found.multipliers, own.reference.rates(0.0, found.x).multipliers

    model = bushing()
    found, wanted = at_start(model, quick_jit(lambda model: model.initial_state())(model))
    assert np.max(np.abs(found)) > 1.0
    np.testing.assert_allclose(found, wanted, atol=1e-9)


@pytest.mark.slow
def test_a_run_beside_a_free_joint_is_that_of_the_absolute_formulation():
    model, run = bushing(), {"ts": [0.0, 0.05], "dt": 0.01, "solver": "rk4"}
    tree, absolute = (
        quick_jit(lambda model, name=name: jmbs.simulate(model, formulation=name, **run))(model)
        for name in ("tree", "absolute")
    )
    for joint in ("pivot", "bushing"):
        np.testing.assert_allclose(tree.q[joint], absolute.q[joint], atol=1e-10)
        np.testing.assert_allclose(tree.reaction[joint], absolute.reaction[joint], atol=1e-9)
    np.testing.assert_allclose(tree.total, absolute.total, atol=1e-10)


def tied() -> jmbs.Mechanism:
    """The arm with a spring and damper between two points, a load of a table, a user's force, and a store of heat."""
    m = arm()
    m.add_spring_damper("tie", "ground", "wrist", [0.5, 0.0, 0.3], [0.0, 0.0, 0.1], stiffness=20.0, damping=0.3)
    m.add_load("wind", "elbow", force=TableSpec([0.0, 0.1], [[0.0, 0.0, 0.0], [0.0, 2.0, 1.0]]))
    m.add_force("drag", "finger", lambda t, pose, velocity: -0.1 * velocity * jnp.abs(velocity))
    m.add_store("bearing", 50.0)
    more = {"friction": {"viscous": 0.2, "heats": "bearing", "temperature_coefficient": 0.01}}
    m.joints["wrist_joint"] = dataclasses.replace(m.joints["wrist_joint"], **more)
    return m


ARM = ("shoulder_joint/spring/stiffness", "shoulder_joint/spring/rest", "elbow_joint/spring/stiffness")
JACOBIANS = {
    "arm": (arm, OpenTree, True, ARM),
    "tied": (tied, OpenTree, False, ("tie/stiffness", "wrist_joint/friction/viscous", "elbow/mass", *ARM)),
    "wheels": (wheels, TreeWithGears, True, ("mesh/ratio", "input/mass", "input_shaft/spring/stiffness")),
    "tied wheels": (tied_wheels, TreeWithGears, False, ("mesh/ratio", "tie/stiffness", "output/mass")),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", JACOBIANS)
def test_forward_jacobians_are_the_direct_ones(name, monkeypatch):
    """With gears as in long runs."""
    monkeypatch.setattr("jmbs.simulation.integrate.LONG_RUN", 1)
    make, kind, alone, names = JACOBIANS[name]
    model = jmbs.compile(make())
    dae = formulation_of(model).dae
    assert isinstance(dae, kind) and (dae.alone is not None) == alone
    values = {name: jnp.asarray(model.parameters()[name]["value"]) for name in names}

    def outputs(adjoint):
        def run(theta):
            changed = {name: value * theta[k] for k, (name, value) in enumerate(values.items())}
            settings = {"ts": np.linspace(0, 0.05, 4), "dt": 1e-3, "solver": "rk4", "audit": False, "throw": False}
            return jmbs.simulate(model.with_parameters(changed), **settings, adjoint=adjoint).position

        return jax.jit(lambda theta: (run(theta), jax.jacfwd(run)(theta)))(jnp.ones(len(names)))

    for found, wanted in zip(*(jax.tree.leaves(outputs(a)) for a in ("forward", "direct")), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-11)
