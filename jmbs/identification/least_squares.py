"""Levenberg and Marquardt's method, one iteration after another, with bounds and directions that nothing shows.

The state is small and decides all that follows, so a run that was stopped goes on to the same bits.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

Evaluate = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Residual (m,) and Jacobian (m, p) at a vector (p,)."""

FIRST_DAMPING = 1e-3
"""Beside the square of the largest singular value."""
LARGEST_DAMPING = 1e12
LONGEST_STEP = 3.0
"""Of one coordinate, which are of order one: twentyfold in a logarithm."""
RELATIVE_RANK, ABSOLUTE_RANK = 1e-6, 0.1
"""A direction is invisible whose singular value is below the first of the largest, and below the second itself."""


@dataclasses.dataclass(frozen=True)
class Iterate:
    """Where the method is: `x` (p,), its `damping` and by what that `grows`, how many `iterations` and `evaluations`
    it took, the `cost`, half the sum of (robust) squares, and whether it has `stopped`: `converged`, `stuck`, `limit`
    or empty. `step`: how long the last iteration's was, `change`: the largest of a coordinate in it."""

    x: np.ndarray
    damping: float | None = None
    grows: float = 2.0
    iterations: int = 0
    evaluations: int = 0
    cost: float = np.inf
    step: float = np.inf
    change: float = np.inf
    stopped: str = ""


@dataclasses.dataclass(frozen=True)
class Limits:
    """Bounds `lower`, `upper` (p,) of coordinates; relative `tolerance`; `most` iterations; `loss`: of squares, `huber`
    or `cauchy`, with its `scale`."""

    lower: np.ndarray
    upper: np.ndarray
    tolerance: float = 1e-8
    most: int = 100
    loss: str = "squares"
    scale: float = 1.0


def minimise(evaluate: Evaluate, iterate: Iterate, limits: Limits, seen: Callable[[Iterate], None]) -> Iterate:
    """Iterations until one of them stops; `seen` is called with each. A first point that is not finite is `stuck`, and
    one that has stopped already stays."""
    if iterate.stopped:
        return iterate
    residual, jacobian = evaluate(iterate.x)
    if not np.all(np.isfinite(residual)):
        return dataclasses.replace(iterate, evaluations=iterate.evaluations + 1, stopped="stuck")
    cost = robust_cost(residual, limits)
    iterate = dataclasses.replace(iterate, cost=cost, evaluations=iterate.evaluations + 1)
    while not iterate.stopped:
        iterate, residual, jacobian = _iteration(evaluate, iterate, residual, jacobian, limits)
        seen(iterate)
    return iterate


def _iteration(
    evaluate: Evaluate, at: Iterate, residual: np.ndarray, jacobian: np.ndarray, limits: Limits
) -> tuple[Iterate, np.ndarray, np.ndarray]:
    """One step that lowers the cost, with as many tries as it takes."""
    r, J = _weighted(residual, jacobian, limits)
    gradient = J.T @ r
    held = ((at.x <= limits.lower) & (gradient > 0)) | ((at.x >= limits.upper) & (gradient < 0))
    U, s, Vt = visible_directions(np.where(held, 0.0, J))
    slopes = U.T @ r
    damping = FIRST_DAMPING * float(np.max(s, initial=0.0)) ** 2 if at.damping is None else at.damping
    grows, evaluations = at.grows, at.evaluations
    while True:
        step = -Vt.T @ (s / (s**2 + damping) * slopes)
        step = step * min(1.0, LONGEST_STEP / max(np.max(np.abs(step), initial=0.0), 1e-300))
        x = np.clip(at.x + step, limits.lower, limits.upper)
        step = x - at.x
        change = float(np.max(np.abs(step), initial=0.0))
        foreseen = -float(gradient @ step + 0.5 * np.sum((J @ step) ** 2))
        small = change <= limits.tolerance * (1 + float(np.max(np.abs(at.x), initial=0.0)))
        if small or foreseen <= limits.tolerance**2 * at.cost:
            stopped = "converged"
            return _next(at, at.x, damping, grows, evaluations, at.cost, step, stopped), residual, jacobian
        tried, derivative = evaluate(x)
        evaluations += 1
        cost = robust_cost(tried, limits) if np.all(np.isfinite(tried)) else np.inf
        gained = (at.cost - cost) / foreseen
        if gained > 1e-4 and np.all(np.isfinite(derivative)):
            damping *= max(1 / 10, 1 - (2 * min(gained, 1.0) - 1) ** 3)
            little = at.cost - cost <= limits.tolerance * at.cost and gained > 0.25
            stopped = "converged" if little else "limit" if at.iterations + 1 >= limits.most else ""
            return _next(at, x, damping, 2.0, evaluations, cost, step, stopped), tried, derivative
        damping, grows = damping * grows, grows * 2
        if damping > LARGEST_DAMPING * max(1.0, float(np.max(s, initial=0.0)) ** 2):
            return _next(at, at.x, damping, grows, evaluations, at.cost, 0.0 * step, "stuck"), residual, jacobian


def _next(
    at: Iterate, x: np.ndarray, damping: float, grows: float, tries: int, cost: float, step: np.ndarray, stopped: str
) -> Iterate:
    length, change = float(np.linalg.norm(step)), float(np.max(np.abs(step), initial=0.0))
    return Iterate(x, float(damping), float(grows), at.iterations + 1, tries, float(cost), length, change, stopped)


def visible_directions(jacobian: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Singular vectors and values of a Jacobian, without those that nothing shows: along these nothing moves."""
    U, s, Vt = np.linalg.svd(jacobian, full_matrices=False)
    kept = ~is_invisible(s)
    return U[:, kept], s[kept], Vt[kept]


def is_invisible(singular_values: np.ndarray) -> np.ndarray:
    """Which directions cannot be seen, of noise-scaled singular values in descending order."""
    largest = np.max(singular_values, initial=0.0)
    return (singular_values <= RELATIVE_RANK * largest) & (singular_values < ABSOLUTE_RANK)


def robust_cost(residual: np.ndarray, limits: Limits) -> float:
    """Half the sum of the loss of the squares."""
    square = (residual / limits.scale) ** 2 if limits.loss != "squares" else residual**2
    if limits.loss == "huber":
        square = limits.scale**2 * np.where(square <= 1, square, 2 * np.sqrt(square) - 1)
    elif limits.loss == "cauchy":
        square = limits.scale**2 * np.log1p(square)
    return 0.5 * float(np.sum(square))


def _weighted(residual: np.ndarray, jacobian: np.ndarray, limits: Limits) -> tuple[np.ndarray, np.ndarray]:
    """Rows weighted by the slope of the loss, so that squares have its gradient."""
    if limits.loss == "squares":
        return residual, jacobian
    square = (residual / limits.scale) ** 2
    huber = np.where(square <= 1, 1.0, 1 / np.sqrt(np.maximum(square, 1)))
    slope = 1 / (1 + square) if limits.loss == "cauchy" else huber
    root = np.sqrt(slope)
    return root * residual, root[:, None] * jacobian
