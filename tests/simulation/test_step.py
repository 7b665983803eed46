"""One step by itself: what a run does in each of its steps, for every kind of model, in loops and in batches."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quick import quick_jit

import jmbs
from jmbs.errors import ModelError
from jmbs.jaxext.kernels import AS_KERNEL

DT, STEPS = 2e-3, 4
TAG = next(iter(AS_KERNEL))
MODELS = {
    "pendulum": {},
    "slider_crank": {"constraints": "project"},
    "three_bar_loop": {"constraints": "baumgarte"},
    "rolling_disk": {"constraints": "project"},
    "knife_edge": {"formulation": "absolute"},
    "rlc": {},
    "damped_oscillator": {"method": "implicit_midpoint"},
    "heavy_top": {"method": "tsit5"},
}
FAST = ("pendulum",)


def with_settings(model: jmbs.Model, **settings) -> jmbs.Model:
    given = {"rtol": None, "atol": None} | settings
    return dataclasses.replace(model, settings=dataclasses.replace(model.settings, **given))


def configured(configs, name: str, **settings) -> jmbs.Model:
    model = jmbs.compile(jmbs.load(configs / f"{name}.yaml"))
    return with_settings(model, **({"method": "rk4", "dt": DT} | settings))


def last(trajectory: jmbs.Trajectory) -> list[np.ndarray]:
    read = (trajectory.position, trajectory.velocity, trajectory.q, trajectory.v, trajectory.states)
    return [np.asarray(values.array[-1]) for values in read]


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n not in FAST)) for n in MODELS])
def test_steps_are_those_of_a_run(configs, name):
    """Of every method, treatment of constraints and formulation; of both kinds of state, one and many at once."""
    model = configured(configs, name, **MODELS[name])
    state = model.initial_state()
    end = STEPS * DT
    run = jmbs.simulate(model, state, t0=0.0, ts=[0.0, end], t1=end, audit=False)
    assert int(run.stats["steps"]) == STEPS

    @quick_jit
    def both(state):
        def step(state, number):
            return model.step(state, {}, DT, number * DT), None

        inner = model.inner_state(state)
        one_by_one = jax.lax.scan(step, state, jnp.arange(float(STEPS)))[0]
        inside = jax.lax.scan(step, inner, jnp.arange(float(STEPS)))[0]
        return one_by_one, model.outer_state(inside), model.step(state, {}, end, steps=STEPS)

    wanted = last(run)
    for found in both(state):
        at_end = jmbs.simulate(model, found, t0=0.0, ts=[0.0], audit=False)
        for a, b in zip(last(at_end), wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9 * max(1.0, np.abs(b).max(initial=0.0)))


@pytest.fixture(scope="module")
def stepped(model) -> jmbs.Model:
    """The folder's pendulum with RK4 steps."""
    return with_settings(model, method="rk4", dt=0.01)


def after(model, state, torques):
    """The hinge's angle and rate at the end, with these torques held over one step each; (2,)."""
    step = lambda inner, torque: (model.step(inner, {"hinge/actuation": torque}, 0.01), None)  # noqa: E731
    inner = jax.lax.scan(step, model.inner_state(state), torques)[0]
    view = model.view(model.outer_state(inner))
    return jnp.concatenate([view.q["hinge"], view.v["hinge"]])


@pytest.mark.slow
def test_gradients_through_steps(stepped, state):
    """Reverse, forward, and by finite differences: by the torques that were held, in a batch too."""
    torques = jnp.array([0.3, -0.2, 0.5])
    whole = lambda torques: after(stepped, state, torques)  # noqa: E731
    reverse, forward = quick_jit(lambda x: (jax.jacrev(whole)(x), jax.jacfwd(whole)(x)))(torques)
    np.testing.assert_allclose(reverse, forward, rtol=1e-10, atol=1e-14)
    values = quick_jit(jax.vmap(whole))
    changes = 1e-4 * np.eye(3)
    differences = (values(torques + changes) - values(torques - changes)) / 2e-4
    np.testing.assert_allclose(reverse, np.asarray(differences).T, rtol=1e-6, atol=1e-10)


