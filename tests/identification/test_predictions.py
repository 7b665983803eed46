"""What a fit is asked afterwards: predictions with standard deviations, profiles, and fits with one recording less."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pytest
import recorded_pendulums as pendulums
from fabricated_fits import made_fit
from recorded_pendulums import INERTIA, MASS, NOISE, TABLE, TRUTH, recording, study, torque

from jmbs.errors import ModelError
from jmbs.identification import Estimator, Input, Recording, fit_study
from jmbs.identification.estimation import rows_of
from jmbs.identification.quantities import quantity_at
from jmbs.identification.trust import Sensitivity

PROGRAMS = {f"jit({name})" for name in ("residual_and_jacobian", "prediction", "_begin", "_advance", "_finish")}
TS = np.arange(0.0, 1.5, 0.013)
DRIVE = {"hinge/actuation": Input(TABLE, torque("driven"))}


@pytest.fixture(scope="module")
def fitted():
    return pendulums.fitted()


@pytest.fixture
def compiled():
    """The programs that JAX has compiled since the test began."""
    names = []

    def listen(event: str, duration: float, **more) -> None:
        del duration
        if event == "/jax/core/compile/backend_compile_duration" and more.get("fun_name") in PROGRAMS:
            names.append(more["fun_name"])

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield names
    jax.monitoring.unregister_event_duration_listener(listen)


@pytest.mark.parametrize("number", [0, 2])
def test_recordings_of_the_fit_are_shown_as_it_showed_them(fitted, compiled, number: int):
    given, fit = fitted
    of = given.data[number]
    shown = fit.predict(of)["q"]
    np.testing.assert_allclose(shown.values, {**fit.channels, **fit.heldout}[of.name]["q"].predicted, atol=1e-12)
    np.testing.assert_array_equal(np.asarray(shown), shown.values)
    assert shown.unit == "rad" and np.all(shown.noise == NOISE) and compiled == []
    assert np.all(shown.standard_deviation > 0) and np.all(shown.standard_deviation < NOISE)


def slopes(start: float) -> np.ndarray:
    """By differences of another integrator: what the angle (n,) does where one of the parameters changes."""
    given = {"mass": MASS, "inertia": INERTIA, "damping": pendulums.DAMPING}
    columns = []
    for key, value in given.items():
        ends = [pendulums.motion("driven", TS, **{**given, key: value * (1 + s)}, start=start) for s in (1e-4, -1e-4)]
        columns.append((ends[0] - ends[1]) / (2e-4 * value))
    return np.stack(columns, axis=1)


def test_without_channels_the_start_is_the_models_and_the_error_that_of_the_parameters(fitted, compiled):
    """The delta method, with derivatives of another integrator and the covariance that the fit gives."""
    _, fit = fitted
    shown = fit.predict(Recording("new", TS, {}, DRIVE))["q"]
    assert compiled == []
    covariance = fit.covariance[:3, :3]
    assert list(TRUTH) == list(fit.order[:3])
    expected = np.sqrt(np.einsum("ni,ij,nj->n", slopes(0.5), covariance, slopes(0.5)))
    np.testing.assert_allclose(shown.standard_deviation, expected, rtol=0.03, atol=1e-6)
    truth = pendulums.motion("driven", TS, start=0.5)
    assert np.all(np.abs(shown.values - truth) < 4 * shown.standard_deviation + 1e-4)


def test_errors_of_a_recording_with_channels_are_those_of_repeats(fitted):
    """Its start is estimated from its first part: by parameters drawn from their covariance, and new noise."""
    _, fit = fitted
    solution, rng = fit.solution, np.random.default_rng(0)
    draws = rng.multivariate_normal(solution.x, solution.sensitivity.covariance, size=16)
    found = []
    for seed, x in enumerate(draws):
        other = dataclasses.replace(fit, solution=dataclasses.replace(solution, x=x))
        found.append(other.predict(recording("test", 100 + seed))["q"].values)
    expected = fit.predict(recording("test", 99))["q"].standard_deviation
    ratio = np.std(found, axis=0, ddof=1) / expected
    assert 0.65 < np.median(ratio) < 1.5 and np.all(ratio < 2)


def test_a_model_that_does_not_hold_elsewhere_is_told(fitted):
    """The held-out recording has another damping; one that is right is missed by its noise alone."""
    given, right = fitted
    assert "heldout_error" not in [finding.code for finding in right.warnings]
    test = given.data[2]
    other = pendulums.motion("test", np.asarray(test.ts), damping=1.3 * pendulums.DAMPING)
    wrong = dataclasses.replace(test, channels={"q": other + NOISE * np.random.default_rng(1).normal(size=len(other))})
    found = fit_study(dataclasses.replace(given, data=(*given.data[:2], wrong)))
    (finding,) = [finding for finding in found.warnings if finding.code == "heldout_error"]
    assert (finding.recording, finding.channel) == ("test", "q") and "the model does not hold there" in finding.message
    assert found.parameters["bob/mass"].estimate == pytest.approx(right.parameters["bob/mass"].estimate, rel=1e-12)


def test_what_is_not_visible_has_no_error():
    """Two values of which only the sum is seen; the third quantity hardly moves, and is judged by the others."""
    directions = np.array([[1.0, 1.0], [1.0, -1.0]]) / np.sqrt(2)
    seen = Sensitivity(
        *(("a", "b"), np.ones(2), np.ones(2), np.eye(2)),
        np.array([10.0, 0.0]),
        directions,
        np.array([False, True]),
        np.outer(directions[0], directions[0]) / 100,
    )
    found = seen.errors(np.array([[1.0, 1.0], [1.0, 0.0], [0.0, 1e-12], [0.0, 0.0]]))
    np.testing.assert_allclose(found, [np.sqrt(2) / 10, np.nan, 0.0, 0.0], atol=1e-12)


@pytest.mark.parametrize(
    "given, words",
    [
        (Recording("new", TS, {"p": 0 * TS}, DRIVE), "channels/p: found no such sensor"),
        (Recording("new", TS[::-1], {}, DRIVE), "increasing"),
        (Recording("new", TS, {"q": TS[:3]}, DRIVE), "a value for each of the"),
        (Recording("new", TS + 1, {}, DRIVE), "hinge/actuation: found values from 0 to 2 s"),
        (Recording("new", TS, {}, DRIVE, set={"bob/mas": 1.0}), "recordings/new/set"),
    ],
)
def test_what_cannot_be_predicted_is_refused(fitted, given: Recording, words: str):
    with pytest.raises(ModelError, match=words):
        fitted[1].predict(given)


def test_a_fit_without_an_estimate_is_not_asked():
    with pytest.raises(ModelError, match="predict: found a fit that is converged, without an estimate"):
        made_fit().predict(Recording("new", TS, {}))
    with pytest.raises(ModelError, match="profile"):
        made_fit().profile("cart/mass")


@pytest.mark.parametrize("name", ["bob/mass", "rate"])
def test_a_profile_is_the_interval_of_a_problem_that_is_nearly_linear(fitted, compiled, name: str):
    _, fit = fitted
    profile = fit.profile(name, n=7)
    assert compiled == [] and np.all(profile.converged) and np.all(np.diff(profile.values) > 0)
    one = {**fit.parameters, **fit.derived}[name]
    assert profile.values[3] == profile.estimate == one.estimate and profile.increase[3] == 0
    np.testing.assert_allclose(profile.interval, one.interval, atol=0.02 * one.standard_error)
    distance = (profile.values - one.estimate) / one.standard_error
    np.testing.assert_allclose(profile.increase, distance**2, rtol=0.02)
    assert max(distance) == pytest.approx(3, rel=0.02) and profile.lowest == 0


def test_along_a_profile_no_other_value_does_better(fitted):
    """There the gradient of chi-squared is along that of the value (Lagrange)."""
    _, fit = fitted
    profile, solution = fit.profile("bob/mass", n=3), fit.solution
    blocks = solution.problem.unknowns.blocks
    evaluate = rows_of(solution.problem, 1.0, pull=False)[0]
    for i in (0, 2):
        values = [np.array([profile.others[name][i] for name in block.names]) for block in blocks]
        x = np.concatenate([b.transform.coordinates(v) for b, v in zip(blocks, values, strict=True)])
        residual, jacobian = evaluate(x)
        assert np.sum(residual**2) - np.sum(evaluate(solution.x)[0] ** 2) == pytest.approx(
            profile.increase[i], rel=1e-6
        )
        slope = quantity_at(solution.problem, "bob/mass", x)[1]
        gradient = jacobian.T @ residual
        across = gradient - slope * (gradient @ slope) / (slope @ slope)
        scale = np.linalg.norm(jacobian, axis=0)
        assert np.max(np.abs(across / scale)) < 1e-3 * np.max(np.abs(gradient / scale))


@pytest.mark.parametrize(
    "name, more, words",
    [("bob/mas", {}, "bob/mass"), ("bob/mass", {"n": 2}, "3 points"), ("rate", {"span": 0}, "span")],
)
def test_what_has_no_profile_is_refused(fitted, name, more, words):
    with pytest.raises(ModelError, match=words):
        fitted[1].profile(name, **more)


def test_leaving_one_out_is_a_fit_of_the_others(fitted, compiled):
    """Two roads: the recording left out of the whole fit, and held out of a fit that never saw it, also where the
    other one shows the mass in proportion to the damping only."""
    del fitted  # which has compiled all
    names = ("free", "driven", "test")
    whole = fit_study(study(names, estimator=Estimator(cross_validation=True)))
    assert set(whole.cross_validation) == {"free", "driven"} and compiled == []
    given = study(names)
    for name in ("free", "driven"):
        data = tuple(dataclasses.replace(r, role="test") if r.name == name else r for r in given.data)
        alone = fit_study(dataclasses.replace(given, data=data))
        shown, held = whole.cross_validation[name]["q"], alone.heldout[name]["q"]
        np.testing.assert_allclose(shown.predicted, held.predicted, atol=1e-3 * NOISE)
    assert whole.cross_validation["free"]["q"].rms_over_noise < 2 < whole.cross_validation["driven"]["q"].rms_over_noise
    assert "free/q (left out)" in whole.summary()
    (warning,) = [finding for finding in whole.warnings if finding.code == "cross_validation"]
    assert warning.message.startswith("without driven the other recordings do not show all unknowns")
    for name, one in whole.parameters.items():
        assert one.estimate == pytest.approx(pendulums.fitted()[1].parameters[name].estimate, rel=1e-9)


def test_leaving_one_out_wants_two():
    with pytest.raises(ModelError, match="cross_validation: found 1 recording"):
        fit_study(study(("free", "test"), estimator=Estimator(cross_validation=True)))


def test_coloured_noise_has_robust_errors_and_white_noise_none(fitted):
    _, white = fitted
    assert all(one.standard_error_robust is None for one in white.parameters.values())
    given, rng, data = study(), np.random.default_rng(5), []
    for one in given.data:
        noise = np.zeros(len(one.ts))
        for i in range(1, len(noise)):
            noise[i] = 0.8 * noise[i - 1] + 0.6 * NOISE * rng.normal()
        data.append(dataclasses.replace(one, channels={"q": pendulums.motion(one.name, one.ts) + noise}))
    found = fit_study(dataclasses.replace(given, data=tuple(data)))
    for name in TRUTH:
        one = found.parameters[name]
        assert one.standard_error_robust > 1.3 * one.standard_error
        assert abs(one.estimate - TRUTH[name]) < 4 * one.standard_error_robust
    assert "robust" in found.summary()


def test_seconds_count_the_check_that_came_before(fitted):
    given, fit = fitted
    assert 0 <= fit.seconds["compile"] <= fit.seconds["total"] and fit.seconds["check"] < fit.seconds["total"]
    check = dataclasses.replace(pendulums.checked(), seconds=2e3, compile_seconds=1e3)
    later = fit_study(given, check=check)
    assert later.seconds["compile"] >= 1e3 and later.seconds["total"] > later.seconds["check"] == 2e3
    assert 0 < check.expected_seconds < 1e3
    assert set(check.channels) == {"free", "driven", "test"} and set(check.sensitivities) == {"free", "driven"}
    shown = check.sensitivities["free"]["q"].changes
    assert set(shown) == {*TRUTH, "recordings/free/initial/hinge/q"}
    assert shown["recordings/free/initial/hinge/q"][0] == pytest.approx(0.1 / NOISE)
