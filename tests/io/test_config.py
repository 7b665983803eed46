"""What a config says arrives in the mechanism, in the units and shapes that the rest expects."""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np
import pytest

from jmbs.ephs import System
from jmbs.errors import ModelError
from jmbs.io import read_config
from jmbs.library.mechanics.specification import TableSpec
from jmbs.library.oscillator import damped_oscillator


def test_a_config_becomes_a_mechanism(read_changed):
    mechanism = read_changed()
    assert mechanism.name == "arm"
    assert list(mechanism.bodies) == ["link1", "link2"]
    assert list(mechanism.joints) == ["base", "elbow"]
    assert mechanism.bodies["link1"].mass == 2.0
    np.testing.assert_array_equal(mechanism.bodies["link1"].inertia, np.diag([0.1, 0.2, 0.25]))
    assert mechanism.bodies["link2"].mass == pytest.approx(2.7)
    assert mechanism.joints["base"].parent == "ground"
    np.testing.assert_array_equal(mechanism.joints["base"].geometry["axis"], [0, 1, 0])
    np.testing.assert_array_equal(mechanism.initial_joints["base"]["q"], [0.1])
    assert mechanism.initial_joints["base"]["v"] is None
    assert mechanism.simulation.dt == 1e-3
    assert mechanism.simulation.rtol is None
    assert mechanism.elements["wire"].stiffness == 10.0
    assert mechanism.stores["bearing"].capacity == 10.0
    np.testing.assert_array_equal(mechanism.gravity, [0, 0, -9.80665])


def test_the_smallest_config(tmp_path):
    (tmp_path / "ball.yaml").write_text(
        "schema: jmbs/1\nbodies:\n  ball: {shape: {sphere: 0.1}, density: 1000}\njoints:\n"
    )
    mechanism = read_config(str(tmp_path / "ball.yaml"))
    assert mechanism.simulation.t1 is None
    assert mechanism.joints == {}
    assert mechanism.config == {
        "schema": "jmbs/1",
        "name": "ball",
        "bodies": {"ball": {"shape": {"sphere": 0.1}, "density": 1000}},
        "joints": None,
    }


@pytest.mark.parametrize(
    ("text", "value"), [("1e-4", 1e-4), ("1E3", 1e3), ("+2.", 2.0), (".5e1", 5.0), ("010", 10.0), ("1.0e10", 1e10)]
)
def test_every_usual_spelling_of_a_number_is_one(read_changed, text, value):
    assert read_changed(overrides=(f"bodies.link1.mass={text}",)).bodies["link1"].mass == value


def test_a_word_that_older_yaml_reads_as_truth_is_a_name(tmp_path):
    text = "schema: jmbs/1\nbodies: {on: {mass: 1e0, inertia: [1, 1, 1]}, y: {mass: 1, inertia: [1, 1, 1]}}\n"
    (tmp_path / "words.yaml").write_text(text)
    assert list(read_config(tmp_path / "words.yaml").bodies) == ["on", "y"]


def test_anchors_and_merges_work(tmp_path):
    text = (
        "schema: jmbs/1\nbodies:\n  a: &a {mass: 1, inertia: [1, 1, 1]}\n  b: *a\n  c: {<<: *a, mass: 2}\n"
        "simulation: {t1: 1}\n"
    )
    (tmp_path / "merged.yaml").write_text(text)
    mechanism = read_config(tmp_path / "merged.yaml")
    assert [body.mass for body in mechanism.bodies.values()] == [1, 1, 2]


def test_overrides_change_values_and_are_kept(read_changed):
    overrides = ("bodies.link1.inertia.1=0.21", "simulation.tolerance.rtol=1e-6", "simulation.dt=null", "seed=3")
    mechanism = read_changed(overrides=overrides)
    assert mechanism.bodies["link1"].inertia[1, 1] == 0.21
    assert (mechanism.simulation.rtol, mechanism.simulation.atol) == (1e-6, 1e-8)
    assert mechanism.simulation.dt is None
    assert mechanism.seed == mechanism.config["seed"] == 3
    assert mechanism.config["bodies"]["link1"]["inertia"] == [0.1, 0.21, 0.25]


def test_the_last_override_wins(read_changed):
    assert read_changed(overrides=("seed=3", "seed=4")).seed == 4


