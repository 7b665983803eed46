"""Whether samples are close enough for the fastest motion that the model at the start shows in them."""

from __future__ import annotations

import numpy as np

from jmbs.identification.findings import Finding
from jmbs.identification.noise import deviations_of
from jmbs.identification.prediction import FINER, FitProgram
from jmbs.identification.problem import Experiment, FitProblem

FEWEST = 4.0
"""Samples in a period of the fastest motion below which a channel is named."""
NOISES = 3.0
"""The fast motion must move a channel by so many standard deviations of its noise."""


def sampling_findings(problem: FitProblem, experiment: Experiment, local: np.ndarray) -> list[Finding]:
    """Channels whose fastest motion, of the model at local unknowns, has few samples a period.

    The signal between samples is that of the same program at other times. How fast it is says the ratio of its
    accelerations to its rates, which is the rate of the fastest oscillation that counts in them.
    """
    if not isinstance(experiment.program, FitProgram):
        return []
    recording = experiment.recording
    spacing = float(np.median(np.diff(recording.ts)))
    noise = deviations_of(problem.study, recording, experiment.program.sensors, problem.noise)
    findings = []
    begin, span = float(recording.ts[0]), float(recording.ts[-1] - recording.ts[0])
    most = FINER * len(recording.ts)  # as many times as one run shows
    step = max(spacing / FINER, span / (most - 1))
    shown = problem.predicted(experiment, local, begin + step * np.arange(min(int(span / step) + 1, most)))
    for name, values in shown.items():
        found = _fastest_period(values, step, NOISES * float(np.min(noise[name])))
        if found is not None and found < FEWEST * spacing:
            path = f"recordings/{recording.name}/channels/{name}"
            message = f"{path}: found samples every {spacing:.3g} s, wanted at least {FEWEST:g} in a period of its"
            message += (
                f" fastest motion, about {found:.3g} s by the model at the start: what happens between samples is"
            )
            message += " not seen, and a start that is far off may end in another motion"
            findings.append(Finding("sampling", "warning", message, recording.name, name))
    return findings


def _fastest_period(values: np.ndarray, step: float, least: float) -> float | None:
    """The period, s, of the fastest oscillation that counts in a signal's rates; None where it moves less than
    `least`, or does not come to its end."""
    if len(values) < 3 * FINER or not np.isfinite(values).all():
        return None
    rate, acceleration = (float(np.sqrt(np.mean((np.diff(values, k) / step**k) ** 2))) for k in (1, 2))
    # Of a sine these are omega and omega^2 times its root mean square.
    if not acceleration or rate**2 / acceleration < least:
        return None
    return 2 * np.pi * rate / acceleration
