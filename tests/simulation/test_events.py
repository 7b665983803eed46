"""A run ends at its event: located on the method's own steps, with derivatives, each member of a batch by itself."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import jmbs
from jmbs.io import read_config, write_result
from jmbs.io.export import mechanism_config
from jmbs.running import report
from jmbs.simulation import is_successful, members, status_name
from jmbs.simulation.until import Until, until_of

WAYS = {"fixed": {"solver": "rk4", "dt": 0.02}, "adaptive": {"tolerance": 1e-11, "max_steps": 200}}
TIMES = {"t1": 0.9, "save_every": 0.15}


def at_joint(goal):
    return {"hinge": goal}


def at_root(goal):
    return lambda t, view: jnp.sin(view.q["hinge"][0] - goal)


@pytest.fixture(scope="module")
def ended(model, state):
    return jmbs.simulate(model, state, until={"hinge": 0.0}, **TIMES, **WAYS["fixed"])


def test_the_event_is_read_by_one_program(ended):
    """Operation by operation it was dozens."""
    compiled = []
    listen = lambda event, duration, **more: compiled.append(event)  # noqa: E731
    jax.monitoring.register_event_duration_secs_listener(listen)
    assert ended.event.q["hinge"].shape == (1,)
    jax.monitoring.unregister_event_duration_listener(listen)
    assert sum(event.endswith("backend_compile_duration") for event in compiled) <= 3


def test_a_run_ends_at_the_first_crossing(ended, model, state):
    """The sample there is that of a run which was told to end then; what comes after is not there."""
    assert status_name(ended.status) == "ended_at_event" and is_successful(ended.status)
    time, row = float(ended.event_time), int(ended.event_row)
    assert ended.ts[row] == time and ended.ts[row - 1] < time < TIMES["save_every"] * row and row == 4
    assert np.all(np.isnan(ended.ts[row + 1 :])) and np.all(np.isnan(ended.total[row + 1 :]))
    assert np.isnan(ended.failure_time) and ended.labels.events[int(ended.event_which)] == "hinge"
    assert abs(float(ended.event.q["hinge"][0])) < 1e-14 and np.array_equal(
        ended.event.v["hinge"], ended.v["hinge"][row]
    )
    times = np.append(0.15 * np.arange(4), [time, 2.0, 3.0])
    wanted = jmbs.simulate(model, state, ts=times, until={"hinge": 7.0}, **WAYS["fixed"])  # in the same programs
    for name in ("q", "v", "reaction"):
        found = getattr(ended, name)["hinge"][: row + 1]
        np.testing.assert_allclose(found, getattr(wanted, name)["hinge"][: row + 1], atol=1e-6)
    assert abs(float(ended.event.first_law_residual)) < 1e-6


def test_no_event_is_no_failure(ended, model, state):
    """Alone, and in a batch with a run that has one."""
    run = jmbs.simulate(model, state, until={"hinge": 7.0}, **TIMES, **WAYS["fixed"])
    assert status_name(run.status) == "successful" and np.isnan(run.event_time) and int(run.event_row) == -1
    assert np.all(np.isnan(run.event.v["hinge"])) and np.all(np.isfinite(run.total))
    batch = jax.tree.map(lambda *members: np.stack(members), ended, run)
    np.testing.assert_array_equal(batch.event.v["hinge"], [ended.event.v["hinge"], [np.nan]])
    data = batch.to_xarray()
    np.testing.assert_array_equal(data["event_time"], [ended.event_time, np.nan])
    assert data.attrs["status"] == "Finished." and data.sizes["time"] == len(run.ts)


def test_files_end_at_the_event(ended, tmp_path):
    summary = write_result(ended, tmp_path, wall_time=1.0, compile_time=1.0)
    assert summary["status"] == "ended_at_event" and summary["failure_time"] is None
    assert summary["event"] == {"of": "hinge", "time": float(ended.event_time)}
    assert summary["simulated_time_s"] == summary["event"]["time"]
    assert "hinge at t = 0.5608 s" in report(summary, tmp_path, [])
    with xr.open_dataset(tmp_path / "result.nc") as data:
        assert data.sizes["time"] == int(ended.event_row) + 1 and np.all(np.isfinite(data["total"]))
        assert data.attrs["event"] == "hinge" and data.attrs["event_time"] == float(data["time"][-1])


def test_a_config_says_where_a_run_ends(configs):
    """And an export says it again."""
    mechanism = read_config(configs / "pendulum.yaml", ["simulation.until.hinge=0.1"])
    assert mechanism.simulation.until == (("hinge", 0.1),)
    assert mechanism_config(mechanism)["simulation"]["until"] == {"hinge": 0.1}
    until, goals = until_of(jmbs.compile(mechanism), None)
    assert until == Until(("hinge",)) and goals == [0.1]
    with pytest.raises(jmbs.ModelError, match="simulation/until/hing: found no joint hing"):
        read_config(configs / "pendulum.yaml", ["simulation.until.hing=0.1"])


POINT, STEP = np.array([0.05, 1.0, 0.1]), 1e-4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "until"),
    [
        ("fixed", at_joint),
        ("fixed", at_root),
        ("adaptive", at_joint),
        ("adaptive", at_root),
    ],
)
def test_derivatives_of_the_event_are_those_of_differences(way: str, until, model):
    """By friction, initial velocity and the value that is waited for; of a batch whose last member has no event."""

    def event(point):
        friction, velocity, goal = point
        changed = model.with_parameters({"hinge/friction/viscous": friction, "initial/hinge/v": velocity[None]})
        sol = jmbs.simulate(changed, until=until(goal), audit=False, **TIMES, **WAYS[way])
        return jnp.stack([sol.event_time, sol.event.v["hinge"][0]]), sol.status

    def whole(point):
        forward = jax.jacfwd(lambda p: event(p)[0])(point) if way == "fixed" else jnp.zeros((2, 3))
        return *event(point), jax.jacrev(lambda p: event(p)[0])(point), forward

    steps = STEP * np.concatenate([np.zeros((1, 3)), np.eye(3), -np.eye(3)])
    points = np.concatenate([POINT + steps, [[0.05, 1.0, 7.0]]])
    values, statuses, reverse, forward = jax.jit(jax.vmap(whole))(points)
    names = [status_name(status) for status in members(statuses)]
    assert names == ["ended_at_event"] * 7 + ["successful" if until is at_joint else names[-1]]
    differences = (values[1:4] - values[4:7]).T / (2 * STEP)
    np.testing.assert_allclose(reverse[0], differences, atol=1e-5)
    np.testing.assert_allclose(reverse[0][0, 2], 1 / values[0, 1], rtol=1e-5)  # how late it comes to a value further on
    if way == "fixed":
        np.testing.assert_allclose(forward[0], reverse[0], atol=1e-10)


@pytest.mark.parametrize(
    ("until", "words"),
    [
        ({"hing": 0.0}, "until/hing: found no joint hing, wanted the name of a joint.*hinge"),
        ({"hinge": np.nan}, "until/hinge: found nan, wanted a number"),
        ("hinge", "until: found 'hinge', wanted a mapping"),
        ({"hinge": np.zeros(1)}, "until/hinge: found "),
        (lambda t, view: view.velocity["rod"], "until: found a function whose values have the shape"),
        (lambda t: t, r"until: found a function \(t\), wanted a function \(t, view\)"),
        (lambda t, view: float(t) - 0.1, "until: found a function that asks for known numbers"),
        (lambda t, view: jnp.asarray(1j), "until: found an array of complex128"),
    ],
)
def test_what_cannot_end_a_run_is_refused(until, words: str, model, state):
    with pytest.raises(jmbs.ModelError, match=words):
        jmbs.simulate(model, state, until=until, **TIMES, **WAYS["fixed"])
