"""Power balance at every junction, first and second law of every component, for shipped systems along their runs."""

from __future__ import annotations

from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quick import quick_jit

import jmbs

CONFIGS = sorted((Path(__file__).parents[2] / "configs").glob("*.yaml"))
FAST = ("pendulum",)
"""The others are alike, and each has to be compiled."""
SAMPLES = 10
STEPS = 20
"""Between two samples; a coarse run is a run too, and these laws hold at any state that meets the constraints."""
ROUNDING = 1e-10
"""Relative to the flows at a junction: conditioning of the constraint solve times rounding."""


def marked(configs):
    return [pytest.param(c, id=c.stem, marks=() if c.stem in FAST else pytest.mark.slow) for c in configs]


def states_along(model):
    """Times and states of a fixed-step run over the config's span, or its first second."""
    t0 = model.settings.t0
    span = min(model.settings.t1 - t0, 1.0)
    # Explicit steps that are stable for the stiffest config; the span is cut rather than the step.
    dt = min(model.settings.dt or 1e-3, span / (SAMPLES * STEPS))

    @quick_jit
    def run(model, state):
        def step(carry, _):
            t, state = carry
            return (t + dt, model.step(state, None, dt, t)), None

        def sample(carry, _):
            return jax.lax.scan(step, carry, None, length=STEPS)[0], carry

        return jax.lax.scan(sample, (jnp.asarray(t0, model.dtype), state), None, length=SAMPLES)[1]

    return run(model, model.initial_state())


@pytest.mark.parametrize("config", marked(CONFIGS))
def test_laws_hold_at_every_junction_and_component(config):
    model = jmbs.load(config).compile()
    times, states = states_along(model)
    balance = quick_jit(eqx.filter_vmap(lambda model, t, state: model.balance(t, state), in_axes=(None, 0, 0)))
    found = jax.tree.map(np.asarray, balance(model, times, states))
    largest = max(float(size.max(initial=0.0)) for size in found.flow_size.values())
    for name, residual in found.junction.items():
        assert np.all(np.isfinite(residual)), name
        assert np.all(np.abs(residual) <= ROUNDING * (found.flow_size[name] + 1e-3 * largest)), name
    for path, rate in found.production.items():
        assert np.all(rate >= 0), path
        np.testing.assert_allclose(
            found.power[path], float(model.dae.reference_temperature) * rate, rtol=1e-9, atol=1e-12, err_msg=path
        )
    lossless = [b for b in model.dae.plan.batches if b.role.value in ("structure", "ratio")]
    size = sum(np.abs(power) for power in found.power.values())
    for path in (path for batch in lossless for path in batch.paths):
        assert np.all(np.abs(found.power[path]) <= ROUNDING * (size + 1e-3 * largest)), path
