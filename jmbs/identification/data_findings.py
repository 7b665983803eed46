"""What recordings themselves say is wrong with them: times, samples that are no numbers, inputs that end too early.

Pure numpy. Rows are those of the file's data, counted from 1, the header left out.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping

import numpy as np

from jmbs.errors import shortened
from jmbs.identification.findings import Finding
from jmbs.identification.study import Channel, Parameter, Recording, Sensor
from jmbs.library.mechanics import show

LARGEST_STEP = 5.0
"""Of the median step between samples, beyond which a step is a jump."""
_RANGES_SHOWN = 8
_NAMES_SHOWN = 16
_FEW_SAMPLES = 8
_SLOPE_OVER_NOISE = 3.0


def rows_text(rows: tuple[int, ...]) -> str:
    """Rows in words: `row 7`, `rows 101-105, 421`."""
    starts = [i for i, row in enumerate(rows) if i == 0 or row != rows[i - 1] + 1]
    ends = [*(i - 1 for i in starts[1:]), len(rows) - 1]
    ranges = [
        str(rows[a]) if a == b else f"{rows[a]}-{rows[b]}" for a, b in zip(starts[:_RANGES_SHOWN], ends, strict=False)
    ]
    more = f" and {len(starts) - _RANGES_SHOWN} more" if len(starts) > _RANGES_SHOWN else ""
    return f"row{'s' if len(rows) > 1 else ''} {', '.join(ranges)}{more}"


def missing_column(
    recording: str, channel: str | None, where: str, column: str, file: str, known: list[str]
) -> Finding:
    """A column that a file does not have; what needs it is left out.

    **Arguments:** `channel`: None for the time; `where`: the place in the recording, such as `channels/x`.
    """
    message = f"recordings/{recording}/{where}: found no column {column} in {file}, wanted one of {_names(known)}"
    close = difflib.get_close_matches(column, known, n=1)
    message += f"; the nearest is {shortened(close[0])}" if close else ""
    return Finding("missing_column", "error", message, recording, channel)


def number_findings(
    recording: str,
    channel: str | None,
    values: np.ndarray,
    rows: np.ndarray,
    what: str,
    texts: Mapping[int, str] | None = None,
    drop: bool = False,
) -> list[Finding]:
    """Samples that are not finite numbers: an error, or with `drop` a warning, as they are left out.

    **Arguments:** `values` (n,), `rows` (n,) theirs in the file; `what`: the column and file, for the message; `texts`:
    by row what stands there in place of a number.
    """
    bad = ~np.isfinite(values)
    if not bad.any():
        return []
    found = _rows(rows[bad])
    first, texts = found[0], texts or {}
    shown = (show(texts[first]) if texts[first] else "an empty cell") if first in texts else f"{values[bad][0]:g}"
    end = "these samples are left out" if drop else "wanted finite numbers (`missing: drop` leaves such samples out)"
    samples = f"{len(found)} sample{'s' if len(found) > 1 else ''}"
    message = f"recordings/{recording}: found {shown} in {what}, {rows_text(found)} ({samples}); {end}"
    return [Finding("not_a_number", "warning" if drop else "error", message, recording, channel, found)]


def time_findings(recording: str, ts: np.ndarray, rows: np.ndarray, port: str | None = None) -> list[Finding]:
    """Times that repeat, go back or jump.

    **Arguments:** `ts` (n,), those that are no numbers are passed over; `rows` (n,); `port`: the input whose times
    these are, None for the recording's. A table of inputs may well have long steps.
    """
    path = f"recordings/{recording}" + (f"/inputs/{port}" if port else "")
    known = np.isfinite(ts)
    ts, rows = ts[known], rows[known]
    steps, after = np.diff(ts), rows[1:]
    findings = []
    if (steps == 0).any():
        found = _rows(after[steps == 0])
        times = _first_times(ts[1:][steps == 0])
        message = f"{path}: found the time of the row before in {rows_text(found)} ({times})"
        message += ", wanted increasing times"
        findings.append(Finding("duplicate_time", "error", message, recording, port, found))
    if (steps < 0).any():
        found = _rows(after[steps < 0])
        k = int(np.argmax(steps < 0))
        message = f"{path}: found {ts[k + 1]:.9g} s after {ts[k]:.9g} s"
        message += f", times that go back in {rows_text(found)}, wanted increasing times"
        findings.append(Finding("time_backwards", "error", message, recording, port, found))
    # Beyond all times before: what follows a time that went back is no jump.
    beyond = ts[1:] - np.maximum.accumulate(ts)[:-1] if len(ts) else steps
    forward = steps[steps > 0]
    if port is None and len(forward) > 2 and (beyond > LARGEST_STEP * np.median(forward)).any():
        found, k = _rows(after[beyond > LARGEST_STEP * np.median(forward)]), int(np.argmax(beyond))
        message = f"{path}: found a step of {beyond[k]:.4g} s before row {after[k]}, where the median"
        message += f" is {np.median(forward):.4g} s; steps over {LARGEST_STEP:g} times the median in {rows_text(found)}"
        findings.append(Finding("time_jump", "warning", message, recording, None, found))
    return findings


def increasing(ts: np.ndarray) -> np.ndarray:
    """Which samples have a time beyond those of all before (n,)."""
    known = np.where(np.isfinite(ts), ts, -np.inf)
    before = np.concatenate([[-np.inf], np.maximum.accumulate(known)[:-1]]) if len(ts) else known
    return known > before


def constant_channel(recording: str, channel: str, values: np.ndarray) -> list[Finding]:
    """A channel of more than one sample that has one value."""
    known = values[np.isfinite(values)]
    if len(known) < 2 or (known != known[0]).any():
        return []
    message = f"recordings/{recording}/channels/{channel}: found {known[0]:.6g} in all of {len(known)} samples, wanted"
    message += " a signal that moves; is the sensor connected?"
    return [Finding("constant_channel", "warning", message, recording, channel)]


def input_findings(
    recording: str, port: str, times: np.ndarray, hold: str, begin: float, end: float, where: str = ""
) -> list[Finding]:
    """An input that does not cover a run from `begin` to `end`, s. A step that is held holds for one step more.

    **Arguments:** `times` (n,), increasing; `where`: the file, for the message.
    """
    path = f"recordings/{recording}/inputs/{port}"
    of_file = f" of {where}" if where else ""
    if len(times) < 2:
        message = f"{path}: found {len(times)} samples{of_file}, wanted at least 2"
        return [Finding("input_too_short", "error", message, recording, port)]
    last = times[-1] + (times[-1] - times[-2] if hold == "zero" else 0.0)
    slack = 1e-9 * max(end - begin, abs(begin), abs(end))
    if times[0] <= begin + slack and last >= end - slack:
        return []
    message = f"{path}: found values from {times[0]:.6g} s to {times[-1]:.6g} s{of_file}, wanted from {begin:.6g} s,"
    message += f" where the model starts, to {end:.6g} s, where the recording ends"
    return [Finding("input_too_short", "error", message, recording, port)]


def before_start(recording: str, ts: np.ndarray, t0: float) -> list[Finding]:
    """Samples from before the model starts, at `t0` s."""
    if not len(ts) or ts[0] >= t0 - 1e-9 * max(abs(t0), ts[-1] - ts[0]):
        return []
    message = f"recordings/{recording}: found samples from {ts[0]:.6g} s on, wanted none before the model starts, at"
    message += f" {t0:.6g} s (`simulation/t0` of its config, or `t` of the recording)"
    return [Finding("before_start", "error", message, recording)]


def delay_findings(
    recording: str, channel: str, ts: np.ndarray, values: np.ndarray, noise: float | None, delay: float | Parameter
) -> list[Finding]:
    """A free delay that these samples cannot show: they are too coarse for the signal, or its noise hides the delay.

    **Arguments:** `ts`, `values` (n,), SI; `noise`: standard deviation, None where it is not known; `delay`: the
    sensor's.
    """
    known = np.isfinite(values)
    ts, values = ts[known], values[known]
    if not isinstance(delay, Parameter) or len(ts) < _FEW_SAMPLES or np.std(values) == 0:
        return []
    path, step = f"recordings/{recording}/channels/{channel}", float(np.median(np.diff(ts)))
    if np.sqrt(np.mean(np.diff(values) ** 2)) > np.std(values):
        message = f"{path}: found samples every {step:.4g} s, fewer than six a period of the signal (or noise as large"
        message += " as the signal), wanted a finer recording: a delay can hardly be seen"
        return [Finding("delay_sampling", "warning", message, recording, channel)]
    largest, resolution = _largest_delay(delay), _delay_resolution(values, step, noise)
    if noise is None or largest is None or largest >= 2 * resolution:
        return []
    seen = f"below about {2 * resolution:.2g} s" if np.isfinite(resolution) else "at all"
    message = f"{path}: found a delay of up to {largest:.4g} s, wanted a larger one or less noise: with {len(ts)}"
    message += f" samples and a noise of {noise:.3g} none can be seen {seen}"
    return [Finding("delay_sampling", "warning", message, recording, channel)]


def _largest_delay(delay: Parameter) -> float | None:
    """What the delay may become, s; None where nothing says."""
    if delay.bounds is not None and delay.bounds[1] is not None:
        return float(delay.bounds[1])
    return float(delay.start) if isinstance(delay.start, int | float) and delay.start > 0 else None


def _delay_resolution(values: np.ndarray, step: float, noise: float | None) -> float:
    """The standard error of a delay where all else is known, s: noise over the signal's rate, by all samples."""
    if not noise:
        return 0.0
    stride = 1
    # Differences over longer times, until the signal stands out of the noise.
    while stride <= len(values) // 4:
        change = float(np.mean((values[stride:] - values[:-stride]) ** 2)) - 2 * noise**2
        if change > 2 * (_SLOPE_OVER_NOISE * noise) ** 2:
            return noise * stride * step / np.sqrt(change * len(values))
        stride *= 2
    return np.inf


