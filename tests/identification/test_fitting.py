"""`jmbs.fit` and `jmbs.check_fit`: a study from a file, as it is, or from its parts."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pandas as pd
import pytest
from fabricated_fits import cart_mechanism, cart_model, channel, made_fit

import jmbs
import jmbs.identification
import jmbs.io
from jmbs.errors import ModelError
from jmbs.identification import Channel, Check, Estimator, Parameter, Prior, Recording, Sensor, Study
from jmbs.identification.data_findings import recording_findings
from jmbs.identification.posing import pose

TS = np.linspace(0.0, 1.0, 5)
RECORDING = Recording("driven", TS, {"rail/q": np.zeros(5)})
STUDY = Study(cart_model(), (RECORDING,), {"cart/mass": Parameter()}, {"rail/q": Sensor("rail/q")})


@pytest.fixture
def seen(monkeypatch):
    """What the estimator was called with."""
    seen = {}

    def estimate(study, **options):
        seen.update(study=study, **options)
        return made_fit(channels={"driven": {"x": channel(drift=3.0)}})

    monkeypatch.setattr(jmbs.identification, "fit_study", estimate, raising=False)
    monkeypatch.setattr(jmbs.identification, "check_fit", lambda study: Check(study.findings), raising=False)
    monkeypatch.setattr(jmbs.io, "load_study", lambda path: STUDY, raising=False)
    return seen


def test_from_a_file_and_from_a_study(seen):
    assert jmbs.fit("study.yaml").status == "converged" and seen["study"] is STUDY
    jmbs.fit(STUDY, estimator=Estimator(starts=3), key=7, checkpoint="a.npz", resume=True, callback=print)
    assert seen["study"].estimator.starts == 3 and seen["study"].seed == 7 and seen["resume"] is True
    assert seen["checkpoint"].name == "a.npz" and seen["progress"] is print


def test_from_parts(seen):
    prior = Prior(2.0, 0.5)
    jmbs.fit(cart_mechanism(), RECORDING, ["cart/mass", "rail/friction/viscous"], prior={"cart/mass": prior})
    study = seen["study"]
    assert study.parameters == {"cart/mass": Parameter(prior=prior), "rail/friction/viscous": Parameter()}
    assert study.sensors == {"rail/q": Sensor("rail/q")} and study.data == (RECORDING,) and study.name == "cart"
    jmbs.fit(cart_model(), [RECORDING], {"cart/mass": Parameter(3.0)}, sensors={"x": "rail/q"}, ties={"a": "b"})
    assert seen["study"].sensors == {"x": Sensor("rail/q")} and seen["study"].ties == {"a": "b"}


@pytest.mark.parametrize("key", [jax.random.key(11), jax.random.PRNGKey(11)])
def test_keys_of_jax(seen, key):
    jmbs.fit(STUDY, key=key)
    assert seen["study"].seed == 11


def test_residuals_are_judged(seen):
    assert "residuals_not_white" in [warning.code for warning in jmbs.fit(STUDY).warnings]


def test_a_check_takes_the_same_arguments(seen):
    assert jmbs.check_fit(STUDY).status == jmbs.check_fit("study.yaml").status == "clean"
    assert jmbs.check_fit(cart_model(), RECORDING, ["cart/mass"]).findings == () and not seen


@pytest.mark.parametrize(
    "arguments, more, words",
    [
        ((3,), {}, "model: found a int"),
        ((STUDY, RECORDING), {}, "data: .*wanted none beside a study"),
        (("study.yaml",), {"ties": {"a": "b"}}, "ties"),
        ((cart_model(), [RECORDING]), {}, "parameters: found nothing"),
        ((cart_model(), [RECORDING], "cart/mass"), {}, "parameters: .*a list of paths"),
        ((cart_model(), [RECORDING], {"cart/mass": 3.0}), {}, "parameters/cart/mass: found 3.0"),
        ((cart_model(), ["driven"], ["cart/mass"]), {}, r"data\[0\]"),
        ((cart_model(), [RECORDING], ["cart/mass"]), {"prior": {"mass": Prior(1.0, 1.0)}}, "prior/mass.*cart/mass"),
    ],
)
def test_refusals(seen, arguments, more, words):
    with pytest.raises(ModelError, match=words):
        jmbs.fit(*arguments, **more)
    assert not seen


MASS = {"cart/mass": Parameter()}


def driven(given) -> Recording:
    return dataclasses.replace(RECORDING, inputs={"rail/actuation": given})


MISTAKES = {
    "logarithm of a negative mean": (
        {"cart/mass": Parameter(prior=Prior(-0.5, 1.0, log=True))},
        {},
        "prior/mean: .*-0.5",
    ),
    "no deviation": ({"cart/mass": Parameter(prior=Prior(0.5, 0.0))}, {}, "parameters/cart/mass/prior/std: found 0"),
    "logarithm of what may be zero": (
        MASS,
        {"sensors": {"rail/q": Sensor("rail/q", bias=Parameter(prior=Prior(0.1, 1.0, log=True)))}},
        "sensors/rail/q/bias/prior/log: found a logarithm of what may be zero",
    ),
    "gain of zero": (MASS, {"sensors": {"rail/q": Sensor("rail/q", gain=0.0)}}, "sensors/rail/q/gain: found 0, wanted"),
    "start of a gain at zero": (
        MASS,
        {"sensors": {"rail/q": Sensor("rail/q", gain=Parameter(0.0))}},
        "sensors/rail/q/gain/start: found 0, wanted",
    ),
    "missing number in an input": (
        MASS,
        {"data": (driven(([0.0, 0.5, 1.0], [0.0, np.nan, 1.0])),)},
        "recordings/driven/inputs/rail/actuation/values: found nan in row 2, wanted finite numbers",
    ),
    "input that is not finite": (MASS, {"data": (driven(np.inf),)}, "inputs/rail/actuation: found inf, wanted"),
    "input of one time": (MASS, {"data": (driven((0.0, 1.0)),)}, "inputs/rail/actuation: found times of shape"),
    "gain that is measured": (
        MASS,
        {"sensors": {"rail/q": Sensor("rail/q", gain=Parameter("measured"))}},
        "sensors/rail/q/gain/start: found 'measured', wanted",
    ),
    "function as an input": (MASS, {"data": (driven(np.sin),)}, "inputs/rail/actuation: found a function, wanted"),
    "tie that is no number": (
        MASS,
        {"ties": {"rail/friction/viscous": "log(-1) * cart/mass"}},
        "ties/rail/f.*nan at the",
    ),
    "derived value of a taken name": (
        MASS,
        {"derived": {"cart/mass": "2 * cart/mass"}},
        "derived/cart/mass: found the name",
    ),
}


@pytest.mark.parametrize("parameters, more, words", MISTAKES.values(), ids=MISTAKES)
def test_what_cannot_be_posed_is_named(parameters, more, words):
    with pytest.raises(ModelError, match=words):
        pose(dataclasses.replace(STUDY, parameters=parameters, **more))


@pytest.mark.parametrize(
    "ts, values, words",
    [
        (TS, np.zeros(4), r"recordings/r/channels/x: found shape \(4,\), wanted a value for each of the 5 times"),
        (TS, np.zeros((5, 1)), r"found shape \(5, 1\)"),
        (TS[None], np.zeros(5), r"recordings/r/ts: found times of shape \(1, 5\)"),
        (TS, np.zeros(5) + 0j, "found values of type complex128, wanted real numbers"),
        (TS, ["a", "b", "c", "d", "e"], "wanted real numbers"),
        (TS, np.array(["1", "2", "3", "4", "5"], object), "found words, wanted real numbers"),
        (TS, [1, 2, 3, 4, 10**400], "wanted real numbers"),
        (TS, Channel(np.zeros(5), np.ones(4)), r"channels/x/noise: found shape \(4,\), wanted one number, or"),
        (TS.astype("datetime64[s]"), np.zeros(5), "recordings/r/ts: found values of type datetime64"),
    ],
)
def test_recordings_are_arrays_of_numbers(ts, values, words):
    with pytest.raises(ModelError, match=words):
        recording_findings(Recording("r", ts, {"x": values}), {}, 0.0)


def test_recordings_take_what_pandas_holds():
    """Whose rows are called by labels: the first is not [0] where rows were left out."""
    table = pd.DataFrame({"t": TS, "x": [0.0, 1.0, None, 3.0, 4.0]})[1:]
    recording = Recording("r", table.t, {"x": Channel(table.x, 0.1), "y": table.x.astype(object)})
    np.testing.assert_array_equal(recording.ts, TS[1:])
    np.testing.assert_array_equal(recording.channels["x"].values, [1.0, np.nan, 3.0, 4.0])
    np.testing.assert_array_equal(recording.channels["y"], [1.0, np.nan, 3.0, 4.0])
    assert recording.channels["x"].noise == 0.1
    masked = np.ma.masked_equal([0.0, 9.0, 2.0], 9.0)
    np.testing.assert_array_equal(Recording("r", TS[:3], {"x": masked}).channels["x"], [0.0, np.nan, 2.0])


def test_a_start_that_no_body_has_is_named():
    """Before anything is compiled; each entry alone may be what it is. It was said that the model does not run."""
    study = dataclasses.replace(STUDY, parameters={"cart/inertia[0,0]": Parameter(start=100.0)})
    words = r"parameters/cart/inertia: found .* at the start, wanted principal moments that obey the triangle"
    with pytest.raises(ModelError, match=words):
        pose(study)


@pytest.mark.parametrize(
    "wrong",
    [
        {"segments": 0},
        {"scale": -1.0},
        {"scale": np.nan},
        {"tolerance": 0.0},
        {"starts": 0},
        {"starts": 1.5},
        {"max_iterations": 0},
        {"optimiser": {"name": "lbfgs"}},
        {"trajectory": [1]},
    ],
)
def test_estimators_of_numbers_that_cannot_be_are_refused(wrong):
    (name,) = wrong
    with pytest.raises(ModelError, match=f"estimator/{name}: found .*, wanted (a .*positive|a jmbs.Opt|a dict)"):
        Estimator(**wrong)
