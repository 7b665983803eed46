"""Fixed steps in one scan are those of diffrax's own loop, with the same derivatives; failures are told and kept."""

from __future__ import annotations

import functools

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference.runs import CONFIGS

import jmbs
from jmbs import ModelError

TIMES = np.array([0.01, 0.023, 0.06])
"""s; the steps between them are 3, 4 and 10, which no chunk divides."""


@functools.cache
def pendulum() -> jmbs.Model:
    return jmbs.compile(jmbs.load(CONFIGS / "pendulum.yaml", overrides=["initial.joints.hinge.v=[2.0]"]))


def angle(adjoint, method: str = "rk4"):
    """The saved angles as a function of how much faster the pendulum starts."""
    model, state = pendulum(), pendulum().initial_state()

    def run(factor):
        moving = eqx.combine(jax.tree.map(lambda x: x * factor, velocities(model, state)), state)
        options = {"ts": TIMES, "dt": 0.004, "solver": method, "adjoint": adjoint, "audit": False}
        return jmbs.simulate(model, moving, throw=False, **options).q["hinge"][:, 0]

    return run


def velocities(model, state):
    flags = [block.from_effort for block in model.dae.plan.blocks]
    return eqx.filter(state, jax.tree.unflatten(jax.tree.structure(state), flags))


@functools.cache
def figures(adjoint: str, method: str):
    """Angles, their derivative forwards, and that of the last one backwards, which diffrax's need not be."""
    run = angle(diffrax.DirectAdjoint() if adjoint == "diffrax" else adjoint, method)

    @jax.jit
    def all_of(factor):
        forward = jax.jvp(run, (factor,), (jnp.ones_like(factor),))
        if adjoint == "diffrax":
            return forward
        return *forward, jax.grad(lambda f: run(f)[-1])(factor)

    return all_of(jnp.asarray(1.0))


@pytest.mark.parametrize("method", ["rk4", pytest.param("implicit_midpoint", marks=pytest.mark.slow)])
@pytest.mark.parametrize("adjoint", [pytest.param("direct", marks=pytest.mark.slow), "checkpoint"])
def test_values_and_derivatives_are_those_of_diffrax(adjoint: str, method: str):
    found, wanted = figures(adjoint, method), figures("diffrax", method)
    for a, b in zip(found[:2], wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)
    np.testing.assert_allclose(found[1][-1], found[2], rtol=1e-11)


def test_a_batch_keeps_its_sound_members():
    angles = jax.jit(jax.vmap(angle("direct")))(jnp.asarray([1.0, 1e200, 2.0]))
    assert np.all(np.isfinite(angles[0])) and np.all(np.isfinite(angles[2])) and np.all(np.isnan(angles[1]))


def test_forward_derivatives_in_one_kernel_are_the_others():
    run, wanted = angle("forward"), figures("checkpoint", "rk4")
    found = jax.jit(lambda x: jax.jvp(run, (x,), (jnp.ones_like(x),)))(jnp.asarray(1.0))
    for a, b in zip(found, wanted, strict=False):
        np.testing.assert_allclose(a, b, rtol=1e-13)


@pytest.mark.slow
def test_forward_derivatives_in_one_kernel_in_every_transformation():
    """Jacobians, in batches and twice; reverse mode is refused."""

    def all_of(adjoint):
        one, x = angle(adjoint), jnp.asarray([1.2, 0.8])
        run = lambda x: one(x[0] * x[1])  # noqa: E731
        jacobian, second = jax.jacfwd(run), jax.jacfwd(lambda x: jax.jvp(run, (x,), (jnp.ones_like(x),))[1])
        return jax.jit(lambda x: (jacobian(x), jax.vmap(jacobian)(jnp.stack([x, 2 * x])), second(x)))(x)

    for found, wanted in zip(all_of("forward"), all_of("direct"), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-14)
    with pytest.raises(ModelError, match='adjoint: found reverse-mode .* wanted adjoint="checkpoint"'):
        jax.grad(lambda x: angle("forward")(x)[-1])(1.0)