def recording_findings(recording: Recording, sensors: Mapping[str, Sensor], t0: float) -> list[Finding]:
    """All findings of a recording that was made in Python; NaN in a channel is a missing sample. `t0`: where its model
    starts, s. Raises `ModelError` for arrays of other shapes."""
    recording.refuse_shapes()
    ts = recording.ts
    rows = np.arange(1, len(ts) + 1)
    findings = number_findings(recording.name, None, ts, rows, "the times") + time_findings(recording.name, ts, rows)
    kept = increasing(ts)
    findings += before_start(recording.name, ts[kept], t0)
    for name, channel in recording.channels.items():
        sensor = sensors.get(name)
        values = channel.values if isinstance(channel, Channel) else channel
        findings += signal_findings(recording.name, name, ts[kept], np.asarray(values, float)[kept], channel, sensor)
    for port, given in recording.inputs.items():
        times, hold = (given[0], "linear") if isinstance(given, tuple) else (getattr(given, "times", None), "linear")
        if times is not None and kept.any():
            hold = getattr(given, "hold", hold)
            findings += input_findings(recording.name, port, np.asarray(times, float), hold, t0, ts[kept][-1])
    return findings


def signal_findings(
    recording: str, name: str, ts: np.ndarray, values: np.ndarray, channel: object, sensor: Sensor | None
) -> list[Finding]:
    """What is said of a channel's signal: that it is constant, or does not show a free delay. `channel`: a `Channel`
    with its own noise, or anything else."""
    constant = constant_channel(recording, name, values)
    if constant or sensor is None:
        return constant
    own = channel.noise if isinstance(channel, Channel) and channel.noise is not None else sensor.noise
    noise = None if isinstance(own, str) else float(np.sqrt(np.mean(np.asarray(own, dtype=float) ** 2)))
    return delay_findings(recording, name, ts, values, noise, sensor.delay)


def _names(names: list[str]) -> str:
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return f"{', '.join(shortened(name) for name in names[:_NAMES_SHOWN])}{more}"


def _rows(rows: np.ndarray) -> tuple[int, ...]:
    return tuple(int(row) for row in rows)


def _first_times(times: np.ndarray) -> str:
    shown = ", ".join(f"{time:.9g}" for time in times[:3])
    return f"{shown} s" if len(times) <= 3 else f"{shown} s, ..."
