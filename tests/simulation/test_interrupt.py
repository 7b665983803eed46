"""Ctrl-C while a run shows its progress leaves a trajectory of what was computed."""

from __future__ import annotations

import equinox as eqx
import jax
import numpy as np
import pytest

import jmbs
from jmbs.errors import RunInterrupted
from jmbs.simulation import integrate
from jmbs.simulation.status import Status

METHODS = {"adaptive": {"tolerance": 1e-6}, "fixed": {"solver": "rk4", "dt": 0.005}}


@pytest.mark.parametrize("method", ["fixed", pytest.param("adaptive", marks=pytest.mark.slow)])
def test_an_interrupted_run_has_what_an_uninterrupted_one_has(model, state, method, monkeypatch):
    settings = {"t1": 0.1, "save_every": 0.01, "progress": True, **METHODS[method]}
    whole = jmbs.simulate(model, state, **settings)

    def interrupting(times, stops):
        yield from stops[:3]
        raise KeyboardInterrupt

    monkeypatch.setattr(integrate, "progress_of", interrupting)
    with pytest.raises(RunInterrupted) as stopped:
        jmbs.simulate(model, state, **settings)
    part = stopped.value.trajectory()
    assert part.status == Status.interrupted and part.labels == whole.labels
    assert part.failure_time == pytest.approx(0.04, abs=1e-12)
    known = 4  # of eleven saved times; of the one that the run has come to, the rates are not known yet
    is_series = lambda x, run: eqx.is_inexact_array(x) and x.shape[:1] == run.ts.shape  # noqa: E731
    series = lambda run: [x for x in jax.tree.leaves(run) if is_series(x, run)]  # noqa: E731
    for mine, other in zip(series(part), series(whole), strict=True):
        np.testing.assert_allclose(mine[:known], other[:known], rtol=1e-12, atol=1e-12)
    assert np.all(np.isnan(part.position["rod"][known:])) and np.all(np.isnan(part.reaction["hinge"][known:]))


def test_an_interrupt_of_a_run_that_shows_nothing_is_an_ordinary_one(model, state, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(integrate, "_advance", interrupt)
    with pytest.raises(KeyboardInterrupt) as stopped:
        jmbs.simulate(model, state, t1=0.1)
    assert not isinstance(stopped.value, RunInterrupted)
