"""A batch in rounds is the batch, and its members do not wait for the slowest."""

from __future__ import annotations

from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jmbs
from jmbs.errors import ModelError
from jmbs.jaxext.kernels import AS_KERNEL
from jmbs.simulation.rounds import Reached, in_rounds
from jmbs.simulation.status import members, status_name


@jax.jit
def counted(needed, done, most):
    """Members that are done when they have counted to what they need; they add up what they counted."""
    step = jnp.minimum(needed - done[0], most)
    total = done[1] + step * (2 * done[0] + step + 1) // 2
    done = done[0] + step
    return (done, total), Reached(done < needed, done, done / needed)


def in_counting_rounds(needed):
    nothing = jnp.zeros(len(needed), int)
    (done, total), rounds = in_rounds(counted, jnp.asarray(needed), (nothing, nothing), len(needed))
    np.testing.assert_array_equal(done, needed)
    np.testing.assert_array_equal(total, needed * (needed + 1) // 2)
    return sum(each.work for each in rounds)


def test_a_thousandfold_spread_costs_less_than_twice_its_own_work():
    needed = (16 * 10.0 ** np.random.default_rng(0).uniform(0, 3, 2000)).astype(int)
    assert in_counting_rounds(needed) < 2 * needed.sum() < 0.5 * len(needed) * needed.max()


def test_two_hopeless_members_cost_little_more_than_themselves():
    needed = np.random.default_rng(0).integers(300, 500, 2000)
    bad = needed.copy()
    bad[[3, 1700]] = 100_000
    assert in_counting_rounds(bad) - in_counting_rounds(needed) < 1.1 * 64 * 500 + 1.1 * 200_000


@pytest.mark.parametrize("size", [1, 2, 65, 200])
def test_every_size_is_done(size):
    in_counting_rounds(np.random.default_rng(size).integers(1, 200, size))


RUN = {"t1": 0.5, "save_every": 0.1, "solver": "tsit5", "tolerance": 1e-6, "max_steps": 300}


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"until": {"hinge": 0.2}}, {"audit": False, "state": True}])
def test_it_is_the_batch_of_runs(model, state, settings):
    """Saved values, account, events, what became of members, and counts of steps: of sound and of failed ones."""
    given = {"audit": True} | settings
    start = state if given.pop("state", False) else None
    frictions = np.append(10.0 ** np.linspace(-2, 2, 17), [1e6, -1.0, np.nan])
    of = lambda friction: model.with_parameters({"hinge/friction/viscous": friction})  # noqa: E731
    found = jmbs.simulate_batch(lambda f: of(f) if start is None else (of(f), start), frictions, **RUN, **given)
    alone = lambda friction: jmbs.simulate(of(friction), start, throw=False, **RUN, **given)  # noqa: E731
    wanted = jax.jit(lambda batch: eqx.filter(jax.vmap(alone)(batch), eqx.is_array))(jnp.asarray(frictions))
    pairs = zip(jax.tree.leaves(eqx.filter(found, eqx.is_array)), jax.tree.leaves(wanted), strict=True)
    for a, b in pairs:
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)
    names = [status_name(each) for each in members(found.status)]
    assert names[-3:] == ["max_steps_reached", "invalid_parameters", "invalid_parameters"]
    assert found.to_xarray().sizes["member"] == len(frictions)


@pytest.mark.slow
def test_fixed_steps_are_done_too(model):
    of = lambda q: model.with_parameters({"initial/hinge/q": q[None]})  # noqa: E731
    run = {"t1": 0.2, "save_every": 0.1, "solver": "rk4", "dt": 0.01, "audit": False}
    found = jmbs.simulate_batch(of, jnp.array([0.1, 0.2]), **run)
    np.testing.assert_allclose(found.q["hinge"][1], jmbs.simulate(of(jnp.array(0.2)), **run).q["hinge"], rtol=1e-12)


def test_what_is_no_batch_of_runs_is_refused(model):
    with pytest.raises(ModelError, match="^function: found 3.0, wanted a Model, or a pair"):
        jmbs.simulate_batch(lambda x: 3.0, jnp.ones(2), t1=1.0)
    with pytest.raises(ModelError, match="^batch: found no array"):
        jmbs.simulate_batch(lambda x: model, {}, t1=1.0)
    with pytest.raises(ModelError, match="^batch: found traced values, wanted known ones; .*map_batch"):
        jax.grad(lambda x: jmbs.simulate_batch(lambda f: model, x, t1=1.0).q.array.sum())(jnp.ones(2))


def test_a_step_of_an_open_tree_that_is_tried_is_one_kernel():
    model = jmbs.compile(jmbs.load(Path(__file__).parents[2] / "configs" / "pendulum.yaml"))

    def end(state):
        settings = {"solver": "tsit5", "tolerance": 1e-6, "audit": False, "throw": False, "adjoint": "forward"}
        return jmbs.simulate(model, state, ts=[0.0, 1.0], **settings).q.array

    assert jax.jit(end).lower(model.initial_state()).as_text().count(next(iter(AS_KERNEL))) == 1
