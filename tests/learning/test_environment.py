"""Environments: steps are the model's, episodes start anew by themselves, failures stay where they are."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from learning.environments import environment, episodes, observation, pendulum, reward

import jmbs
from jmbs.fusing import fused_calls
from jmbs.learning import ModelEnvironment

MEMBERS, STEPS = 5, 6
ENV = environment()


def with_block(batch, member: int, name: str, value: float, entry: int = 0):
    """The episodes with one number of one member's state exchanged."""
    motion = batch.motion
    blocks = tuple(
        block.at[member, 0, entry].set(value) if name in names else block
        for block, names in zip(motion.blocks, motion.names, strict=True)
    )
    return eqx.tree_at(lambda e: e.motion.blocks, batch, blocks)


def run(batch, actions, mass=1.0):
    """Steps of a batch: what each gave; the sum of the rewards of the first three, and its gradient."""

    return run_with(batch, actions, jnp.asarray(mass))


@jax.jit
def run_with(batch, actions, mass):
    def gain(actions, mass):
        env = eqx.tree_at(lambda e: e.model, ENV, ENV.model.with_parameters({"rod/mass": mass}))

        def step(batch, action):
            batch, *rest = jax.vmap(env.step)(batch, action)
            return batch, (batch, *rest)

        seen = jax.lax.scan(step, batch, actions)[1]
        return jnp.sum(seen[2][:3]), seen

    (value, seen), gradient = jax.value_and_grad(gain, (0, 1), has_aux=True)(actions, mass)
    return seen, value, gradient


def looked_at(view, action):
    return observation(view), reward(view, action)


@pytest.fixture(scope="module")
def batch():
    return episodes(ENV, MEMBERS)


@pytest.fixture(scope="module")
def actions():
    return jnp.asarray(np.random.default_rng(0).uniform(-1.5, 1.5, (STEPS, MEMBERS, 1)))


@pytest.fixture(scope="module")
def seen(batch, actions):
    return run(batch, actions)[0]


def test_a_step_holds_the_action_over_the_model_s_steps(batch, actions, seen):
    model, action = ENV.model, actions[0, 1]
    state = jax.tree.map(lambda x: x[1], batch.motion)
    step = jax.jit(lambda state: model.step(state, {"hinge/actuation": action}, 0.025))
    expected = step(step(state))
    observed, gain = jax.jit(lambda state: looked_at(model.view(state), action))(expected)
    assert jnp.allclose(seen[0].motion.q["hinge"][0, 1], expected.q["hinge"], rtol=1e-12)
    assert jnp.allclose(seen[1][0, 1], observed, rtol=1e-12)
    assert jnp.allclose(seen[2][0, 1], gain, rtol=1e-12)


def test_episodes_start_anew_after_the_horizon(batch, seen):
    after, observed, _, terminated, truncated, info = seen
    alive = ~np.any(terminated[:3], axis=0)
    assert alive.any()
    assert np.array_equal(np.asarray(truncated[:, alive]).any(axis=1), [False, False, False, True, False, False])
    assert np.all(info["steps"][3, alive] == 4) and np.all(after.steps[3, alive] == 0)
    observe = jax.jit(jax.vmap(ENV.observe))
    assert jnp.allclose(observed[3], observe(jax.tree.map(lambda x: x[3], after)), rtol=1e-12)
    assert not jnp.allclose(info["final_observation"][3, alive], observed[3, alive])
    assert not jnp.allclose(observed[3, alive], observe(batch)[alive]), "another episode, not the same"
    assert np.array_equal(info["final_observation"][:3, alive], observed[:3, alive])


def test_episodes_end_where_the_user_says(batch, actions):
    far = with_block(batch, 2, "hinge/q_r", 1.3)
    after, _, _, terminated, truncated, info = run(far, actions)[0]
    assert terminated[0, 2] and not truncated[0, 2] and not info["failed"].any()
    assert after.steps[0, 2] == 0 and abs(after.motion.q["hinge"][0, 2, 0]) < 0.5


def test_a_failed_member_starts_anew_and_nobody_else_notices(batch, actions, seen):
    broken = with_block(batch, 2, "rod/p", np.nan)
    after, observed, rewards, terminated, _, info = run(broken, actions)[0]
    assert terminated[0, 2] and info["failed"][0, 2] and rewards[0, 2] == -7.0 and after.steps[0, 2] == 0
    others = np.array([0, 1, 3, 4])
    assert np.isfinite(observed).all() and np.isfinite(rewards).all()
    assert np.array_equal(observed[:, others], seen[1][:, others])
    assert np.array_equal(rewards[:, others], seen[2][:, others])


