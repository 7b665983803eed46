"""What recordings say beside the model at the start: units that do not fit, and channels that were exchanged.

Pure numpy on samples (n,) in SI and radians; NaN where one is missing. The start may be far off, so only what no model
near it would do is said.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping

import numpy as np

from jmbs.identification.findings import Finding

LARGEST_RATIO = 20.0
"""Of the spread of a channel to the model's, from which units are in doubt."""
LARGEST_GAIN = 10.0
"""Of the start residual by exchanging two channels, from which they are in doubt."""
_DEGREES, _MILLI = 180 / math.pi, 1000.0
_ANGLES, _ONE_UNIT = ("rad", "rad/s"), 1.0
_FAR_OFF = 4.0
"""By so much the model at the start may exaggerate a motion beside radians that were taken for degrees."""
_WINDOWS = tuple(2.0**-k for k in range(6))
_AT_LEAST = 0.7
"""Gain that exchanging must have over every window: less than one, as noise rules short ones."""
_LAGS = np.linspace(-0.1, 0.1, 21)
_NOISES = 3.0
_FEW_SAMPLES, _MANY_SAMPLES = 8, 1000


def findings_at_start(
    recording: str,
    ts: np.ndarray,
    measured: Mapping[str, np.ndarray],
    predicted: Mapping[str, np.ndarray],
    units: Mapping[str, str],
    *,
    given: Mapping[str, str] | None = None,
    noise: Mapping[str, float | None] | None = None,
    exchanged: Callable[[str, str], Mapping[str, np.ndarray]] | None = None,
) -> list[Finding]:
    """All findings of a recording beside the model at the start.

    **Arguments:** `ts` (n,), s; `measured`, `predicted`: by channel; `units`: SI units of the channels; `given`: the
    units that the study gave; `noise`: standard deviations, where known; `exchanged`: see `swapped_channels`.
    """
    given, noise = given or {}, noise or {}
    findings = []
    for name, values in measured.items():
        unit = units.get(name, "")
        findings += unit_suspect(
            recording, name, values, predicted[name], unit, given.get(name) or unit, noise.get(name)
        )
    doubtful = {finding.channel for finding in findings}
    rest = {name: values for name, values in measured.items() if name not in doubtful}
    return findings + swapped_channels(recording, ts, rest, predicted, units, exchanged)


def unit_suspect(
    recording: str,
    channel: str,
    measured: np.ndarray,
    predicted: np.ndarray,
    unit: str,
    given: str = "",
    noise: float | None = None,
) -> list[Finding]:
    """A spread over 20 times the model's, or nearer to 57.3 times or 1/1000 of it, or below 4 / 57.3.

    **Arguments:** `measured`, `predicted` (n,); `unit`: SI; `given`: the unit that the study gave; `noise`: standard
    deviation, None where it is not known. Nothing is said of a channel or model that does not stand out of the noise.
    """
    spread, expected = _spread(measured), _spread(predicted[np.isfinite(measured)])
    least = _NOISES * (noise or 0.0)
    if not spread > least or not expected > max(least, 1e-12 * float(np.max(np.abs(predicted), initial=0.0))):
        return []
    ratio, guess = spread / expected, _guess(spread / expected, unit, given or unit, float(np.nanmax(np.abs(measured))))
    if not guess:
        return []
    message = f"recordings/{recording}/channels/{channel}: found a spread of {spread:.3g} {unit}, {ratio:.3g} times the"
    message += f" {expected:.3g} {unit} of the model at the start; {guess}"
    return [Finding("unit_suspect", "warning", message, recording, channel)]


