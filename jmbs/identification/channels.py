"""The channels of a recording beside what the model shows."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from jmbs.identification.estimates import ChannelFit
from jmbs.identification.measured_starts import samples
from jmbs.identification.noise import deviations_of
from jmbs.identification.problem import Experiment, FitProblem


def channels_beside(
    problem: FitProblem, experiment: Experiment, predicted: Mapping[str, np.ndarray], noise: Mapping[str, float]
) -> dict[str, ChannelFit]:
    """By sensor the samples that are there, and what is `predicted` (n,) of them.

    **Arguments:** `noise`: by sensor, the standard deviation where a recording gives none.
    """
    recording, found = experiment.recording, {}
    ts = np.asarray(recording.ts)
    for name, deviation in deviations_of(problem.study, recording, experiment.program.sensors, noise).items():
        values = samples(recording, name)
        seen = np.isfinite(values)
        own = np.broadcast_to(deviation, values.shape)[seen]
        found[name] = ChannelFit(ts[seen], values[seen], predicted[name][seen], own, experiment.outputs[name].unit)
    return found
