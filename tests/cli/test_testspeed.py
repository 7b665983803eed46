"""`jmbs testspeed` as a user types it, and the measurement behind it."""

from __future__ import annotations

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jmbs
from jmbs.cli import main
from jmbs.errors import ModelError, SimulationError
from jmbs.simulation import measure_speed, spread_states
from jmbs.simulation.state import to_internal

CONFIGS = Path(__file__).parents[2] / "configs"
PENDULUM = str(CONFIGS / "pendulum.yaml")
BATCH, STEPS = 2, 4


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def consistent_figures(figures, plain, case):
    """What follows from the times does; every time is positive."""
    assert len(figures["run_s"]) >= 5 and min(figures["run_s"]) > 0
    assert figures["trace_s"] > 0 and figures["compile_s"] > 0 and figures["temporary_bytes"] >= 0
    assert figures["median_s"] == np.median(figures["run_s"])
    per_second = case["batch"] * case["steps"] / figures["median_s"]
    assert figures["steps_per_second"] == pytest.approx(per_second)
    assert figures["simulated_per_wall"] == pytest.approx(per_second * case["dt_s"])
    if case["bodies"]:
        assert figures["seconds_per_step_and_body"] == pytest.approx(1 / (per_second * case["bodies"]))
    else:
        assert figures["seconds_per_step_and_body"] is None
    assert figures["run_ratio"] == pytest.approx(figures["median_s"] / plain["median_s"])
    assert figures["compile_ratio"] == pytest.approx(figures["compile_s"] / plain["compile_s"])


def test_prints_a_table_and_writes_json(tmp_path, capsys):
    size = ["--batch", str(BATCH), "--steps", str(STEPS)]
    assert main(["testspeed", PENDULUM, *size, "--no-gradient", "--set", "name=bob", "--set", "seed=3"]) == 0
    out, err = capsys.readouterr()
    assert err == "" and out.endswith("bob-speed.json\n")
    head = next(line for line in out.splitlines() if "audit off" in line)
    row = next(line for line in out.splitlines() if line.startswith("steps per second"))
    assert head.endswith("audit on") and len(row) == len(head)

    report = json.loads((tmp_path / "bob-speed.json").read_text(encoding="utf-8"))
    assert list(report) == ["schema", "case", "machine", "programs"] and report["schema"] == "jmbs-speed/1"
    case = {"name": "bob", "bodies": 1, "batch": BATCH, "steps": STEPS, "dt_s": 1e-3, "method": "rk4", "seed": 3}
    case |= {"formulation": "tree", "constraints": "project", "precision": "float64"}
    assert report["case"] == case
    assert report["machine"]["jax"] == jax.__version__ and report["machine"]["threads"] >= 1
    assert report["machine"]["device"].startswith(jax.devices()[0].platform)
    assert list(report["programs"]) == ["audit_off", "audit_on"]
    for figures in report["programs"].values():
        consistent_figures(figures, report["programs"]["audit_off"], case)


@pytest.mark.slow
def test_gradient_of_a_system_without_bodies():
    report = measure_speed(jmbs.compile(jmbs.load(CONFIGS / "rlc.yaml")), BATCH, STEPS, dt=1e-4, method="heun")
    plain = report.as_dict()
    assert list(plain["programs"]) == ["audit_off", "audit_on", "gradient"]
    assert plain["case"]["method"] == "heun" and plain["case"]["formulation"] == "absolute"
    for figures in plain["programs"].values():
        consistent_figures(figures, plain["programs"]["audit_off"], plain["case"])
    row = next(line for line in report.table().splitlines() if line.startswith("time per step and body"))
    assert row.split()[-3:] == ["-", "-", "-"]


def test_members_that_fail_are_no_measurement():
    model = jmbs.compile(jmbs.load(CONFIGS / "rlc.yaml"))
    with pytest.raises(SimulationError, match=f"{BATCH} of {BATCH} members failed, one at t = .* NaN"):
        measure_speed(model, BATCH, STEPS, dt=1e6, method="euler", gradient=False)


@pytest.mark.slow
def test_members_differ_and_are_consistent():
    model = jmbs.compile(jmbs.load(CONFIGS / "slider_crank.yaml"))
    state = model.initial_state()
    spread = spread_states(model, state, 3, seed=1)
    x = jax.jit(jax.vmap(lambda s: to_internal(model.dae, s)))(spread)
    violation = jax.jit(jax.vmap(lambda x: model.dae.violation(0.0, x)))(x)
    assert float(jnp.max(jnp.abs(violation))) < 1e-9
    for block, wide, one in zip(model.dae.plan.blocks, spread.blocks, state.blocks, strict=True):
        added = np.asarray(wide - one)
        if block.from_effort:
            assert np.abs(added[0] - added[1]).max() > 1e-4 and np.abs(added).max() < 0.1
        else:
            assert not added.any()
    again = spread_states(model, state, 3, seed=1)
    assert all(bool(jnp.all(a == b)) for a, b in zip(spread.blocks, again.blocks, strict=True))


@pytest.mark.parametrize(
    "wrong, words",
    [
        (["--batch", "0"], "batch: found 0, wanted a whole number from 1 on"),
        (["--steps", "-3"], "steps: found -3, wanted a whole number from 1 on"),
        (["--dt", "0"], "dt: found 0.0, wanted a positive number"),
        (["--dt", "nan"], "dt: found nan, wanted a positive number"),
        (["--method", "rk5"], "'rk5', wanted one of"),
        (["--precision", "float16"], "simulation/precision: found 'float16'"),
        (["--formulation", "reduced"], "simulation/formulation: found 'reduced'"),
        (["--out", "."], "wanted a file in an existing folder"),
        (["--out", "no/such/folder.json"], "wanted a file in an existing folder"),
        (["--set", "bodies.rod.mass=-1"], "bodies/rod/mass"),
    ],
)
def test_wrong_input_is_one_line_and_writes_nothing(wrong, words, tmp_path, capsys):
    assert main(["testspeed", PENDULUM, *wrong]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("jmbs: ") and err.count("\n") == 1 and words in err
    assert list(tmp_path.iterdir()) == []


def test_a_model_needs_no_end_time(tmp_path, capsys):
    inertial = '<inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>'
    joint = '<joint name="j" type="continuous"><parent link="base"/><child link="arm"/><axis xyz="0 1 0"/></joint>'
    text = f'<robot name="arm"><link name="base"/><link name="arm">{inertial}</link>{joint}</robot>'
    (tmp_path / "arm.urdf").write_text(text)
    assert main(["testspeed", "arm.urdf", "--formulation", "absolute", "--batch", "0"]) == 2
    assert capsys.readouterr().err.startswith("jmbs: arm.urdf: batch: found 0")


def test_an_existing_file_is_kept_unless_forced(tmp_path, capsys):
    (tmp_path / "pendulum-speed.json").write_text("mine")
    assert main(["testspeed", PENDULUM]) == 2
    assert "--force" in capsys.readouterr().err
    assert (tmp_path / "pendulum-speed.json").read_text() == "mine"


@pytest.mark.parametrize("wrong", [{"batch": True}, {"steps": 2.5}, {"repeats": 0}])
def test_measure_speed_refuses(wrong):
    with pytest.raises(ModelError, match=f"{next(iter(wrong))}: found"):
        measure_speed(jmbs.compile(jmbs.load(PENDULUM)), **wrong)
