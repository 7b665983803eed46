"""Fits of a pendulum that was recorded elsewhere: estimates, intervals, and what must not matter."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import optimistix
import pytest
import recorded_pendulums as pendulums
from quick import quick_jit
from recorded_pendulums import DAMPING, INERTIA, MASS, NOISE, STARTS, TRUTH, study

import jmbs
from jmbs.errors import ModelError
from jmbs.identification import Channel, Estimator, Parameter, Prior, Sensor, check_fit, fit_study
from jmbs.identification.at_estimate import at_estimate
from jmbs.identification.estimation import rows_of
from jmbs.identification.posing import pose


class Stop(Exception):
    """Ends a fit from outside."""


@pytest.fixture(scope="module")
def fitted():
    return pendulums.fitted()[1]


def test_estimates_lie_within_four_standard_errors(fitted):
    assert fitted.status == "converged"
    for name, truth in TRUTH.items():
        entry = fitted.parameters[name]
        assert entry.visible and abs(entry.estimate - truth) < 4 * entry.standard_error
        low, high = entry.interval
        assert 0 < low < entry.estimate < high
    assert 0.8 < fitted.chi2_per_degree < 1.25
    assert fitted.samples == 400


def test_standard_errors_are_those_of_differences_of_another_integrator(fitted):
    ts = np.arange(0.0, 2.0 - 1e-9, pendulums.SPACING)
    at = {"mass": MASS, "inertia": INERTIA, "damping": DAMPING}
    columns = []
    for key, value in at.items():
        ends = [
            np.concatenate([pendulums.motion(n, ts, **{**at, key: value * (1 + s)}) for n in ("free", "driven")])
            for s in (1e-4, -1e-4)
        ]
        columns.append((ends[0] - ends[1]) / (2e-4 * value))
    for i, name in enumerate(("free", "driven")):
        ends = [pendulums.motion(name, ts, start=STARTS[name] + s) for s in (1e-5, -1e-5)]
        column = np.zeros((2, len(ts)))
        column[i] = (ends[0] - ends[1]) / 2e-5
        columns.append(column.ravel())
    jacobian = np.stack(columns, axis=1) / NOISE
    errors = np.sqrt(np.diag(np.linalg.inv(jacobian.T @ jacobian)))
    found = [fitted.parameters[name].standard_error for name in TRUTH]
    # The Jacobian is taken at the truth there, at the estimates here.
    np.testing.assert_allclose(found, errors[:3], rtol=0.03)


def test_derived_value_by_the_delta_method(fitted):
    rate = fitted.derived["rate"]
    names = ("hinge/friction/viscous", "bob/mass")
    values = [fitted.parameters[name].estimate for name in names]
    rows = [fitted.order.index(name) for name in names]
    slope = np.array([1 / values[1], -values[0] / values[1] ** 2])
    assert rate.estimate == pytest.approx(values[0] / values[1])
    assert rate.standard_error == pytest.approx(float(np.sqrt(slope @ fitted.covariance[np.ix_(rows, rows)] @ slope)))


def test_held_out_recording_is_predicted_and_not_fitted(fitted):
    assert set(fitted.channels) == {"free", "driven"} and set(fitted.heldout) == {"test"}
    assert np.std(fitted.heldout["test"]["q"].residual) < 1.5 * NOISE
    alone = fit_study(study())
    for name in TRUTH:
        assert alone.parameters[name].estimate == pytest.approx(fitted.parameters[name].estimate, rel=1e-12)


def test_order_of_recordings_does_not_matter():
    given = study()
    one = fit_study(given)
    other = fit_study(dataclasses.replace(given, data=given.data[::-1]))
    for name in one.parameters:
        assert other.parameters[name].estimate == pytest.approx(one.parameters[name].estimate, rel=1e-9)


def test_goes_on_from_a_checkpoint_to_the_same_bits(tmp_path):
    """Also from the last iteration of a stage, of which nothing is left to do."""
    given, stages = study(noise="estimate"), []
    given = dataclasses.replace(given, parameters=given.parameters | {"bob/mass": Parameter(0.4)})
    whole = fit_study(given, progress=lambda at: stages.append(at.stage))
    ends = [i + 1 for i, (a, b) in enumerate(itertools.pairwise(stages)) if a != b]
    file = tmp_path / "checkpoint.npz"
    for after in (2, ends[1], ends[-1], len(stages) - 1, len(stages)):
        count = itertools.count(1)

        def stop(_, count=count, after=after):
            if next(count) == after:
                raise Stop

        with pytest.raises(Stop):
            fit_study(given, progress=stop, checkpoint=file)
        again = fit_study(given, checkpoint=file, resume=True)
        assert [e.estimate for e in again.parameters.values()] == [e.estimate for e in whole.parameters.values()]
        assert again.evaluations["iterations"] == whole.evaluations["iterations"] == len(stages)
        # Where it stopped may be evaluated again, and where it goes on.
        for name in ("simulations", "jacobians"):
            assert 0 <= again.evaluations[name] - whole.evaluations[name] <= 2 * len(given.data), name
    with pytest.raises(ModelError, match="another study"):
        fit_study(study(seed=5), checkpoint=file, resume=True)


def test_residual_function_gives_the_rows_of_a_fit():
    residual, _ = jmbs.residual_function(study())
    rows = rows_of(pose(study()), 1.0, pull=False)[0](np.asarray(residual.start))[0]
    np.testing.assert_allclose(quick_jit(residual)(residual.start), rows, atol=1e-9)


@pytest.mark.slow
def test_residual_function_for_optimisers_of_ones_own(fitted):
    residual, jacobian = jmbs.residual_function(study())
    found = optimistix.least_squares(residual, optimistix.LevenbergMarquardt(1e-10, 1e-10), residual.start)
    values = dict(zip(residual.names, residual.values(found.value), strict=True))
    for name in TRUTH:
        assert float(values[name]) == pytest.approx(fitted.parameters[name].estimate, rel=1e-6)
    assert jacobian(found.value).shape == (400, len(found.value))


def test_noise_is_estimated():
    found = fit_study(study(noise="estimate"))
    assert found.noise["q"]["given"] is None
    assert found.noise["q"]["estimated"] == pytest.approx(NOISE, rel=0.12)
    assert found.chi2_per_degree == pytest.approx(1, rel=0.02)
    held = {name: Parameter(value, prior=Prior(value, 1e-5)) for name, value in TRUTH.items()}
    given = study(noise="estimate")
    known = fit_study(dataclasses.replace(given, parameters={**given.parameters, **held}))
    squares = sum(np.sum(channels["q"].residual ** 2) for channels in known.channels.values())
    # The samples determine the two starts, and little of what priors say.
    assert known.channels["free"]["q"].noise == pytest.approx(np.sqrt(squares / (400 - 2)), rel=1.5e-3)


def test_estimated_noise_of_a_robust_loss_is_not_that_of_outliers():
    """One sample in ten is off by thirty times the noise; the first ones, where starts are measured, are not."""
    given = study(noise="estimate", estimator=Estimator(loss="huber", scale=1.5))
    data = []
    for one in given.data:
        angles = np.array(one.channels["q"].values)
        angles[7::10] += 30 * NOISE * np.where(np.arange(len(angles[7::10])) % 2, 1, -1)
        data.append(dataclasses.replace(one, channels={"q": Channel(angles)}))
    found = fit_study(dataclasses.replace(given, data=tuple(data)))
    assert found.status == "converged"
    assert found.channels["free"]["q"].noise == pytest.approx(1.1 * NOISE, rel=0.15)
    for name, truth in TRUTH.items():
        assert abs(found.parameters[name].estimate - truth) < 5 * found.parameters[name].standard_error


@pytest.mark.parametrize(("loss", "efficiency"), [("huber", 0.903), ("cauchy", 0.762)])
def test_standard_errors_follow_the_loss(loss, efficiency, fitted):
    """With white normal noise those of squares over the root of the loss's efficiency at normal noise, at a scale of
    one: `E[psi']^2 / E[psi^2]`. A profile rises by one where it is one standard error away."""
    found = fit_study(study(estimator=Estimator(loss=loss)))
    size = np.sqrt(fitted.chi2_per_degree)  # the residuals' beside the noise that was given
    for name in TRUTH:
        ratio = found.parameters[name].standard_error / fitted.parameters[name].standard_error
        assert ratio == pytest.approx(size * efficiency**-0.5, rel=0.1)
    profile = found.profile("bob/mass", n=3, span=1.0)
    np.testing.assert_allclose(profile.increase, [1.0, 0.0, 1.0], atol=0.15)


def test_priors_where_no_run_comes_to_its_end():
    given = study()
    known = {name: Parameter(value, prior=Prior(value, 0.1)) for name, value in TRUTH.items()}
    problem = pose(dataclasses.replace(given, parameters={**given.parameters, **known}))
    end = problem.unknowns.first.copy()
    end[0] = np.nan
    found = at_estimate(problem, end)
    assert not found.sound and found.chi2 == np.inf and found.degrees == found.count == 400


def test_free_swings_do_not_show_the_scale_of_masses():
    """Of a free pendulum mass, inertia and damping are seen in proportion only."""
    given = study(("free",), derived={"rate": "hinge/friction/viscous / bob/mass"})
    check = check_fit(given)
    (direction,) = check.invisible_directions
    assert set(direction.coefficients) == set(TRUTH) and "in proportion" in direction.text
    np.testing.assert_allclose(list(direction.coefficients.values()), 1, atol=1e-6)
    assert [f.code for f in check.findings] == ["invisible_direction"] and check.status == "warnings"
    found = fit_study(given, check=check)
    assert found.status == "converged" and found.derived["rate"].visible
    assert abs(found.derived["rate"].estimate - DAMPING / MASS) < 4 * found.derived["rate"].standard_error
    for name in TRUTH:
        entry = found.parameters[name]
        assert not entry.visible and entry.standard_error is None and entry.interval is None
    # A prior on one of them shows all.
    known = dataclasses.replace(given.parameters["bob/mass"], prior=Prior(MASS, 1e-3))
    shown = fit_study(dataclasses.replace(given, parameters={**given.parameters, "bob/mass": known}))
    assert all(shown.parameters[name].visible for name in TRUTH)
    assert shown.parameters["bob/mass"].relative_to_prior == pytest.approx(1, rel=1e-3)
    # What the prior holds takes no degree of freedom of the samples.
    assert shown.chi2_per_degree == pytest.approx(found.chi2_per_degree, rel=1e-4)
    assert (
        abs(shown.parameters["bob/inertia[1,1]"].estimate - INERTIA)
        < 4 * shown.parameters["bob/inertia[1,1]"].standard_error
    )


def test_active_bound_is_told():
    given = study()
    held = dataclasses.replace(given.parameters["bob/mass"], bounds=(1.4, 3.0))
    found = fit_study(dataclasses.replace(given, parameters={**given.parameters, "bob/mass": held}))
    assert found.parameters["bob/mass"].at_bound and found.parameters["bob/mass"].estimate == pytest.approx(1.4)
    assert "at_bound" in [warning.code for warning in found.warnings]


def test_more_starts_end_where_the_first_does():
    first, more = (fit_study(study(estimator=Estimator(starts=n))) for n in (1, 2))
    assert more.evaluations["iterations"] > first.evaluations["iterations"]
    for name in TRUTH:
        assert more.parameters[name].estimate == pytest.approx(first.parameters[name].estimate, rel=1e-5)


def test_interrupted_fit_keeps_the_best_so_far():
    count = 0

    def stop(_):
        nonlocal count
        count += 1
        if count == 5:
            raise KeyboardInterrupt

    found = fit_study(study(), progress=stop)
    assert found.status == "interrupted" and found.evaluations["iterations"] == 5


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"bob/mas": Parameter()}, "bob/mass"),
        ({"bob/mass": Parameter(bounds=(2.0, 3.0))}, "within the bounds"),
        ({"bob/mass": Parameter(-1.0)}, "above zero"),
        ({"bob/mass": Parameter("measured")}, "per recording"),
        ({"bob/mass": Parameter(transform="pseudo_inertia")}, "inertial"),
        (
            {"initial/hinge/v": Parameter("measured", per="recording"), "bob/mass": Parameter(per="day")},
            "study or recording",
        ),
    ],
)
def test_wrong_unknowns_are_refused(parameters, message):
    with pytest.raises(ModelError, match=message):
        check_fit(dataclasses.replace(study(), parameters=parameters))


@pytest.mark.parametrize("estimator", [Estimator(method="guess"), Estimator(horizon="wide"), Estimator(loss="cubes")])
def test_estimators_that_are_not_there_are_refused(estimator):
    with pytest.raises(ModelError, match="estimator/"):
        fit_study(study(estimator=estimator))


def test_sensors_that_are_not_there_are_refused():
    with pytest.raises(ModelError, match="hinge/actuation"):
        check_fit(dataclasses.replace(study(), sensors={"q": Sensor("hinge/actuation")}))
