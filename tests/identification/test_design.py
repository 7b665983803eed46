"""Designs of experiments with a pendulum: what they promise is what a fit's check says, and limits hold."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import recorded_pendulums as pendulums
import scipy.integrate

import jmbs
from jmbs.cli import main
from jmbs.errors import ModelError
from jmbs.identification import BSpline, Multisine, Recording, Sensor, Study
from jmbs.identification.design import plan_of
from jmbs.identification.design_problem import DesignProblem
from jmbs.identification.excitation import Excitation

PORT, NOISE = "hinge/actuation", pendulums.NOISE
GRAVITY = -jmbs.Mechanism("any").gravity[2]
UNKNOWN = list(pendulums.TRUTH)
LIMITS = {PORT: 0.8, f"{PORT}/rate": 12.0, "hinge/q": (-0.8, 0.7), "hinge/v": 4.0}
EXCITATION = Excitation({PORT: Multisine(1.0, 2)}, LIMITS, rate=50.0, starts=1, max_iterations=12)


def mechanism() -> jmbs.Mechanism:
    """The pendulum with a step of its own, which needs not be looked for."""
    mechanism = pendulums.mechanism()
    mechanism.simulation = dataclasses.replace(mechanism.simulation, t1=1.0, dt=0.01, rtol=None, atol=None)
    return mechanism


def designed(**changes):
    keys = ("inputs", "limits", "rate", "starts", "max_iterations")
    options = {key: getattr(EXCITATION, key) for key in keys} | changes
    return jmbs.design_excitation(mechanism(), UNKNOWN, {"q": Sensor("hinge/q", NOISE)}, **options)


@pytest.fixture(scope="module")
def design():
    return designed()


def experiment(design) -> Recording:
    """The designed experiment as a recording; what it shows does not matter."""
    return Recording("design", design.ts, {"q": np.zeros(len(design.ts))}, design.inputs)


@pytest.mark.slow
def test_expected_standard_errors_are_those_of_a_check(design):
    check = jmbs.check_fit(mechanism(), experiment(design), UNKNOWN, sensors={"q": Sensor("hinge/q", NOISE)})
    assert dict(design.predicted_standard_errors) == pytest.approx(dict(check.predicted_standard_errors), rel=1e-9)
    np.testing.assert_allclose(design.after.singular_values, check.singular_values, rtol=1e-9)


def test_expected_standard_errors_are_those_of_differences(design):
    """Of angles by scipy's integrator."""
    torque = design.inputs[PORT]

    def motion(mass, inertia, damping):
        def rates(t, y):
            moment = np.interp(t, *torque) - damping * y[1] - mass * GRAVITY * pendulums.LENGTH * np.sin(y[0])
            return [y[1], moment / (inertia + mass * pendulums.LENGTH**2)]

        options = {"t_eval": design.ts, "rtol": 1e-9, "atol": 1e-10, "max_step": 0.02}
        return scipy.integrate.solve_ivp(rates, (0, design.ts[-1]), [0.5, 0.0], **options).y[0]

    truth = np.array(list(pendulums.TRUTH.values()))
    ends = [[motion(*(truth * (1 + sign * 2e-3 * way))) for sign in (1, -1)] for way in np.eye(3)]
    jacobian = np.stack([(a - b) / 4e-3 for a, b in ends], axis=1) / truth / NOISE
    errors = np.sqrt(np.diag(np.linalg.inv(jacobian.T @ jacobian)))
    np.testing.assert_allclose(list(design.predicted_standard_errors.values()), errors, rtol=2e-3)
    np.testing.assert_allclose(motion(*truth), design.shown["q"], atol=1e-5)


def test_limits_hold_and_are_used(design):
    times, torque = design.inputs[PORT]
    seen = {PORT: torque, f"{PORT}/rate": np.diff(torque) / np.diff(times)}
    seen |= {"hinge/q": design.shown["q"], "hinge/v": design.shown["hinge/v"]}
    for name, reach in design.limits.items():
        assert reach.lower <= reach.least < reach.most <= reach.upper
        np.testing.assert_allclose([seen[name].min(), seen[name].max()], [reach.least, reach.most], rtol=1e-12)
    # More would be told by more: a limit of the motion or of the torque is reached.
    assert max(max(r.least / r.lower, r.most / r.upper) for r in design.limits.values()) > 0.97


