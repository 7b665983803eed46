"""Starts whose first stages are taken side by side: the answer of one after the other, the same bits after a stop."""

from __future__ import annotations

import pytest
from recorded_pendulums import study

from jmbs.identification import Estimator, Fit, batched_starts, fit_study

STARTS = Estimator(starts=3)


class Stop(Exception):
    """Ends a fit from outside."""


def assert_same(one: Fit, other: Fit, part: float) -> None:
    """Estimates that differ by no more than a part of their standard errors."""
    for name, entry in one.parameters.items():
        assert entry.standard_error
        assert abs(entry.estimate - other.parameters[name].estimate) <= part * entry.standard_error


@pytest.mark.slow
def test_side_by_side_they_end_where_they_do_alone(monkeypatch, tmp_path):
    given, seen = study(estimator=STARTS), []
    alone = fit_study(given)
    monkeypatch.setattr(batched_starts, "runs_on_cpu", lambda: False)
    together = fit_study(given, progress=seen.append)
    assert together.status == alone.status == "converged"
    assert_same(alone, together, 1e-6)
    assert together.evaluations["iterations"] == alone.evaluations["iterations"]
    assert together.evaluations["simulations"] == alone.evaluations["simulations"]
    stages = [progress.stage for progress in seen]
    early = stages[: stages.index(max(stages))]
    assert early == sorted(early) and stages.count(1) > 3  # all starts go through a stage before any takes the next

    for stop_at in (2, stages.index(sorted(set(stages))[2]), stages.index(max(stages)) + 1):
        file, count = tmp_path / f"{stop_at}.npz", iter(range(len(seen)))

        def stop(progress, stop_at=stop_at, count=count):
            del progress
            if next(count) == stop_at:
                raise Stop

        with pytest.raises(Stop):
            fit_study(given, checkpoint=file, progress=stop)
        assert_same(together, fit_study(given, checkpoint=file, resume=True), 0.0)
