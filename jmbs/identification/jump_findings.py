"""Whether an input jumps where an accelerometer measures: a fit smears what it shows there."""

from __future__ import annotations

import numpy as np

from jmbs.identification.findings import Finding
from jmbs.identification.interpolation import ORDER
from jmbs.identification.problem import Experiment
from jmbs.identification.study import Input, Recording

REACH = ORDER // 2
"""Steps to each side of a jump, within which polynomials go through knots of both sides."""


def jump_findings(experiment: Experiment) -> list[Finding]:
    """Accelerometers of a recording some of whose inputs are held from sample to sample (`hold: zero`)."""
    recording, findings = experiment.recording, []
    names = [name for name, output in experiment.outputs.items() if output.kind == "accelerometer"]
    jumps = _jumps(recording) if names else np.zeros(0)
    if not jumps.size:
        return []
    reach = REACH * float(experiment.member.step)
    for name in names:
        ts = np.asarray(recording.ts)[experiment.weights[name][: len(recording.ts)] > 0]
        after = np.clip(np.searchsorted(jumps, ts), 0, len(jumps) - 1)
        distance = np.minimum(np.abs(jumps[after] - ts), np.abs(jumps[np.maximum(after - 1, 0)] - ts))
        near = int(np.sum(distance < reach * (1 - 1e-6)))
        if near:
            path = f"recordings/{recording.name}/channels/{name}"
            message = (
                f"{path}: found {near} of {len(ts)} samples of an accelerometer within {reach:.2g} s of a jump of an"
            )
            message += " input (hold: zero), wanted none: accelerations there are smeared over that long; leave these"
            message += " samples out, or give the model a shorter simulation/dt"
            findings.append(Finding("smeared_jumps", "warning", message, recording.name, name))
    return findings


def _jumps(recording: Recording) -> np.ndarray:
    """The times, s, at which some held input takes another value, in order."""
    times = [np.zeros(0)]
    for value in recording.inputs.values():
        if isinstance(value, Input) and value.hold == "zero":
            values = np.reshape(np.asarray(value.values, float), (len(value.times), -1))
            times.append(np.asarray(value.times, float)[1:][np.any(np.diff(values, axis=0) != 0, axis=1)])
    return np.unique(np.concatenate(times))