@pytest.mark.slow
def test_forward_derivatives_of_a_batch_by_what_its_members_share():
    """Members have accelerations of their own, and one parameter together."""
    model = pendulum()
    mass = next(name for name in model.parameters() if name.endswith("mass"))
    value, options = model.parameters()[mass]["value"], {"ts": TIMES, "dt": 0.004, "solver": "rk4", "audit": False}

    def runs(adjoint):
        def of_member(factor, gravity):
            changed = model.with_parameters({mass: value * factor, "gravity": gravity})
            return jmbs.simulate(changed, throw=False, adjoint=adjoint, **options).q["hinge"]

        gravities = jnp.asarray([[0.0, 0.0, -9.81], [0.0, 0.0, -1.62]])
        return jax.jit(jax.jacfwd(lambda factor: jax.vmap(of_member, (None, 0))(factor, gravities)))(jnp.asarray(1.2))

    np.testing.assert_allclose(runs("forward"), runs("direct"), rtol=1e-11, atol=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("config", ["slider_crank", "spherical_double_pendulum", "panda_arm"])
def test_forward_jacobians_of_mechanisms_are_the_direct_ones(config: str, monkeypatch):
    """By parameters of several kinds, through the assembly; loops as in long runs."""
    monkeypatch.setattr("jmbs.simulation.integrate.LONG_RUN", 1)
    model = jmbs.compile(jmbs.load(CONFIGS / f"{config}.yaml"))
    kinds = ("mass", "inertia", "child_frame/position", "viscous", "gravity")
    names = [next(name for name in model.parameters() if name.endswith(kind)) for kind in kinds]
    values = {name: jnp.asarray(model.parameters()[name]["value"]) for name in names}

    def outputs(adjoint):
        def run(theta):
            changed = {name: value * theta[k] for k, (name, value) in enumerate(values.items())}
            settings = {"ts": np.linspace(0, 0.05, 4), "dt": 1e-3, "solver": "rk4", "audit": False, "throw": False}
            trajectory = jmbs.simulate(model.with_parameters(changed), **settings, adjoint=adjoint)
            return trajectory.position

        return jax.jit(lambda theta: (run(theta), jax.jacfwd(run)(theta)))(jnp.ones(len(names)))

    for found, wanted in zip(*(jax.tree.leaves(outputs(a)) for a in ("forward", "direct")), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-10)


def angle_after(most):
    """The same with times that are traced, after so many steps."""
    model, state = pendulum(), pendulum().initial_state()

    def run(factor):
        moving = eqx.combine(jax.tree.map(lambda x: x * factor, velocities(model, state)), state)
        options = {"ts": jnp.asarray(TIMES) + 0 * factor, "dt": 0.004, "solver": "rk4", "audit": False, "throw": False}
        return jmbs.simulate(model, moving, adjoint="forward", max_steps=most, **options).q["hinge"][:, 0]

    return run


def test_forward_derivatives_take_the_steps_that_are_asked_for_as_an_argument():
    """17 steps, the first 7 of which come to two of the saved times; the most differs by member of a batch."""
    whole, slopes = figures("checkpoint", "rk4")[:2]
    factor, one = jnp.asarray(1.0), jnp.asarray(1.0)
    found = jax.jit(jax.vmap(lambda most: jax.jvp(angle_after(most), (factor,), (one,))))(jnp.array([17, 7, 100]))
    for member, known in enumerate([3, 2, 3]):
        for values, wanted in zip(found, (whole, slopes), strict=True):
            np.testing.assert_allclose(values[member, :known], wanted[:known], rtol=1e-12)
        assert np.isnan(found[0][member, known:]).all()
    with pytest.raises(ModelError, match="reverse-mode"):
        jax.eval_shape(jax.grad(lambda factor: angle_after(17)(factor)[-1]), factor)
