"""Findings of data alone: laws of times, rows and delays, whatever the numbers."""

from __future__ import annotations

import numpy as np
import pytest

import jmbs
from jmbs.identification import increasing, input_findings, recording_findings, time_findings
from jmbs.identification.data_findings import delay_findings, rows_text

TS = np.arange(400) * 0.01
RNG = np.random.default_rng(1)
FREE = jmbs.Parameter(0.0, (0.0, 0.02))


def codes(findings) -> list[str]:
    return [finding.code for finding in findings]


@pytest.mark.parametrize("shift", [0.0, -100.0, 1e6])
@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e3])
def test_findings_of_times_do_not_depend_on_the_clock(shift: float, scale: float):
    ts = np.arange(200.0)
    ts[[50, 120]] = ts[[49, 118]]
    ts[180:] += 7.0
    findings = time_findings("r", shift + scale * ts, np.arange(1, 201))
    assert [(f.code, f.rows) for f in findings] == [
        *(("duplicate_time", (51,)), ("time_backwards", (121,)), ("time_jump", (181,)))
    ]


def test_even_and_uneven_sampling_are_sound():
    uneven = np.cumsum(RNG.uniform(0.005, 0.02, 500))
    assert time_findings("r", TS, np.arange(400)) == [] == time_findings("r", uneven, np.arange(500))
    assert time_findings("r", np.zeros(0), np.zeros(0, int)) == [] == time_findings("r", np.ones(1), np.ones(1, int))


def test_samples_that_are_kept_have_increasing_times():
    ts = np.round(np.cumsum(RNG.normal(0.5, 1.0, 300)), 1)
    ts[::17] = np.nan
    kept = ts[increasing(ts)]
    assert (np.diff(kept) > 0).all() and kept[-1] == np.nanmax(ts) and kept[0] == ts[1]


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        *(((7,), "row 7"), ((1, 2, 3, 5), "rows 1-3, 5")),
        (tuple(range(1, 40, 2)), "rows 1, 3, 5, 7, 9, 11, 13, 15 and 12 more"),
    ],
)
def test_rows_in_words(rows, text):
    assert rows_text(rows) == text


@pytest.mark.parametrize(
    ("times", "hold", "sound"),
    [
        *(((0.0, 2.0), "linear", True), ((-1.0, 3.0), "linear", True), ((0.0, 1.99), "linear", False)),
        *(
            ((0.01, 2.0), "linear", False),
            ((0.0, 1.5), "zero", True),
            ((0.0, 0.9), "zero", False),
            ((0.0,), "zero", False),
        ),
    ],
)
def test_inputs_cover_the_run(times, hold, sound):
    assert codes(input_findings("r", "p", np.array(times), hold, 0.0, 2.0)) == ([] if sound else ["input_too_short"])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("noise", [0.5, 2.0])
def test_a_delay_is_said_to_be_hidden_where_its_standard_error_says_so(noise: float, seed: int):
    """A sine's delay has the standard error of noise over the root of the sum of its squared rates."""
    clean, rate = np.sin(3 * TS), 3 * np.cos(3 * TS)
    largest = 0.02
    sigma = noise * largest * np.sqrt(np.sum(rate**2)) / 2
    values = clean + sigma * np.random.default_rng(seed).normal(size=400)
    found = codes(delay_findings("r", "x", TS, values, sigma, jmbs.Parameter(0.0, (0.0, largest))))
    assert (found == ["delay_sampling"]) == (noise > 1)


def test_delays_that_can_be_seen_and_known_ones_are_not_mentioned():
    clean = np.sin(3 * TS)
    assert delay_findings("r", "x", TS, clean, 1e-3, FREE) == []
    assert delay_findings("r", "x", TS, clean, None, FREE) == []
    assert delay_findings("r", "x", TS, clean, 1.0, 0.01) == []
    coarse = np.sin(2.5 / 0.01 * TS)
    assert codes(delay_findings("r", "x", TS, coarse, 1e-6, FREE)) == ["delay_sampling"]


def test_recordings_made_in_python_are_looked_at_too():
    sensors = {"x": jmbs.Sensor("rail/q", 0.1), "y": jmbs.Sensor("arm/q")}
    values = np.where(np.arange(400) == 5, np.nan, np.sin(TS))
    good = jmbs.Recording("r", TS, {"x": values, "y": jmbs.Channel(values)}, {"p": (TS, values)})
    assert recording_findings(good, sensors, 0.0) == []
    ts = TS.copy()
    ts[7] = ts[6]
    short = jmbs.Input(TS[:100], values[:100])
    bad = jmbs.Recording("r", ts - 1.0, {"x": np.ones(400)}, {"p": short, "c": 1.0, "d": (TS[:9], TS[:9])})
    expected = ["duplicate_time", "before_start", "constant_channel", "input_too_short", "input_too_short"]
    assert codes(recording_findings(bad, sensors, 0.0)) == expected