def test_gradients_are_those_of_differences_and_failures_have_none(batch, actions):
    gradient, by_mass = run(batch, actions)[2]
    change = jnp.asarray(np.random.default_rng(1).normal(size=actions.shape))
    ahead, behind = (run(batch, actions + h * change, 1.0 + h)[1] for h in (1e-6, -1e-6))
    assert by_mass != 0 and abs(jnp.vdot(gradient, change) + by_mass - (ahead - behind) / 2e-6) < 1e-7
    # A finite state whose step is not finite: without care NaN times zero.
    of_broken = run(with_block(batch, 2, "rod/p", 1e200, entry=1), actions)[2][0]
    others = np.array([0, 1, 3, 4])
    assert np.isfinite(of_broken).all() and np.array_equal(of_broken[:, others], gradient[:, others])
    assert of_broken[0, 2, 0] == 0.0


@pytest.mark.slow
def test_a_new_episode_is_made_only_where_one_has_ended():
    """The condition asks for any member, so `vmap` makes no choice between two states of each member of it."""
    keys = jax.vmap(jax.random.key)(jnp.arange(3))
    batch = jax.eval_shape(jax.vmap(ENV.reset), keys)
    program = jax.make_jaxpr(jax.vmap(ENV.step))(batch, jnp.zeros((3, 1)))
    (cond,) = [e for e in program.eqns if e.primitive.name == "cond"]
    assert cond.invars[0].aval.shape == ()


def test_a_start_may_be_a_state():
    state = pendulum().initial_state()
    env = environment(start=lambda key: state)
    assert jnp.array_equal(env.reset(jax.random.key(0)).motion.q["hinge"], state.q["hinge"])


@pytest.mark.parametrize(
    ("changes", "path", "wanted"),
    [
        ({"actions": {}}, "actions", "mapping of port paths"),
        ({"actions": {"hinge/actuatoin": (-1, 1)}}, "inputs/hinge/actuatoin", "hinge/actuation"),
        ({"actions": {"hinge/actuation": (1.0, -1.0)}}, "actions/hinge/actuation", "low < high"),
        ({"actions": {"hinge/actuation": (-np.inf, 1.0)}}, "actions/hinge/actuation", "finite"),
        ({"actions": {"hinge/actuation": 3.0}}, "actions/hinge/actuation", "(low, high)"),
        ({"dt": 0.0}, "dt", "positive"),
        ({"substeps": 1.5}, "substeps", "positive whole number"),
        ({"horizon": 0}, "horizon", "positive whole number"),
        ({"reward": None}, "reward", "a function"),
        ({"terminated": 3}, "terminated", "a function"),
    ],
)
def test_refusals(changes, path, wanted):
    with pytest.raises(jmbs.ModelError, match=wanted.replace("(", r"\(").replace(")", r"\)")) as error:
        environment(**changes)
    assert error.value.path == path


def test_refusals_while_it_runs():
    episode = jax.eval_shape(ENV.reset, jax.random.key(0))
    with pytest.raises(jmbs.ModelError, match=r"action: found an array of shape \(2,\)"):
        jax.eval_shape(ENV.step, episode, jnp.zeros(2))
    with pytest.raises(jmbs.ModelError, match="reward: .* wanted one number"):
        jax.eval_shape(environment(reward=lambda view, action: action).step, episode, jnp.zeros(1))
    with pytest.raises(jmbs.ModelError, match="terminated: found an array float.* wanted true or false"):
        jax.eval_shape(environment(terminated=lambda view: view.q["hinge"][0]).step, episode, jnp.zeros(1))
    with pytest.raises(jmbs.ModelError, match="start: .* below initial/"):
        environment(start=lambda key: {"rod/mass": 1.0}).reset(jax.random.key(0))
    for seed in (0, jnp.zeros(2), jax.random.split(jax.random.key(0), 3)):
        with pytest.raises(jmbs.ModelError, match="key: found .*, wanted one key"):
            ENV.reset(seed)
    with pytest.raises(jmbs.ModelError, match="model: found a Mechanism"):
        ModelEnvironment(jmbs.Mechanism("m"), actions={}, observation=observation, reward=reward, dt=0.1)


def test_a_batch_of_steps_is_three_kernels_where_there_are_some(batch, actions):
    """The motion, and where episodes begin anew, their start and what is seen then; keys of random numbers stay
    outside."""

    def step(batch, action):
        return jax.vmap(ENV.step)(batch, action)[:5]

    wanted = jax.jit(step)(batch, actions[0])
    with fused_calls():
        program = jax.make_jaxpr(lambda *args: step(*args))(batch, actions[0])  # else JAX has traced it already
        found = jax.jit(lambda *args: step(*args))(batch, actions[0])
    assert sizes(program.jaxpr) == [(MEMBERS,)] * 3
    for a, b in zip(jax.tree.leaves(wanted), jax.tree.leaves(found), strict=True):
        if not jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


def sizes(jaxpr) -> list[tuple[int, ...]]:
    """Axes of members of all fused calls that are in no other."""
    found = []
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "fused_call":
            found.append(eqn.params["members"].sizes)
        else:
            inner = [x for value in eqn.params.values() for x in (value if isinstance(value, tuple) else (value,))]
            found += [size for x in inner if hasattr(x, "jaxpr") for size in sizes(x.jaxpr)]
    return found
