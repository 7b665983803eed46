"""How much an experiment tells: criteria of the information `J^T J`, and what recordings have told already."""

from __future__ import annotations

import dataclasses

import numpy as np

from jmbs.errors import ModelError
from jmbs.identification.least_squares import ABSOLUTE_RANK, visible_directions
from jmbs.identification.posing import pose
from jmbs.identification.priors import prior_rows
from jmbs.identification.study import Study

POWERS = {"D": 0.0, "A": 1.0, "E": 8.0}
"""Of Kiefer's means of variances; E is the limit of high powers, which has kinks where two singular values meet."""
WEAK = ABSOLUTE_RANK
"""One over the standard deviation of a belief in every coordinate that keeps criteria finite where nothing is seen."""


def criterion_of(jacobian: np.ndarray, criterion: str) -> tuple[float, np.ndarray]:
    """A criterion, to be as large as possible, of a whitened Jacobian (m, p), and its derivative (m, p) by the entries.

    It is less the logarithm of a mean of the variances along the principal directions of the coordinates: the
    geometric mean (D), the arithmetic one (A), nearly the largest (E).
    """
    s, directions = _principal(jacobian)
    power, p = POWERS[criterion], len(s)
    relative = (s / s[-1]) ** 2
    if power == 0.0:
        value, slope = 2 * float(np.mean(np.log(s))), 1 / (p * s**2)
    else:
        weights = relative**-power
        value = 2 * float(np.log(s[-1])) - float(np.log(np.mean(weights))) / power
        slope = weights / np.sum(weights) / s**2
    return value, 2 * jacobian @ (directions.T * slope) @ directions


def information_gain(jacobian: np.ndarray, before: np.ndarray) -> float:
    """Half the logarithm of the ratio of determinants of the information, nats, of Jacobians (m, p) and (n, p)."""
    return float(np.sum(np.log(_principal(jacobian)[0])) - np.sum(np.log(_principal(before)[0])))


def _principal(jacobian: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Singular values (p,) in descending order and directions (p, p), rows, with the weak belief."""
    p = jacobian.shape[1]
    R = np.linalg.qr(jacobian, mode="r")
    _, s, directions = np.linalg.svd(np.concatenate([R, WEAK * np.eye(p)]), full_matrices=False)
    return s, directions


def known_rows(study: Study) -> np.ndarray:
    """What the recordings of a study say of its shared unknowns: rows (r, s) of a whitened Jacobian, in which what the
    recordings must say of unknowns of their own is taken off. None without recordings. Raises `ModelError`."""
    data = tuple(recording for recording in study.data if recording.role == "train")
    if not data:
        return np.zeros((0, 0))
    problem = pose(dataclasses.replace(study, data=data))
    x, shared = problem.unknowns.first, problem.unknowns.shared
    residual, jacobian = problem.evaluate(x, problem.ends())
    if not (np.all(np.isfinite(residual)) and np.all(np.isfinite(jacobian))):
        wanted = "a model at the start that comes to the end of each recording"
        raise ModelError("recordings", "a run that fails", wanted)
    s = sum(block.size for block in shared)
    own = problem.unknowns.blocks[len(shared) :]
    beliefs = prior_rows(own, x[s:])[1]
    return left_of(np.concatenate([jacobian, np.pad(beliefs, ((0, 0), (s, 0)))]), s)


def left_of(jacobian: np.ndarray, shared: int) -> np.ndarray:
    """What the rows (m, p) of a whitened Jacobian say of the first unknowns when the others are not known: rows of
    the Schur complement's root."""
    first, others = jacobian[:, :shared], jacobian[:, shared:]
    if others.shape[1]:
        taken = visible_directions(others)[0]
        first = first - taken @ (taken.T @ first)
    return np.asarray(np.linalg.qr(first, mode="r"))
