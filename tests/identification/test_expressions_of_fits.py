"""Ties and derived values follow the fitted model; what holds in one recording holds there; held-out unknowns."""

from __future__ import annotations

import dataclasses
import types

import jax.numpy as jnp
import numpy as np
import pytest
from quick import quick_jit
from recorded_pendulums import STARTS, TRUTH, mechanism, study

import jmbs
from jmbs.errors import ModelError
from jmbs.identification import Input, Parameter, Recording, parse_expression, recording_inputs
from jmbs.identification.check import pose
from jmbs.identification.places import place_of
from jmbs.identification.prediction import fitted_model, with_ties
from jmbs.identification.problem_steps import shows_of
from jmbs.identification.quantities import expression_of
from jmbs.identification.steps import is_coarse
from jmbs.identification.trust import estimates_of, sensitivity_of
from jmbs.simulation import parameter_value


def posed(**changes):
    """A study of one recording with fixed steps, so that nothing is run to choose them."""
    given = study(("free",))
    model = given.model
    model = dataclasses.replace(model, settings=dataclasses.replace(model.settings, dt=0.01, rtol=None, atol=None))
    return pose(dataclasses.replace(given, model=model, **changes))


def fitted(problem, x):
    experiment = problem.experiments[0]
    model, _, _ = fitted_model(experiment.program, experiment.member, jnp.asarray(problem.local(experiment, x)))
    return {path: np.asarray(entry["value"]) for path, entry in model.parameters().items()}


def test_ties_in_any_order():
    ties = {"bob/inertia[1,1]": "0.01 + 0.02 * hinge/friction/viscous", "hinge/friction/viscous": "0.5 * bob/mass"}
    problem = posed(parameters={"bob/mass": Parameter(2.0)}, ties=ties)
    x = problem.unknowns.first
    found = fitted(problem, x)
    assert found["hinge/friction/viscous"] == pytest.approx(1.0) and found["bob/inertia"][1, 1] == pytest.approx(0.03)
    value, slope = expression_of(problem, x, "bob/inertia[1,1]")
    assert value == pytest.approx(0.03)
    np.testing.assert_allclose(slope, [0.02])  # by the logarithm of the mass


def test_expressions_see_what_virtual_unknowns_do():
    given = {"bob/inertial": Parameter([1.5, 0, 0, 0.01, 0.03, 0.03, 0.03, 0, 0, 0])}
    problem = posed(parameters=given, derived={"mass": "bob/mass"})
    value, slope = expression_of(problem, problem.unknowns.first, "mass")
    assert value == pytest.approx(1.5) and np.any(slope != 0)


def test_moved_centre_of_mass_leaves_the_geometry():
    problem = posed(parameters={"bob/com": Parameter([0.01, 0.0, -0.02])})
    found, own = fitted(problem, problem.unknowns.first), mechanism()
    before = np.asarray(jmbs.compile(own).parameters()["hinge/child_frame/position"]["value"])
    np.testing.assert_allclose(found["hinge/child_frame/position"], before - [0.01, 0.0, -0.02], atol=1e-15)


def test_what_a_recording_sets_holds_there():
    given = study(("free",))
    data = tuple(dataclasses.replace(r, set={"bob/mass": 7.0}) for r in given.data)
    ties = {"bob/inertia[1,1]": "0.004 * bob/mass"}
    unknown = {"bob/mass": Parameter(3.0), "hinge/friction/viscous": Parameter()}
    problem = posed(parameters=unknown, data=data, ties=ties)
    values = fitted(problem, problem.unknowns.first)
    assert values["bob/mass"] == 7.0 and values["bob/inertia"][1, 1] == pytest.approx(0.028)


@pytest.mark.parametrize("known, message", [({"delay": -0.1}, "delay: found -0.1"), ({"gain": 0.0}, "gain: found 0")])
def test_sensors_that_cannot_be_are_refused(known, message):
    sensors = {name: dataclasses.replace(one, **known) for name, one in study(("free",)).sensors.items()}
    with pytest.raises(ModelError, match=message):
        posed(sensors=sensors)


