"""A horizon that grows no slower than the model follows the recordings."""

from __future__ import annotations

import dataclasses
import types

import numpy as np
import pytest
from recorded_pendulums import TRUTH, study

from jmbs.identification import Parameter, fit_study, horizons
from jmbs.identification.horizons import PARTS, next_part
from jmbs.identification.posing import pose

TIMES = np.arange(0.0, 10.0, 0.1)


def at(values: dict[str, float]):
    """The study from other starts."""
    given = study()
    return dataclasses.replace(given, parameters=given.parameters | {n: Parameter(v) for n, v in values.items()})


FAR = at({"bob/mass": 0.4})


def stages_of_fit(given):
    """The fit, and the stages that it took."""
    seen: list[int] = []
    found = fit_study(given, progress=lambda progress: seen.append(progress.stage))
    assert found.status == "converged"
    return found, seen


def test_a_start_that_follows_the_recordings_is_compared_with_the_whole_at_once():
    _, seen = stages_of_fit(at({name: 1.02 * value for name, value in TRUTH.items()}))
    assert set(seen) == {len(PARTS)}


def test_stages_are_left_out_and_the_answer_is_that_of_all(monkeypatch):
    found, seen = stages_of_fit(FAR)
    monkeypatch.setattr(horizons, "NEAR", -1.0)
    every, all_of_them = stages_of_fit(FAR)
    assert sorted(set(all_of_them)) == list(range(1, len(PARTS) + 1))
    assert seen == sorted(seen) and 1 in seen and len(set(seen)) < len(PARTS)
    assert found.evaluations["jacobians"] < every.evaluations["jacobians"]
    for name, entry in every.parameters.items():
        assert abs(found.parameters[name].estimate - entry.estimate) <= 1e-5 * entry.standard_error


def test_the_next_part_is_the_longest_that_every_recording_follows():
    problem = pose(at(TRUTH))
    x = problem.unknowns.first
    assert next_part(problem, x, 0) == len(PARTS) - 1
    runs = problem.counts.simulations
    assert next_part(problem, x, len(PARTS) - 1) == len(PARTS) - 1
    assert problem.counts.simulations == runs  # nothing is left to look for
    far = pose(at(TRUTH | {"hinge/friction/viscous": 0.02}))
    parts = [next_part(far, far.unknowns.first, least) for least in range(len(PARTS))]
    assert parts == [max(parts[0], least) for least in range(len(PARTS))]
    assert 0 < parts[0] < len(PARTS) - 1


@pytest.mark.parametrize(("miss", "follows"), [(0.03, True), (0.5, False), (np.nan, False)])
def test_a_shaft_that_turns_on_is_not_followed_half_a_turn_away(miss, follows):
    measured = 7 * TIMES + 0.5 * np.sin(3 * TIMES)
    member = types.SimpleNamespace(times=TIMES, measured=measured[None], weights=np.ones((1, len(TIMES))))
    experiment = types.SimpleNamespace(member=member)
    assert horizons._follows(experiment, (measured + miss)[None], np.inf) == follows  # pyright: ignore


def test_samples_that_are_missing_or_later_do_not_count():
    weights = np.where((TIMES > 2) & (TIMES < 3), 0.0, 1.0)[None]
    member = types.SimpleNamespace(times=TIMES, measured=np.sin(TIMES)[None], weights=weights)
    experiment, shown = types.SimpleNamespace(member=member), np.where(TIMES > 2, 9.0, np.sin(TIMES))[None]
    assert horizons._follows(experiment, shown, 2.95)  # pyright: ignore
    assert not horizons._follows(experiment, shown, 4.0)  # pyright: ignore
    assert horizons._follows(experiment, shown, -1.0)  # pyright: ignore
