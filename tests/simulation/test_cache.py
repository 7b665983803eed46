"""Compiled programs are kept in a folder and found there again."""

from __future__ import annotations

import jax
import pytest
from mechanisms import chain

import jmbs


@pytest.fixture
def cache_events():
    """JAX's events of its cache."""
    events = []

    def listen(event: str, **more) -> None:
        del more
        events.append(event.rpartition("/")[2])

    jax.monitoring.register_event_listener(listen)
    yield events
    jax.monitoring.unregister_event_listener(listen)


@pytest.mark.slow
def test_an_adaptive_audited_run_is_compiled_once_for_all_processes(tmp_path, cache_events):
    """Also what it reads at saved times: nothing in it calls back to Python, which would keep JAX from keeping it."""
    assert jmbs.use_cache(tmp_path / "programs") == tmp_path / "programs"

    def run() -> float:
        jax.clear_caches()
        cache_events.clear()
        trajectory = jmbs.simulate(jmbs.compile(chain(1)), t1=0.02, save_every=0.01, tolerance=1e-4)
        return float(trajectory.q["joint1"][-1, 0])

    first = run()
    kept = {path.name.partition("-")[0] for path in (tmp_path / "programs").iterdir()}
    assert {"jit__begin", "jit__advance", "jit__finish", "jit__assembled"} <= kept
    assert run() == first
    assert "cache_hits" in cache_events and "cache_misses" not in cache_events


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    """With what stands in its place."""
    (tmp_path / "file").write_text("")
    with pytest.raises(jmbs.ModelError, match="file"):
        jmbs.use_cache(tmp_path / "file" / "programs")
