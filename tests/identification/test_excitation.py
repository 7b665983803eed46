"""Bases of designed inputs, and criteria of information: what holds for all of them, without a run."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import recorded_pendulums as pendulums

import jmbs
from jmbs.errors import ModelError
from jmbs.identification import BSpline, Input, InputTable, Multisine, Parameter, Sensor, check_excitation
from jmbs.identification.excitation import Excitation
from jmbs.identification.information import POWERS, criterion_of, information_gain, left_of
from jmbs.identification.study import table_times
from jmbs.library.mechanics import TableSpec

PORT = "hinge/actuation"
BASES = (Multisine(2.0, 1), Multisine(1.7, 7), BSpline(12), BSpline(5, 1), BSpline(9, 5))


@pytest.mark.parametrize("basis", BASES, ids=str)
def test_inputs_keep_limits_that_their_rows_keep(basis):
    """At all times, the rate too, whatever the coefficients; and rates are rates of values."""
    duration, rng = basis.length() or 3.0, np.random.default_rng(0)
    t = np.linspace(0.0, duration, 4001)
    functions = basis.functions(t, duration)
    slopes = np.diff(functions, axis=0) / np.diff(t)[:, None]
    for _ in range(20):
        coefficients = rng.normal(size=functions.shape[1])
        for rows, values in ((basis.value_rows(duration), functions), (basis.rate_rows(duration), slopes)):
            bound, reached = np.max(np.abs(rows @ coefficients)), np.max(np.abs(values @ coefficients))
            assert reached <= bound / basis.margin * (1 + 1e-12)
            assert reached >= 0.2 * bound


def test_splines_begin_and_end_at_zero():
    ends = BSpline(8).functions(np.array([0.0, 2.0]), 2.0)
    np.testing.assert_allclose(ends, 0, atol=1e-15)


@pytest.mark.parametrize("criterion", POWERS)
def test_criteria_and_their_derivatives(criterion):
    rng = np.random.default_rng(1)
    jacobian, more = rng.normal(size=(30, 4)) * [1e3, 1.0, 30.0, 5.0], rng.normal(size=(3, 4))
    value, slope = criterion_of(jacobian, criterion)
    for _ in range(3):
        change = rng.normal(size=jacobian.shape) * np.abs(jacobian)
        ends = [criterion_of(jacobian + sign * 1e-5 * change, criterion)[0] for sign in (1.0, -1.0)]
        assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(float(np.sum(slope * change)), rel=1e-6)
    # More rows never tell less, and twice the information is log 4 more.
    assert criterion_of(np.concatenate([jacobian, more]), criterion)[0] > value
    assert criterion_of(2 * jacobian, criterion)[0] == pytest.approx(value + np.log(4), abs=0.02)


def test_criteria_are_means_of_variances():
    jacobian = np.diag([100.0, 7.0, 3.0])
    variances = 1 / np.diag(jacobian) ** 2
    values = {name: criterion_of(jacobian, name)[0] for name in POWERS}
    assert values["D"] == pytest.approx(-np.mean(np.log(variances)), rel=1e-3)
    assert values["A"] == pytest.approx(-np.log(np.mean(variances)), rel=1e-3)
    assert values["E"] == pytest.approx(-np.log(np.max(variances)), abs=np.log(3) / POWERS["E"] + 3e-3)
    assert information_gain(jacobian, np.diag([10.0, 7.0, 3.0])) == pytest.approx(np.log(10), rel=1e-3)


def test_unknowns_of_recordings_are_taken_off():
    """What is left says of shared unknowns what all rows say, with the others unknown."""
    jacobian = np.random.default_rng(2).normal(size=(20, 6))
    left = left_of(jacobian, 4)
    whole = np.linalg.inv(jacobian.T @ jacobian)[:4, :4]
    np.testing.assert_allclose(np.linalg.inv(left.T @ left), whole, rtol=1e-9)
    doubled = np.concatenate([jacobian, jacobian[:, 4:5]], axis=1)  # of which nothing shows the single ones
    np.testing.assert_allclose(left_of(doubled, 4).T @ left_of(doubled, 4), left.T @ left, rtol=1e-9)


def test_tables_have_times_in_any_form():
    """So that a fit's steps end on the kinks of all of them."""
    times, values = np.linspace(0.0, 1.0, 5), np.zeros(5)
    for table in (Input(times, values), (times, values), InputTable(times, values), TableSpec(times, values)):
        np.testing.assert_array_equal(table_times(table), times)
    assert table_times(0.5) is None and table_times(np.zeros(3)) is None


@pytest.fixture(scope="module")
def model():
    return jmbs.compile(pendulums.mechanism())


