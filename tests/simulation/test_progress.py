"""What a run says while it makes its user wait: nothing but on a terminal, and there one line that goes again."""

from __future__ import annotations

import time

import numpy as np
import pytest

from jmbs.simulation import progress
from jmbs.simulation.progress import progress_of, stops_of, waiting

TIMES = np.linspace(0.0, 1.0, 301)


@pytest.fixture
def terminal(monkeypatch):
    """Standard error is a terminal, and nobody is patient."""
    monkeypatch.setattr(progress, "_on_terminal", lambda: True)
    monkeypatch.setattr(progress, "MOMENT", 0.01)


def test_the_elapsed_time_is_shown_on_a_terminal_and_goes(terminal, capsys):
    with waiting("compiling"):
        time.sleep(0.1)
    shown = capsys.readouterr().err
    assert shown.startswith("\rcompiling ... 0 s") and shown.endswith("\r\x1b[K") and "\n" not in shown


def test_nothing_is_said_elsewhere_or_unasked(terminal, capsys, monkeypatch):
    with waiting("compiling", wanted=False):
        time.sleep(0.05)
    monkeypatch.setattr(progress, "_on_terminal", lambda: False)
    with waiting("compiling"):
        time.sleep(0.05)
    assert capsys.readouterr().err == ""


def test_a_run_stops_at_a_hundred_times_and_a_short_one_draws_no_bar(terminal, capsys):
    assert stops_of(TIMES, wanted=False) == [300]
    first, *others = stops_of(TIMES, wanted=True)
    assert len(others) == 99 and list(progress_of(TIMES, others)) == others
    assert others[-1] == 300 and np.ptp(np.diff([0, first, *others])) <= 1
    assert capsys.readouterr().err == ""
