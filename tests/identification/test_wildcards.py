"""Unknowns asked for together, `<path>/*`: what they stand for, what they leave out, and a fit of them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from recorded_pendulums import NOISE, mechanism, motion, study

import jmbs
from jmbs.errors import ModelError
from jmbs.identification import Parameter, Prior, Study, by_single_path
from jmbs.identification.unknowns import unknowns_of
from jmbs.library.learned import NetworkFriction

WEIGHTS = [f"hinge/friction/net/{kind}/{layer}" for kind in ("weights", "biases") for layer in (0, 1)]


def learned() -> jmbs.Mechanism:
    """The pendulum with friction by a network."""
    given = mechanism()
    spec = dataclasses.replace(given.joints["hinge"], friction=NetworkFriction(hidden=3, damping=0.3))
    given.joints["hinge"] = spec
    return given


@pytest.fixture(scope="module")
def model():
    return jmbs.compile(learned())


def test_they_stand_for_all_parameters_below(model):
    assert list(by_single_path([model], {"hinge/friction/*": 1})) == WEIGHTS
    assert list(by_single_path([model], {"hinge/friction/net/biases/*": 1, "bob/mass": 2})) == [
        *WEIGHTS[2:],
        "bob/mass",
    ]


def test_what_is_named_itself_is_left_out(model):
    found = by_single_path([model], {"hinge/friction/*": 1, f"{WEIGHTS[0]}[1,0]": 2, WEIGHTS[3]: 3})
    assert found == {WEIGHTS[1]: 1, WEIGHTS[2]: 1, f"{WEIGHTS[0]}[1,0]": 2, WEIGHTS[3]: 3}


def test_nothing_below_is_refused_with_the_nearest(model):
    wanted = r"parameters/hinge/frictoin/\*: found no parameter below it, .*hinge/friction/"
    with pytest.raises(ModelError, match=wanted):
        by_single_path([model], {"hinge/frictoin/*": 1})


def test_a_study_has_them_one_by_one_and_counts_weights_in_ones(model):
    belief = Parameter(prior=Prior(0.0, 1.0))
    asked = dataclasses.replace(study(), model=model, parameters={"hinge/friction/*": belief})
    assert dict(asked.parameters) == dict.fromkeys(WEIGHTS, belief)
    unknowns = unknowns_of(asked, {recording.name: model for recording in asked.data})
    assert sum(block.size for block in unknowns.shared) == 10
    for block in unknowns.shared:
        np.testing.assert_array_equal(block.transform.scale, 1.0)
        np.testing.assert_array_equal(block.start, np.ravel(model.parameters()[block.path]["value"]))


STUDY = """
schema: jmbs-fit/1
model: pendulum.yaml
parameters: {hinge/friction/*: {prior: {mean: 0, std: 1}}, bob/mass: {}}
sensors: {q: {output: hinge/q, noise: 1e-3}}
recordings: {swing: {file: swing.csv, time: t, channels: {q: q}}}
"""
PENDULUM = """
schema: jmbs/1
bodies: {bob: {mass: 1.0, inertia: [0.1, 0.1, 0.1]}}
joints:
  hinge: {type: revolute, parent: ground, child: bob, friction: {type: 'jmbs.library.learned:NetworkFriction'}}
simulation: {t1: 1.0}
"""


def test_in_the_file_of_a_study(tmp_path):
    rows = [f"{t},{q}" for t, q in zip(np.linspace(0, 1, 9), np.cos(np.linspace(0, 3, 9)), strict=True)]
    for name, text in (("study.yaml", STUDY), ("pendulum.yaml", PENDULUM), ("swing.csv", "\n".join(["t,q", *rows]))):
        (tmp_path / name).write_text(text)
    found = jmbs.load_study(tmp_path / "study.yaml")
    assert isinstance(found, Study) and list(found.parameters) == [*WEIGHTS, "bob/mass"]
    assert found.parameters[WEIGHTS[0]].prior == Prior(0.0, 1.0) and found.source["parameters"].keys() >= {"bob/mass"}


@pytest.mark.slow
def test_a_fit_finds_a_law_that_the_model_lacked(model):
    """Friction that is viscous in truth, found by a network where the recordings move."""
    belief = {"hinge/friction/*": Parameter(prior=Prior(0.0, 2.0))}
    start = Parameter("measured", per="recording")
    asked = dataclasses.replace(
        study(("free", "driven", "test")), model=model, parameters=belief | {"initial/hinge/q": start}
    )
    fit = jmbs.fit(asked, estimator=jmbs.Estimator(tolerance=1e-4))
    assert fit.status == "converged" and fit.chi2_per_degree < 1.2
    assert fit.heldout["test"]["q"].rms < 2 * NOISE
    ts = np.arange(0.0, 2.0, 0.01)
    run = jmbs.simulate(fit.models["test"], ts=ts, tolerance=1e-9, audit=True)
    np.testing.assert_allclose(run.q["hinge"][:, 0], motion("test", ts), atol=5 * NOISE)
    assert np.all(np.diff(run.entropy_produced) >= 0) and np.max(np.abs(run.first_law_residual)) < 1e-7
