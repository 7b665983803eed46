"""The command line's exit statuses, messages and files, with the simulator replaced by closed-form trajectories."""

from __future__ import annotations

import dataclasses
import gc
import json
import logging
import subprocess
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from io_result.synthetic import failed, pair_trajectory

import jmbs.io
import jmbs.simulation
from jmbs.cli import main
from jmbs.errors import AssemblyError, ModelError, RunInterrupted
from jmbs.simulation import Status


class Stub:
    """Stands in for everything below the command line; tests change its parts."""

    def __init__(self):
        self.overrides = None
        self.read_error = None
        self.assembly_error = None
        self.simulate = lambda model, state, **options: pair_trajectory(state, count=21)
        self.precision = "float64"
        self.settings, self.dtype = types.SimpleNamespace(rtol=1e-8), np.dtype(np.float64)
        self.chosen = ()

    def read_config(self, path, overrides=()):
        self.overrides = list(overrides)
        if self.read_error is not None:
            raise self.read_error
        return types.SimpleNamespace(name="pair", simulation=types.SimpleNamespace(precision=self.precision))

    def compile(self, mechanism):
        del mechanism
        return self

    def initial_state(self):
        if self.assembly_error is not None:
            raise self.assembly_error
        return jnp.asarray(0.5)

    def describe(self):
        return "2 bodies, 2 joints"


@pytest.fixture
def stub(monkeypatch, tmp_path):
    stub = Stub()
    monkeypatch.setattr(jmbs.io, "read_config", stub.read_config)
    monkeypatch.setattr(jmbs.simulation, "compile", stub.compile, raising=False)
    monkeypatch.setattr(
        jmbs.simulation, "simulate", lambda *args, **kwargs: stub.simulate(*args, **kwargs), raising=False
    )
    monkeypatch.setattr(jmbs.simulation, "chosen_by_assembly", lambda model: stub.chosen)
    monkeypatch.chdir(tmp_path)
    return stub


def test_run_writes_everything(stub, tmp_path, capsys):
    assert main(["run", "pair.yaml", "--out", "out", "--set", "simulation.t1=3", "--set", "name=x"]) == 0
    assert stub.overrides == ["simulation.t1=3", "name=x"]
    names = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()}
    plots = {f"plots/{name}.png" for name in ("trajectories", "energies", "constraints")}
    assert names == {"result.nc", "summary.json"} | plots
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["wall_time_s"] > 0 and summary["compile_time_s"] > 0
    out, err = capsys.readouterr()
    for words in ("Finished.", "energy drift", "entropy produced", "(rail)", "out"):
        assert words in out
    assert err == ""


def test_a_run_leaves_the_collector_of_garbage_as_it_was(stub):
    """It looks less often while a run is prepared, also where that fails."""
    seen, before = [], (gc.get_threshold(), gc.get_freeze_count())
    stub.simulate = lambda *args, **options: seen.append(gc.get_threshold()[0]) or 1 / 0
    assert main(["run", "pair.yaml", "--out", "out"]) == 1
    assert seen[0] > before[0][0] and (gc.get_threshold(), gc.get_freeze_count()) == before


@pytest.mark.parametrize(("said", "used"), [(None, "cpu"), ("cuda,cpu", "cuda,cpu")])
def test_a_run_stays_on_the_cpu_unless_somebody_says_otherwise(stub, said, used):
    del stub
    before = jax.config.values["jax_platforms"]
    jax.config.update("jax_platforms", said)
    try:
        assert main(["run", "pair.yaml", "--out", "out"]) == 0
        assert jax.config.values["jax_platforms"] == used
    finally:
        jax.config.update("jax_platforms", before)


def test_a_branch_that_assembly_chose_is_told(stub, tmp_path, capsys):
    stub.chosen = ("axle",)
    assert main(["run", "pair.yaml", "--out", str(tmp_path / "out")]) == 0
    assert "branch            assembly chose axle " in capsys.readouterr().out
    assert list(json.loads((tmp_path / "out" / "summary.json").read_text())["chosen_by_assembly"]) == ["axle"]


def test_default_folder(stub, tmp_path):
    assert main(["run", "pair.yaml"]) == 0
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.startswith("pair-") and (folder / "result.nc").exists()


def test_failed_run_is_written_and_says_when_and_why(stub, tmp_path, capsys):
    stub.simulate = lambda model, state, **options: failed(pair_trajectory(state, count=21), 6.0)
    assert main(["run", "pair.yaml", "--out", "out"]) == 1
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["status"] == "not_finite"
    assert (tmp_path / "out" / "plots" / "trajectories.png").exists()
    err = capsys.readouterr().err
    assert "t = 6 s" in err and "infinite or NaN" in err


