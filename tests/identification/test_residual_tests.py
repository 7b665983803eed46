"""Tests of residuals: what noise passes, what models that lack something do not, and what is said of it."""

from __future__ import annotations

import numpy as np
import pytest
from fabricated_fits import channel, made_fit

from jmbs.identification import autocorrelation, judged, residual_findings, whiteness

N = 400


def noise(seed: int, n: int = N) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=n)


def moving_average(seed: int, n: int = N) -> np.ndarray:
    """Noise through a filter of two samples, whose autocorrelation is 1/2 at one sample and zero beyond."""
    white = noise(seed, n + 1)
    return white[1:] + white[:-1]


def test_autocorrelation_is_that_of_the_definition():
    residual = noise(0, 50) + 3.0
    lagged = [np.corrcoef(residual[lag:], residual[:-lag])[0, 1] for lag in (1, 2, 3)]
    np.testing.assert_allclose(autocorrelation(residual, 3), lagged, atol=0.1)
    alternating = np.array([1.0, -1.0] * 100)
    np.testing.assert_allclose(autocorrelation(alternating, 2), [-199 / 200, 198 / 200])


def test_autocorrelation_of_a_filter_is_that_of_the_filter():
    found = np.mean([autocorrelation(moving_average(seed), 3) for seed in range(50)], axis=0)
    np.testing.assert_allclose(found, [0.5, 0.0, 0.0], atol=0.03)


def test_probabilities_of_noise_are_even():
    """Of white noise a probability of `p` or less has the probability `p`; autocorrelations keep to their band."""
    tests = [whiteness(noise(seed)) for seed in range(300)]
    for name in ("correlated", "runs_probability"):
        values = np.array([getattr(one, name) for one in tests])
        for level in (0.1, 0.5):
            assert abs(np.mean(values < level) - level) < 0.1, name
    within = np.mean([np.abs(one.autocorrelation) < one.band for one in tests])
    assert abs(within - 0.95) < 0.02


def test_noise_raises_no_alarm():
    alarms = [residual_findings({"r": {"x": noise(seed), "v": noise(seed + 1000)}}, 1.0, 2 * N) for seed in range(300)]
    assert sum(map(len, alarms)) <= 3


@pytest.mark.parametrize("residual", [moving_average(1), noise(2) + np.sin(np.linspace(0, 6, N)), np.cumsum(noise(3))])
def test_what_is_no_noise_is_named_with_its_channel(residual: np.ndarray):
    (finding,) = residual_findings({"driven": {"x": residual, "v": noise(4)}}, 1.0, N)
    assert (finding.code, finding.severity) == ("residuals_not_white", "warning")
    assert (finding.recording, finding.channel) == ("driven", "x")
    for words in ("recordings/driven/x", "not white", "autocorrelation", "runs of one sign", "standard errors are too"):
        assert words in finding.message


def test_the_correlation_that_is_named_is_the_one_that_is_there():
    """Outliers at equal distances: nothing from one sample to the next, and nothing is known of standard errors."""
    residual = noise(6)
    residual[::37] += 20.0
    (finding,) = residual_findings({"r": {"x": residual}}, 1.0, N, robust=False)
    assert "to the sample 37 later" in finding.message and finding.message.endswith("standard errors are off")
    (finding,) = residual_findings({"r": {"x": residual}}, 1.0, N)
    assert finding.message.endswith("standard errors are off: standard_error_robust allows for it")


@pytest.mark.parametrize("residual", [np.zeros(N), np.full(N, 0.3), np.full(N, 1e-300), noise(0, 19), np.zeros(0)])
def test_what_does_not_vary_or_is_too_short_is_not_judged(residual: np.ndarray):
    assert whiteness(residual) is None
    assert residual_findings({"r": {"x": residual}}, 1.0, 100) == ()


def test_data_without_noise_are_not_judged():
    """What is left beside noise that was given far too large is of the integration, and never white."""
    residuals = {"r": {"x": np.sin(0.1 * np.arange(N))}}
    assert [found.code for found in residual_findings(residuals, 1.0, N)] == ["residuals_not_white"]
    assert [found.code for found in residual_findings(residuals, 1e-18, N)] == ["misfit"]


def test_a_tiny_correlation_of_many_samples_is_no_reason_to_worry():
    n = 200_000
    residual = noise(5, n)
    residual[1:] += 0.02 * residual[:-1]
    assert whiteness(residual).correlated < 1e-6
    assert residual_findings({"r": {"x": residual}}, 1.0, n) == ()


@pytest.mark.parametrize(
    "chi2, samples, words",
    [
        (1.26, 201, "the model misses something"),
        (30.0, 5000, "5.48 times the noise"),
        (0.79, 201, "noise is smaller than was said"),
        (np.nan, 500, "not finite"),
        (1.24, 201, None),
        (0.81, 201, None),
        (1.5, 200, None),
        (0.6, 200, None),
        (3.0, 200, "1.73 times the noise"),
        (4.0, 10, None),
        (1e4, 10, "100 times the noise"),
    ],
)
def test_misfit(chi2: float, samples: int, words: str | None):
    findings = residual_findings({}, chi2, samples)
    assert [finding.code for finding in findings] == (["misfit"] if words else [])
    assert not words or words in findings[0].message


@pytest.mark.parametrize("chi2, degrees, warned", [(6.0, 4, False), (6.0, 40, True), (1e-16, 0, False)])
def test_few_degrees_leave_little_to_judge(chi2: float, degrees: int, warned: bool):
    assert bool(residual_findings({}, chi2, 50, degrees=degrees)) == warned


def test_a_fit_gets_its_warnings_once():
    fit = made_fit(channels={"driven": {"x": channel(drift=2.0)}}, chi2_per_degree=3.0)
    once = judged(fit)
    codes = [finding.code for finding in once.warnings]
    assert codes == ["invisible_direction", "at_bound", "residuals_not_white", "misfit"]
    assert judged(once) is once
    assert judged(made_fit()).warnings == made_fit().warnings
