"""Mechanisms written as configs read back as they were: every number, for every shipped config."""

from __future__ import annotations

import dataclasses
import sys
import types
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest
import yaml

import jmbs
from jmbs.ephs import flatten
from jmbs.errors import ModelError
from jmbs.io import mechanism_config, read_config, write_config
from jmbs.library.mechanics import TableSpec

CONFIGS = sorted((Path(__file__).parents[2] / "configs").glob("*.yaml"))
PARTS = (
    *("name", "seed", "gravity", "environment_temperature", "simulation"),
    *("bodies", "joints", "loads", "elements", "constraints", "stores", "conductions"),
    *("initial_joints", "initial_bodies", "initial_states"),
)


NORMALISED = ("axis", "axis2", "direction", "normal", "quaternion", "rest")


def assert_same(a: Any, b: Any, path: str, last_bits: float = 0.0) -> None:
    """Equal values, also inside specifications, mappings, tuples; what is normalised when read up to `last_bits`."""
    if dataclasses.is_dataclass(a):
        assert type(a) is type(b), path
        a, b = vars(a), vars(b)
    if isinstance(a, dict):
        assert list(a) == list(b), path
        for key in a:
            assert_same(a[key], b[key], f"{path}/{key}", last_bits)
    elif isinstance(a, tuple):
        assert len(a) == len(b), path
        for i, pair in enumerate(zip(a, b, strict=True)):
            assert_same(*pair, f"{path}/{i}", last_bits)
    elif hasattr(a, "shape"):
        tolerance = last_bits if path.endswith(NORMALISED) else 0.0
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance, err_msg=path)
    elif path.endswith("/source"):
        return  # a table's new file
    else:
        assert a == b, path


def written(mechanism: jmbs.Mechanism, folder: Path) -> jmbs.Mechanism:
    write_config(mechanism, folder / "written.yaml")
    return read_config(folder / "written.yaml")


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_config_reads_back(path: Path, tmp_path: Path):
    before = read_config(path)
    after = written(before, tmp_path)
    for part in PARTS:
        assert_same(getattr(before, part), getattr(after, part), part)
    assert list(before.connections) == list(after.connections)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_config_gives_the_same_system(path: Path, tmp_path: Path):
    mechanisms = (read_config(path), written(read_config(path), tmp_path))
    components = [flatten(mechanism.system()).components for mechanism in mechanisms]
    arrays = [jax.tree_util.tree_leaves_with_path(eqx.filter(boxes, eqx.is_array)) for boxes in components]
    assert len(arrays[0]) == len(arrays[1]) > 0
    for (place, a), (_, b) in zip(*arrays, strict=True):
        np.testing.assert_array_equal(a, b, err_msg=jax.tree_util.keystr(place))


TABLE = TableSpec(np.array([0.0, 0.1, 3.0]), np.array([[1.0], [1 / 3], [-2e-17]]))


class Screwdriver:
    """A user's force, for its place in a config."""

    def wrench(self, t, pose, velocity):
        del t, pose
        return 0 * velocity


