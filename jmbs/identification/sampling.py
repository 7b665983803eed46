"""Whether samples are close enough for the fastest motion that the model at the start shows in them."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np

from jmbs.identification.findings import Finding
from jmbs.identification.prediction import FitProgram
from jmbs.identification.problem import Experiment, FitProblem, deviations_of

FINER = 4
"""How much closer the motion is looked at than it was sampled."""
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
    for name, values in _finely(problem, experiment, local, spacing / FINER).items():
        found = _fastest_period(values, spacing / FINER, NOISES * float(np.min(noise[name])))
        if found is not None and found < FEWEST * spacing:
            path = f"recordings/{recording.name}/channels/{name}"
            message = f"{path}: found samples every {spacing:.3g} s, wanted at least {FEWEST:g} in a period of its"
            message += (
                f" fastest motion, about {found:.3g} s by the model at the start: what happens between samples is"
            )
            message += " not seen, and a start that is far off may end in another motion"
            findings.append(Finding("sampling", "warning", message, recording.name, name))
    return findings


def _finely(problem: FitProblem, experiment: Experiment, local: np.ndarray, step: float) -> dict[str, np.ndarray]:
    """By sensor the model's signal at every `step`, s, from the first sample on: in pieces of as many times as the
    program takes."""
    n = len(experiment.member.times)
    begin, end = float(experiment.recording.ts[0]), float(experiment.recording.ts[-1])
    times = begin + step * np.arange(int((end - begin) / step) + 1)
    pieces: dict[str, list[np.ndarray]] = {name: [] for name in experiment.program.sensors}
    for start in range(0, len(times), n):
        some = times[start : start + n]
        padded = jnp.asarray(np.pad(some, (0, n - len(some)), mode="edge"), experiment.member.times.dtype)
        recording = dataclasses.replace(experiment.recording, ts=some)
        member = dataclasses.replace(experiment.member, times=padded)
        shown = problem.predicted(experiment._replace(recording=recording, member=member), local)
        for name, values in shown.items():
            pieces[name].append(values)
    return {name: np.concatenate(parts) for name, parts in pieces.items()}


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
