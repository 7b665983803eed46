"""`jmbs fit`: exit statuses, messages and files, with the reader of studies and the estimator replaced."""

from __future__ import annotations

import dataclasses
import json
import types

import jax.numpy as jnp
import numpy as np
import pytest
import yaml
from fabricated_fits import CART, FITTED, cart_model, channel, made_fit
from io_result.synthetic import failed, pair_trajectory

import jmbs.identification
import jmbs.io
import jmbs.simulation
from jmbs.cli import main
from jmbs.errors import ModelError
from jmbs.fit_command import ProgressLines, plain_inputs
from jmbs.identification import Check, Finding, Input, Parameter, Profile, Recording, Sensor, Study
from jmbs.io import ConfigError
from jmbs.visualise import check_plots, energy_account, fit_report

WARNING = Finding("invisible_direction", "warning", "only the ratio is seen")
ERROR = Finding("not_a_number", "error", "driven.csv: column x, row 3: not a number", "driven", "x", (3,))
JUMP = Finding("time_jump", "warning", "driven.csv: row 7: a step of 0.38 s", "driven", None, (7,))
FIRST = {"iteration": 0, "cost_per_sample": 12.5, "step": 0.1, "stage": 2, "stages": 9}
FILES = {"check.json", "fit.json", "fitted.yaml", "residuals.csv", "covariance.csv"}


class Stub:
    """Stands in for what reads studies and what estimates; tests change its parts."""

    def __init__(self):
        self.overrides, self.options, self.calls = None, {}, []
        self.findings = (JUMP,)
        shown = {"driven": {"x": channel()}}
        seen = {"singular_values": np.array([3.0, 1.0]), "predicted_standard_errors": {"cart/mass": 0.1}}
        self.check = Check((JUMP, WARNING), **seen, expected_seconds=7.0, channels=shown)
        self.fit = made_fit()
        self.error = None
        self.source = {"name": "cart", "model": "cart.yaml", "recordings": {"driven": {"file": "driven.csv"}}}
        self.data = (Recording("driven", np.linspace(0.0, 0.5, 6), {"x": np.zeros(6)}),)

    def load_study(self, path, overrides=()):
        self.overrides = list(overrides)
        if self.error is not None:
            raise self.error
        unknowns, sensors = {"cart/mass": Parameter()}, {"x": Sensor("rail/q")}
        more = {"source": self.source, "findings": self.findings, "name": "cart"}
        return Study(cart_model(), self.data, unknowns, sensors, **more)

    def check_fit(self, study, sensitivity=True):
        if not sensitivity or any(finding.severity == "error" for finding in study.findings):
            return Check(study.findings)
        self.calls.append("check")
        return self.check

    def profile(self, name, n=15, span=3.0):
        if name not in self.fit.parameters:
            raise ModelError(name, "no such unknown", "cart/mass")
        values = np.linspace(1.0, 3.0, 5)
        one = np.ones(5, bool)
        return Profile(name, "kg", 2.0, 0.5, values, 4 * (values - 2) ** 2, one, 3.84, (1.02, None), {}, 9)

    def estimate(self, study, *, check=None, progress=None, checkpoint=None, resume=False):
        assert check is not None
        self.calls.append("fit")
        self.options = {"checkpoint": checkpoint, "resume": resume, "left_out": study.estimator.cross_validation}
        progress(types.SimpleNamespace(**FIRST, change=0.01))
        if isinstance(self.fit, BaseException):
            raise self.fit
        return dataclasses.replace(self.fit, source=study.source)


