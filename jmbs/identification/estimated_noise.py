"""Noise that is estimated: the standard deviation of residuals, by sensor, beside what the fit took of it; where the
loss is robust, from the median of their sizes, which outliers do not move."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np

from jmbs.identification.at_estimate import determined
from jmbs.identification.estimation import rows_of
from jmbs.identification.measured_starts import samples
from jmbs.identification.noise import MEDIAN_OF_NOISE, noise_given
from jmbs.identification.problem import FitProblem
from jmbs.identification.study import Recording, Study
from jmbs.identification.trust import has_errors, sensitivity_of


def estimated_deviation(problem: FitProblem, sensor: str) -> float:
    """The standard deviation that holds now of a sensor whose noise is estimated."""
    for e in problem.experiments:
        if sensor in e.program.sensors and _is_estimated(problem.study, e.recording, sensor):
            weights = np.asarray(e.member.weights)[e.program.sensors.index(sensor)]
            return 1 / float(np.max(weights))
    raise AssertionError(sensor)


def noise_of_residuals(problem: FitProblem, x: np.ndarray) -> dict[str, float]:
    """By sensor whose noise is estimated: what the residuals of training data say."""
    found: dict[str, float] = {}
    estimated = _estimated(problem.study)
    if not estimated:
        return found
    free, taken = _free(problem, x), problem.nuisances(x)
    whole = sum(e.samples() for e in problem.training)
    shown = {e.recording.name: problem.predicted(e, problem.local(e, x)) for e in problem.training}
    for name in estimated:
        residuals, nuisances = [np.zeros(0)], 0.0
        for e in problem.training:
            if name in e.program.sensors and _is_estimated(problem.study, e.recording, name):
                values = samples(e.recording, name)
                seen = np.isfinite(values)
                residuals.append((values - shown[e.recording.name][name])[seen])
                nuisances += taken[e.recording.name][name]
        every = np.concatenate(residuals)
        if every.size:
            share = max(1 - free / whole - nuisances / every.size, 0.1)
            found[name] = _deviation(every, problem.study.estimator.loss) / np.sqrt(share)
    return found


def _deviation(residuals: np.ndarray, loss: str) -> float:
    if loss == "squares":
        return float(np.sqrt(np.mean(residuals**2)))
    return float(np.median(np.abs(residuals)) / MEDIAN_OF_NOISE)


def with_noise(problem: FitProblem, noise: Mapping[str, float]) -> FitProblem:
    """The same problem with other weights of samples whose noise is estimated; nothing is compiled anew."""
    experiments = []
    for experiment in problem.experiments:
        weights = np.array(experiment.member.weights)
        for row, name in enumerate(experiment.program.sensors):
            if name in noise and _is_estimated(problem.study, experiment.recording, name):
                weights[row] = np.where(weights[row] > 0, 1 / noise[name], 0.0)
        member = dataclasses.replace(experiment.member, weights=jnp.asarray(weights, experiment.member.weights.dtype))
        experiments.append(experiment._replace(member=member))
    return dataclasses.replace(problem, experiments=tuple(experiments))


def _free(problem: FitProblem, x: np.ndarray) -> float:
    """How many of the unknowns the samples determine. Where no Jacobian is worked out nobody knows, and noise is per
    sample, as chi-squared is."""
    if not has_errors(problem):
        return 0.0
    jacobian = rows_of(problem, 1.0, pull=False)[0](x)[1]
    finite = bool(np.all(np.isfinite(jacobian)))
    return determined(problem, sensitivity_of(problem, x, jacobian), x) if finite else float(len(x))


def _estimated(study: Study) -> list[str]:
    """Sensors some of whose noise is estimated."""
    return [name for name in study.sensors if any(_is_estimated(study, r, name) for r in study.data)]


def _is_estimated(study: Study, recording: Recording, name: str) -> bool:
    return name in recording.channels and isinstance(noise_given(study, recording, name), str)
