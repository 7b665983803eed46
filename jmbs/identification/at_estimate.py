"""What is known where an estimation ended: residuals, and with a Jacobian what they say of the unknowns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jmbs.identification.estimation import rows_of
from jmbs.identification.loss_covariance import of_loss
from jmbs.identification.priors import prior_rows
from jmbs.identification.problem import FitProblem
from jmbs.identification.trust import Sensitivity, has_errors, sensitivity_of, values_only


class AtEstimate(NamedTuple):
    """Whitened `residual` (m,) and its `jacobian` (m, p), rows as of `rows_of`, both zero where they are not `sound`;
    the latter is empty where no covariance is worked out. `count` of samples; `degrees` of freedom, none where the
    unknowns take all, and `chi2` over these."""

    residual: np.ndarray
    jacobian: np.ndarray
    sensitivity: Sensitivity
    sound: bool
    count: int
    degrees: int
    chi2: float


def at_estimate(problem: FitProblem, x: np.ndarray) -> AtEstimate:
    """See `AtEstimate`."""
    if not has_errors(problem):
        return _without_jacobian(problem, x)
    evaluate, count = rows_of(problem, 1.0, pull=False)
    residual, jacobian = evaluate(x)
    sound = bool(np.all(np.isfinite(residual)) and np.all(np.isfinite(jacobian)))
    if not sound:
        residual, jacobian = np.zeros(len(residual)), np.zeros(jacobian.shape)
    found = sensitivity_of(problem, x, jacobian)
    taken = sum(sum(channels.values()) for channels in problem.nuisances(x).values()) if sound else 0.0
    free = determined(problem, found, x) if sound else 0.0
    degrees = max(count - round(free + taken), 0)
    found = of_loss(problem, found, residual, jacobian) if sound else found
    priors = prior_rows(problem.unknowns.blocks, x)[0]
    chi2 = float(np.sum(residual**2) - np.sum(priors**2)) / max(degrees, 1) if sound else float("inf")
    return AtEstimate(residual, jacobian, found, sound, count, degrees, chi2)


def determined(problem: FitProblem, found: Sensitivity, x: np.ndarray) -> float:
    """How many unknowns the samples determine: of those that are visible all but what priors do, the trace of what
    estimated residuals of samples take of the samples' noise."""
    slopes = prior_rows(problem.unknowns.blocks, x)[1]
    by_priors = np.einsum("mi,ij,mj->", slopes, found.covariance, slopes)
    return float(np.sum(~found.invisible) - by_priors)


def _without_jacobian(problem: FitProblem, x: np.ndarray) -> AtEstimate:
    """How many of the unknowns the data show is not known: degrees of freedom are the samples."""
    rows = []
    for e in problem.training:
        shown = problem.predicted(e, problem.local(e, x))
        for row, name in enumerate(e.program.sensors):
            weights = np.asarray(e.member.weights, float)[row, : len(shown[name])]
            off = (shown[name] - np.asarray(e.member.measured, float)[row, : len(weights)]) * weights
            rows.append(off[weights > 0])
    residual = np.concatenate(rows)
    sound, count = bool(np.all(np.isfinite(residual))), len(residual)
    chi2 = float(np.sum(residual**2)) / max(count, 1) if sound else float("inf")
    residual = residual if sound else np.zeros(count)
    return AtEstimate(residual, np.zeros((count, 0)), values_only(problem, x), sound, count, count, chi2)