@pytest.fixture
def stub(monkeypatch, tmp_path):
    stub = Stub()
    monkeypatch.setattr(jmbs.io, "load_study", stub.load_study, raising=False)
    monkeypatch.setattr(jmbs.identification, "check_fit", stub.check_fit, raising=False)
    monkeypatch.setattr(jmbs.identification, "fit_study", stub.estimate, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cart.yaml").write_text(yaml.safe_dump(CART))
    return stub


def fit(*more: str) -> int:
    return main(["fit", "study.yaml", "--out", "out", "--no-report", *more])


def written(folder) -> set[str]:
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


def test_it_writes_everything(stub, monkeypatch, tmp_path, capsys):
    for module in (fit_report, energy_account):
        monkeypatch.setattr(module, "picture", lambda figure, meaning: "")  # which takes most of the time
    monkeypatch.setattr(jmbs.simulation, "simulate", lambda model, **options: pair_trajectory(0.5, count=23))
    assert main(["fit", "study.yaml", "--out", "out", "--set", "estimator.starts=2"]) == 0
    assert stub.overrides == ["estimator.starts=2"] and stub.calls == ["check", "fit"]
    assert written(tmp_path / "out") == FILES | {"report.html"}
    out, err = capsys.readouterr()
    for words in ("rail/friction/viscous", "not visible", "converged", "warning: only the ratio", "fit.json", "report"):
        assert words in out
    for words in (
        "iteration   0",
        "cost per sample 12.5",
        "step 1.00e-01",
        "largest change 1.00e-02",
        " s",
        "horizon 2 of 9",
    ):
        assert words in err
    record = json.loads((tmp_path / "out" / "fit.json").read_text())
    assert record["status"] == "converged" and record["study"] == stub.source
    assert [warning["code"] for warning in record["warnings"]] == ["time_jump", "invisible_direction", "at_bound"]
    assert json.loads((tmp_path / "out" / "check.json").read_text())["status"] == "warnings"
    fitted = jmbs.compile(jmbs.load(tmp_path / "out" / "fitted.yaml")).parameters()
    assert {path: float(np.ravel(fitted[path]["value"])[0]) for path in FITTED} == FITTED
    assert "Energy account" in (tmp_path / "out" / "report.html").read_text()


def test_check_only(stub, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(check_plots, "save", lambda figure, path: path.touch())
    assert fit("--check") == 0
    assert stub.calls == ["check"]
    assert written(tmp_path / "out") == {"check.json", "check_data.png", "check_singular_values.png"}
    out, _ = capsys.readouterr()
    for words in ("warning: driven.csv: row 7", "cart/mass", "0.1", "singular values 3 1", "check.json", "a fit will"):
        assert words in out
    assert fit("--check") == 0, "a check may be made again"
    assert fit() == 0, "and is no earlier fit"


def test_profiles_and_cross_validation_are_asked_for(stub, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(jmbs.identification.Fit, "profile", lambda _, name: stub.profile(name))
    assert fit() == 0 and stub.options["left_out"] is False
    assert fit("--force", "--cross-validate", "--profile", "cart/mass", "--profile", "cart/mas") == 0
    assert stub.options["left_out"] is True
    out, err = capsys.readouterr()
    assert "profile of cart/mass: 95 % by likelihood 1.02 ... beyond the profile kg" in out
    assert "the profile of cart/mas is not: cart/mas: found no such unknown" in err


@pytest.mark.parametrize("more", [(), ("--check",), ("--no-check",)])
def test_errors_in_the_data_stop_before_the_fit(stub, tmp_path, capsys, more):
    stub.findings = (JUMP, ERROR)
    assert fit(*more) == 2
    assert stub.calls == [] and written(tmp_path / "out") == {"check.json"}
    record = json.loads((tmp_path / "out" / "check.json").read_text())
    assert record["status"] == "errors" and record["findings"][1]["rows"] == [3]
    out, err = capsys.readouterr()
    assert "error: driven.csv: column x, row 3" in out
    assert err == f"jmbs: cart: 1 error in the study or its data, nothing was fitted: {ERROR.message}\n"


def test_errors_of_the_sensitivities_stop_too_and_can_be_skipped(stub, tmp_path):
    stub.check = Check((dataclasses.replace(WARNING, severity="error"),))
    assert fit() == 2 and stub.calls == ["check"]
    assert fit("--no-check") == 0 and stub.calls == ["check", "fit"]


@pytest.mark.parametrize("status, exit_status", [("not_converged", 1), ("diverged", 1), ("interrupted", 130)])
def test_a_fit_without_convergence_is_written_and_says_why(stub, tmp_path, capsys, status, exit_status):
    broken = {"driven": {"x": dataclasses.replace(channel(), predicted=np.full(300, np.nan))}}
    stub.fit = made_fit(status=status, message="100 iterations", channels=broken, chi2_per_degree=np.nan)
    assert fit() == exit_status
    assert written(tmp_path / "out") == FILES
    assert json.loads((tmp_path / "out" / "fit.json").read_text())["status"] == status
    assert f"jmbs: cart: {status}: 100 iterations\n" in capsys.readouterr().err


def test_wrong_input_is_one_line_and_writes_nothing(stub, tmp_path, capsys):
    stub.error = ConfigError("study.yaml", "parameters/cart/mas", "no such parameter", "cart/mass")
    assert fit() == 2
    out, err = capsys.readouterr()
    assert out == "" and err == "jmbs: study.yaml: parameters/cart/mas: found no such parameter, wanted cart/mass\n"
    assert written(tmp_path) == {"cart.yaml"}
    stub.error = FileNotFoundError(2, "No such file or directory", "study.yaml")
    assert fit() == 2 and "No such file" in capsys.readouterr().err


def test_an_earlier_fit_is_kept_unless_told(stub, tmp_path, capsys):
    assert fit() == 0
    before = (tmp_path / "out" / "fit.json").read_bytes()
    stub.fit, stub.error = made_fit(samples=7), AssertionError("the study was read although the folder is taken")
    assert fit() == 2 and fit("--check") == 2
    assert "earlier result (fit.json)" in capsys.readouterr().err
    assert (tmp_path / "out" / "fit.json").read_bytes() == before
    stub.error = None
    assert fit("--force") == 0 and stub.options["resume"] is False
    assert json.loads((tmp_path / "out" / "fit.json").read_text())["samples"] == 7


def test_resume_goes_on_where_there_is_something_to_go_on_with(stub, tmp_path, capsys):
    assert main(["fit", "study.yaml", "--resume"]) == 2
    assert "--resume: found no --out, wanted" in capsys.readouterr().err
    assert fit("--check", "--resume") == 2
    capsys.readouterr()
    assert fit("--check", "--profile", "cart/mass") == 2
    assert "--profile: found beside --check, wanted one of them" in capsys.readouterr().err
    assert fit("--check", "--cross-validate") == 2
    assert fit("--resume") == 0 and stub.options["resume"] is False
    assert "the fit starts anew" in capsys.readouterr().err
    checkpoint = tmp_path / "out" / "checkpoint.npz"
    for path in (tmp_path / "out").iterdir():
        path.unlink()
    checkpoint.write_bytes(b"state")
    assert fit() == 2 and "checkpoint.npz" in capsys.readouterr().err
    assert fit("--resume") == 0
    assert stub.options["resume"] is True and stub.options["checkpoint"].resolve() == checkpoint


def test_what_cannot_be_written_beside_the_fit_does_not_lose_it(stub, monkeypatch, tmp_path, capsys):
    stub.source = {"name": "cart", "model": "gone.yaml"}
    monkeypatch.setattr(jmbs.identification.Fit, "report", lambda *args: 1 / 0)
    monkeypatch.setattr(
        jmbs.simulation, "simulate", lambda model, **options: failed(pair_trajectory(0.5, count=23), 6.0)
    )
    assert main(["fit", "study.yaml", "--out", "out"]) == 0, "the status is that of the fit"
    assert written(tmp_path / "out") == FILES - {"fitted.yaml"}
    err = capsys.readouterr().err
    assert "the fit is written, but fitted.yaml is not" in err and "gone.yaml" in err
    assert "report.html is not: ZeroDivisionError" in err


def test_interrupted_without_a_result(stub, tmp_path, capsys):
    stub.fit = KeyboardInterrupt()
    assert fit() == 130
    assert capsys.readouterr().err.endswith("jmbs: interrupted\n")
    assert written(tmp_path / "out") == {"check.json"}


def test_a_recording_with_a_model_of_its_own_gets_a_config_of_its_own(stub, tmp_path):
    (tmp_path / "loaded.yaml").write_text(yaml.safe_dump({**CART, "name": "loaded"}))
    ts = np.linspace(0.0, 0.5, 6)
    stub.data += (Recording("loaded", ts, {"x": np.zeros(6)}, model=cart_model()),)
    stub.source["recordings"]["loaded"] = {"file": "b.csv", "model": "loaded.yaml"}
    stub.fit = made_fit(models={"driven": stub.fit.model, "loaded": cart_model().with_parameters({"cart/mass": 7.0})})
    assert fit() == 0
    assert written(tmp_path / "out") == FILES | {"fitted_loaded.yaml"}
    assert jmbs.load(tmp_path / "out" / "fitted_loaded.yaml").bodies["cart"].mass == 7.0


def test_default_folder(stub, tmp_path):
    assert main(["fit", "study.yaml", "--no-report"]) == 0
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.startswith("cart-") and written(folder) == FILES


def test_help_says_what_there_is(capsys):
    assert main(["fit", "--help"]) == 0
    text = capsys.readouterr().out
    for words in (
        "STUDY",
        "--check",
        "--no-check",
        "--resume",
        "--set",
        "--force",
        "--no-report",
        "--out",
        "converged",
    ):
        assert words in text


def test_progress_says_what_is_known(capsys):
    ProgressLines()(types.SimpleNamespace(**FIRST | {"stage": 1, "stages": 1}))
    line = capsys.readouterr().err
    assert "horizon" not in line and "largest change" not in line and "iteration   0" in line


def test_inputs_as_runs_take_them():
    times, values = np.array([0.0, 1.0, 2.0]), np.array([5.0, 6.0, 7.0])
    recording = Recording("r", times, {}, {"a": Input(times, values), "b": Input(times, values, "zero"), "c": 3.0})
    inputs = plain_inputs(recording)
    assert inputs["c"] == 3.0 and inputs["a"] == (times, values)
    assert [float(inputs["b"](jnp.asarray(t), None)) for t in (-0.1, 0.0, 0.99, 1.0, 5.0)] == [5.0, 5.0, 5.0, 6.0, 7.0]


def test_a_model_error_names_the_study(stub, capsys):
    stub.fit = ModelError("cart/mass", "nothing", "a start")
    assert fit() == 2
    assert capsys.readouterr().err.endswith("jmbs: study.yaml: cart/mass: found nothing, wanted a start\n")


def test_an_account_that_fails_is_told_and_the_report_is_there(stub, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(jmbs.simulation, "simulate", lambda model, **options: 1 / 0)
    monkeypatch.setattr(
        jmbs.identification.Fit, "report", lambda fit, path, trajectory, profiles: path.write_text(str(trajectory))
    )
    assert main(["fit", "study.yaml", "--out", "out"]) == 0
    assert (tmp_path / "out" / "report.html").read_text() == "None"
    assert "its energy account is not: ZeroDivisionError" in capsys.readouterr().err
