"""Fits in windows whose gaps close: the answer of one run, derivatives, samples, resuming, and what is refused."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path

import jax
import numpy as np
import pytest
from recorded_pendulums import TRUTH, study

import jmbs
from jmbs.errors import ModelError
from jmbs.identification import Estimator, Input, Parameter, Recording, Sensor, Study, fit_study, horizons
from jmbs.identification.estimation import Position, estimate, rows_of
from jmbs.identification.least_squares import Iterate
from jmbs.identification.multiple_shooting import MultipleShooting
from jmbs.identification.output_names import parse_output
from jmbs.identification.outputs import signal
from jmbs.identification.posing import pose
from jmbs.identification.window_charts import closed_chart
from jmbs.identification.window_starts import first_starts
from jmbs.identification.windows import cut, window_states
from jmbs.lie import quaternion_to_rotation

ROOT = Path(__file__).parents[2]
WINDOWS = Estimator("multiple_shooting", segments=5)


class Stop(Exception):
    """Ends a fit from outside."""


@pytest.fixture(scope="module")
def problem():
    return pose(study(estimator=WINDOWS))


@pytest.fixture(scope="module")
def windows(problem):
    return MultipleShooting(problem)


@pytest.fixture(scope="module")
def fitted():
    return fit_study(study(estimator=WINDOWS))


def test_answer_is_that_of_one_run(fitted, monkeypatch):
    """And of the same quality: intervals, chi-squared and residuals; with fewer runs than all stages of a growing
    horizon take."""
    single = fit_study(study())
    assert fitted.status == single.status == "converged"
    for name, other in single.parameters.items():
        one = fitted.parameters[name]
        assert one.interval and other.interval and one.standard_error and other.standard_error
        assert abs(one.estimate - other.estimate) < 1e-3 * other.standard_error
        np.testing.assert_allclose(one.interval, other.interval, rtol=1e-6)
        if name in TRUTH:
            assert abs(one.estimate - TRUTH[name]) < 4 * one.standard_error
    assert fitted.chi2_per_degree == pytest.approx(single.chi2_per_degree, rel=1e-9)
    monkeypatch.setattr(horizons, "NEAR", -1.0)
    assert fitted.evaluations["simulations"] < 0.7 * fit_study(study()).evaluations["simulations"]


def test_gaps_close(problem, windows):
    stages = {}
    at = Position(0, Iterate(problem.unknowns.first))
    end = estimate(problem, at, lambda at, progress: stages.update({progress.stage: at}))
    gaps = [windows.largest_gap(np.concatenate([at.iterate.x, at.windows])) for at in stages.values()]
    closing = gaps[:-1]  # the last stage has no windows
    assert all(after <= before for before, after in itertools.pairwise(closing))
    assert closing[0] > 1e-3 and closing[-1] < 1e-8
    # One run of the whole has little left to do.
    assert end.iterate.stopped == "converged" and end.iterate.iterations <= 3


def test_derivatives_are_those_of_differences(windows):
    residual = residual_with_checked_derivative(windows)
    assert len(residual) == windows.samples + 2 * 4 * 2


def residual_with_checked_derivative(windows):
    """The residual where windows start at first, whose derivative is that of differences."""
    z = np.concatenate([windows.problem.unknowns.first, windows.first])
    residual, jacobian = windows.evaluate(z, 1.0)
    rng, h = np.random.default_rng(3), 1e-5
    direction = rng.normal(size=len(z))
    ends = [windows.evaluate(z + s * h * direction, 1.0)[0] for s in (1, -1)]
    slope = (ends[0] - ends[1]) / (2 * h)
    np.testing.assert_allclose(jacobian.dense() @ direction, slope, atol=1e-6 * np.max(np.abs(slope)))
    return residual


def shortened(experiment, n):
    """The experiment with its first n samples, in arrays of the same shapes."""
    weights = np.asarray(experiment.member.weights).copy()
    weights[:, n:] = 0
    recording = dataclasses.replace(experiment.recording, ts=np.asarray(experiment.recording.ts)[:n])
    return experiment._replace(recording=recording, member=dataclasses.replace(experiment.member, weights=weights))


def test_a_recording_may_be_one_window(problem):
    short = shortened(problem.experiments[1], 15)
    both = MultipleShooting(dataclasses.replace(problem, experiments=(problem.experiments[0], short)))
    z = np.concatenate([problem.unknowns.first, both.first])
    residual, jacobian = both.evaluate(z, 1.0)
    assert len(both.first) == 2 * 4 and len(residual) == both.samples + 2 * 4 == 215 + 8
    assert jacobian.is_finite and jacobian.dense().shape == (len(residual), len(z))


@pytest.mark.parametrize("segments", [2, 5, 7])
def test_each_sample_lies_in_one_window(problem, segments):
    """Also where recordings that share a program are of different lengths."""
    short = shortened(problem.experiments[1], 90)
    given = dataclasses.replace(problem.study, estimator=Estimator("multiple_shooting", segments=segments))
    found = cut(dataclasses.replace(problem, study=given, experiments=(problem.experiments[0], short)))
    assert len(found[0].windows) == segments > len(found[1].windows) and found[0].program == found[1].program
    for windowed, experiment in zip(found, (problem.experiments[0], short), strict=True):
        seen = np.asarray(experiment.member.weights)[0] > 0
        times = [np.asarray(w.member.times)[np.asarray(w.member.weights)[0] > 0] for w in windowed.windows]
        np.testing.assert_array_equal(np.concatenate(times), np.asarray(experiment.member.times)[seen])
        for window, own in zip(windowed.windows, times, strict=True):
            assert np.all(own > float(window.member.start) - 1e-9)


def test_goes_on_from_a_checkpoint_to_the_same_bits(fitted, tmp_path):
    file = tmp_path / "checkpoint.npz"
    for after in (2, 8):
        count = itertools.count(1)

        def stop(_, count=count, after=after):
            if next(count) == after:
                raise Stop

        with pytest.raises(Stop):
            fit_study(study(estimator=WINDOWS), progress=stop, checkpoint=file)
        again = fit_study(study(estimator=WINDOWS), checkpoint=file, resume=True)
        assert [e.estimate for e in again.parameters.values()] == [e.estimate for e in fitted.parameters.values()]
        assert again.evaluations["iterations"] == fitted.evaluations["iterations"]


@pytest.mark.parametrize("segments, message", [(1, "2 or more"), (40, "windows of 8 steps or more")])
def test_windows_that_cannot_be_are_refused(problem, segments, message):
    estimator = Estimator("multiple_shooting", segments=segments)
    with pytest.raises(ModelError, match=message):
        cut(dataclasses.replace(problem, study=dataclasses.replace(problem.study, estimator=estimator)))


@pytest.mark.parametrize(
    "config, initial, found",
    [
        ("rlc", {}, "no mechanism of joints"),
        ("rolling_disk", {}, "bind free bodies of which no start is given"),
        ("pendulum", {"states": {"hinge/q_r": 0.3}}, "whose joint or body starts from initial/states/hinge/q_r"),
    ],
)
def test_models_whose_motion_does_not_go_on_from_their_parts_are_refused(config, initial, found):
    model = jmbs.compile(jmbs.load(ROOT / "configs" / f"{config}.yaml"))
    with pytest.raises(ModelError, match=found):
        window_states(dataclasses.replace(model, initial=initial))


def test_prescribed_motions_are_refused():
    mechanism = jmbs.Mechanism("driven")
    mechanism.add_body("rod", 1.0, [0.1, 0.1, 0.01])
    mechanism.add_joint("hinge", "revolute", "ground", "rod", axis=[0, 1, 0], motion=lambda t: 0.1 * t)
    with pytest.raises(ModelError, match="which has prescribed motions"):
        window_states(jmbs.compile(mechanism))


@pytest.mark.parametrize(
    "config, constrained, owners",
    [
        ("pendulum", False, [("hinge", "q"), ("hinge", "v")]),
        (
            "two_floating_bodies",
            False,
            [("link", "q"), ("link", "v")]
            + [("link1", key) for key in ("position", "quaternion", "angular_velocity", "velocity")],
        ),
        (
            "motor_slider_crank",
            True,
            [(joint, key) for joint in ("axle", "crank_pin", "slider_pin", "guide") for key in "qv"]
            + [(state, "state") for state in ("bearing.s", "winding.s", "motor/i")],
        ),
    ],
)
def test_windows_start_from_joints_free_bodies_and_other_states(config, constrained, owners):
    states = window_states(jmbs.compile(jmbs.load(ROOT / "configs" / f"{config}.yaml")))
    assert (states.owners, states.constrained) == (owners, constrained)
    assert len(states.outputs) == sum(states.entries)


def test_starts_within_loops_have_as_many_coordinates_as_are_independent():
    """Of a slider-crank one of q and one of v, along what assembly, here a projection by hand, keeps."""
    states = window_states(jmbs.compile(jmbs.load(ROOT / "configs" / "slider_crank.yaml")))
    assert states.constrained and {str(block.place).count("/guess") for block in states.blocks} == {0, 2}
    of_rates, rng = np.array(states.keys) == "v", np.random.default_rng(0)
    along, n = rng.normal(size=len(states.keys)), len(states.keys)
    slope = np.zeros((n, n))
    for own in (of_rates, ~of_rates):
        # An oblique projection onto one direction of q or v; assembled rates follow q too.
        normal = rng.normal(size=n) * own
        slope += np.outer(along * own, normal) / (normal @ (along * own))
    slope += np.outer(along * of_rates, ~of_rates)
    value, scales = rng.normal(size=n), [0.5] * n
    chart = closed_chart(states, value, slope, scales)
    assert chart.basis.shape == (n, 2) and list(chart.kinds) == [0, 1]
    np.testing.assert_allclose(0.5 * chart.all_coordinates(chart.first), value)
    moved = 0.5 * (chart.all_coordinates(np.array([0.3, -0.2])) - chart.origin)
    np.testing.assert_allclose(chart.across @ moved, [0.3, -0.2])
    for own in (of_rates, ~of_rates):
        assert np.linalg.matrix_rank(np.stack([moved * own, along * own]), tol=1e-9) == 1


@pytest.mark.slow
def test_answer_within_loops_is_that_of_one_run():
    """A four-bar of which only the crank is measured: gaps close, derivatives are those of differences, and the end and
    its standard errors are those of shooting."""
    file, changes = ROOT / "experiments/fit_coverage/four_bar.yaml", ["simulation.dt=0.01", "simulation.tolerance=null"]
    model, ts, table = jmbs.compile(jmbs.load(file, overrides=changes)), np.arange(51) * 0.02, np.arange(102) * 0.01
    torque = 0.6 + 0.8 * np.sin(3 * table) + 0.5 * np.sin(8 * table)
    inputs = {"bearing/actuation": (table, torque[:, None])}
    run = jmbs.simulate(model, ts=ts, dt=0.01, solver="rk4", inputs=inputs, audit=False)
    seen = np.asarray(run.q["bearing"][:, 0]) + 1e-3 * np.random.default_rng(0).normal(size=len(ts))
    recording = Recording("driven", ts, {"crank": seen}, {"bearing/actuation": Input(table, torque)})
    starts = {"coupler/mass": Parameter(0.7), "bearing/friction/viscous": Parameter(0.02)}
    starts["initial/bearing/q"] = Parameter("measured", per="recording")
    given = Study(model, (recording,), starts, {"crank": Sensor("bearing/q", 1e-3)})
    require_same_answer(given, 51, 2)


def require_same_answer(given, samples, coordinates):
    """In three windows, whose starts have so many `coordinates`, as in one run of all samples."""
    single = pose(given)
    in_windows = dataclasses.replace(given, estimator=dataclasses.replace(WINDOWS, segments=3))
    problem = dataclasses.replace(single, study=in_windows)
    windows = MultipleShooting(problem)
    assert len(windows.first) == 2 * coordinates
    assert len(residual_with_checked_derivative(windows)) >= samples + 2 * coordinates
    at, stages = Position(0, Iterate(problem.unknowns.first)), {}
    end = estimate(problem, at, lambda at, progress: stages.update({progress.stage: at})).iterate
    other = estimate(single, at, lambda *_: None).iterate
    gaps = [windows.largest_gap(np.concatenate([at.iterate.x, at.windows])) for at in stages.values()][:-1]
    assert gaps[0] > 1e-4 and gaps[-1] < 1e-6
    jacobians = [rows_of(single, 1.0, pull=False)[0](found.x)[1] for found in (end, other)]
    errors = [np.sqrt(np.diag(np.linalg.inv(J.T @ J))) for J in jacobians]
    assert end.stopped == other.stopped == "converged"
    assert np.all(np.abs(end.x - other.x) < 1e-3 * errors[1])
    np.testing.assert_allclose(*errors, rtol=1e-3)


@pytest.mark.slow
def test_answer_with_gears_is_that_of_one_run():
    """A shaft that drives an arm by a gear; the arm is seen. Windows start from assembled states where it is seen,
    however wrong the ratio is."""
    starts = {"arm/mass": Parameter(1.4), "shaft/friction/viscous": Parameter(0.02)}
    given = recorded(geared_arm(-0.5), starts, {"elbow/q": 1e-3})
    require_same_answer(given, 151, 2)
    estimator, ratio = dataclasses.replace(WINDOWS, segments=3), -0.35
    problem = pose(dataclasses.replace(given, model=geared_arm(ratio), estimator=estimator))
    windowed = cut(problem)[0]
    recording = windowed.experiment.recording
    places = {(output.owner, output.kind): i for i, output in enumerate(windowed.states.outputs)}
    for window, value in list(zip(windowed.windows, first_starts(problem, windowed), strict=True))[1:]:
        elbow, shaft = (np.array([value[places[name, key]] for key in "qv"]) for name in ("elbow", "shaft"))
        shown = np.interp(float(window.member.start), recording.ts, recording.channels["c0"])
        assert elbow[0] == pytest.approx(shown, abs=5e-3)
        np.testing.assert_allclose(elbow - ratio * shaft, 0.0, atol=1e-9)


def geared_arm(ratio):
    mechanism = jmbs.Mechanism("geared")
    mechanism.add_body("rotor", 0.5, [2e-3, 2e-3, 2e-3])
    mechanism.add_body("arm", 1.0, [0.02, 0.02, 0.001])
    mechanism.add_joint("shaft", "revolute", "ground", "rotor", axis=[0, 1, 0], friction={"viscous": 0.01})
    child = {"position": [0.0, 0.0, 0.3]}
    mechanism.add_joint("elbow", "revolute", "ground", "arm", axis=[0, 1, 0], child_frame=child)
    mechanism.add_constraint("mesh", "gear", joint="elbow", driver="shaft", ratio=ratio)
    mechanism.set_initial(joints={"elbow": {"q": [1.2]}})
    return jmbs.compile(mechanism)


MOTOR = """
schema: jmbs/1
name: motor
gravity: [0.0, 0.0, -9.80665]
bodies:
  rod: {mass: 1.0, inertia: [0.0835, 0.0835, 0.0004]}
