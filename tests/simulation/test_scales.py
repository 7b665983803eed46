"""Constraints between bodies of very different size: units do not matter, light bodies do not loosen what holds heavy
ones, and a run whose constraints are not met has not finished."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quick import quick_jit

import jmbs
from jmbs.simulation import members, status_name

LENGTHS = {"crank": 0.3, "coupler": 0.9, "rocker": 0.6}


@pytest.fixture(scope="module")
def four_bar() -> jmbs.Model:
    """In a plane, so three of its rows say what others say."""
    return mechanism().compile()


def mechanism() -> jmbs.Mechanism:
    made = jmbs.Mechanism("four_bar")
    for name, length in LENGTHS.items():
        made.add_body(name, length, [length**3 / 120, length**3 / 12, length**3 / 12])
    ends = {"a": ("ground", "crank", 0.0, -0.15), "b": ("crank", "coupler", 0.15, -0.45)}
    ends |= {"d": ("ground", "rocker", 0.8, -0.3), "c": ("coupler", "rocker", 0.45, 0.3)}
    for name, (parent, child, before, after) in ends.items():
        friction = {"viscous": 0.01} if name == "a" else None
        made.add_joint(
            name, "revolute", parent, child, [before, 0, 0], [after, 0, 0], axis=[0, 1, 0], friction=friction
        )
    guesses = {"b": {"q": jmbs.guess([0.6])}, "d": {"q": jmbs.guess([-1.3])}}
    made.set_initial(joints={"a": {"q": [-1.0], "v": [2.0]}} | guesses)
    return made


def scaled(model: jmbs.Model, length: Any, rocker: Any) -> jmbs.Model:
    """Lengths and gravity, and so inertias, by one factor, which leaves the motion as it is; the rocker by another."""
    given = {path: jnp.asarray(row["value"]) for path, row in model.parameters().items()}
    lengths = {path for path in given if path.endswith("/position")} | {"gravity"}
    values = {path: given[path] * length for path in lengths}
    values["a/friction/viscous"] = given["a/friction/viscous"] * length**2
    for body in LENGTHS:
        own = rocker if body == "rocker" else 1.0
        values[f"{body}/mass"] = given[f"{body}/mass"] * own
        values[f"{body}/inertia"] = given[f"{body}/inertia"] * own * length**2
    return model.with_parameters(values)


@pytest.mark.parametrize(
    ("formulation", "at_last"),
    [("tree", "successful"), pytest.param("absolute", "constraints_violated", marks=pytest.mark.slow)],
)
def test_units_and_light_bodies(four_bar, formulation, at_last):
    """All joints as constraints, a rocker that weighs nearly nothing is beyond what the precision holds."""

    def run(length, rocker):
        settings = {"ts": [0.0, 0.1, 0.2], "dt": 0.004, "solver": "rk4", "formulation": formulation}
        sol = jmbs.simulate(scaled(four_bar, length, rocker), **settings, audit=False)
        return sol.q["a"][:, 0], sol.status

    lengths, rockers = jnp.array([1.0, 1e-3, 1.0, 1.0, 1.0]), jnp.array([1.0, 1.0, 1e-5, 1e-7, 1e-14])
    angles, status = quick_jit(lambda *given: jmbs.map_batch(lambda pair: run(*pair), given))(lengths, rockers)
    names = [status_name(one) for one in members(status)]
    np.testing.assert_allclose(angles[1], angles[0], atol=1e-10)
    np.testing.assert_allclose(angles[3], angles[2], atol=1e-5)
    assert names == [*["successful"] * 4, at_last]


@pytest.mark.slow
@pytest.mark.parametrize("formulation", ["tree", "absolute"])
def test_reactions_of_micrometres(four_bar, formulation):
    """Gravity is as small as lengths are, so forces are too, and torques once more."""

    def reactions(length):
        settings = {"ts": [0.0, 0.004], "dt": 0.004, "solver": "rk4", "formulation": formulation}
        sol = jmbs.simulate(scaled(four_bar, length, 1.0), **settings)
        return jnp.stack([sol.reaction[joint][-1] for joint in "abcd"])

    lengths = jnp.array([1.0, 1e-4, 1e-6])
    found = quick_jit(lambda lengths: jmbs.map_batch(reactions, lengths))(lengths)
    units = lengths[:, None, None] ** jnp.array([2.0, 2.0, 2.0, 1.0, 1.0, 1.0])
    assert np.max(np.abs(found[0])) > 1.0
    np.testing.assert_allclose((found / units)[1:], np.broadcast_to(found[0], (2, 4, 6)), atol=1e-3)


@pytest.mark.slow
def test_assembly_in_single_precision():
    """From a tenth of a millimetre to a hundred kilometres it was wrong by 0.07 rad, or impossible."""
    single = mechanism().compile(dtype="float32")

    def start(length):
        state = scaled(single, length, jnp.ones_like(length)).initial_state()
        return [state[single.layout.joint(name).coordinates][0] for name in "abcd"], state["rocker/p"][1]

    angles, rate = quick_jit(jax.vmap(start))(jnp.array([1.0, 1e-4, 1e-2, 1e5], "float32"))
    for values in (*angles, rate):
        np.testing.assert_allclose(values[1:], values[0], rtol=0, atol=2e-6)


def geared(length: float) -> jmbs.Mechanism:
    """A slider-crank in a plane; a wheel turns with its crank and, by radians per length, with its slider."""
    turn, middle = {"axis": [0, 1, 0]}, 0.15 * length
    made = jmbs.Mechanism("geared", gravity=[0, 0, -9.81 * length])
    for name, mass in (("crank", 2.0), ("rod", 0.5), ("slider", 0.4), ("wheel", 1.0)):
        made.add_body(name, mass, [0.01 * mass * length**2] * 3)
    made.add_joint("bearing", "revolute", "ground", "crank", **turn)
    made.add_joint("pin", "revolute", "crank", "rod", [0.1 * length, 0, 0], [-middle, 0, 0], **turn)
    made.add_joint("wrist", "revolute", "rod", "slider", [middle, 0, 0], **turn)
    made.add_joint("guide", "prismatic", "ground", "slider", axis=[1, 0, 0])
    made.add_joint("axle", "revolute", "ground", "wheel", [0, length, 0], armature=0.02 * length**2, **turn)
    made.add_constraint("gear", "gear", joints={"axle": 2.0, "bearing": -3.0, "guide": 4.0 / length}, offset=0.7)
    guesses = {"pin": -0.5, "guide": 0.38 * length}
    made.set_initial(joints={name: {"q": jmbs.guess([value])} for name, value in guesses.items()})
    made.set_initial(joints={"bearing": {"q": [0.4], "v": [5.0]}})
    return made


@pytest.mark.slow
def test_multipliers_of_gears_do_not_drown_beside_large_coefficients():
    """The torque of a gear of thousands of radians per metre was ten times too large beside forces of a loop."""
    settings = {"ts": [0.0, 0.01, 0.02], "dt": 0.002, "solver": "rk4"}
    found = []
    for length, formulation in ((1.0, "absolute"), (1.0, "tree"), (1e-3, "tree")):
        sol = jmbs.simulate(geared(length).compile(), **settings, formulation=formulation)
        found.append(np.asarray(sol.multipliers["gear"][:, 0]) / length**2)
    np.testing.assert_allclose(found[1:], [found[0]] * 2, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("formulation", ["tree", "absolute"])
@pytest.mark.parametrize(("dtype", "radius"), [("float32", 1e-3), ("float64", 1e-6)])
def test_gears_of_small_coefficients_hold(formulation, dtype, radius):
    """A belt over pulleys of a radius and of twice as much: in the absolute formulation they turned as if unbound."""
    made = jmbs.Mechanism("belt", gravity=[0, 0, 0])
    for name, torque in (("small", 2.0), ("large", 0.3)):
        made.add_body(name, 1.0, [0.2, 0.2, 0.2])
        made.add_joint(f"{name}_axle", "revolute", "ground", name, axis=[0, 0, 1], actuation=torque)
    made.add_constraint("belt", "gear", joints={"small_axle": radius, "large_axle": -2 * radius})
    made.add_body("door", 1.5, [0.1, 0.1, 0.1])  # on two hinges, so that something is redundant
    for name, height in (("upper", 0.5), ("lower", -0.5)):
        made.add_joint(name, "revolute", "ground", "door", [3, 0, height], [-0.4, 0, height], axis=[0, 0, 1])
    run = jmbs.simulate(made.compile(dtype=dtype), ts=[0.0, 1.0], dt=0.1, solver="rk4", formulation=formulation)
    rates = [float(run.v[f"{name}_axle"][-1, 0]) for name in ("small", "large")]
    np.testing.assert_allclose(rates, [8.6, 4.3], rtol=1e-5)
    np.testing.assert_allclose(run.multipliers["belt"][:, 0], -0.28 / radius, rtol=1e-4)


@pytest.mark.slow
def test_reactions_of_a_long_leaf_in_single_precision():
    """Its weight was lost beside its length in the absolute formulation."""
    length, mass = 1000.0, 8.0
    made = jmbs.Mechanism("leaf", gravity=[0, 0, -9.81])
    made.add_body("leaf", mass, [mass * length**2 / 12] * 3)
    made.add_joint("hinge", "revolute", "ground", "leaf", None, [-0.4 * length, 0, 0], axis=[0, 0, 1])
    made.set_initial(joints={"hinge": {"v": [1.5]}})
    model = made.compile(dtype="float32")
    run = jmbs.simulate(model, ts=[0.0, 0.01], dt=0.01, solver="rk4", formulation="absolute")
    weight, centripetal = mass * 9.81, 0.4 * length * mass * 1.5**2
    wanted = [0.0, -0.4 * length * weight, 0.0, -centripetal, 0.0, weight]
    np.testing.assert_allclose(run.reaction["hinge"][0], wanted, rtol=1e-5, atol=1e-2)
