"""A system has the rights of a mechanism, which only builds one: names, tree, assembly, reactions, at any depth."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import xarray

import jmbs
from jmbs.ephs import System, pattern
from jmbs.errors import ModelError
from jmbs.io import write_result
from jmbs.library.mechanics import ThermalStore, two_body_system
from jmbs.library.thermal import Conduction
from jmbs.visualise import plot_trajectory
from tests.conftest import ROOT

RUN: dict[str, Any] = {"t1": 0.2, "dt": 0.01, "solver": "rk4", "save_every": 0.1}
SHOWN = ("position", "quaternion", "velocity", "angular_velocity", "q", "v", "temperature", "reaction", "multipliers")
SHOWN += ("constraint_position", "constraint_velocity")


MORE = "slider_crank", "sliding_rod", "andrews_squeezer"


def slow(value: str):
    return pytest.param(value, marks=pytest.mark.slow)


def box(system: System, name: str) -> System:
    """A system that holds another one and exposes nothing."""
    inside = {name: system}
    junctions = {port: f"{name}.{port}" for port in system.ports}
    return System(pattern({name: system.ports}, junctions), inside)


def swing() -> jmbs.Mechanism:
    """An arm in a warm hinge, with a motor and a load."""
    mechanism = jmbs.Mechanism("swing", gravity=(0.0, 0.0, -9.81))
    mechanism.add_store("oil", capacity=5.0, temperature=310.0)
    mechanism.add_body("arm", mass=1.0, inertia=[0.1, 0.1, 0.02])
    frames: dict[str, Any] = {"child_frame": [0.0, 0.0, 0.5], "axis": (0.0, 1.0, 0.0)}
    friction = {"viscous": 0.4, "heats": "oil"}
    mechanism.add_joint("hinge", "revolute", "ground", "arm", friction=friction, actuation=[2.0], **frames)
    mechanism.add_load("wind", "arm", point=[0.0, 0.0, -0.5], force=[1.5, 0.0, 0.0])
    mechanism.set_initial(joints={"hinge": {"q": [0.4], "v": [0.3]}})
    return mechanism


@pytest.mark.parametrize("name", ["rolling_disk", *(slow(name) for name in MORE)])
def test_a_system_is_planned_as_the_mechanism_that_built_it(name):
    mechanism = jmbs.load(ROOT / "configs" / f"{name}.yaml")
    own = jmbs.compile(mechanism)
    given = {"joints": mechanism.initial_joints, "bodies": mechanism.initial_bodies} | mechanism.initial_states
    temperature = mechanism.environment_temperature
    other = jmbs.compile(mechanism.system(), initial=given, environment_temperature=temperature)
    assert other.layout == own.layout and other.tree == own.tree and other.dae.plan == own.dae.plan
    state, again = own.initial_state(), other.initial_state()
    for a, b in zip(state.blocks, again.blocks, strict=True):
        np.testing.assert_array_equal(a, b)


def two_bodies(closed: bool = True) -> System:
    mechanism = jmbs.Mechanism("two", gravity=(0.0, 0.0, -9.81))
    for name in ("b1", "b2"):
        mechanism.add_body(name, mass=1.0, inertia=[0.1, 0.2, 0.15])
    mechanism.add_joint("j", "revolute", "b1", "b2", [0.3, 0.0, 0.0], [-0.3, 0.0, 0.0], axis=(0.0, 1.0, 0.0))
    boxes = mechanism.system().boxes
    system = two_body_system(boxes["b1"], boxes["b2"], boxes["j"])
    return system if closed else dataclasses.replace(system, closures=())


GIVEN = {
    "joints": {"j": {"q": [0.7], "v": [2.0]}},
    "bodies": {"b1": {"position": [1.0, 0.0, 0.5], "velocity": [0.0, 1.0, 0.0]}},
}


@pytest.fixture(scope="module")
def two_body_run():
    return jmbs.simulate(jmbs.compile(two_bodies(), initial=GIVEN), **RUN)


@pytest.mark.slow
def test_the_librarys_two_body_system_is_a_mechanism(two_body_run):
    model = jmbs.compile(two_bodies(), initial=GIVEN)
    assert model.tree is not None and [name for name, _ in model.velocity_names] == ["b1"] * 6 + ["j"]
    assert "joint j: revolute, b1 -> b2, 1 free, 5 constrained" in model.describe()
    run = two_body_run
    np.testing.assert_allclose(run.q["j"][0], 0.7)
    np.testing.assert_allclose(run.position["b1"][0], [1.0, 0.0, 0.5])
    arm = [0.3 + 0.3 * np.cos(0.7), 0.0, -0.3 * np.sin(0.7)]
    np.testing.assert_allclose(run.position["b2"][0] - run.position["b1"][0], arm, atol=1e-12)
    assert run.reaction["j"].shape == (3, 6) and "j" in run.constraint_position
    np.testing.assert_allclose(run.first_law_residual, 0.0, atol=1e-6)
    falling = sum(np.asarray(run.velocity[b][:, 2]) for b in ("b1", "b2")) / 2
    np.testing.assert_allclose(falling - falling[0], -9.81 * np.asarray(run.ts), rtol=1e-10)
    assert set(run.to_xarray().body.values) == {"b1", "b2"}


@pytest.mark.slow
def test_closures_of_joints_are_there_without_being_asked_for(two_body_run):
    model = jmbs.compile(two_bodies(closed=False), initial=GIVEN)
    assert [name for batch in model.dae.plan.closures for name in batch.names] == ["j"]
    run = jmbs.simulate(model, **RUN)
    for shown in ("position", "reaction"):
        for name, value in getattr(two_body_run, shown).items():
            np.testing.assert_allclose(getattr(run, shown)[name], value, rtol=1e-12, atol=1e-12)


@pytest.fixture(scope="module")
def alone():
    return jmbs.simulate(jmbs.compile(swing()), **RUN)


@pytest.mark.parametrize("formulation", ["tree", slow("absolute")])
def test_nested_systems_move_as_they_do_alone(alone, formulation, tmp_path):
    """Two of a kind, one two levels deep, with their own drives, stores and names by path."""
    mechanism = jmbs.Mechanism("both", gravity=(0.0, 0.0, -9.81))
    mechanism.add_system("left", swing().system())
    mechanism.add_system("right", box(swing().system(), "inner"))
    places = "left", "right/inner"
    mechanism.set_initial(joints={f"{place}/hinge": {"q": [0.4], "v": 0.3} for place in places})
    model = jmbs.compile(mechanism)
    assert model.tree is not None
    assert model.layout.bodies == tuple(f"{place}/arm" for place in places)
    assert [name for name, _ in model.velocity_names] == [f"{place}/hinge" for place in places]
    run = jmbs.simulate(model, formulation=formulation, **RUN)
    for place in places:
        for shown in SHOWN:
            for name, value in getattr(alone, shown).items():
                found = getattr(run, shown)[f"{place}/{name}"]
                np.testing.assert_allclose(found, value, rtol=1e-6, atol=1e-6 if shown == "reaction" else 1e-9)
    np.testing.assert_allclose(run.supplied, 2 * alone.supplied, rtol=1e-8)
    np.testing.assert_allclose(run.first_law_residual, 0.0, atol=1e-7)
    write_result(run, tmp_path)
    with xarray.open_dataset(tmp_path / "result.nc") as dataset:
        np.testing.assert_array_equal(dataset["q_right.inner.hinge"], run.q["right/inner/hinge"])
        assert all(f"temperature_{store.replace('/', '.')}" in dataset for store in run.temperature)
    assert tmp_path / "plots" / "trajectories.png" in plot_trajectory(run, tmp_path / "plots")


def test_a_drive_below_the_root_can_be_replaced(alone):
    mechanism = jmbs.Mechanism("nested", gravity=(0.0, 0.0, -9.81))
    mechanism.add_system("deep", box(swing().system(), "inner"))
    mechanism.set_initial(joints={"deep/inner/hinge": {"q": [0.4], "v": [0.3]}})
    model, still = jmbs.compile(mechanism), {"deep/inner/hinge/actuation": 0.0, "deep/inner/wind/force": np.zeros(3)}
    run = jmbs.simulate(model, inputs=still, audit=False, **RUN)
    inputs = {"hinge/actuation": 0.0, "wind/force": np.zeros(3)}
    expected = jmbs.simulate(jmbs.compile(swing()), inputs=inputs, audit=False, **RUN)
    np.testing.assert_allclose(run.q["deep/inner/hinge"], expected.q["hinge"], rtol=1e-12)
    assert abs(float(expected.q["hinge"][-1, 0] - alone.q["hinge"][-1, 0])) > 1e-2


def chamber() -> System:
    """A wall that leaks heat into air and shows nothing of itself."""
    boxes = {"wall": ThermalStore(5.0, 310.0), "air": ThermalStore(2.0, 300.0), "film": Conduction(0.0)}
    junctions = {"wall": "wall.s film.s1", "air": "air.s film.s2"}
    return System(pattern({name: inner.ports for name, inner in boxes.items()}, junctions), boxes)


@pytest.mark.parametrize("exposed", [False, True])
def test_friction_heats_a_store_inside_of_a_system(alone, exposed):
    mechanism, given = swing(), "chamber/wall"
    system = chamber()
    if exposed:
        system, port = jmbs.ephs.exposed(system, "wall", "s")
        assert port == "wall/s" and jmbs.ephs.exposed(system, "wall", "s") == (system, port)
    mechanism.add_system("chamber", system)
    friction = dataclasses.replace(mechanism.joints["hinge"].friction, heats=given)
    object.__setattr__(mechanism.joints["hinge"], "friction", friction)
    run = jmbs.simulate(jmbs.compile(mechanism), **RUN)
    np.testing.assert_allclose(run.temperature[given], alone.temperature["oil"], rtol=1e-12)
    assert float(run.temperature[given][-1]) > 310.0


def test_a_store_that_is_not_there_is_refused():
    mechanism = swing()
    mechanism.add_system("chamber", chamber())
    mechanism.add_conduction("leak", "chamber/door", "environment", 1.0)
    with pytest.raises(ModelError, match="elements/leak/a: found 'chamber/door', wanted environment or the name"):
        mechanism.validate()


@pytest.mark.parametrize(
    ("initial", "message"),
    [
        ({"joints": {"k": {"q": [0.1]}}}, "initial/joints/k: found no joint k, wanted the name of a joint"),
        ({"joints": {"j": {"q": [0.1, 0.2]}}}, r"initial/joints/j/q: .*wanted 1 finite number \(revolute joint\)"),
        ({"bodies": {"b1": {"speed": [1.0]}}}, "initial/bodies/b1/speed: found an unknown key"),
        ({"bodies": {"b2": {"quaternion": [1.0, 1.0, 0, 0]}}}, "initial/bodies/b2/quaternion: .*a unit quaternion"),
        ({"joints": {"j": {"q": [0.1]}}, "j/q_r": [0.1]}, "initial/joints/j/q: found j/q_r given too"),
    ],
)
def test_initial_values_that_do_not_fit_are_refused(initial, message):
    with pytest.raises(ModelError, match=message):
        jmbs.compile(two_bodies(), initial=initial)


def test_an_initial_value_of_a_part_that_an_added_system_does_not_have_is_refused():
    mechanism = jmbs.Mechanism("nested")
    mechanism.add_system("left", swing().system())
    mechanism.set_initial(joints={"left/hinges": {"q": [0.1]}})
    with pytest.raises(ModelError, match="initial/joints/left/hinges: .*the nearest known is left/hinge"):
        jmbs.compile(mechanism)


def test_initial_values_of_nested_parts_are_parameters():
    mechanism = jmbs.Mechanism("nested")
    mechanism.add_system("left", swing().system())
    model = jmbs.compile(mechanism).with_parameters({"initial/left/hinge/q": [0.6]})
    assert float(model.parameters()["initial/left/hinge/q"]["value"][0]) == 0.6
    np.testing.assert_allclose(jnp.ravel(model.initial_state()["left/hinge/q_r"]), 0.6)