def test_tables_are_read_beside_the_config(read_changed, tmp_path):
    (tmp_path / "data").mkdir()
    # As spreadsheets write it: a byte-order mark, quotes, blank lines at the end.
    (tmp_path / "data" / "drive.csv").write_text('\ufeff"t","a","b"\r\n0,1,2\r\n0.5, 3,4\r\n1,5,6\r\n\r\n', newline="")
    mechanism = read_changed(
        {
            "joints.base.actuation": "{table: data/drive.csv, time: t, columns: [b]}",
            "loads.push.torque": "{table: data/drive.csv, time: t, columns: [a, b, a]}",
        }
    )
    actuation, torque = mechanism.joints["base"].actuation, mechanism.loads["push"].torque
    assert isinstance(actuation, TableSpec) and isinstance(torque, TableSpec)
    np.testing.assert_array_equal(actuation.times, [0, 0.5, 1])
    np.testing.assert_array_equal(actuation.values, [[2], [4], [6]])
    np.testing.assert_array_equal(torque.values, [[1, 2, 1], [3, 4, 3], [5, 6, 5]])


def test_springs_and_friction_reach_every_coordinate(read_changed):
    mechanism = read_changed(
        {
            "joints.base.spring": "{stiffness: 5, rest: 0.2}",
            "joints.base.friction": "{viscous: 0.1, coulomb: 0.3, heats: bearing}",
            "joints.elbow.spring": "{stiffness: [1, 2, 3]}",
        }
    )
    base, elbow = mechanism.joints["base"], mechanism.joints["elbow"]
    np.testing.assert_array_equal(base.spring.stiffness, [5])
    np.testing.assert_array_equal(base.spring.rest, [0.2])
    np.testing.assert_array_equal(base.friction.static, [0.3])
    assert base.friction.heats == "bearing"
    np.testing.assert_array_equal(elbow.spring.stiffness, np.diag([1, 2, 3]))
    np.testing.assert_array_equal(elbow.spring.rest, [1, 0, 0, 0])


class _Group:
    dim = 2
    coordinate_size = 2


class _Slot:
    """Stands for a user's joint."""

    group = _Group()

    def __init__(self, depth: float):
        self.depth = depth

    def inclusion(self, q):
        return q


class _Wind:
    """Stands for a user's force."""

    def wrench(self, t, pose, velocity):
        return t


class _Leaving(_Wind):
    def __init__(self):
        raise SystemExit(0)


def _oscillator() -> System:
    return damped_oscillator(mass=1.0, stiffness=2.0, damping=0.1)


@pytest.fixture
def user_module(monkeypatch):
    module = ModuleType("toy_parts")
    vars(module).update(Slot=_Slot, Wind=_Wind, Leaving=_Leaving, oscillator=_oscillator)
    monkeypatch.setitem(sys.modules, "toy_parts", module)


def test_a_users_joint_and_force_are_made(read_changed, user_module):
    mechanism = read_changed(
        {
            "joints.base": "{type: 'toy_parts:Slot', parameters: {depth: 0.1}, parent: ground, child: link1}",
            "joints.base.friction": "{viscous: 0.5}",
            "initial.joints.base.q": "[0.1, 0.2]",
            "elements.wind": "{type: 'toy_parts:Wind', body: link1}",
        }
    )
    joint = mechanism.joints["base"]
    assert isinstance(joint.motion, _Slot) and joint.motion.depth == 0.1
    assert joint.dimension == 2
    np.testing.assert_array_equal(joint.friction.viscous, [0.5, 0.5])
    assert mechanism.forces["wind"].wrench(3.0, None, None) == 3.0


def test_a_function_that_is_declared_to_return_a_system_makes_one(read_changed, user_module):
    mechanism = read_changed({"systems.o": "{type: 'toy_parts:oscillator'}"})
    assert isinstance(mechanism.systems["o"], System)


def test_a_class_that_leaves_the_process_is_an_error_with_a_place(read_changed, user_module):
    with pytest.raises(ModelError, match=r"elements/wind/parameters.*toy_parts:Leaving.*SystemExit: 0"):
        read_changed({"elements.wind": "{type: 'toy_parts:Leaving', body: link1}"})