GOOD = Excitation({PORT: Multisine(1.0, 2)}, {PORT: 0.8, "hinge/q": (-1.0, 0.9)})
REFUSED = {
    "no inputs": ({"inputs": {}}, "inputs: found none"),
    "unknown port": ({"inputs": {"hnge/actuation": Multisine(1.0, 2)}}, "inputs/hnge.*nearest known is hinge/act"),
    "no basis": ({"inputs": {PORT: 3.0}}, "inputs/hinge/actuation: found 3.0, wanted a jmbs.Multisine"),
    "period": ({"inputs": {PORT: Multisine(-1.0, 2)}}, "inputs/hinge/actuation/period: found -1.0, wanted a positive"),
    "harmonics": ({"inputs": {PORT: Multisine(1.0, 0)}}, "harmonics: found 0, wanted a whole number, 1 or more"),
    "coefficients": ({"inputs": {PORT: BSpline(1)}}, "coefficients: found 1, wanted a whole number, 2 or more"),
    "no duration": ({"inputs": {PORT: BSpline(9)}}, "duration: found nothing"),
    "duration": ({"duration": 0.0}, "duration: found 0.0, wanted a positive number, s"),
    "slow samples": ({"rate": 10.0}, "rate: found 10 Hz, wanted 20 Hz or more"),
    "many samples": ({"rate": 1e9}, "rate: found 1e.09 Hz for 1 s, wanted no more than 1e.07 samples"),
    "criterion": ({"criterion": "d"}, "criterion: found 'd', wanted one of D, A, E"),
    "starts": ({"starts": 0}, "starts: found 0, wanted a whole number, 1 or more"),
    "no limit": ({"limits": {"hinge/q": 1.0}}, "limits/hinge/actuation: found nothing"),
    "unknown limit": ({"limits": {PORT: 1.0, "hinge/w": 1.0}}, "limits/hinge/w: .*nearest known is hinge/"),
    "negative limit": (
        {"limits": {PORT: -1.0}},
        "limits/hinge/actuation: found -1.0, wanted a positive number",
    ),
    "limits in reverse": ({"limits": {PORT: 1.0, "hinge/q": (1.0, -1.0)}}, "limits/hinge/q: .*a lower and an upper"),
    "one-sided input": (
        {"limits": {PORT: (0.1, 1.0)}},
        "limits/hinge/actuation: found 0.1 to 1, wanted limits",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_experiments_are_refused(model, case):
    changes, message = REFUSED[case]
    with pytest.raises(ModelError, match=message):
        check_excitation(dataclasses.replace(GOOD, **changes), model)


def test_noise_that_nothing_shows_is_refused(model):
    with pytest.raises(ModelError, match="sensors/q/noise: found noise: estimate, wanted a number"):
        jmbs.design_excitation(model, ["bob/mass"], {"q": Sensor("hinge/q")}, inputs=GOOD.inputs, limits={PORT: 1.0})
    with pytest.raises(ModelError, match="sensors: found none"):
        jmbs.design_excitation(model, {"bob/mass": Parameter()}, inputs=GOOD.inputs, limits={PORT: 1.0})


STUDY = {
    "schema": "jmbs-fit/1",
    "model": "pendulum.yaml",
    "parameters": {"bob/mass": {}},
    "sensors": {"q": {"output": "hinge/q", "noise": 2e-3}},
    "design": {"inputs": {PORT: {"basis": "multisine", "period": 1.0, "harmonics": 2}}, "limits": {PORT: 0.8}},
}


@pytest.fixture
def folder(tmp_path):
    jmbs.io.write_config(pendulums.mechanism(), tmp_path / "pendulum.yaml")
    return tmp_path


def load(folder, **design):
    study = {**STUDY, "design": {**STUDY["design"], **design}}
    (folder / "study.yaml").write_text(json.dumps(study))
    return jmbs.load_study(folder / "study.yaml")


def test_a_study_without_recordings_is_read_for_its_design(folder):
    study = load(folder, criterion="E", duration=2.0)
    assert study.data == () and study.design == Excitation({PORT: Multisine(1.0, 2)}, {PORT: 0.8}, 2.0, criterion="E")
    (folder / "study.yaml").write_text(json.dumps({k: v for k, v in STUDY.items() if k != "design"}))
    with pytest.raises(ModelError, match="recordings: found none, wanted at least one"):
        jmbs.load_study(folder / "study.yaml")


@pytest.mark.parametrize(
    "design, message",
    [
        ({"input": {}}, "design/input: found an unknown key.*nearest known is inputs"),
        ({"inputs": {PORT: {"basis": "sine"}}}, "design/inputs/hinge/actuation/basis: found 'sine'"),
        ({"inputs": {PORT: {"period": 1.0}}}, "design/inputs/hinge/actuation/harmonics: found nothing"),
        (
            {"inputs": {PORT: {**STUDY["design"]["inputs"][PORT], "degree": 2}}},
            "degree: found 2, wanted period and",
        ),
        ({"limits": {PORT: [1.0, None]}}, "design/limits/hinge/actuation: .*a positive number for both signs"),
        ({"limits": {PORT: 1.0, "hinge/p": 1.0}}, "design/limits/hinge/p: .*nearest known is hinge/"),
        ({"rate": 1.0}, "design/rate: found 1 Hz"),
    ],
)
def test_wrong_sections_are_refused(folder, design, message):
    with pytest.raises(ModelError, match=message):
        load(folder, **design)
