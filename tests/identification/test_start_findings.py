"""Findings beside the model at the start: wrong units and exchanged channels are said, starts that are off are not.

The motions are like those of a double pendulum, decaying sines of two modes; those of the model at the start have
damping 50 % and frequencies 17 % off.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from jmbs.identification import findings_at_start, swapped_channels, unit_suspect

TS = np.arange(600) * 0.01
NAMES = ("q1", "q2")
ANGLES = dict.fromkeys(NAMES, "rad")


def motion(seed: int, off: float = 0.0, start: tuple[float, float] = (0.9, 0.4)) -> dict[str, np.ndarray]:
    """Two angles, from two modes that `off` detunes and damps otherwise."""
    rng = np.random.default_rng(seed)
    rates = rng.uniform(3, 5), rng.uniform(7, 10)
    shapes = np.array([[1.0, 1.0], [1.4, -1.8]])
    amplitudes = np.linalg.solve(shapes, np.array(start))
    change = rng.uniform(-1, 1, 4) * off
    modes = [
        a * np.exp(-0.1 * (1 + change[i]) * TS) * np.cos(w * (1 + change[2 + i] / 3) * TS)
        for i, (a, w) in enumerate(zip(amplitudes, rates, strict=True))
    ]
    return dict(zip(NAMES, shapes @ np.array(modes), strict=True))


def codes(findings) -> list[str]:
    return sorted({finding.code for finding in findings})


@pytest.mark.parametrize("seed", range(10))
def test_a_start_that_is_off_is_no_finding(seed: int):
    measured, model = motion(seed), motion(seed, 0.5)
    other = motion(seed, 0.5, (0.4, 0.9))
    assert findings_at_start("r", TS, measured, model, ANGLES) == []
    assert findings_at_start("r", TS, measured, model, ANGLES, exchanged=lambda a, b: other) == []


@pytest.mark.parametrize("seed", range(5))
def test_degrees_are_said_and_nothing_else(seed: int):
    measured = {name: np.degrees(values) for name, values in motion(seed).items()}
    findings = findings_at_start("r", TS, measured, motion(seed, 0.5), ANGLES)
    assert [(f.code, f.channel, f.severity) for f in findings] == [("unit_suspect", name, "warning") for name in NAMES]
    assert all("deg" in f.message for f in findings)


@pytest.mark.parametrize("seed", range(5))
def test_exchanged_channels_are_said_where_their_starts_are_given(seed: int):
    q1, q2 = motion(seed).values()
    findings = findings_at_start("r", TS, {"q1": q2, "q2": q1}, motion(seed, 0.1), ANGLES)
    assert [(f.code, f.channel) for f in findings] == [("swapped_channels", name) for name in NAMES]


@pytest.mark.parametrize("seed", range(5))
def test_exchanged_channels_are_said_where_their_starts_are_measured(seed: int):
    """The model starts from exchanged values too, and from the right ones where they are exchanged back."""
    q1, q2 = motion(seed).values()
    wrong, right = motion(seed, 0.1, (0.4, 0.9)), motion(seed, 0.1)
    found = swapped_channels("r", TS, {"q1": q2, "q2": q1}, wrong, ANGLES, lambda a, b: right)
    assert codes(found) == ["swapped_channels"]


def test_channels_of_other_units_are_not_exchanged():
    q1, q2 = motion(0).values()
    assert swapped_channels("r", TS, {"q1": q2, "q2": q1}, motion(0), {"q1": "rad", "q2": "m"}) == []


SIGNAL = np.sin(3 * TS)


@pytest.mark.parametrize(
    ("factor", "unit", "given", "word"),
    [
        *((180 / math.pi, "rad", "rad", "deg"), (19.0, "rad", "rad", "deg"), (180 / math.pi, "rad/s", "", "deg/s")),
        *((math.pi / 180, "rad", "deg", "rad"), (1000.0, "m", "m", "mm"), (1e-3, "m", "mm", "mm")),
        *((25.0, "N m", "", "unit"), (1 / 500, "m/s", "", "mm"), (1 / 1000, "N", "N", "mm")),
    ],
)
def test_ratios_of_units_are_said(factor: float, unit: str, given: str, word: str):
    (found,) = unit_suspect("r", "x", factor * SIGNAL, SIGNAL, unit, given)
    assert word in found.message and found.channel == "x"


@pytest.mark.parametrize("factor", [0.05, 0.2, 1.0, 5.0, 7.0, 19.0])
def test_ratios_of_wrong_starts_are_not(factor: float):
    assert unit_suspect("r", "x", factor * SIGNAL, SIGNAL, "m") == []
    assert unit_suspect("r", "x", factor * 0.05 * SIGNAL, 0.05 * SIGNAL, "rad") == []


def test_nothing_is_said_of_what_does_not_stand_out_of_the_noise():
    still, noise = np.zeros(600), 0.01 * np.random.default_rng(0).normal(size=600)
    for measured, model in ((SIGNAL, still), (SIGNAL, noise), (noise, SIGNAL), (still, SIGNAL)):
        assert unit_suspect("r", "x", measured, model, "rad", noise=0.01) == []


def test_missing_samples_are_passed_over():
    measured = {name: np.where(np.arange(600) % 3 == 0, np.nan, values) for name, values in motion(0).items()}
    assert findings_at_start("r", TS, measured, motion(0, 0.5), ANGLES) == []
    q1, q2 = measured.values()
    assert codes(findings_at_start("r", TS, {"q1": q2, "q2": q1}, motion(0), ANGLES)) == ["swapped_channels"]


def test_nothing_can_be_said_of_what_is_missing():
    gone = {name: np.where(TS < 2, np.nan, values) for name, values in motion(0).items()}
    assert findings_at_start("r", TS, gone, motion(0, 0.5), ANGLES) == []
    none = dict.fromkeys(NAMES, np.full(600, np.nan))
    assert findings_at_start("r", TS, none, motion(0), ANGLES) == []
    assert findings_at_start("r", TS, motion(0), none, ANGLES) == []
