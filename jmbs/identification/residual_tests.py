"""Whether residuals are noise: autocorrelation, runs of one sign, and chi-squared, in numbers and in words."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import special, stats

from jmbs.identification.findings import Finding

if TYPE_CHECKING:
    from jmbs.identification.result import Fit

NOT_WHITE = "residuals_not_white"
MOST_LAGS = 40
FEWEST_SAMPLES = 20
"""Below these a channel is not judged."""
FALSE_ALARMS = 1e-3
"""Chance of a false warning of a whole study whose residuals are white."""
SMALL_CORRELATION = 0.05
"""Autocorrelation that changes no standard error worth a warning, however sure it is."""
NO_NOISE = 1e-4
"""Chi-squared per degree of freedom of data that hold no noise beside what was given: residuals a hundredth of it."""
CHI2_RANGE = (0.8, 1.25)
CHI2_SAMPLES = 200
"""Samples beyond which chi-squared per degree of freedom is judged by that range."""
CHI2_CHANCE = 1e-6
"""Chance of either side of the range where samples are fewer, which what noise does makes wider."""


class Whiteness(NamedTuple):
    """What the residuals of one channel look like beside noise.

    `lags` (m,), samples; `autocorrelation` (m,) there; `band`: 95 % of those of white noise lie within; `correlated`:
    the probability (Ljung and Box) of as much autocorrelation in noise; `runs`, of one sign, `expected_runs` of noise,
    and `runs_probability` of as few or as many (Wald and Wolfowitz, two-sided).
    """

    lags: np.ndarray
    autocorrelation: np.ndarray
    band: float
    correlated: float
    runs: int
    expected_runs: float
    runs_probability: float


def autocorrelation(residual: np.ndarray, lags: int) -> np.ndarray:
    """Autocorrelation (lags,) of residuals (n,) about their mean at 1, 2, ... samples.

    NaN where they do not vary, and where one is not finite.
    """
    largest = np.max(np.abs(residual), initial=0.0)
    if not (np.isfinite(largest) and largest > 0):
        return np.full(lags, np.nan)
    centred = residual / largest - np.mean(residual / largest)
    variance = float(centred @ centred)
    if not variance > 1e-28 * residual.size:  # what rounding leaves of a constant
        return np.full(lags, np.nan)
    return np.array([centred[lag:] @ centred[: residual.size - lag] / variance for lag in range(1, lags + 1)])


def whiteness(residual: np.ndarray) -> Whiteness | None:
    """Tests of the residuals (n,) of one channel in the order of time; None of too few, or where they do not vary."""
    n = residual.size
    if n < FEWEST_SAMPLES:
        return None
    lags = np.arange(1, min(MOST_LAGS, n // 4) + 1)
    found = autocorrelation(residual, lags.size)
    if not np.isfinite(found).all():
        return None
    statistic = n * (n + 2) * float(np.sum(found**2 / (n - lags)))
    return Whiteness(
        lags,
        found,
        1.96 / math.sqrt(n),
        float(special.chdtrc(lags.size, statistic)),
        *_runs(residual - np.median(residual)),
    )


def _runs(centred: np.ndarray) -> tuple[int, float, float]:
    """Runs of one sign, how many noise would have, and the probability of being as far from that."""
    above = centred[centred != 0] > 0
    high, low = int(np.sum(above)), int(np.sum(~above))
    if not high or not low:
        return int(bool(high or low)), 1.0, 1.0
    runs = 1 + int(np.sum(above[1:] != above[:-1]))
    n, product = high + low, 2.0 * high * low
    expected = 1 + product / n
    variance = product * (product - n) / (n**2 * (n - 1.0))
    away = abs(runs - expected) / math.sqrt(variance) if variance > 0 else 0.0
    return runs, expected, math.erfc(away / math.sqrt(2))


def residual_findings(
    residuals: Mapping[str, Mapping[str, np.ndarray]],
    chi2_per_degree: float,
    samples: int,
    robust: bool = True,
    degrees: int | None = None,
) -> tuple[Finding, ...]:
    """Warnings `residuals_not_white`, by channel, and `misfit`.

    **Arguments:** `residuals`: by recording and sensor, (n,), in any unit, best over their noise; `chi2_per_degree` of
    all of them, `samples` in number; `robust`: whether there are standard errors that allow for correlation; `degrees`
    of freedom, as many as samples where it is not said.
    """
    channels = [(r, s, values) for r, sensors in residuals.items() for s, values in sensors.items()]
    if chi2_per_degree < NO_NOISE:
        channels = []  # what is left is that of the integration
    findings = [_not_white(r, s, values, FALSE_ALARMS / len(channels), robust) for r, s, values in channels]
    return (*(finding for finding in findings if finding is not None), *_misfit(chi2_per_degree, samples, degrees))


def judged(fit: Fit) -> Fit:
    """The fit with the warnings that its residuals ask for, those that it has already left as they are."""
    residuals = {name: {s: one.whitened for s, one in sensors.items()} for name, sensors in fit.channels.items()}
    known = {(found.code, found.recording, found.channel) for found in fit.warnings}
    robust = any(one.standard_error_robust is not None for one in fit.parameters.values())
    findings = residual_findings(residuals, fit.chi2_per_degree, fit.samples, robust, fit.degrees)
    more = tuple(found for found in findings if (found.code, found.recording, found.channel) not in known)
    return dataclasses.replace(fit, warnings=(*fit.warnings, *more)) if more else fit


def _not_white(recording: str, sensor: str, residual: np.ndarray, level: float, robust: bool) -> Finding | None:
    tests = whiteness(np.asarray(residual, float))
    if tests is None:
        return None
    probability = min(1.0, 2 * min(tests.correlated, tests.runs_probability))
    if probability >= level or np.max(np.abs(tests.autocorrelation)) < SMALL_CORRELATION:
        return None
    first, most = tests.autocorrelation[0], int(np.argmax(np.abs(tests.autocorrelation)))
    after = "from one sample to the next" if most == 0 else f"to the sample {tests.lags[most]} later"
    clear = abs(first) > tests.band and first * tests.autocorrelation[most] > 0
    size = "off" if not clear else "too small" if first > 0 else "too large"
    message = (
        f"recordings/{recording}/{sensor}: residuals are not white: autocorrelation {tests.autocorrelation[most]:.2g} "
        f"{after} (95 % of noise: within {tests.band:.2g}), {tests.runs} runs of one sign where noise has "
        f"{tests.expected_runs:.0f}; the model lacks something that shows there, and standard errors are {size}"
        + (": standard_error_robust allows for it" if robust else "")
    )
    return Finding(NOT_WHITE, "warning", message, recording, sensor)


def _misfit(chi2_per_degree: float, samples: int, degrees: int | None) -> tuple[Finding, ...]:
    low, high = CHI2_RANGE
    degrees = samples if degrees is None else degrees
    if samples <= CHI2_SAMPLES and degrees > 0:
        low, high = stats.chi2.ppf([CHI2_CHANCE, 1 - CHI2_CHANCE], degrees) / degrees
    if degrees == 0 or low <= chi2_per_degree <= high:
        return ()
    if not math.isfinite(chi2_per_degree):
        return (Finding("misfit", "warning", "residuals are not finite: the model did not run through at the end"),)
    ratio = f"residuals are {math.sqrt(max(chi2_per_degree, 0.0)):.3g} times the noise that was given"
    why = (
        "the model misses something, or the noise is larger than was said"
        if chi2_per_degree > high
        else "the noise is smaller than was said, and so are standard errors"
    )
    return (Finding("misfit", "warning", f"chi-squared per degree is {chi2_per_degree:.3g}: {ratio}; {why}"),)