joints:
  hinge: {type: revolute, parent: ground, child: rod, child_frame: {position: [0.0, 0.0, 0.5]}, axis: [0.0, 1.0, 0.0]}
systems:
  motor:
    type: dc_motor
    parameters: {resistance: 1.5, inductance: 0.05, torque_constant: 0.4, rotor_inertia: 0.03, heats_environment: false}
connections:
  shaft: [motor.shaft, hinge.p_r]
  copper: [motor.s, winding.s]
  supply: {ports: [motor.supply], flow: 6.0}
stores:
  winding: {type: thermal, capacity: 1.2, temperature: 298.15}
elements:
  fan: {type: conduction, a: winding, b: environment, conductance: 0.2}
initial:
  joints: {hinge: {q: [1.0]}}
"""


@pytest.mark.slow
def test_answer_with_currents_and_warmth_is_that_of_one_run(tmp_path):
    """A pendulum on a motor whose current and winding's entropy are states; its angle and temperature are seen."""
    (tmp_path / "motor.yaml").write_text(MOTOR)
    model = jmbs.compile(jmbs.load(tmp_path / "motor.yaml"))
    starts = {"rod/mass": Parameter(1.3), "motor/resistor/resistance": Parameter(2.0)}
    require_same_answer(recorded(model, starts, {"hinge/q": 1e-3, "winding/temperature": 1e-2}), 302, 4)


