"""`jmbs import`, `jmbs.load` and model files as CONFIG."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml

import jmbs
from jmbs.cli import main
from jmbs.io import ModelNotes, is_model, load_model, read_config, read_model

HERE = Path(__file__).parent

PENDULUM = """<robot name="rod"><link name="base"/>
<link name="rod"><inertial><origin xyz="0 0 -0.5"/><mass value="1"/>
<inertia ixx="0.08" ixy="0" ixz="0" iyy="0.08" iyz="0" izz="0.01"/></inertial></link>
<joint name="hinge" type="continuous"><parent link="base"/><child link="rod"/><axis xyz="0 1 0"/></joint></robot>"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pendulum.urdf").write_text(PENDULUM)
    return tmp_path


@pytest.mark.parametrize("name", ["branched.urdf", "machine.xml"])
def test_import_writes_a_config_and_prints_the_notes(folder: Path, capsys, name: str):
    model = read_model(HERE / name)
    assert main(["import", str(HERE / name)]) == 0
    file = folder / f"{model.mechanism.name}.yaml"
    assert capsys.readouterr().out.splitlines() == [file.name, *model.notes, model.left_out]
    text = file.read_text()
    assert text.startswith(f"# From {name}.\n# {model.notes[0]}\n")
    mechanism = read_config(file)
    for joint, spec in mechanism.joints.items():
        before = model.mechanism.joints[joint]
        np.testing.assert_allclose(spec.child_frame.quaternion, before.child_frame.quaternion, rtol=0, atol=1e-15)
        np.testing.assert_array_equal(spec.child_frame.position, before.child_frame.position)


def test_import_never_overwrites(folder: Path, capsys):
    (folder / "mine.yaml").write_text("precious")
    assert main(["import", "pendulum.urdf", "--out", "mine.yaml"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and "mine.yaml: found an existing file, wanted a new file, or --force" in err
    assert (folder / "mine.yaml").read_text() == "precious"
    assert main(["import", "pendulum.urdf", "--out", "mine.yaml", "--force"]) == 0
    assert yaml.safe_load((folder / "mine.yaml").read_text())["schema"] == "jmbs/1"


def test_options_of_import(folder: Path):
    model = str(HERE / "branched.urdf")
    assert main(["import", model, "--fixed", "keep", "--root", "free", "--out", "kept.yaml"]) == 0
    joints = read_config(folder / "kept.yaml").joints
    assert (joints["wrist"].type, joints["base_to_ground"].type) == ("fixed", "free")


@pytest.mark.parametrize("command", ["import", "check", "run", "draw"])
def test_wrong_models_exit_with_2(folder: Path, capsys, command: str):
    (folder / "bad.urdf").write_text("<robot")
    assert main([command, "bad.urdf"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("jmbs: bad.urdf: found broken XML") and err.count("\n") == 1
    assert sorted(path.name for path in folder.iterdir()) == ["bad.urdf", "pendulum.urdf"]


def test_a_run_needs_an_end_time(folder: Path, capsys):
    assert main(["run", "pendulum.urdf"]) == 2
    assert "t1: found nothing, wanted the end of the simulation" in capsys.readouterr().err


@pytest.mark.slow
def test_a_model_runs_as_its_config_does(folder: Path, capsys):
    end = ["--set", "simulation.t1=0.1", "--set", "initial.joints.hinge.q=[1.0]"]
    assert main(["run", "pendulum.urdf", "--out", "direct", *end]) == 0
    assert main(["import", "pendulum.urdf"]) == 0
    assert main(["run", "rod.yaml", "--out", "config", *end]) == 0
    summaries = [json.loads((folder / name / "summary.json").read_text()) for name in ("direct", "config")]
    assert (
        summaries[0]["steps"] == summaries[1]["steps"] and summaries[0]["energy_drift"] == summaries[1]["energy_drift"]
    )


def test_load_gives_the_mechanism_and_warns_of_what_is_not_simulated():
    with pytest.warns(ModelNotes, match="joint shoulder: limits lower -1.5"):
        mechanism = jmbs.load(HERE / "branched.urdf")
    assert mechanism.config["schema"] == "jmbs/1" and set(mechanism.config["bodies"]) == set(mechanism.bodies)


def test_load_without_notes_does_not_warn(folder: Path):
    assert list(jmbs.load(folder / "pendulum.urdf", ["bodies.rod.mass=2"]).bodies) == ["rod"]


def test_overrides_change_the_config_of_a_model(folder: Path):
    mechanism = load_model(folder / "pendulum.urdf", ["bodies.rod.mass=2", "simulation.t1=3"]).mechanism
    assert (mechanism.bodies["rod"].mass, mechanism.simulation.t1) == (2, 3)
    with pytest.raises(jmbs.ModelError, match=r"pendulum.urdf: bodies/rad/mass: found no rad in bodies"):
        load_model(folder / "pendulum.urdf", ["bodies.rad.mass=2"])


@pytest.mark.parametrize("name, expected", [("a.urdf", True), ("a.XML", True), ("a.mjcf", True), ("a.yaml", False)])
def test_models_are_told_by_their_names(name: str, expected: bool):
    assert is_model(name) is expected
