"""A run that goes on where another ended is the same as one run: states to the last bit, and one account of both."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quick import quick_jit

import jmbs
from jmbs.errors import ModelError

TIMES = np.linspace(0.0, 1.0, 11)
"""s; of both halves and the whole as many as in other tests, whose programs they share."""
RUN = {"dt": 0.01, "solver": "rk4"}
COUNTED = ("supplied", "dissipated", "entropy_produced", "first_law_residual", "projection_work")


@pytest.fixture(scope="module")
def whole(model, state) -> jmbs.Trajectory:
    return jmbs.simulate(model, state, ts=TIMES, inputs={"hinge/actuation": 0.4}, **RUN)


def in_two(model, state, first=6, **settings) -> jmbs.Trajectory:
    given = {"inputs": {"hinge/actuation": 0.4}, **RUN, **settings}
    begun = jmbs.simulate(model, state, ts=TIMES[:first], **given)
    return jmbs.simulate(model, after=begun, ts=TIMES[first - 1 :], **given)


def test_two_runs_are_one(model, state, whole):
    second = in_two(model, state)
    for name in ("q", "v", "position", "velocity"):
        np.testing.assert_array_equal(getattr(second, name).array, getattr(whole, name).array[5:])
    np.testing.assert_array_equal(second.ts, TIMES[5:])
    for name in COUNTED:
        np.testing.assert_allclose(getattr(second, name), getattr(whole, name)[5:], rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(second.destroyed.array, whole.destroyed.array[5:], rtol=1e-12)


def test_a_saved_state_is_what_was_moved(model, state, whole):
    """By number from either end, traced too, and of each in a batch; a run from it is the run to rounding."""
    for i in (5, -6):
        np.testing.assert_allclose(whole.state(i).q["hinge"], whole.q["hinge"][5], rtol=1e-14)
    found = quick_jit(lambda i: (whole.state(i), model.view(whole.state(i)).v["hinge"]))(jnp.asarray(-6))
    np.testing.assert_array_equal(found[0]["rod/q"], whole.state(5)["rod/q"])
    np.testing.assert_allclose(found[1], whole.v["hinge"][5], rtol=1e-13)
    for block, first in zip(whole.state(0).blocks, state.blocks, strict=True):
        np.testing.assert_allclose(block, first, rtol=1e-14, atol=1e-15)
    batch = jax.tree.map(lambda leaf: np.stack([leaf, leaf]), whole)
    np.testing.assert_array_equal(batch.state(2).q["hinge"], np.stack([whole.state(2).q["hinge"]] * 2))
    again = jmbs.simulate(model, whole.state(5), ts=TIMES[5:], t0=TIMES[5], inputs={"hinge/actuation": 0.4}, **RUN)
    np.testing.assert_allclose(again.q["hinge"], whole.q["hinge"][5:], rtol=1e-12)


@pytest.mark.slow
def test_under_transformations(model, state):
    """Gradients of both runs together are those of one."""

    def last(torque, split):
        given = {"inputs": {"hinge/actuation": torque}, "audit": False, **RUN}
        if not split:
            return jmbs.simulate(model, state, ts=[0.0, 0.02, 0.04], **given).q["hinge"][-1, 0]
        begun = jmbs.simulate(model, state, ts=[0.0, 0.02], **given)
        return jmbs.simulate(model, after=begun, t0=0.02, ts=[0.02, 0.04], **given).q["hinge"][-1, 0]

    slope = jax.value_and_grad(last)
    gradients = quick_jit(lambda torque: (slope(torque, False), slope(torque, True)))
    one, two = gradients(0.4)
    np.testing.assert_allclose(two, one, rtol=1e-12)


@pytest.mark.slow
def test_it_goes_on_from_an_event(model, state):
    given = {"until": {"hinge": 0.0}, **RUN}
    to_bottom = jmbs.simulate(model, state, ts=np.linspace(0.0, 1.0, 6), **given)
    second = jmbs.simulate(model, after=to_bottom, t1=1.5, save_every=0.25, **given)
    np.testing.assert_allclose(second.ts[0], to_bottom.event_time)
    np.testing.assert_allclose(second.v["hinge"][0], to_bottom.event.v["hinge"], rtol=1e-12)
    np.testing.assert_allclose(second.dissipated[0], to_bottom.event.dissipated, rtol=1e-12)


def test_after_a_failure_nothing_goes_on(model, state):
    nowhere = state.replace("hinge/q_r", [np.nan])
    second = in_two(model, nowhere, throw=False)
    assert jmbs.simulation.status_name(second.status) == "not_finite"
    assert np.isnan(second.q["hinge"]).all()


def test_what_no_run_can_go_on_from_is_refused(model, state, whole):
    batch = jax.tree.map(lambda leaf: np.stack([leaf, leaf]), whole)
    bare = dataclasses.replace(whole, ending=dataclasses.replace(whole.ending, account=jnp.zeros(0)))
    cases = {
        "a Trajectory, which simulate gives": {"after": 3.0},
        "one of them": {"after": whole, "state": state},
        "jax.vmap takes many": {"after": batch},
        "one of the absolute formulation": {"after": whole, "formulation": "absolute"},
        "or audit=False": {"after": bare},
    }
    for wanted, given in cases.items():
        with pytest.raises(ModelError, match=f"^after: found .*{wanted}"):
            jmbs.simulate(model, t1=2.0, **given, **RUN)
    for i in (11, -12, 1.5):
        with pytest.raises(ModelError, match="^state: found sample .*wanted a whole number from -11 to 10"):
            whole.state(i)
