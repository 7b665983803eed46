"""The command line as a user types it, with nothing replaced."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from jmbs.cli import main

PENDULUM = str(Path(__file__).parents[2] / "configs" / "pendulum.yaml")
SHORT = ["--set", "simulation.t1=0.5", "--set", "simulation.save_every=0.1"]


def test_run(tmp_path, capsys):
    out, cache = tmp_path / "out", tmp_path / "cache"
    assert main(["run", PENDULUM, "--out", str(out), "--cache", str(cache), *SHORT]) == 0
    captured = capsys.readouterr()
    for words in ("Finished.", "result.nc, summary.json, plots/trajectories.png", f"jmbs draw {PENDULUM}"):
        assert words in captured.out
    assert captured.err == "" and any(path.name.startswith("jit__advance") for path in cache.iterdir())
    data = xr.open_dataset(out / "result.nc")
    assert data.attrs["result_schema"] == "jmbs-result/1"
    assert data.sizes["time"] == 6
    assert data["position"].dims == ("time", "body", "xyz") and data["position"].attrs["units"] == "m"
    assert float(np.abs(data["first_law_residual"]).max()) < 1e-7
    summary = json.loads((out / "summary.json").read_text())
    assert summary["status"] == "successful"
    pictures = {f"{name}.png" for name in ("trajectories", "energies", "constraints", "exergy")}
    assert {p.name for p in (out / "plots").iterdir()} == pictures
    # An existing result is not overwritten unless asked.
    assert main(["run", PENDULUM, "--out", str(out), *SHORT]) == 2
    assert "force" in capsys.readouterr().err


def test_a_blow_up_is_written_with_its_time(tmp_path, capsys):
    out = tmp_path / "out"
    explosive = [
        *("--set", "simulation.method=euler", "--set", "simulation.tolerance=null", "--set", "simulation.dt=0.02"),
        *("--set", "joints.hinge.friction.viscous=1e5", "--set", "simulation.save_every=0.02"),
        *("--set", "simulation.t1=4.0", "--set", "initial.joints.hinge.v=[1.0]"),
    ]
    assert main(["run", PENDULUM, "--out", str(out), *explosive]) == 1
    summary = json.loads((out / "summary.json").read_text())
    assert summary["status"] == "not_finite"
    assert 0.0 < summary["failure_time"] < 4.0
    data = xr.open_dataset(out / "result.nc")
    before = data["position"].where(data["time"] < summary["failure_time"], drop=True)
    assert before.sizes["time"] > 1
    assert np.all(np.isfinite(before)) and np.any(np.isnan(data["position"]))
    captured = capsys.readouterr()
    assert f"{summary['failure_time']:.4g}"[:4] in captured.out + captured.err


@pytest.mark.parametrize(
    ("override", "where"),
    [
        ("bodies.rod.mass=-1", "bodies/rod/mass"),
        ("bodies.rod.mas=1", "bodies/rod/mas"),
        ("simulation.method=rk5", "simulation/method"),
        ("simulation.formulation=forest", "simulation/formulation"),
    ],
)
def test_wrong_input_writes_nothing(tmp_path, capsys, override, where):
    out = tmp_path / "out"
    assert main(["run", PENDULUM, "--out", str(out), "--set", override]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and where in error.replace(".", "/")
    assert not out.exists()


def test_check(capsys):
    assert main(["check", PENDULUM]) == 0
    text = capsys.readouterr().out
    for words in ("1 bodies, 1 joints", "degrees of freedom: 1", "redundant 0", "loops: 0"):
        assert words in text


def test_check_reports_unmet_assembly(tmp_path, capsys):
    """It describes the model, and what is unmet, with its path, is part of that."""
    assert main(["check", PENDULUM, "--set", "initial.bodies={rod: {position: [3, 0, 0]}}"]) == 0
    captured = capsys.readouterr()
    assert "assembly: unmet; initial/bodies/rod: found an assembly that misses by 3.4" in captured.out
    assert captured.err == ""


def test_a_run_with_unmet_assembly_is_refused(tmp_path, capsys):
    """Where `check` describes, `run` wants other input."""
    override = ["--set", "initial.bodies={rod: {position: [3, 0, 0]}}", "--out", str(tmp_path / "out")]
    assert main(["run", PENDULUM, "--no-cache", *override]) == 2
    assert "misses by" in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_single_objects_are_free_if_told_so(tmp_path, capsys):
    box = tmp_path / "box.urdf"
    inertia = '<inertial><mass value="2"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>'
    box.write_text(f'<robot name="box"><link name="box">{inertia}</link></robot>')
    assert main(["check", str(box), "--root", "free"]) == 0
    assert "free, ground -> box, 6 free" in capsys.readouterr().out
    assert main(["check", PENDULUM, "--root", "free"]) == 2
    assert "--root: found free for a config, wanted none" in capsys.readouterr().err
