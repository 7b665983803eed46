"""Recordings that are not fitted: what of their own is estimated from their first part."""

from __future__ import annotations

import numpy as np

from jmbs.identification.least_squares import Iterate, Limits, minimise
from jmbs.identification.priors import prior_rows
from jmbs.identification.problem import Experiment, FitProblem
from jmbs.identification.unknowns import bounds_of, longest_of


def held_out_window(problem: FitProblem, experiment: Experiment) -> float:
    """The end, s, of the part of a recording that its own unknowns are estimated from."""
    ts = np.asarray(experiment.recording.ts)
    return float(ts[0] + problem.study.test_window * (ts[-1] - ts[0]))


def window_rows(problem: FitProblem, experiment: Experiment, local: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whitened residuals (m,) of that part, and of priors of its own unknowns, and their derivative by `local`."""
    blocks = problem.unknowns.held_out[experiment.recording.name]
    shared = len(experiment.local)
    residual, jacobian = problem.evaluate_one(experiment, local, held_out_window(problem, experiment))
    more, derivative = prior_rows(blocks, local[shared:])
    derivative = np.concatenate([np.zeros((len(more), shared)), derivative], axis=1)
    return np.concatenate([residual, more]), np.concatenate([jacobian, derivative])


def held_out_local(problem: FitProblem, experiment: Experiment, x: np.ndarray) -> np.ndarray:
    """The local unknowns of such a recording: the shared ones of `x` (p,), and its own from its first part."""
    blocks = problem.unknowns.held_out.get(experiment.recording.name, ())
    local = problem.local(experiment, x)
    if not blocks:
        return local
    shared, own = local[: len(experiment.local)], local[len(experiment.local) :]

    def evaluate(part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        residual, jacobian = window_rows(problem, experiment, np.concatenate([shared, part]))
        return residual, jacobian[:, len(shared) :]

    estimator = problem.study.estimator
    given = {"most": estimator.max_iterations, "loss": estimator.loss, "scale": estimator.scale}
    given["samples"] = int(np.size(experiment.member.weights))
    limits = Limits(*bounds_of(blocks), **given, longest=longest_of(blocks))
    return np.concatenate([shared, minimise(evaluate, Iterate(own), limits, lambda _: None).x])
