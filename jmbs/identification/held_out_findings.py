"""Whether what was held out is predicted as well as the noise and the estimates allow."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from jmbs.identification.estimates import ChannelFit
from jmbs.identification.findings import Finding
from jmbs.identification.measured_starts import samples
from jmbs.identification.prediction import FitProgram
from jmbs.identification.predictions import shown_with_errors
from jmbs.identification.problem import Experiment
from jmbs.identification.solution import Solution

NOISES, ERRORS = 1.5, 3.0
"""How many times the noise a root mean square may be, and how many standard deviations of the prediction beside it:
these are of all samples together, so chance moves them further."""
FEWEST = 20
"""Samples below which a channel is not judged."""


def held_out_findings(
    solution: Solution, experiment: Experiment, local: np.ndarray, channels: Mapping[str, ChannelFit]
) -> list[Finding]:
    """Channels of a held-out recording, at its local unknowns, that the fit misses by more than can be chance."""
    if not isinstance(experiment.program, FitProgram):
        return []
    name, findings = experiment.recording.name, []
    seen = bool(solution.problem.unknowns.held_out.get(name))
    for sensor, (_, error) in shown_with_errors(solution, solution.problem, experiment, local, seen).items():
        one = channels[sensor]
        error = error[np.isfinite(samples(experiment.recording, sensor))]
        open_ = math.sqrt(float(np.mean(error**2))) if error.size else math.nan
        noise = math.sqrt(float(np.mean(one.noise**2))) if error.size else math.nan
        if one.samples >= FEWEST and one.rms > math.hypot(NOISES * noise, ERRORS * open_):
            message = f"recordings/{name}/{sensor}: held out, and missed by {one.rms:.3g} (root mean square), where"
            message += f" noise is {noise:.3g} and the estimates leave {open_:.2g} open: the model does not hold there,"
            message += " or not with what its start was estimated from"
            findings.append(Finding("heldout_error", "warning", message, name, sensor))
    return findings