@pytest.mark.slow
def test_the_gradient_is_that_of_a_run(stepped, state):
    def of_steps(mass):
        model = stepped.with_parameters({"rod/mass": mass})
        return after(model, state, jnp.zeros(3))[0]

    def of_run(mass):
        model = stepped.with_parameters({"rod/mass": mass})
        return jmbs.simulate(model, state, ts=[0.0, 0.03], dt=0.01, solver="rk4", audit=False).q["hinge"][-1, 0]

    found, wanted = quick_jit(lambda m: (jax.value_and_grad(of_steps)(m), jax.value_and_grad(of_run)(m)))(1.2)
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


def test_a_loop_with_a_controller_can_be_one_kernel(stepped, state):
    """That reads the state by name and has a matrix; members, derivatives and numbers that are no arrays as without."""
    gains = jnp.array([[-2.0, -0.5, 0.3], [0.4, 0.1, -0.2]])

    def swing(state, gains, limit):
        def step(inner, _):
            view = stepped.view(stepped.outer_state(inner))
            q, v = view.q["hinge"][0], view.v["hinge"][0]
            torque = limit * jnp.tanh(jnp.ones(2) @ (gains @ jnp.stack([jnp.sin(q), jnp.cos(q), v])))
            inner = stepped.step(inner, {"hinge/actuation": torque}, 0.01)
            return inner, torque

        inner, torques = jax.lax.scan(step, stepped.inner_state(state), None, 5)
        return stepped.outer_state(inner).q["hinge"][0], torques

    one = jax.jit(lambda state, gains: jmbs.as_one_kernel(swing, state, gains, 1.5))
    plain = jax.jit(lambda state, gains: swing(state, gains, 1.5))
    assert one.lower(state, gains).as_text().count(TAG) == 1 and np.ptp(plain(state, gains)[1]) > 0.01
    gradients = [quick_jit(jax.grad(lambda g, run=run: run(state, g)[0])) for run in (one, plain)]
    batches = [quick_jit(jax.vmap(run, in_axes=(None, 0))) for run in (one, plain)]
    many = jnp.stack([gains, 2.0 * gains])
    pairs = (one, plain, (state, gains)), (*gradients, (gains,)), (*batches, (state, many))
    for found, wanted, given in pairs:
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12), found(*given), wanted(*given)
        )


@pytest.mark.slow
def test_an_implicit_step_that_is_not_solved_is_nan(model, state):
    """A result is never one that looks sound and is none. A sound step has derivatives in reverse mode."""
    implicit = with_settings(model, method="implicit_midpoint", dt=0.01)
    step = quick_jit(lambda dt: jnp.concatenate([b.ravel() for b in implicit.step(state, {}, dt).blocks]))
    assert np.isfinite(step(0.01)).all() and np.isnan(step(1e6)).all()
    slope = quick_jit(jax.grad(lambda dt: implicit.step(state, {}, dt)["rod/q"][0, 3]))(0.01)
    assert np.isfinite(slope) and slope != 0


def test_wrong_inner_states_are_refused(model, state):
    inner = model.inner_state(state)
    for wrong in (jmbs.InnerState(inner.blocks[:1]), jax.tree.map(lambda x: jnp.stack([x, x]), inner)):
        with pytest.raises(ModelError, match="^state: found an inner state of shapes .*those of this model"):
            model.step(wrong, {}, 0.01)
    with pytest.raises(ModelError, match=r"^state: found a State, wanted what model.inner_state\(state\) gives"):
        model.outer_state(state)
    with pytest.raises(ModelError, match="^steps: found 0, wanted a positive whole number"):
        model.step(state, {}, 0.01, steps=0)
