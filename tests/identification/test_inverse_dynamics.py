"""Fits by inverse dynamics along recorded motions: right estimates and intervals, and what must not matter."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import recorded_arms as arms
from quick import quick_jit
from recorded_arms import TRUTH, study

import jmbs
from jmbs.errors import ModelError
from jmbs.identification import Estimator, Input, Parameter, Sensor, fit_study, motion
from jmbs.identification.estimation import rows_of
from jmbs.identification.motion_basis import basis_of
from jmbs.identification.motion_problem import driven
from jmbs.identification.output_names import OutputName
from jmbs.identification.posing import pose
from jmbs.simulation import forces_along, moving_joints

SPLINE = {"basis": "spline", "cutoff": 4.0}


@pytest.fixture(scope="module")
def fitted():
    return fit_study(study(tests=(2,)))


def distances(fit) -> np.ndarray:
    """From the truth, in standard errors."""
    return np.array([(fit.parameters[n].estimate - v) / fit.parameters[n].standard_error for n, v in TRUTH.items()])


def test_forces_along_a_motion_are_those_of_lagrange():
    """Also where a joint is written from its child."""
    model = jmbs.compile(arms.mechanism(reverse=True))
    ts = np.linspace(0.0, 1.0, 20)
    moved = arms.motion(ts, 3)
    order = [("shoulder", "elbow").index(joint) for joint in moving_joints(model)]
    given = [jnp.asarray(x[:, order]) for x in moved]
    found = quick_jit(lambda *motion: forces_along(model, jnp.asarray(ts), *motion))(*given)
    np.testing.assert_allclose(found, arms.torques(*moved)[:, order], atol=1e-12)


@pytest.mark.parametrize("trajectory", [arms.FOURIER, SPLINE])
def test_rates_of_a_basis_are_its_derivatives(trajectory):
    data = [dataclasses.replace(arms.recording(0), ts=ts) for ts in (np.arange(0.3, 4, 0.02), np.arange(0, 3, 0.02))]
    for recording in data:
        basis = basis_of(Estimator(trajectory=trajectory), recording, data, np.dtype("float64"))
        ts = jnp.linspace(recording.ts[0], recording.ts[-1], 57)
        for order in range(2):
            slope = jax.jvp(lambda t, o=order: basis.values(t, o), (ts,), (jnp.ones_like(ts),))[1]  # noqa: B023
            np.testing.assert_allclose(slope, basis.values(ts, order + 1), atol=1e-9 * float(jnp.max(jnp.abs(slope))))
        reached = np.asarray(basis.values(ts, 0))[:, np.asarray(basis.idle) > 0]
        assert not reached.any()


def test_estimates_and_residuals(fitted):
    assert fitted.status == "converged" and np.max(np.abs(distances(fitted))) < 4
    assert 0.85 < fitted.chi2_per_degree < 1.15
    assert set(fitted.channels) == {"train0", "train1"} and set(fitted.heldout) == {"test2"}
    for name, noise in (("q1", arms.ANGLE_NOISE), ("t2", arms.TORQUE_NOISE)):
        assert np.std(fitted.heldout["test2"][name].residual) == pytest.approx(noise, rel=0.3)
        assert np.std(fitted.channels["train0"][name].residual) == pytest.approx(noise, rel=0.3)
    assert fitted.evaluations["simulations"] == 0 and fitted.evaluations["jacobians"] > 0
    assert fitted.models["test2"].parameters()["lower/mass"]["value"] == fitted.parameters["lower/mass"].estimate


def test_torques_of_a_recording_without_any_are_predicted(fitted):
    """With standard deviations, that hold what is off from the truth."""
    given = arms.recording(2, "test")
    angles = {name: channel for name, channel in given.channels.items() if name[0] == "q"}
    shown = fitted.predict(dataclasses.replace(given, name="new", channels=angles))
    assert shown.keys() == given.channels.keys()
    for name, held in fitted.heldout["test2"].items():
        np.testing.assert_allclose(shown[name].values, held.predicted, rtol=1e-9, atol=1e-9)
    q, v, dv = arms.motion(given.ts, 2)
    truth = {"t1": arms.torques(q, v, dv)[:, 0], "t2": arms.torques(q, v, dv)[:, 1], "q1": q[:, 0], "q2": q[:, 1]}
    for name, values in truth.items():
        off = (shown[name].values - values) / shown[name].standard_deviation
        assert 0.4 < np.sqrt(np.mean(off**2)) < 2.0 and np.max(np.abs(off)) < 4.5
    with pytest.raises(ModelError, match="elbow/q"):
        fitted.predict(dataclasses.replace(given, name="new", channels={"q1": angles["q1"]}))


def test_rows_hold_what_a_joint_solve_says():
    """Those of one least-squares problem in unknowns and all coefficients of the motion; so is the covariance."""
    problem = pose(study((0,)))
    (experiment,) = problem.experiments
    program, member = experiment.program, experiment.member
    fit = fit_study(problem.study)
    estimates = [np.array([fit.parameters[block.path].estimate]) for block in problem.unknowns.shared]
    x = np.concatenate([b.transform.coordinates(v) for b, v in zip(problem.unknowns.shared, estimates, strict=True)])
    residual, jacobian = rows_of(problem, 1.0, pull=False)[0](x)
    curve = motion._curve(program, member, jnp.asarray(x))
    shape = curve.coefficients.shape

    @quick_jit
    def whole(both):
        coefficients = both[len(x) :].reshape(shape)
        shown, _ = motion._shown(program, member, both[: len(x)], coefficients, motion._still(program, member))
        return ((shown - member.measured) * member.weights).ravel()

    at = np.concatenate([x, np.ravel(curve.coefficients)])
    steps = 1e-5 * np.eye(len(at))
    both = np.stack([np.asarray(whole(at + h) - whole(at - h)) / 2e-5 for h in steps], axis=1)
    rows = np.asarray(whole(at))
    assert np.max(np.abs(both.T @ rows) / np.linalg.norm(both, axis=0)) < 1e-5 * np.linalg.norm(rows)
    np.testing.assert_allclose(residual, rows, atol=1e-6)
    covariance = np.linalg.inv(both.T @ both)[: len(x), : len(x)]
    np.testing.assert_allclose(
        np.linalg.inv(jacobian.T @ jacobian), covariance, rtol=1e-4, atol=1e-6 * covariance.max()
    )


def test_order_of_recordings_and_a_second_call_do_not_matter(fitted):
    given = study(tests=(2,))
    other = fit_study(dataclasses.replace(given, data=given.data[::-1]))
    again = fit_study(given)
    for name, entry in fitted.parameters.items():
        assert other.parameters[name].estimate == pytest.approx(entry.estimate, rel=1e-9)
        assert again.parameters[name].estimate == entry.estimate


def test_noise_of_angles_and_torques_is_estimated():
    sensors = {n: dataclasses.replace(s, noise="estimate") for n, s in study().sensors.items()}
    found = fit_study(study((0, 1, 3), sensors=sensors))
    for name in sensors:
        noise = arms.ANGLE_NOISE if name[0] == "q" else arms.TORQUE_NOISE
        assert found.noise[name]["estimated"] == pytest.approx(noise, rel=0.15)
    assert found.chi2_per_degree == pytest.approx(1, rel=0.01) and np.max(np.abs(distances(found))) < 4.5


def test_a_missing_angle_a_loop_and_shooting_are_refused():
    given = study((0,))
    (recording,) = given.data
    less = {name: channel for name, channel in recording.channels.items() if name != "q2"}
    with pytest.raises(ModelError, match="elbow/q"):
        pose(dataclasses.replace(given, data=(dataclasses.replace(recording, channels=less),)))
    with pytest.raises(ModelError, match="no measured torque"):
        angles = {name: channel for name, channel in recording.channels.items() if name[0] == "q"}
        pose(dataclasses.replace(given, data=(dataclasses.replace(recording, channels=angles),)))
    with pytest.raises(ModelError, match="lower/position"):
        pose(dataclasses.replace(given, sensors={**given.sensors, "q1": Sensor("lower/position[0]")}))
    with pytest.raises(ModelError, match="measures"):
        inputs = {"elbow/actuation": Input(recording.ts, 0 * recording.ts)}
        pose(dataclasses.replace(given, data=(dataclasses.replace(recording, inputs=inputs),)))
    with pytest.raises(ModelError, match="set/elbow/actuation: found what sensor"):
        torque = {"t": OutputName("actuation", "elbow", (0,), "N m")}
        driven(dataclasses.replace(recording, set={"elbow/actuation": [0.1]}), given.model, torque)
    with pytest.raises(ModelError, match="inputs of a fit by shooting"):
        pose(dataclasses.replace(given, estimator=Estimator()))
    closed = arms.mechanism()
    closed.add_joint("tip", "spherical", "ground", "lower", child_frame={"position": [0.0, 0.0, -0.2]})
    with pytest.raises(ModelError, match="open tree"):
        moving_joints(jmbs.compile(closed))


@pytest.mark.parametrize(
    "estimator, message",
    [
        ({"loss": "huber"}, "estimator/loss"),
        ({"trajectory": {"basis": "wave"}}, "fourier or spline"),
        ({"trajectory": {"basis": "fourier", "period": 2.0}}, "harmonics"),
        ({"trajectory": {"basis": "spline", "period": 2.0}}, "trajectory/period"),
        ({"trajectory": {"basis": "fourier", "period": 80.0, "harmonics": 30}}, "leave open"),
    ],
)
def test_wrong_estimators_are_refused(estimator, message):
    given = {"trajectory": arms.FOURIER, **estimator}
    with pytest.raises(ModelError, match=message):
        fit_study(study((0,), estimator=Estimator("inverse_dynamics", **given)))


@pytest.mark.slow
@pytest.mark.parametrize("trajectory", [SPLINE, None])
def test_splines_say_the_same(trajectory):
    found = fit_study(study((0, 1, 3), trajectory=trajectory))
    assert found.status == "converged" and np.max(np.abs(distances(found))) < 4


@pytest.mark.slow
def test_gain_bias_and_delay_of_torques():
    given = study((0, 1, 3))
    late = []
    for recording in given.data:
        moved = arms.motion(recording.ts - 0.007, int(recording.name[-1]))
        rng = np.random.default_rng(5)
        shown = {f"t{i + 1}": 0.3 * (i == 1) + arms.torques(*moved)[:, i] for i in range(2)}
        shown = {name: values + arms.TORQUE_NOISE * rng.normal(size=values.shape) for name, values in shown.items()}
        late.append(dataclasses.replace(recording, channels={**recording.channels, **shown}))
    sensors = dict(given.sensors)
    sensors["t1"] = dataclasses.replace(sensors["t1"], delay=Parameter(0.003, bounds=(0.0, 0.05)))
    sensors["t2"] = dataclasses.replace(sensors["t2"], delay=0.007, bias=Parameter())
    found = fit_study(dataclasses.replace(given, data=tuple(late), sensors=sensors))
    delay, bias = (found.parameters[f"sensors/{name}"] for name in ("t1/delay", "t2/bias"))
    assert found.status == "converged" and np.max(np.abs(distances(found))) < 4
    assert abs(delay.estimate - 0.007) < 4 * delay.standard_error and delay.standard_error < 1e-3
    assert abs(bias.estimate - 0.3) < 4 * bias.standard_error


@pytest.mark.slow
def test_intervals_cover():
    inside = []
    for repeat in range(40):
        found = fit_study(study((10 * repeat, 10 * repeat + 1)))
        inside.append([low <= TRUTH[n] <= high for n in TRUTH for low, high in [found.parameters[n].interval]])
    assert np.all(np.mean(inside, axis=0) >= 0.85)


@pytest.mark.slow
def test_residual_function_is_that_of_the_rows():
    given = study((0,))
    residual, jacobian = jmbs.residual_function(given)
    rows, slopes = rows_of(pose(given), 1.0, pull=False)[0](np.asarray(residual.start))
    np.testing.assert_allclose(jax.jit(residual)(residual.start), rows, atol=1e-6)
    np.testing.assert_allclose(jax.jit(jacobian)(residual.start), slopes, atol=1e-6 * np.max(np.abs(slopes)))