def test_more_is_known_after_than_with_the_first_input(design):
    assert design.criterion_value > design.first_value + 0.3
    assert design.information_gain > design.first.information_gain > 0
    assert all(error is None for error in design.before.standard_errors.values())
    with pytest.raises(ModelError, match="limits/hinge/q: found .* with hardly an input, wanted a limit that"):
        designed(limits={**LIMITS, "hinge/q": (-0.3, 0.3)})


def test_an_interrupted_search_gives_the_best_so_far(design):
    def interrupt(progress):
        if progress.iteration == 3:
            raise KeyboardInterrupt

    found = designed(starts=3, callback=interrupt)
    assert (design.status, found.status) == ("done", "interrupted")
    assert found.first_value < found.criterion_value and found.evaluations["iterations"] == 3
    assert all(one.lower <= one.least <= one.most <= one.upper for one in found.limits.values())


def test_the_same_is_found_again(design):
    again = designed()
    np.testing.assert_array_equal(again.inputs[PORT].values, design.inputs[PORT].values)
    assert again.information_gain == design.information_gain


@pytest.fixture(scope="module")
def problem():
    study = Study(
        jmbs.compile(mechanism()),
        (),
        {path: jmbs.Parameter() for path in UNKNOWN},
        {"q": Sensor("hinge/q", NOISE)},
    )
    plan = plan_of(study, EXCITATION)
    return DesignProblem(plan, np.array([0.3, -0.2, 0.1, 0.2]))


def test_gradient_is_that_of_the_criterion(problem):
    at = np.array([0.3, -0.2, 0.1, 0.2])
    ends = [[problem.value(at + sign * 1e-5 * way) for sign in (1, -1)] for way in np.eye(4)]
    np.testing.assert_allclose(problem.gradient(at), [(a - b) / 2e-5 for a, b in ends], rtol=1e-6)


STUDY = f"""
schema: jmbs-fit/1
name: swing
model: pendulum.yaml
parameters: {{bob/mass: {{}}, "bob/inertia[1,1]": {{}}, hinge/friction/viscous: {{}}}}
sensors: {{q: {{output: hinge/q, noise: {NOISE}}}}}
design:
  inputs: {{hinge/actuation: {{basis: multisine, period: 1.0, harmonics: 2}}}}
  limits: {{hinge/actuation: 0.8, hinge/actuation/rate: 12.0, hinge/q: [-0.8, 0.7], hinge/v: 4.0}}
  rate: 50.0
  starts: 1
  max_iterations: 12
"""


def test_inputs_in_any_order():
    """Two sliders, whose names are not in alphabetical order and whose bases differ in size: what the design shows is
    what the model does with its tables."""
    sliders, inputs = jmbs.Mechanism("sliders"), {}
    for name, harmonics in (("z", 3), ("y", 2)):
        sliders.add_body(f"{name}_mass", 1.0, [0.01] * 3)
        damped = {"friction": {"viscous": 1.0}, "spring": {"stiffness": 20.0}, "actuation": 0.0}
        sliders.add_joint(name, "prismatic", "ground", f"{name}_mass", axis=[1, 0, 0], **damped)
        inputs[f"{name}/actuation"] = Multisine(1.0, harmonics)
    sliders.simulation = dataclasses.replace(mechanism().simulation)
    sensors = {name: Sensor(f"{name}/q", 1e-3) for name in ("z", "y")}
    found = jmbs.design_excitation(
        sliders, ["z_mass/mass"], sensors, inputs=inputs, limits=dict.fromkeys(inputs, 1.0), starts=1, max_iterations=1
    )
    run = jmbs.simulate(jmbs.compile(sliders), ts=found.ts, dt=0.01, solver="rk4", inputs=found.inputs, audit=False)
    for name in sensors:
        np.testing.assert_allclose(found.shown[name], run.q[name][:, 0], atol=1e-9)


