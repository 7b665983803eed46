"""Times and steps may be traced: runs are those of known ones, and a final state changes with its time as it moves."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jmbs
from jmbs.simulation import members, status_name

ENDS = np.array([0.2, 0.4, -1.0, 9.0, 0.4])
STEPS = np.array([0.01, 0.02, 0.01, 0.01, -0.01])
"""s; beyond the first two: an end before the start, more steps than allowed, a step backwards."""
WAYS = {"fixed": {"solver": "rk4", "max_steps": 50}, "adaptive": {"tolerance": 1e-9, "max_steps": 100}}


def run(model, state, way: str, ts, dt):
    return jmbs.simulate(model, state, ts=ts, audit=False, **WAYS[way], **({"dt": dt} if way == "fixed" else {}))


@pytest.mark.parametrize("way", ["fixed", pytest.param("adaptive", marks=pytest.mark.slow)])
def test_a_state_changes_with_its_time_as_it_moves(way: str, model, state):
    """Of saved times that are asked for from the start on, so that the first of them is no time away from it."""

    def angles(end, dt):
        sol = run(model, state, way, jnp.linspace(0.0, end, 3), dt)
        return sol.q["hinge"][:, 0], (sol.q["hinge"][:, 0], sol.v["hinge"][:, 0], sol.status)

    change, (q, v, statuses) = jax.jit(jax.vmap(jax.jacrev(angles, has_aux=True)))(ENDS, STEPS)
    names = [status_name(status) for status in members(statuses)]
    assert names[:4] == ["successful", "successful", "invalid_times", "max_steps_reached"]
    assert names[4] == ("invalid_times" if way == "fixed" else "successful")
    assert np.all(np.isnan(q[2])) and np.isnan(q[3, -1])
    np.testing.assert_allclose(change[:2], v[:2] * np.linspace(0, 1, 3), atol=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_runs_are_those_of_known_times(way: str, model, state):
    for first in (0.0, 0.1):
        ts = np.array([first, 0.25, 0.4])
        found = jax.jit(lambda ts: run(model, state, way, ts, 0.02))(ts)
        wanted = run(model, state, way, ts, 0.02)
        np.testing.assert_allclose(found.q["hinge"], wanted.q["hinge"], atol=1e-11 if way == "fixed" else 1e-8)
        assert np.array_equal(found.ts, wanted.ts)


@pytest.mark.parametrize(
    ("settings", "path", "words"),
    [
        ({"save_every": 0.01, "tolerance": 1e-6}, "save_every", "beside a traced t0 or t1, wanted ts="),
        ({"dt": 0.01, "solver": "rk4"}, "max_steps", "tolerance= in place of dt"),
    ],
)
def test_what_must_be_known_is_refused_by_name(settings: dict, path: str, words: str, model, state):
    with pytest.raises(jmbs.ModelError, match=f"^{path}: .*{words}"):
        jax.eval_shape(lambda t1: jmbs.simulate(model, state, t1=t1, **settings).ts, jnp.ones(()))


def test_an_end_alone_saves_a_hundred_intervals(model, state):
    ended = lambda t1: jmbs.simulate(model, state, t1=t1, tolerance=1e-6, audit=False).ts  # noqa: E731
    assert jax.eval_shape(ended, jnp.ones(())).shape == (101,)
