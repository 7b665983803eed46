"""A fit as plain values, as text and as a dataset; the keys that readers of `fit.json` rely on."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest
from fabricated_fits import NAMES, channel, made_fit

from jmbs.identification import Check, Finding, Fit, InvisibleDirection, check_record, check_summary, fit_record

KEYS = {
    *("schema", "name", "status", "message", "study", "jmbs", "parameters", "derived", "order", "covariance"),
    *("correlation", "scaling", "singular_values", "null_dimension", "invisible_directions", "noise", "samples"),
    *("chi2_per_degree", "residuals", "heldout", "cross_validation", "evaluations", "seconds", "warnings"),
}


@pytest.fixture(scope="module")
def fit() -> Fit:
    return made_fit()


def refuse(name: str):
    raise AssertionError(f"{name} in a file")


def written(fit: Fit, tmp_path) -> dict:
    fit.to_json(tmp_path / "fit.json")
    return json.loads((tmp_path / "fit.json").read_text(encoding="utf-8"), parse_constant=refuse)


def test_the_file_has_the_keys_of_its_schema(fit: Fit, tmp_path):
    record = written(fit, tmp_path)
    assert record == fit_record(fit)
    assert set(record) == KEYS and record["schema"] == "jmbs-fit-result/1"
    assert list(record["parameters"]) == list(fit.parameters) and record["order"] == list(NAMES)
    assert set(record["parameters"]["cart/mass"]) == {
        *("estimate", "start", "unit", "kind", "visible", "standard_error", "interval", "at_bound"),
        *("relative_to_prior", "standard_error_robust"),
    }
    derived = {"estimate", "expression", "visible", "standard_error", "interval", "standard_error_robust"}
    assert set(record["derived"]["rate"]) == derived
    assert record["null_dimension"] == 1
    (direction,) = record["invisible_directions"]
    assert direction["coefficients"] == {"cart/mass": 1.0, "rail/friction/viscous": 1.0}
    assert record["study"] == fit.source
    assert [warning["code"] for warning in record["warnings"]] == ["invisible_direction", "at_bound"]


def test_what_is_not_visible_has_no_error(fit: Fit, tmp_path):
    record = written(fit, tmp_path)
    for one in record["parameters"].values():
        assert (one["standard_error"] is None) == (one["interval"] is None) == (not one["visible"])
    assert record["covariance"][0] == [None, None, None] and record["covariance"][2][2] == 1e-6


@pytest.mark.parametrize("worst", [np.inf, np.nan, 1e300])
def test_no_number_is_infinite(tmp_path, worst: float):
    broken = channel()
    broken.predicted[7] = worst
    fit = made_fit(status="diverged", chi2_per_degree=np.nan, channels={"driven": {"x": broken}})
    record = written(fit, tmp_path)
    assert record["chi2_per_degree"] is None
    rms = record["residuals"]["driven"]["x"]["rms"]
    assert rms == pytest.approx(1e300 / 300**0.5) if np.isfinite(worst) else rms is None


def test_statistics_are_those_of_the_residual(fit: Fit):
    one, found = fit.channels["driven"]["v"], fit_record(fit)["residuals"]["driven"]["v"]
    residual = one.measured - one.predicted
    assert found["samples"] == residual.size
    assert found["rms"] == pytest.approx(np.sqrt(np.mean(residual**2)))
    assert found["rms_over_noise"] == pytest.approx(found["rms"] / 0.02)
    assert found["mean"] == pytest.approx(residual.mean())
    assert found["largest"] == np.abs(residual).max() == abs(residual[one.ts == found["largest_at"]][0])
    assert found["lag1"] == pytest.approx(np.corrcoef(residual[1:], residual[:-1])[0, 1], abs=0.01)
    assert set(fit_record(fit)["heldout"]["test"]["x"]) >= {"rms", "rms_over_noise"}


def test_a_channel_without_samples_has_no_statistics():
    empty = channel(n=0)
    record = fit_record(made_fit(channels={"driven": {"x": empty}}))["residuals"]["driven"]["x"]
    assert record.pop("samples") == 0 and set(record.values()) == {None}


def test_residuals_are_arrays_with_statistics(fit: Fit):
    one = fit.residuals["driven"]["x"]
    np.testing.assert_array_equal(np.asarray(one), one.measured - one.predicted)
    np.testing.assert_allclose(one.whitened, one.residual / one.noise)


def test_the_summary_says_it_all(fit: Fit):
    text = fit.summary()
    for words in (*fit.parameters, "not visible", "converged", "at its bound", "tied", "in proportion", "held out"):
        assert words in text
    assert "40 simulations" in text and "warning: only rail/friction/viscous / cart/mass is seen" in text
    assert "held out: predicted to 0.9" in text and "robust" not in text
    assert "\x1b" not in made_fit(name="\x1b[31mred").summary()


def test_robust_errors_and_what_is_left_out_are_told_where_they_are(fit: Fit):
    bias = dataclasses.replace(fit.parameters["sensors/x/bias"], standard_error_robust=0.0034)
    left_out = {"driven": {"x": channel(seed=3)}}
    more = made_fit(parameters={**fit.parameters, "sensors/x/bias": bias}, cross_validation=left_out)
    lines = more.summary().splitlines()
    assert "robust" in lines[1] and any("0.0034" in line and "sensors/x/bias" in line for line in lines)
    assert any(line.startswith("driven/x (left out)") for line in lines) and "in 2 channels" in more.summary()
    assert set(fit_record(more)["cross_validation"]["driven"]["x"]) >= {"rms", "rms_over_noise"}
    assert "nothing says how the model predicts" in made_fit(heldout={}).summary()


def test_the_dataset_holds_estimates_and_samples(fit: Fit, tmp_path):
    dataset = fit.to_xarray()
    assert list(dataset.parameter.values) == list(fit.parameters)
    assert dataset.estimate.sel(parameter="cart/mass") == 2.3
    assert math.isnan(dataset.standard_error.sel(parameter="cart/mass"))
    np.testing.assert_array_equal(dataset.interval.sel(parameter="sensors/x/bias"), [0.008, 0.012])
    held = dataset.where(dataset.role == "test", drop=True)
    np.testing.assert_array_equal(held.measured, fit.heldout["test"]["x"].measured)
    np.testing.assert_array_equal(dataset.residual, dataset.measured - dataset.predicted)
    dataset.to_netcdf(tmp_path / "fit.nc")


def test_a_check_as_values_and_in_words():
    direction = InvisibleDirection(0.0, {"a": 1.0, "b": 1.0}, "a and b in proportion")
    findings = (Finding("not_a_number", "error", "x.csv: row 3: nan", "driven", "x", (3,)),)
    check = Check(findings, np.array([3.0, 0.0]), (direction,), ("c",), {"a": None, "d": 0.1})
    record = json.loads(json.dumps(check_record(check), allow_nan=False))
    assert set(record) == {
        *("status", "findings", "singular_values", "invisible_directions", "no_effect", "predicted_standard_errors"),
        *("expected_seconds", "seconds"),
    }
    assert record["status"] == "errors" and record["no_effect"] == ["c"]
    assert record["findings"] == [
        {
            **{"code": "not_a_number", "severity": "error", "recording": "driven", "channel": "x", "rows": [3]},
            "message": "x.csv: row 3: nan",
        }
    ]
    text = check_summary(check)
    for words in ("error: x.csv: row 3", "not visible: a and b in proportion", "no effect: c", "d", "no fit"):
        assert words in text
    assert Check(()).status == "clean" and Check((Finding("time_jump", "warning", ""),)).status == "warnings"
    assert check_summary(Check(())) == "check: nothing is wrong"