def test_unknowns_of_held_out_recordings_are_estimated_apart():
    given = study(("free", "test"))
    given = dataclasses.replace(given, model=posed().study.model)
    problem = pose(given)
    names = [name for block in problem.unknowns.blocks for name in block.names]
    assert names == [*TRUTH, "recordings/free/initial/hinge/q"]
    assert set(problem.unknowns.held_out) == {"test"}
    (own,) = problem.local(problem.experiments[1], problem.unknowns.first)[-1:] * 0.1
    assert own == pytest.approx(STARTS["test"], abs=0.01)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"ties": {"bob/mass": "2 * bob/mass"}, "parameters": {}}, "circle"),
        ({"derived": {"a": "2 * initial/hinge/q"}}, "each recording"),
        ({"derived": {"a": "2 * bob/inertia"}, "parameters": {}}, "one number"),
        ({"derived": {"a": "2 * bob/mas"}}, "bob/mass"),
        ({"ties": {"bob/mass": "2.0"}}, "holds too"),
        ({"parameters": {"bob/mass": Parameter(), "bob/inertial": Parameter()}}, "holds too"),
        ({"data": ()}, "none to be fitted"),
        ({"data": study(("free",)).data * 2}, "two recordings"),
    ],
)
def test_wrong_studies_are_refused_before_anything_runs(changes, message):
    with pytest.raises(ModelError, match=message):
        posed(**changes)


def loaded(**more):
    """A study of which one recording has a model of its own, with a payload on the bob."""
    given, load = study(), mechanism()
    load.add_body("pay", 0.5, [0.001, 0.001, 0.001])
    load.add_joint("grip", "fixed", "bob", "pay")
    free, driven = given.data
    data = (free, dataclasses.replace(driven, model=jmbs.compile(load)))
    return dataclasses.replace(given, data=data, parameters={"bob/mass": Parameter(2.0)}, **more)


def test_values_may_follow_from_a_model_that_one_recording_has():
    ties, derived = {"pay/mass": "0.5 * bob/mass + 0.1"}, {"whole": "bob/mass + pay/mass", "part": "pay/inertia[0,0]"}
    problem = pose(loaded(ties=ties, derived=derived))
    x = problem.unknowns.first
    value, slope = expression_of(problem, x, "whole")
    assert value == pytest.approx(2.0 + 1.1)
    np.testing.assert_allclose(slope, [2.0 + 1.0])  # by the logarithm of the mass
    assert expression_of(problem, x, "part")[0] == pytest.approx(0.001)


def test_values_of_no_single_model_are_refused_before_anything_runs():
    given = loaded(derived={"both": "pay/inertia[0,0] / hook/mass"})
    other = mechanism()
    other.add_body("hook", 0.2, [0.001, 0.001, 0.001])
    other.add_joint("eye", "fixed", "bob", "hook")
    free, driven = given.data
    data = (dataclasses.replace(free, model=jmbs.compile(other)), driven)
    with pytest.raises(ModelError, match=r"derived/both: found pay/inertia.*, hook/mass, which no model"):
        pose(dataclasses.replace(given, data=data))
    ties = {"pay/mass": "2 * bob/mass", "hook/mass": "0.1 * bob/mass"}
    problem = pose(dataclasses.replace(given, data=data, ties=ties, derived={"both": "pay/mass + hook/mass"}))
    both, _ = expression_of(problem, problem.unknowns.first, "both")
    assert both == pytest.approx(4.2)  # of two models, by their ties
    with pytest.raises(ModelError, match="ties/pay/mass: found .*hook/mass"):
        pose(dataclasses.replace(given, data=data, ties={"pay/mass": "2 * hook/mass"}, derived={}))


def test_what_is_tied_follows_from_the_model_that_has_it():
    """Not from another that has the names in its expression too, with other values."""
    given = loaded(ties={"pay/mass": "10 * bob/inertia[1,1]"})
    free, driven = given.data
    model = driven.model.with_parameters({"bob/inertia": 0.05 * np.eye(3)})
    problem = pose(dataclasses.replace(given, data=(free, dataclasses.replace(driven, model=model))))
    assert expression_of(problem, problem.unknowns.first, "pay/mass")[0] == pytest.approx(0.5)