@pytest.mark.slow
def test_answer_with_free_bodies_is_that_of_one_run():
    """A racket that is thrown; a point of it and its angular velocity are seen."""
    mechanism = jmbs.Mechanism("thrown")
    mechanism.add_body("racket", 0.3, [1e-3, 2e-3, 2.8e-3])
    thrown = {"position": [0.0, 0.0, 1.0], "velocity": [0.5, 0.0, 3.0], "angular_velocity": [0.1, 6.0, 0.2]}
    mechanism.set_initial(bodies={"racket": thrown})
    starts = {"racket/inertia[0,0]": Parameter(1.3e-3), "initial/racket/velocity": Parameter([0.0, 0.0, 2.5])}
    seen = {f"racket/point(0.1,0,0.05)/position[{i}]": 1e-3 for i in range(3)}
    seen |= {f"racket/gyro[{i}]": 1e-2 for i in range(3)}
    require_same_answer(recorded(jmbs.compile(mechanism), starts, seen), 6 * 151, 12)


def recorded(model, starts, seen):
    """A study of 1.5 s of a model's motion, with noise on what is seen."""
    ts, rng = np.arange(151) * 0.01, np.random.default_rng(0)
    run = jmbs.simulate(model, ts=ts, dt=5e-3, solver="rk4", audit=False)
    step, channels, sensors = jax.numpy.asarray(0.01), {}, {}
    for i, (output, noise) in enumerate(seen.items()):
        shown = np.asarray(signal(parse_output(model, output), model, run, step, {}))
        channels[f"c{i}"], sensors[f"c{i}"] = shown + noise * rng.normal(size=len(ts)), Sensor(output, noise)
    return Study(model, (Recording("motion", ts, channels),), starts, sensors)


