"""A model as a layer of a network, and a step of it as a program of its own."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from learning.environments import pendulum

import jmbs
from jmbs.learning import guarded

MODEL = pendulum()
STATE = MODEL.initial_state()
INPUTS, RATES = jnp.asarray(np.random.default_rng(0).normal(size=(3, 2))), jnp.array([0.0, 1.0, 2.0])


class Swing(eqx.Module):
    """A network that chooses a torque, a step of the model from a rate, and a network that looks at its end."""

    before: eqx.nn.Linear
    model: jmbs.Model
    after: eqx.nn.Linear

    def __call__(self, x, rate):
        def moved(model, torque, rate):
            start = STATE.replace("rod/p", STATE["rod/p"].at[1].set(rate).at[3].set(-0.5 * rate))
            return model.step(start, {"hinge/actuation": torque}, 0.05)

        state, fine = guarded(moved, self.model, self.before(x), rate)
        seen = jnp.concatenate([state.q["hinge"], state["rod/p"][1:2]])
        return self.after(jnp.where(fine, seen, 0.0))[0]


@pytest.fixture(scope="module")
def network():
    keys = jax.random.split(jax.random.key(0))
    return Swing(eqx.nn.Linear(2, 1, key=keys[0]), MODEL, eqx.nn.Linear(2, 1, key=keys[1]))


@eqx.filter_jit
@eqx.filter_value_and_grad
def cost(network, rates, weights):
    return jnp.sum(weights * (jax.vmap(network)(INPUTS, rates) - 1.0) ** 2)


ALL = jnp.ones(3)


def test_gradients_reach_networks_and_parameters(network):
    _, found = cost(network, RATES, ALL)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(found))
    kind = MODEL.dae.plan.member_of["hinge/mf"][0]
    places = (
        lambda n: n.before.weight,
        lambda n: n.after.bias,
        lambda n: n.model.dae.components[kind].viscous,
    )
    for place in places:
        array = place(network)
        change = 1e-5 * np.random.default_rng(1).normal(size=array.shape)
        ahead, behind = (
            cost(eqx.tree_at(place, network, array + sign * change), RATES, ALL)[0] for sign in (1.0, -1.0)
        )
        slope = jnp.vdot(place(found), change)
        assert slope != 0 and np.isclose(slope, (ahead - behind) / 2, rtol=1e-6, atol=1e-13)


def test_it_learns_while_the_model_stays(network):
    learned = jax.tree.map(eqx.is_inexact_array, network)
    learned = eqx.tree_at(lambda n: n.model, learned, jax.tree.map(lambda _: False, network.model))
    before = cost(network, RATES, ALL)[0]
    for _ in range(30):
        steps = jax.tree.map(lambda g: -0.05 * g, eqx.filter(cost(network, RATES, ALL)[1], learned))
        network = eqx.apply_updates(network, steps)
    assert cost(network, RATES, ALL)[0] < 0.2 * before


def test_a_failed_member_leaves_gradients_to_the_others(network):
    """A rate of which the step becomes infinite; what its member costs is left out by a weight of zero."""
    value, found = cost(network, RATES.at[1].set(1e200), jnp.array([1.0, 0.0, 1.0]))
    expected, others = cost(network, RATES, jnp.array([1.0, 0.0, 1.0]))
    assert value == expected
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(others), strict=True):
        assert np.isfinite(a).all() and np.allclose(a, b, rtol=1e-12)


def test_a_step_is_exported():
    """Called with its arrays, it needs nothing of jmbs."""
    leaves, structure = jax.tree.flatten(STATE)

    @jax.jit
    def step(leaves, torque):
        return jax.tree.leaves(MODEL.step(structure.unflatten(leaves), {"hinge/actuation": torque}, 0.05))

    called = jax.export.deserialize(jax.export.export(step)(leaves, jnp.zeros(1)).serialize()).call
    for found, expected in zip(called(leaves, jnp.ones(1)), step(leaves, jnp.ones(1)), strict=True):
        assert np.allclose(found, expected, rtol=1e-13)
