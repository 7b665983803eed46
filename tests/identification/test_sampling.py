"""Samples that are too far apart for the fastest motion are named with its period."""

from __future__ import annotations

import dataclasses
import types
from typing import NamedTuple

import numpy as np
import pytest

from jmbs.identification import Recording, Sensor
from jmbs.identification.prediction import FINER, FitProgram
from jmbs.identification.sampling import sampling_findings

TS = np.linspace(0.0, 2.0, 101)


@dataclasses.dataclass(frozen=True)
class Times:
    """What stands for a member."""

    times: np.ndarray


class One(NamedTuple):
    """What stands for an experiment."""

    recording: Recording
    program: FitProgram
    member: Times


def findings(signal, noise: float = 1e-3, n: int = 101, ts: np.ndarray = TS):
    recording = Recording("swing", ts, {"x": np.zeros(101)})
    one = One(recording, FitProgram((), ("x",), (), (), 8, "rk4"), Times(np.resize(ts, n)))

    def predicted(experiment, local, times) -> dict[str, np.ndarray]:
        del local
        assert len(times) <= FINER * len(experiment.member.times)
        return {"x": signal(times)}

    study = types.SimpleNamespace(sensors={"x": Sensor("hinge/q", noise)})
    problem = types.SimpleNamespace(study=study, noise={}, predicted=predicted)
    return sampling_findings(problem, one, np.zeros(0))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("n", [101, 160])
@pytest.mark.parametrize("per_period, named", [(2.5, True), (3.7, True), (4.3, False), (40.0, False)])
def test_samples_in_a_period(per_period: float, named: bool, n: int):
    period = per_period * 0.02
    found = findings(lambda t: 0.3 * np.sin(2 * np.pi * t / period), n=n)
    assert [finding.code for finding in found] == (["sampling"] if named else [])
    if named:
        assert (found[0].recording, found[0].channel, found[0].severity) == ("swing", "x", "warning")
        assert "samples every 0.02 s" in found[0].message
        said = float(found[0].message.split("about ")[1].split(" s ")[0])
        assert said == pytest.approx(period, rel=0.15)


@pytest.mark.parametrize("gap", [0.01, 0.37, 5.0])
def test_a_gap_between_samples_asks_for_no_more_of_a_run_than_it_shows(gap: float):
    ts = np.concatenate([TS[:51], TS[51:] + gap])
    assert findings(lambda t: 0.3 * np.sin(2 * np.pi * t / 0.8), ts=ts) == []


def test_a_fast_motion_counts_where_it_stands_out_of_the_noise():
    def signal(t):
        return np.sin(5 * t) + 0.02 * np.sin(2 * np.pi * t / 0.03)

    assert findings(lambda t: 1e-3 * np.sin(2 * np.pi * t / 0.05)) == []
    assert findings(signal)


@pytest.mark.parametrize("signal", [lambda t: np.zeros_like(t), lambda t: t, lambda t: np.where(t > 1, np.nan, t)])
def test_what_does_not_swing_is_not_judged(signal):
    assert findings(signal) == []