@pytest.mark.parametrize("unknown", [False, True])
def test_a_constant_stays_one_beside_a_recording_whose_input_it_is(unknown):
    """Also where it holds in its recording alone, and where it is unknown or tied."""
    given = study()
    free, driven = given.data
    held = {} if unknown else {"hinge/actuation": [0.7]}
    free = dataclasses.replace(free, inputs={}, set=held)
    more = {"hinge/actuation": Parameter(0.7)} if unknown else {}
    problem = pose(dataclasses.replace(given, data=(free, driven), parameters=given.parameters | more))
    shown = problem.shown(problem.experiments[0], problem.local(problem.experiments[0], problem.unknowns.first))
    constant = dataclasses.replace(free, inputs={"hinge/actuation": 0.7}, set={})
    other = pose(dataclasses.replace(given, data=(constant, driven)))
    expected = other.shown(other.experiments[0], other.local(other.experiments[0], other.unknowns.first))
    np.testing.assert_allclose(shown, expected, atol=1e-9)
    if unknown:
        jacobian = problem.evaluate(problem.unknowns.first, problem.ends())[1]
        names = [name for block in problem.unknowns.blocks for name in block.names]
        assert np.linalg.norm(jacobian[:, names.index("hinge/actuation")]) > 1


@pytest.mark.parametrize("start", [0.0, 300.0, 3e5, 1.7e9])
def test_an_input_that_is_held_keeps_the_order_of_late_times(start):
    """Where a millionth of the time between two of them is no number any more."""
    times = start + np.array([0.0, 0.01, 0.0101, 0.02])
    given = types.SimpleNamespace(settings=types.SimpleNamespace(t0=start))
    recording = Recording("late", times, {}, {})
    ends, values = recording_inputs._table(given, recording, "port", Input(times, np.arange(4.0), hold="zero"))  # pyright: ignore
    assert np.all(np.diff(ends) > 0) and list(values[:, 0]) == [0, 0, 1, 1, 2, 2, 3]


def test_a_constant_beside_an_input_of_the_same_recording_is_refused():
    given = study()
    free, driven = given.data
    data = (free, dataclasses.replace(driven, set={"hinge/actuation": [0.7]}))
    with pytest.raises(ModelError, match="recordings/driven/set/hinge/actuation: found a constant beside an input"):
        pose(dataclasses.replace(given, data=data))


def test_known_values_of_sensors_stand_in_expressions():
    problem = posed(derived={"a": "sensors/q/gain + sensors/q/noise"})
    assert expression_of(problem, problem.unknowns.first, "a")[0] == pytest.approx(1.002)


@pytest.mark.parametrize("step, coarse", [(0.1, True), (0.005, False)])
def test_a_models_own_step_that_is_too_long_is_told(step, coarse):
    problem = posed()
    (experiment,) = problem.experiments
    shows = shows_of(problem, experiment, problem.unknowns.first)
    assert is_coarse(step, shows, np.asarray(experiment.member.weights)) == coarse


def test_intervals_of_what_is_tied_stay_where_values_can_be():
    """Of what is positive by its kind the logarithm has the symmetric interval, of other values they have it."""
    ties = {"hinge/friction/viscous": "0.1 * bob/mass", "bob/inertia[1,1]": "0.02 * bob/mass"}
    problem = posed(parameters={"bob/mass": Parameter(2.0)}, ties=ties)
    x = problem.unknowns.first
    sensitivity = sensitivity_of(problem, x, np.array([[0.5]]))  # a standard error of twice the value
    found = estimates_of(problem, sensitivity, x, 1000)
    damping, mass, inertia = (found[name] for name in ("hinge/friction/viscous", "bob/mass", "bob/inertia[1,1]"))
    assert damping.standard_error == pytest.approx(0.4) and damping.kind == "tied"
    assert damping.interval[0] > 0
    np.testing.assert_allclose(damping.interval, 0.1 * np.array(mass.interval))
    assert np.mean(inertia.interval) == pytest.approx(inertia.estimate)


def test_a_tie_is_set_together_with_what_it_follows():
    """Static friction may not be below Coulomb's: neither may wait for the other."""
    rubbing = jmbs.Mechanism("rubbing")
    rubbing.add_body("bob", 1.0, [0.1, 0.1, 0.1])
    rubbing.add_joint("hinge", "revolute", "ground", "bob", axis=[0.0, 1.0, 0.0], friction={"coulomb": 0.2})
    model = jmbs.compile(rubbing)
    place, tied = (place_of(model, f"hinge/friction/{kind}") for kind in ("coulomb", "static"))
    ties = [(tied, parse_expression("tie", "1.5 * hinge/friction/coulomb", [place.path]))]

    def static(coulomb):
        fitted, found, _ = with_ties(model, {place: coulomb[None]}, ties, {place.path: coulomb})
        return found[tied.path], parameter_value(fitted, tied.path)

    for value in quick_jit(static)(jnp.asarray(0.7)):
        np.testing.assert_allclose(value, 1.05)