@pytest.mark.slow
def test_the_command_writes_what_a_study_reads(design, tmp_path, capsys):
    jmbs.io.write_config(mechanism(), tmp_path / "pendulum.yaml")
    (tmp_path / "study.yaml").write_text(STUDY)
    out = tmp_path / "out"
    assert main(["design", str(tmp_path / "study.yaml"), "--out", str(out)]) == 0
    told = capsys.readouterr()
    assert "bob/mass" in told.out and "limits kept" in told.err
    assert {file.name for file in out.iterdir()} == {"hinge_actuation.csv", "design.json", "design.png"}
    found = json.loads((out / "design.json").read_text())
    for name, error in design.predicted_standard_errors.items():
        assert found["parameters"][name]["standard_error_after"] == pytest.approx(error, rel=1e-6)
    assert found["limits"]["hinge/q"]["upper"] == 0.7 and found["information_gain"] > 0
    measured = np.column_stack([design.ts, np.sin(design.ts)])
    np.savetxt(tmp_path / "run.csv", measured, delimiter=",", header="t,angle", comments="")
    (tmp_path / "fit.yaml").write_text(
        STUDY.split("design:")[0] + "recordings: {run: {file: run.csv, channels: {q: angle}, inputs: {hinge/actuation: "
        "{file: out/hinge_actuation.csv, time: t, column: hinge/actuation, unit: N m}}}}\n"
    )
    given = jmbs.load_study(tmp_path / "fit.yaml").data[0].inputs[PORT]
    np.testing.assert_allclose(given.values, design.inputs[PORT].values, rtol=1e-6)
    # Nothing is overwritten, and what is wrong is one line.
    assert main(["design", str(tmp_path / "study.yaml"), "--out", str(out)]) == 2
    assert "--force" in capsys.readouterr().err
    more = ["--set", "design.criterion=F", "--out", str(tmp_path / "other")]
    assert main(["design", str(tmp_path / "study.yaml"), *more]) == 2
    assert "design/criterion: found 'F', wanted D, A or E" in capsys.readouterr().err
    narrow = ["--set", "design.limits.hinge/q=[-0.3, 0.3]", "--out", str(tmp_path / "other")]
    assert main(["design", str(tmp_path / "study.yaml"), *narrow]) == 2
    assert "study.yaml: design/limits/hinge/q: found " in capsys.readouterr().err
    assert main(["design", str(tmp_path / "fit.yaml")]) == 2
    assert "design: found nothing, wanted the experiment" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


@pytest.mark.slow
def test_recordings_that_are_there_count_and_never_tell_less(design):
    data = [pendulums.recording(name, i) for i, name in enumerate(("free", "driven"))]
    known = jmbs.check_fit(mechanism(), data, UNKNOWN, sensors={"q": Sensor("hinge/q", NOISE)})
    more = designed(data=data)
    for name in UNKNOWN:
        assert more.before.standard_errors[name] == pytest.approx(known.predicted_standard_errors[name], rel=1e-9)
        assert (more.after.standard_errors[name] or np.inf) < (more.before.standard_errors[name] or 0.0)
    assert 0 < more.information_gain < design.information_gain
    # Noise that is not given is taken from them.
    estimated = jmbs.design_excitation(
        mechanism(),
        UNKNOWN,
        {"q": Sensor("hinge/q")},
        inputs=EXCITATION.inputs,
        limits={PORT: 0.8},
        data=data,
        max_iterations=1,
        starts=1,
    )
    assert estimated.information_gain > 0 and estimated.after.standard_errors["bob/mass"] is not None


@pytest.mark.slow
@pytest.mark.parametrize("criterion", ["A", "E"])
def test_other_criteria_and_splines(criterion):
    found = designed(inputs={PORT: BSpline(7)}, duration=1.5, criterion=criterion, rate=100.0, max_iterations=30)
    assert found.criterion_value > found.first_value
    assert all(reach.lower <= reach.least and reach.most <= reach.upper for reach in found.limits.values())
    assert found.inputs[PORT].values[0] == found.inputs[PORT].values[-1] == 0
