"""Sweeps do what a loop over runs does; members fail alone, with a reason."""

from __future__ import annotations

import json

import numpy as np
import pytest
from swept_oscillators import CHUNK, CONFIG, MEMBERS, STUDY

import jmbs
from jmbs.io import sweep_of
from jmbs.simulation import STATUS_NAMES
from jmbs.sweeping import Sweeping
from jmbs.sweeping.varied import move_the_start, varied_paths


def motions(study) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Travel q and speed v (members, 11) at every tenth of a second, and total energy, in closed form.

    m q'' + c q' + k q = m g, underdamped; NaN for masses that no body has.
    """
    values, times = jmbs.design(study), np.linspace(0.0, 1.0, 11)
    columns = ("mass/mass", "rail/friction/viscous", "initial/rail/q[0]", "gravity[0]")
    m, c, q0, g = (values[path][:, None] for path in columns)
    m, k, v0 = np.where(m > 0, m, np.nan), 50.0, 0.4
    decay, rest = c / (2 * m), m * g / k
    omega = np.sqrt(k / m - decay**2)
    a, b = q0 - rest, (v0 + decay * (q0 - rest)) / omega
    cos, sin, shrunk = np.cos(omega * times), np.sin(omega * times), np.exp(-decay * times)
    q = rest + shrunk * (a * cos + b * sin)
    v = shrunk * ((b * omega - decay * a) * cos - (a * omega + decay * b) * sin)
    return q, v, 0.5 * m * v**2 + 0.5 * k * q**2 - m * g * q


def test_members_move_as_they_should(study, kept):
    q, v, total = motions(study)
    good = (kept.status == "successful").values
    np.testing.assert_array_equal(good, np.isfinite(q[:, 0]))
    assert 5 < good.sum() < MEMBERS
    close = {"rtol": 1e-4, "atol": 1e-5}
    np.testing.assert_allclose(kept["final_v_rail"][:, 0], v[:, -1], **close)
    np.testing.assert_allclose(kept["final_position_mass"][:, 0], q[:, -1], **close)
    np.testing.assert_allclose(kept["q_rail"][good][:, :, 0], q[good, ::2], **close)
    np.testing.assert_allclose(kept["drift"], np.ptp(total, axis=1), **close)
    np.testing.assert_allclose(kept["furthest"], q.max(axis=1), **close)
    np.testing.assert_allclose(kept["when"][good][:, 0], 0.1 * q[good].argmax(axis=1))


def test_a_member_fails_alone_and_says_why(kept):
    bad = kept.sel(member=(kept.status == "invalid_parameters").values)
    assert bad.sizes["member"] == (kept.status != "successful").sum() > 0
    assert (bad["failure_time"] == 0).all()
    for name in ("final_v_rail", "drift", "furthest", "when"):
        assert np.isnan(bad[name]).all()
    assert np.isnan(kept["failure_time"]).sum() == (kept.status == "successful").sum()
    assert set(json.loads(kept["status"].attrs["messages"])) == set(STATUS_NAMES)


def test_axes_and_units_are_labelled(study, kept):
    assert kept.sizes["member"] == MEMBERS
    np.testing.assert_allclose(kept["time"], np.linspace(0.0, 1.0, 6))
    assert kept["q_rail"].dims == ("member", "time", "joint_rail")
    assert kept["final_position_mass"].dims == ("member", "xyz")
    assert list(kept["xyz"].values) == ["x", "y", "z"]
    assert kept["furthest"].attrs["units"] == "m" and kept["when"].attrs["units"] == "s"
    np.testing.assert_array_equal(kept["mass.mass"], jmbs.design(study)["mass/mass"])
    assert kept["gravity[0]"].attrs["path"] == "gravity[0]"
    assert kept.attrs["seed"] == STUDY["seed"] and json.loads(kept.attrs["study"])["vary"] == STUDY["vary"]
    assert {"jmbs", "jax"} <= set(json.loads(kept.attrs["versions"]))


def test_what_nobody_keeps_is_not_computed(study):
    """Without series and reductions a run saves its end alone, and carries no account that nobody asks for."""
    from jmbs.sweeping.program import MemberProgram

    keep = {"final": ["v"]}
    lean = MemberProgram(sweep_of({**STUDY, "model": study.model, "keep": keep, "simulation": {"t1": 1.0, "dt": 0.05}}))
    assert list(lean.times) == [1.0]
    assert not lean.study.keep.needs_audit
    assert set(lean.shapes) == {"final_v_rail"}


def test_a_chunk_keeps_its_program(study):
    """The last chunk, which is shorter, compiles nothing, and neither does going on."""
    running = Sweeping(study)
    assert len(running.chunks) == -(-MEMBERS // CHUNK) and MEMBERS % CHUNK
    assert running.program is Sweeping(study).program


def test_series_and_reductions_must_fit():
    keep = {**STUDY["keep"], "series": {"names": ["q"], "every": 0.25}}
    with pytest.raises(jmbs.ModelError, match="keep/series/every: found 0.25, wanted a multiple of"):
        sweep_of({**STUDY, "model": CONFIG, "keep": keep})


@pytest.mark.parametrize(
    "path, moves",
    [
        ("mass/mass", False),
        ("gravity[0]", False),
        ("rail/friction/viscous", False),
        ("rail/spring/stiffness", False),
        ("inputs/rail/actuation", False),
        ("rail/spring/rest", True),
        ("rail/parent_frame/position", True),
        ("initial/rail/q", True),
        ("mass/com", True),
        ("environment/temperature", True),
    ],
)
def test_members_are_assembled_where_they_may_start_differently(study, path, moves):
    assert move_the_start(study.model, varied_paths(study.model, [path])) == moves


@pytest.mark.slow
def test_one_start_serves_all_where_it_can(study):
    """The same motions, to rounding, as those of members that are assembled one by one."""
    vary = {"mass/mass": {"uniform": [1.0, 4.0]}}
    common = {**STUDY, "model": study.model, "keep": {"final": ["q", "v"]}}
    once = jmbs.sweep({**common, "vary": vary})
    each = jmbs.sweep({**common, "vary": {**vary, "initial/rail/q": {"uniform": [0.1, 0.1 + 1e-15]}}})
    for name in ("final_q_rail", "final_v_rail"):
        np.testing.assert_allclose(once[name], each[name], rtol=1e-11)


@pytest.mark.slow
def test_adaptive_members_go_in_rounds_and_fail_alone(study):
    """The first of which is refused, as are others."""
    adaptive = {"t1": 1.0, "save_every": 0.1, "tolerance": {"rtol": 1e-8, "atol": 1e-8}, "method": "tsit5"}
    config = {
        **STUDY,
        "model": CONFIG,
        "simulation": adaptive,
        "vary": {**STUDY["vary"], "mass/mass": {"values": [-1.0, 2.0]}},
    }
    one, other = (jmbs.sweep({**config, "chunk": chunk}) for chunk in (CHUNK, MEMBERS))
    q, v, total = motions(sweep_of(config))
    good = (one.status == "successful").values
    np.testing.assert_array_equal(good, np.isfinite(q[:, 0]))
    assert not good[0] and good.any()
    np.testing.assert_allclose(one["final_v_rail"][:, 0], v[:, -1], rtol=1e-6, atol=1e-7)
    for name in ("final_v_rail", "q_rail", "furthest"):
        np.testing.assert_allclose(other[name], one[name], rtol=1e-12, atol=1e-14)
