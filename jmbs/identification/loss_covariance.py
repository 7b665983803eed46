"""Standard errors of an estimate by a robust loss.

P. J. Huber, Robust Statistics (1981), chapter 7: with the slope `psi` of half the loss of a whitened residual, the
covariance of squares times the mean of `psi^2` over the square of the mean of `psi'`.
"""

from __future__ import annotations

import numpy as np

from jmbs.identification.least_squares import loss_slopes
from jmbs.identification.problem import FitProblem
from jmbs.identification.trust import Sensitivity

LEAST_CURVATURE = 0.05
"""Mean of `psi'`, at least: where most samples are outliers, nothing is known."""


def of_loss(problem: FitProblem, found: Sensitivity, residual: np.ndarray, jacobian: np.ndarray) -> Sensitivity:
    """What is known of an estimate by the study's loss, from what is known of one by squares.

    **Arguments:** `residual` (m,) and `jacobian` (m, p), whitened, rows as of `rows_of`.
    """
    estimator = problem.study.estimator
    if estimator.loss == "squares":
        return found
    weights = [np.ravel(np.asarray(e.member.weights)) for e in problem.training]
    seen = np.concatenate([np.zeros(0), *weights]) > 0
    if not seen.any():
        return found
    slope, curvature = _slopes(residual[: problem.rows][seen], estimator.loss, estimator.scale)
    spread, bend = float(np.mean(slope**2)), max(float(np.mean(curvature)), LEAST_CURVATURE)
    visible = ~found.invisible
    basis = found.directions[visible].T / found.singular_values[visible]
    beliefs = jacobian[problem.rows :] @ basis
    by_beliefs, one = beliefs.T @ beliefs, np.eye(basis.shape[1])
    back = np.linalg.inv(bend * (one - by_beliefs) + by_beliefs)
    covariance = basis @ back @ (spread * (one - by_beliefs) + by_beliefs) @ back.T @ basis.T
    return found._replace(covariance=covariance, rise=spread / bend)


def _slopes(residual: np.ndarray, loss: str, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """`psi` and its derivative."""
    square, slope = (residual / scale) ** 2, loss_slopes(residual, loss, scale)
    bend = (1 - square) * slope**2 if loss == "cauchy" else np.where(square <= 1, 1.0, 0.0)
    return slope * residual, bend