@pytest.mark.parametrize("command", ["run", "check"])
def test_wrong_input_is_one_line_and_writes_nothing(stub, tmp_path, capsys, command):
    stub.read_error = ModelError("bodies/link1/mass", -1, "a positive number")
    assert main([command, "pair.yaml"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "jmbs: pair.yaml: bodies/link1/mass: found -1, wanted a positive number\n"
    assert list(tmp_path.iterdir()) == []


def test_the_file_is_not_named_twice(stub, capsys):
    stub.read_error = ModelError("pair.yaml: name", 3, "a name")
    assert main(["check", "pair.yaml"]) == 2
    assert capsys.readouterr().err.count("pair.yaml") == 1


def test_unreadable_config(stub, capsys):
    stub.read_error = FileNotFoundError(2, "No such file or directory", "pair.yaml")
    assert main(["run", "pair.yaml"]) == 2
    assert "No such file" in capsys.readouterr().err


def test_impossible_assembly(stub, tmp_path, capsys):
    stub.assembly_error = AssemblyError("joint axle\ncannot close by 0.1 m")
    assert main(["run", "pair.yaml", "--out", "out"]) == 2
    assert capsys.readouterr().err == "jmbs: pair.yaml: joint axle cannot close by 0.1 m\n"
    assert list(tmp_path.iterdir()) == []


def test_an_earlier_result_stops_the_run_before_it_starts(stub, tmp_path, capsys):
    assert main(["run", "pair.yaml", "--out", "out"]) == 0
    before = (tmp_path / "out" / "result.nc").read_bytes()
    stub.read_error = AssertionError("the config was read although the folder is taken")
    assert main(["run", "pair.yaml", "--out", "out"]) == 2
    assert "earlier result" in capsys.readouterr().err
    assert (tmp_path / "out" / "result.nc").read_bytes() == before
    stub.read_error = None
    assert main(["run", "pair.yaml", "--out", "out", "--force"]) == 0


def test_check_describes(stub, tmp_path, capsys):
    assert main(["check", "pair.yaml"]) == 0
    assert capsys.readouterr().out == "2 bodies, 2 joints\n"
    assert list(tmp_path.iterdir()) == []


def test_unexpected_errors_hide_the_traceback_unless_asked(stub, capsys):
    stub.read_error = ZeroDivisionError("surprise")
    assert main(["run", "pair.yaml"]) == 1
    err = capsys.readouterr().err
    assert err == "jmbs: ZeroDivisionError: surprise (run with --debug for the traceback)\n"
    assert main(["run", "pair.yaml", "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_debug_shows_the_traceback_of_wrong_input_too(stub, capsys):
    stub.read_error = ModelError("name", 3, "a name")
    assert main(["check", "pair.yaml", "--debug"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_debug_shows_notes_too(stub, capsys, monkeypatch):
    note = logging.getLogger("jmbs").debug
    monkeypatch.setattr("jmbs.cli._check", lambda args: note("one kernel") or 0)
    assert main(["check", "pair.yaml"]) == 0
    assert "one kernel" not in capsys.readouterr().err
    assert main(["check", "pair.yaml", "--debug"]) == 0
    assert capsys.readouterr().err == "jmbs: one kernel\n"


def test_interrupt(stub, capsys):
    stub.read_error = KeyboardInterrupt()
    assert main(["run", "pair.yaml"]) == 130


@pytest.mark.parametrize("precision, expected", [("float64", True), ("float32", False)])
def test_only_float64_configs_switch_x64_on(stub, precision, expected):
    before = jax.config.jax_enable_x64
    stub.precision = precision
    try:
        jax.config.update("jax_enable_x64", False)
        assert main(["check", "pair.yaml"]) == 0
        assert jax.config.jax_enable_x64 is expected
    finally:
        jax.config.update("jax_enable_x64", before)


@pytest.mark.parametrize(
    "argv", [[], ["fly", "pair.yaml"], ["run"], ["run", "pair.yaml", "--nonsense"], ["run", "pair.yaml", "--out", ""]]
)
def test_usage_errors(argv, capsys):
    assert main(argv) == 2
    assert "usage" in capsys.readouterr().err


@pytest.mark.parametrize("argv", [["--version"], ["--help"], ["run", "--help"]])
def test_help_and_version(argv, capsys):
    assert main(argv) == 0
    assert "jmbs" in capsys.readouterr().out


def test_python_dash_m():
    done = subprocess.run([sys.executable, "-m", "jmbs", "--version"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout.startswith("jmbs")


def test_help_is_there_before_jax_is():
    """Which takes seconds to import, during which Ctrl-C showed a traceback."""
    code = "import sys; from jmbs.cli import main; main(['run', '--help']); sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60).returncode == 0


def test_code_of_a_model_that_leaves_the_process_is_an_error(monkeypatch, capsys, configs):
    """`builtins:exit` as a type ended with status 0."""

    def leave(args):
        raise SystemExit(0)

    monkeypatch.setattr("jmbs.cli._read", leave)
    config = str(configs / "pendulum.yaml")
    assert main(["check", config]) == 1
    assert f"{config}: code that the model uses asked to leave the process" in capsys.readouterr().err


@pytest.fixture
def broken_plots(monkeypatch):
    def draw(*args, **kwargs):
        raise RuntimeError("no\x1b[31m fonts")

    monkeypatch.setattr("jmbs.visualise.plot_trajectory", draw)


def test_plots_that_fail_do_not_lose_the_result(stub, tmp_path, capsys, broken_plots):
    assert main(["run", "pair.yaml", "--out", "out"]) == 1
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["status"] == "successful"
    assert (tmp_path / "out" / "result.nc").exists()
    out, err = capsys.readouterr()
    assert "Finished." in out
    assert "out: the result is written, but not all plots are: RuntimeError: no\\x1b[31m fonts" in err


def test_an_interrupted_run_is_written_as_far_as_it_came(stub, tmp_path, capsys):
    def interrupted(model, state, **options):
        so_far = failed(pair_trajectory(state, count=21), 6.0)
        raise RunInterrupted(lambda: dataclasses.replace(so_far, status=Status.interrupted))

    stub.simulate = interrupted
    assert main(["run", "pair.yaml", "--out", "out"]) == 130
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["status"] == "interrupted" and summary["failure_time"] == 6.0
    assert (tmp_path / "out" / "result.nc").exists()
    assert "pair: interrupted at t = 6 s" in capsys.readouterr().err


def test_an_interrupt_before_there_is_anything_writes_nothing(stub, tmp_path):
    def interrupted(model, state, **options):
        raise KeyboardInterrupt

    stub.simulate = interrupted
    assert main(["run", "pair.yaml", "--out", "new/out"]) == 130
    assert list(tmp_path.iterdir()) == []
