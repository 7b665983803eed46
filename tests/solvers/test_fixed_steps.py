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
    """Angles, their derivative forwards, and that of the last one backwards."""
    run = angle(diffrax.DirectAdjoint() if adjoint == "diffrax" else adjoint, method)

    @jax.jit
    def all_of(factor):
        forward = jax.jvp(run, (factor,), (jnp.ones_like(factor),))
        return *forward, jax.grad(lambda f: run(f)[-1])(factor)

    return all_of(jnp.asarray(1.0))


@pytest.mark.parametrize("method", ["rk4", pytest.param("implicit_midpoint", marks=pytest.mark.slow)])
@pytest.mark.parametrize("adjoint", ["direct", "checkpoint"])
def test_values_and_derivatives_are_those_of_diffrax(adjoint: str, method: str):
    found, wanted = figures(adjoint, method), figures("diffrax", method)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)
    np.testing.assert_allclose(found[1][-1], found[2], rtol=1e-11)


def test_a_batch_keeps_its_sound_members():
    angles = jax.jit(jax.vmap(angle("direct")))(jnp.asarray([1.0, 1e200, 2.0]))
    assert np.all(np.isfinite(angles[0])) and np.all(np.isfinite(angles[2])) and np.all(np.isnan(angles[1]))
