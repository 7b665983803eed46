"""Programs of runs are kept in a folder, traced and compiled, and found there again."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from mechanisms import chain

import jmbs
from jmbs.programs import compiled
from jmbs.programs.digest import digest_of


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
def test_an_adaptive_audited_run_is_traced_and_compiled_once_for_all_processes(tmp_path, cache_events, monkeypatch):
    """Also what it reads at saved times: nothing in it calls back to Python, which would keep JAX from keeping it. What
    comes from the folder is what is computed without it."""

    def run() -> jmbs.Trajectory:
        jax.clear_caches()
        compiled._programs.clear()
        cache_events.clear()
        return jmbs.simulate(jmbs.compile(chain(1)), t1=0.02, save_every=0.01, tolerance=1e-4)

    plain = run()
    assert jmbs.use_cache(tmp_path / "programs") == tmp_path / "programs"
    first = run()
    kept = {path.name.partition("-")[0] for path in (tmp_path / "programs").iterdir()}
    assert {"jit__begin", "jit__advance", "jit__finish", "jit__assembled"} <= kept
    monkeypatch.setattr(compiled, "_traced", lambda function, *args: pytest.fail(f"{function} is traced"))
    second = run()
    assert "cache_hits" in cache_events and "cache_misses" not in cache_events
    assert jax.tree.structure(second) == jax.tree.structure(plain)
    for one, other, expected in zip(*map(jax.tree.leaves, (first, second, plain)), strict=True):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_allclose(other, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["pendulum", "slider_crank", "rlc", "knife_edge", "composite", "motor_slider_crank"])
def test_what_programs_of_shipped_configs_depend_on_is_known(configs, name):
    """So they can be kept; and a mechanism that is built again has the same programs."""
    digests = []
    for _ in range(2):
        model = jmbs.compile(jmbs.load(configs / f"{name}.yaml")).without_names()
        digests.append(digest_of(model))
    assert len(set(digests)) == 1


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    """With what stands in its place."""
    (tmp_path / "file").write_text("")
    with pytest.raises(jmbs.ModelError, match="file"):
        jmbs.use_cache(tmp_path / "file" / "programs")
