"""Standard errors where residuals are correlated over time: the sandwich of Newey and West, with prewhitening.

W. K. Newey and K. D. West, Econometrica 55 (1987), 703; D. W. K. Andrews and J. C. Monahan, Econometrica 60 (1992),
953.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jmbs.identification.problem import FitProblem

LARGEST = 0.97
"""Of the correlation that is taken out beforehand: what is more is a drift, of which a recording is one sample."""


def robust_covariance(
    problem: FitProblem, residual: np.ndarray, jacobian: np.ndarray, directions: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """The covariance (p, p) of coordinates along what is visible, by how residuals scatter, not by what noise says.

    Samples of one time count together, those of different recordings are independent, and priors are taken at their
    word.

    **Arguments:** `residual` (m,) and `jacobian` (m, p), whitened, rows as of `rows_of`; `directions` (k, p), `values`
    (k,): singular vectors and values of the Jacobian, of what is visible.
    """
    basis = directions.T / values
    rows, scores = jacobian @ basis, []
    start = count = 0
    for experiment in problem.training:
        weights = np.asarray(experiment.member.weights)
        channels, n = weights.shape
        stop = start + channels * n
        own = (residual[start:stop, None] * rows[start:stop]).reshape(channels, n, -1).sum(axis=0)
        scores.append(own[np.any(weights > 0, axis=0)])
        count, start = count + experiment.samples(), stop
    middle = long_run_variance(scores) * count / max(count - len(values), 1) + rows[start:].T @ rows[start:]
    return basis @ middle @ basis.T


def long_run_variance(scores: Sequence[np.ndarray]) -> np.ndarray:
    """The variance (k, k) of the sum of scores, series (n, k) in the order of time that are independent of each other.

    What correlation there is from one to the next is taken out, the rest weighted down to a lag that Andrews' rule
    chooses (Econometrica 59 (1991), 817), and the sum coloured again.
    """
    correlation = float(np.clip(_lag1(scores), -LARGEST, LARGEST))
    white = [series[1:] - correlation * series[:-1] for series in scores if len(series) > 1]
    lags = _bandwidth(_lag1(white), sum(map(len, white)))
    total = np.zeros((scores[0].shape[1],) * 2)
    for series in white:
        own = series.T @ series
        for lag in range(1, min(lags, len(series) - 1) + 1):
            product = series[lag:].T @ series[:-lag]
            own += (1 - lag / (lags + 1)) * (product + product.T)
        total += own * (len(series) + 1) / len(series)
    return total / (1 - correlation) ** 2


def _lag1(scores: Sequence[np.ndarray]) -> float:
    """The correlation from one score to the next."""
    square = sum(float(np.sum(series[:-1] ** 2)) for series in scores)
    return sum(float(np.sum(series[1:] * series[:-1])) for series in scores) / square if square else 0.0


def _bandwidth(correlation: float, count: int) -> int:
    correlation = float(np.clip(correlation, -LARGEST, LARGEST))
    return int(np.ceil(1.1447 * (4 * correlation**2 * count / (1 - correlation**2) ** 2) ** (1 / 3)))
