"""Fits along reverse gradients in batches of windows: costs, gradients, answers, resuming, large sets, refusals."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from recorded_pendulums import NOISE, TRUTH, study

from jmbs.errors import ModelError
from jmbs.identification import Estimator, Optimiser, Parameter, Sensor, check_fit, fit_study, trust
from jmbs.identification.gradient_descent import GradientDescent
from jmbs.identification.posing import pose
from jmbs.identification.window_groups import costs

WINDOWS = Estimator("gradient_descent", segments=5, max_iterations=60, optimiser=Optimiser(batch=4, learning_rate=0.05))


class Stop(Exception):
    """Ends a fit from outside."""


def descent(**given: Any) -> GradientDescent:
    return GradientDescent(pose(study(estimator=Estimator("gradient_descent", **given))))


@pytest.mark.parametrize("schedule", ["constant", "cosine", "linear"])
def test_a_rate_starts_as_asked_and_ends_at_nothing_unless_constant(schedule):
    optimiser = Optimiser(learning_rate=0.3, schedule=schedule)
    rates = [optimiser.rate(step, 10) for step in range(11)]
    assert rates[0] == pytest.approx(0.3)
    assert rates[-1] == pytest.approx(0.3 if schedule == "constant" else 0.0, abs=1e-12)
    assert all(after <= before for before, after in zip(rates, rates[1:], strict=False))


@pytest.mark.parametrize("name", ["adam", "rmsprop", "sgd"])
def test_every_optimiser_finds_the_bottom_of_a_bowl(name):
    optimiser, bottom = Optimiser(name, learning_rate=0.1), jnp.asarray([1.0, -2.0])
    z, memory = jnp.zeros(2), optimiser.first_memory(jnp.zeros(2))
    step = jax.jit(lambda z, memory, rate: optimiser.stepped(z, z - bottom, memory, rate))
    for number in range(200):
        z, memory = step(z, memory, jnp.asarray(optimiser.rate(number, 200)))
    np.testing.assert_allclose(z, bottom, atol=1e-3)


@pytest.mark.parametrize(
    "given, words",
    [
        ({"name": "newton"}, "optimiser/name: found 'newton', wanted one of adam"),
        ({"schedule": "never"}, "optimiser/schedule: found 'never'"),
        ({"learning_rate": 0.0}, "optimiser/learning_rate: found 0"),
        ({"batch": 0}, "optimiser/batch: found 0"),
        ({"name": "lbfgs", "batch": 3}, "optimiser/batch: found 3 of lbfgs, wanted none"),
    ],
)
def test_optimisers_refuse(given: dict[str, Any], words: str):
    with pytest.raises(ModelError, match=words):
        Optimiser(**given)


def test_studies_refuse():
    with pytest.raises(ModelError, match="parameters: found none, wanted at least one unknown"):
        pose(dataclasses.replace(study(), parameters={}))
    bias = {"q": Sensor("hinge/q", NOISE, bias=Parameter())}
    assert len(pose(dataclasses.replace(study(), parameters={}, sensors=bias)).unknowns.first) == 1
    with pytest.raises(ModelError, match="estimator/optimiser: found one with method shooting"):
        Estimator(optimiser=Optimiser())
    with pytest.raises(ModelError, match="estimator/cross_validation: found method gradient_descent"):
        fit_study(study(estimator=Estimator("gradient_descent", cross_validation=True)))


def test_batches_take_each_window_once_in_an_order_of_the_seed():
    some = descent(optimiser=Optimiser(batch=1))

    def order(start: int, number: int) -> list[int]:
        return [int(batch.chosen[0]) for _, batch in some.batches(start, number)]

    assert sorted(order(0, 0)) == [0, 1] and order(0, 3) == order(0, 3)
    assert len({tuple(order(0, number)) for number in range(8)}) == 2
    group = some.groups[0]
    wanted = int(np.max(group.members[np.arange(group.size)].knots))
    assert wanted <= group.program.knots < 2 * wanted  # reverse mode takes as many steps
    three = dataclasses.replace(some.groups[0], local=jnp.zeros((3, 1), int))
    some.groups, some.optimiser = [three], Optimiser(batch=2)
    found = [batch for _, batch in some.batches(0, 0)]
    counted = np.concatenate([np.asarray(batch.chosen)[np.asarray(batch.weights) > 0] for batch in found])
    assert sorted(counted.tolist()) == [0, 1, 2] and [len(batch.chosen) for batch in found] == [2, 2]


@pytest.mark.slow
def test_the_cost_is_that_of_shooting():
    some = descent()
    x = some.problem.unknowns.first
    residual, _ = some.problem.evaluate(x, some.problem.ends())
    assert some.cost(jnp.asarray(x)) == pytest.approx(0.5 * float(np.sum(residual**2)), rel=1e-10)


@pytest.mark.slow
def test_gradients_are_those_of_differences_with_gaps_too():
    some = descent(segments=5, loss="huber", scale=3.0)
    group = some.groups[0]
    z = jnp.asarray(np.concatenate([some.problem.unknowns.first, some.starts]))
    cost = jax.jit(lambda z: jnp.sum(costs(group, z, jnp.arange(group.size), "huber", 3.0)))
    ahead, h = jnp.asarray(np.random.default_rng(0).normal(size=z.shape)), 1e-5
    slope = (cost(z + h * ahead) - cost(z - h * ahead)) / (2 * h)
    np.testing.assert_allclose(jax.jit(jax.grad(cost))(z) @ ahead, slope, rtol=1e-6)


@pytest.mark.slow
def test_it_finds_the_answer_of_shooting_and_goes_on_to_the_same_bits(tmp_path, monkeypatch):
    """Stopped after some pass too; and without a covariance where there are many unknowns."""
    given, single = study(estimator=WINDOWS), fit_study(study())

    def stopped_at(number: int, file: Path):
        def stop(progress):
            assert progress.left == 60 - progress.iteration
            if progress.iteration == number:
                raise Stop

        with pytest.raises(Stop):
            fit_study(given, checkpoint=file, progress=stop)

    whole = fit_study(given)
    assert whole.status == "converged"
    for name, other in single.parameters.items():
        assert other.standard_error
        assert abs(whole.parameters[name].estimate - other.estimate) < other.standard_error
        assert whole.parameters[name].standard_error == pytest.approx(other.standard_error, rel=0.05)
    for number in (1, 17, 60):
        stopped_at(number, tmp_path / f"{number}.npz")
        again = fit_study(given, checkpoint=tmp_path / f"{number}.npz", resume=True)
        assert again.parameters == whole.parameters

    def interrupt(progress):
        if progress.iteration == 30:
            raise KeyboardInterrupt

    cut = fit_study(given, progress=interrupt)
    assert cut.status == "interrupted" and whole.chi2_per_degree < cut.chi2_per_degree < 30

    monkeypatch.setattr(trust, "MOST_WITH_ERRORS", len(whole.order) - 1)
    check = check_fit(given)
    assert {"no_covariance"} == {found.code for found in check.findings} and not check.predicted_standard_errors
    bare = fit_study(given, check=check)
    assert bare.covariance.size == bare.correlation.size == bare.singular_values.size == 0
    for name, one in bare.parameters.items():
        assert one.estimate == whole.parameters[name].estimate
        assert one.visible is one.standard_error is one.interval is None
    assert np.all(np.isnan(bare.predict(given.data[0])["q"].standard_deviation))
    with pytest.raises(ModelError, match="a fit without a covariance"):
        bare.profile("bob/mass")
    assert "Not worked out" in (bare.report(tmp_path / "report.html") or (tmp_path / "report.html").read_text())
    assert bare.to_xarray()["covariance"].isnull().all() and TRUTH.keys() <= set(bare.order)


@pytest.mark.slow
def test_curvature_finds_the_answer_of_shooting_and_goes_on_to_the_same_bits(tmp_path):
    """Over horizons that grow, in whole recordings."""
    curved = Estimator("gradient_descent", max_iterations=80, optimiser=Optimiser("lbfgs"))
    given, single = study(estimator=curved), fit_study(study())
    whole = fit_study(given)
    assert whole.status == "converged"
    for name, other in single.parameters.items():
        one = whole.parameters[name]
        assert one.standard_error and other.standard_error
        assert abs(one.estimate - other.estimate) < 0.1 * other.standard_error
        assert one.standard_error == pytest.approx(other.standard_error, rel=0.01)

    def stop(progress):
        if progress.iteration == 45:
            raise Stop

    with pytest.raises(Stop):
        fit_study(given, checkpoint=tmp_path / "checkpoint.npz", progress=stop)
    again = fit_study(given, checkpoint=tmp_path / "checkpoint.npz", resume=True)
    assert again.parameters == whole.parameters