@pytest.mark.slow
def test_starts_of_windows_may_be_rotations():
    """A ball joint whose coordinates nothing measures: a point of the body is seen, and three of its moments are
    unknown."""
    moments = {"top/inertia[0,0]": 0.011, "top/inertia[1,1]": 0.014, "top/inertia[2,2]": 0.008}
    mechanism = jmbs.Mechanism("top")
    mechanism.add_body("top", 0.8, list(moments.values()))
    mechanism.add_joint("ball", "spherical", "ground", "top", child_frame={"position": [0.0, 0.0, -0.2]})
    mechanism.set_initial(joints={"ball": {"q": [0.8, 0.6, 0.0, 0.0], "v": [0.5, -1.0, 12.0]}})
    model, ts = jmbs.compile(mechanism), np.arange(0.0, 2.0, 0.01)
    run = jmbs.simulate(model, ts=ts, tolerance=1e-10, audit=False)
    rotation = np.asarray(jax.vmap(quaternion_to_rotation)(run.quaternion["top"]))
    seen = np.asarray(run.position["top"]) + rotation @ np.array([0.1, 0.0, 0.05])
    seen = seen + 1e-4 * np.random.default_rng(0).normal(size=seen.shape)
    recording = Recording("spin", ts, {name: seen[:, i] for i, name in enumerate("xyz")})
    sensors = {name: Sensor(f"top/point(0.1,0,0.05)/position[{i}]", 1e-4) for i, name in enumerate("xyz")}
    unknown = {path: Parameter(1.2 * value) for path, value in moments.items()}
    found = fit_study(Study(model, (recording,), unknown, sensors, estimator=Estimator("multiple_shooting")))
    assert found.status == "converged" and 0.8 < found.chi2_per_degree < 1.25
    for path, value in moments.items():
        entry = found.parameters[path]
        assert entry.standard_error and abs(entry.estimate - value) < 4 * entry.standard_error