def of_everything() -> jmbs.Mechanism:
    """What no shipped config has: tables, matrices, rests, dry friction, a rod and a particle, a moving surface."""
    mechanism = jmbs.Mechanism("everything", gravity=(0, 1 / 3, 0), environment_temperature=300.0, seed=7)
    mechanism.add_body("rod", mass=1.0, inertia=[0.1, 0.1, 0], kind="rod")
    mechanism.add_body("dot", mass=0.1, kind="particle", group="SO3xR3")
    mechanism.add_body("box", shape={"box": [1, 2, 3]}, density=0.7)
    mechanism.add_body("lid", mass=1 / 3, inertia=[[1.0, 0.1, 0], [0.1, 1, 0], [0, 0, 1]], group="SO3xR3")
    mechanism.add_store("oil", 3.0, 310.0)
    friction = {"viscous": 0.1, "coulomb": 0.2, "static": 0.3, "heats": "oil", "temperature_coefficient": 0.01}
    pivot = {"position": [0.1, 0, 0], "quaternion": [0.6, 0, 0.8, 0]}
    mechanism.add_joint("screw", "screw", "ground", "box", pivot, axis=[3, 4, 0], pitch=0.2, friction=friction)
    stiffness = np.diag([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    rest = [0.1, 0, 0, 0.6, 0.8, 0, 0]
    mechanism.add_joint("bush", "free", "box", "lid", spring={"stiffness": stiffness, "rest": rest})
    mechanism.joints["screw"] = dataclasses.replace(mechanism.joints["screw"], actuation=TABLE)
    mechanism.add_load("push", "box", point=[1, 0, 0], force=TableSpec(TABLE.times, np.eye(3)), frame="body")
    mechanism.add_spring_damper("wire", "ground", "dot", point_a=[0, 0, 1], stiffness=2.0, damping=0.1, length=0.4)
    mechanism.add_conduction("air", "oil", "environment", 0.3)
    mechanism.add_constraint("edge", "no_slide", "box", direction=[1, 1, 0], relative_to={"velocity": [0.1, 0, 0]})
    mechanism.set_initial(joints={"screw": {"q": [0.3]}}, bodies={"dot": {"position": [0, 0, 0.2]}})
    return mechanism


def test_everything_reads_back(tmp_path: Path):
    before = of_everything()
    after = written(before, tmp_path)
    for part in PARTS:
        assert_same(getattr(before, part), getattr(after, part), part, last_bits=4 * np.finfo(float).eps)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "written.yaml",
        "written_push_force.csv",
        "written_screw_actuation.csv",
    ]


def test_objects_of_user_classes_are_written_as_they_were_read(tmp_path: Path, monkeypatch):
    module = types.ModuleType("tools_for_export")
    vars(module)["Screwdriver"] = Screwdriver
    monkeypatch.setitem(sys.modules, "tools_for_export", module)
    element = {"type": "tools_for_export:Screwdriver", "body": "a"}
    bodies = {"a": {"mass": 1.0, "inertia": [1.0, 1.0, 1.0]}}
    (tmp_path / "read.yaml").write_text(
        yaml.safe_dump({"schema": "jmbs/1", "bodies": bodies, "elements": {"x": element}})
    )
    assert mechanism_config(read_config(tmp_path / "read.yaml"))["elements"] == {"x": element}


def with_force(mechanism):
    mechanism.add_force("blow", "box", wrench=lambda t, pose, velocity: 0 * velocity)


def with_system(mechanism):
    from jmbs.library.electric import Capacitor

    mechanism.add_system("plates", Capacitor(1.0))


def with_connection(mechanism):
    mechanism.connect("drive", ["screw.p_r"], flow=lambda t: t)


def with_surface(mechanism):
    rolling = {"angular_velocity": lambda t: np.array([0.0, 0.0, t])}
    mechanism.add_constraint("table", "rolling", "box", radius=0.1, plane=rolling)


def with_method(mechanism):
    mechanism.simulation = dataclasses.replace(mechanism.simulation, method="dopri5")


@pytest.mark.parametrize(
    "change, place",
    [
        (with_force, "elements/blow"),
        (with_system, "systems/plates"),
        (with_connection, "connections/drive/flow"),
        (with_surface, "constraints/table/plane/angular_velocity"),
        (with_method, "simulation/t1"),
    ],
)
def test_what_a_config_cannot_say_is_refused(change, place, tmp_path: Path):
    mechanism = of_everything()
    change(mechanism)
    with pytest.raises(ModelError, match=f"^{place}: found "):
        write_config(mechanism, tmp_path / "written.yaml")
    assert list(tmp_path.iterdir()) == []


def test_files_are_overwritten_only_when_told(tmp_path: Path):
    (tmp_path / "written_push_force.csv").write_text("precious")
    with pytest.raises(ModelError, match=r"written_push_force.csv: found an existing file"):
        write_config(of_everything(), tmp_path / "written.yaml")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["precious"]
    write_config(of_everything(), tmp_path / "written.yaml", notes=["first", "second"], force=True)
    assert (tmp_path / "written.yaml").read_text().startswith("# first\n# second\nschema: jmbs/1\n")
    with pytest.raises(ModelError, match="no place for a file"):
        write_config(of_everything(), tmp_path / "nowhere" / "written.yaml")


def test_tables_need_files():
    with pytest.raises(ModelError, match="a table, wanted constants"):
        mechanism_config(of_everything())