def _guess(ratio: float, unit: str, given: str, largest: float) -> str:
    """What the ratio of spreads suggests; empty where it is nothing out of the way."""
    angle = unit in _ANGLES
    # Below one degree in numbers, and a radian, a ratio of 8 is no sign of degrees.
    if angle and (_nearer(ratio, _DEGREES) and (ratio > LARGEST_RATIO or largest > _ONE_UNIT)):
        return f"are these deg? (`unit: {unit.replace('rad', 'deg')}`)"
    if angle and given not in _ANGLES and ratio < _FAR_OFF / _DEGREES:
        return f"are these rad, not {given}?"
    if _nearer(ratio, 1 / _MILLI):
        return f"are these m, not {given}?" if given == "mm" else "1/1000 of the model's: are mm and m mixed up?"
    if ratio > LARGEST_RATIO:
        return f"are these mm? (`unit: {unit.replace('m', 'mm', 1)}`)" if unit[:1] == "m" else "is the unit right?"
    return ""


def _nearer(ratio: float, factor: float) -> bool:
    """Whether a ratio lies nearer to the factor, or beyond it, than to one."""
    return abs(math.log(ratio)) > abs(math.log(factor)) / 2 and (ratio > 1) == (factor > 1)


def _spread(values: np.ndarray) -> float:
    known = values[np.isfinite(values)]
    return float(np.std(known)) if len(known) > 1 else 0.0


def swapped_channels(
    recording: str,
    ts: np.ndarray,
    measured: Mapping[str, np.ndarray],
    predicted: Mapping[str, np.ndarray],
    units: Mapping[str, str],
    exchanged: Callable[[str, str], Mapping[str, np.ndarray]] | None = None,
) -> list[Finding]:
    """Pairs of channels of one unit that the model fits more than 10 times better when they are exchanged.

    The mean square is taken at the best lag, over the whole, half, quarter, and so on to 1/32 of the recording. A model
    whose parameters are off leaves the recording with time, so the largest gain counts; but where exchanging makes any
    of these windows worse, such as the first moments, nothing is said.

    **Arguments:** `ts` (n,), s; `measured`, `predicted`: by channel (n,); `units`: SI, by channel; `exchanged`: gives
    what the model predicts where the two channels are exchanged; it differs from `predicted` where initial values are
    measured. None: where they are not. Each pair of one unit is one call.
    """
    moving = [name for name, values in measured.items() if _spread(values) > 0 and len(ts) >= _FEW_SAMPLES]
    findings = []
    for a, b in itertools.combinations(moving, 2):
        if not units.get(a) or units[a] != units.get(b):
            continue
        other = predicted if exchanged is None else exchanged(a, b)
        gain = _gain(ts, (measured[a], measured[b]), (predicted[a], predicted[b]), (other[a], other[b]))
        if gain > LARGEST_GAIN:
            message = f"recordings/{recording}/channels: found {a} and {b} to fit the model at the start {gain:.3g}"
            message += " times better when they are exchanged; are their columns?"
            findings += [Finding("swapped_channels", "warning", message, recording, name) for name in (a, b)]
    return findings


def _gain(ts, measured, predicted, other) -> float:
    """The largest gain over the windows that hold samples; one where exchanging makes any of them worse."""
    gains = []
    for part in _WINDOWS:
        n = max(int(part * len(ts)), _FEW_SAMPLES)
        some = slice(0, n, n // _MANY_SAMPLES + 1)
        y, h, h_other = ([values[some] for values in pair] for pair in (measured, predicted, other))
        as_given, swapped = _misfit(ts[some], y, h), _misfit(ts[some], y[::-1], h_other)
        if math.isfinite(as_given) and math.isfinite(swapped):
            gains.append(as_given / swapped if swapped > 0 else (np.inf if as_given > 0 else 1.0))
    return max(gains) if gains and min(gains) > _AT_LEAST else 1.0


def _misfit(ts, measured, predicted) -> float:
    """Mean square of measured less predicted over all channels, at the best lag of the model."""
    best = np.inf
    for lag in _LAGS * (ts[-1] - ts[0]):
        inside = (ts - lag >= ts[0]) & (ts - lag <= ts[-1])
        squares = [
            (y[inside] - np.interp(ts[inside] - lag, ts, h)) ** 2 for y, h in zip(measured, predicted, strict=True)
        ]
        squares = np.concatenate(squares)
        if np.isfinite(squares).any():
            best = min(best, float(np.nanmean(squares)))
    return best
