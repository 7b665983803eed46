"""Levenberg and Marquardt's method, one iteration after another, with bounds and directions that nothing shows.

The state is small and decides all that follows, so a run that was stopped goes on to the same bits.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator
from typing import Any

import numpy as np

from jmbs.identification.bordered import Bordered, BorderedSquares

Evaluate = Callable[[np.ndarray], tuple[np.ndarray, Any]]
"""Residual (m,) and Jacobian (m, p) at a vector (p,), an array or `Bordered`."""

FIRST_DAMPING = 1e-3
"""Beside the square of the largest singular value."""
LARGEST_DAMPING = 1e12
ROUNDING = 1e-10
"""What a step may still promise, beside the cost, where none keeps its promise, and the fit has converged."""
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
    or `cauchy`, with its `scale`, in the first `samples` rows (None: in all; those of beliefs after them are squares);
    `longest` step of each coordinate."""

    lower: np.ndarray
    upper: np.ndarray
    tolerance: float = 1e-8
    most: int = 100
    loss: str = "squares"
    scale: float = 1.0
    samples: int | None = None
    longest: np.ndarray | float = LONGEST_STEP


def minimise(evaluate: Evaluate, iterate: Iterate, limits: Limits, seen: Callable[[Iterate], None]) -> Iterate:
    """Iterations until one of them stops; `seen` is called with each. A first point that is not finite is `stuck`, and
    one that has stopped already stays."""
    return driven(search(iterate, limits, seen), evaluate)


Search = Generator[np.ndarray, tuple[np.ndarray, Any], Iterate]
"""A search that yields vectors and is sent the residual and Jacobian at each; what it returns is where it stopped."""


def driven(asking: Search, evaluate: Evaluate) -> Iterate:
    """A search to its end."""
    try:
        asked = next(asking)
        while True:
            asked = asking.send(evaluate(asked))
    except StopIteration as end:
        return end.value


def search(iterate: Iterate, limits: Limits, seen: Callable[[Iterate], None]) -> Search:
    """See `minimise`."""
    if iterate.stopped:
        return iterate
    residual, jacobian = yield iterate.x
    iterate = dataclasses.replace(iterate, evaluations=iterate.evaluations + 1)
    if not _is_finite(residual, jacobian):
        return dataclasses.replace(iterate, stopped="stuck")
    iterate = dataclasses.replace(iterate, cost=robust_cost(residual, limits))
    while not iterate.stopped:
        iterate, residual, jacobian = yield from _iteration(iterate, residual, jacobian, limits)
        seen(iterate)
    return iterate


class _Quadratic:
    """The sum of squares near a point `x`, by the triangular factor of its Jacobian, within bounds."""

    def __init__(self, x: np.ndarray, residual: np.ndarray, jacobian: np.ndarray, limits: Limits):
        self.x, self.limits = x, limits
        Q, self.R = np.linalg.qr(jacobian)
        self.y = Q.T @ residual
        gradient = self.R.T @ self.y
        self.held = ((x <= limits.lower) & (gradient > 0)) | ((x >= limits.upper) & (gradient < 0))
        self.largest = float(np.linalg.norm(self.R, 2)) if self.R.size else 0.0

    def step(self, damping: float) -> np.ndarray:
        """The damped step of least cost; coordinates that it would take beyond a bound end there, and the others are
        chosen anew."""
        free, step = ~self.held, np.zeros(len(self.x))
        while True:
            U, s, Vt = visible_directions(np.where(free, self.R, 0.0))
            moved = -Vt.T @ (s / (s**2 + damping) * (U.T @ (self.y + self.R @ np.where(free, 0.0, step))))
            step = np.where(free, moved, step)
            x = self.x + step
            beyond = free & ((x < self.limits.lower) | (x > self.limits.upper))
            if not beyond.any():
                return step / max(1.0, float(np.max(np.abs(step) / self.limits.longest, initial=0.0)))
            step = np.where(beyond, np.clip(x, self.limits.lower, self.limits.upper) - self.x, step)
            free &= ~beyond

    def gain(self, step: np.ndarray) -> float:
        """By how much the step lowers the cost of the quadratic."""
        moved = self.R @ step
        return -float(self.y @ moved + 0.5 * moved @ moved)


class _BorderedQuadratic:
    """The same of a bordered Jacobian, whose own unknowns have no bounds; the loss is squares."""

    def __init__(self, x: np.ndarray, residual: np.ndarray, jacobian: Bordered, limits: Limits):
        if limits.loss != "squares":
            raise ValueError(f"squares and no {limits.loss} loss of a bordered Jacobian")
        p = jacobian.p
        self.x, self.squares = x, BorderedSquares(residual, jacobian)
        self.limits = dataclasses.replace(limits, lower=limits.lower[:p], upper=limits.upper[:p])
        self.largest = self.squares.largest

    def step(self, damping: float) -> np.ndarray:
        """See `_Quadratic`."""
        rows, residual, back = self.squares.reduced(damping)
        shared = _Quadratic(self.x[: self.squares.p], residual, rows, self.limits).step(damping)
        step = self.squares.whole(shared, back)
        return step * min(1.0, LONGEST_STEP / max(np.max(np.abs(step), initial=0.0), 1e-300))

    def gain(self, step: np.ndarray) -> float:
        """See `_Quadratic`."""
        return self.squares.gain(step)


def _is_finite(residual: np.ndarray, jacobian: Any) -> bool:
    entries = jacobian.is_finite if isinstance(jacobian, Bordered) else np.all(np.isfinite(jacobian))
    return bool(np.all(np.isfinite(residual)) and entries)


def _iteration(
    at: Iterate, residual: np.ndarray, jacobian: Any, limits: Limits
) -> Generator[np.ndarray, tuple[np.ndarray, Any], tuple[Iterate, np.ndarray, Any]]:
    """One step that lowers the cost, with as many tries as it takes."""
    if isinstance(jacobian, Bordered):
        near = _BorderedQuadratic(at.x, residual, jacobian, limits)
    else:
        near = _Quadratic(at.x, *_weighted(residual, jacobian, limits), limits)
    whole = near.step(0.0)
    most = near.gain(whole)
    reach = float(np.max(np.abs(whole), initial=0.0))
    damping = FIRST_DAMPING * near.largest**2 if at.damping is None else at.damping
    grows, evaluations = at.grows, at.evaluations
    if reach <= limits.tolerance * (1 + _size(at.x)) or most <= limits.tolerance**2 * at.cost:
        return _next(at, at.x, damping, grows, evaluations, at.cost, whole, "converged"), residual, jacobian
    while True:
        step = near.step(damping)
        x = np.clip(at.x + step, limits.lower, limits.upper)
        foreseen = near.gain(step)
        if foreseen > 0 and np.any(x != at.x):
            tried, derivative = yield x
            evaluations += 1
            cost = robust_cost(tried, limits) if _is_finite(tried, derivative) else np.inf
            gained = (at.cost - cost) / foreseen
            if gained > 1e-4:
                damping *= max(1 / 10, 1 - (2 * min(gained, 1.0) - 1) ** 3)
                little = max(at.cost - cost, most / 10) <= limits.tolerance * at.cost
                stopped = "converged" if little else "limit" if at.iterations + 1 >= limits.most else ""
                return _next(at, x, damping, 2.0, evaluations, cost, step, stopped), tried, derivative
        damping, grows = max(damping, 1e-12 * near.largest**2) * grows, grows * 2
        if damping > LARGEST_DAMPING * max(1.0, near.largest**2):
            # What is left to gain is rounding, or no step is allowed.
            stopped = "converged" if most <= ROUNDING * at.cost else "stuck"
            return _next(at, at.x, damping, grows, evaluations, at.cost, 0.0 * step, stopped), residual, jacobian


def _size(x: np.ndarray) -> float:
    return float(np.max(np.abs(x), initial=0.0))


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
    if limits.loss == "squares":
        return 0.5 * float(np.sum(residual**2))
    samples, beliefs = _parted(residual, limits)
    square = (samples / limits.scale) ** 2
    share = np.log1p(square) if limits.loss == "cauchy" else np.where(square <= 1, square, 2 * np.sqrt(square) - 1)
    return 0.5 * float(limits.scale**2 * np.sum(share) + np.sum(beliefs**2))


def loss_slopes(residual: np.ndarray, loss: str, scale: float) -> np.ndarray:
    """The derivative (m,) of a robust loss by the squares of residuals."""
    square = (residual / scale) ** 2
    return 1 / (1 + square) if loss == "cauchy" else np.where(square <= 1, 1.0, 1 / np.sqrt(np.maximum(square, 1)))


def _parted(residual: np.ndarray, limits: Limits) -> list[np.ndarray]:
    """Residuals of samples, for which the loss is, and of beliefs."""
    return np.split(residual, [len(residual) if limits.samples is None else limits.samples])


def _weighted(residual: np.ndarray, jacobian: np.ndarray, limits: Limits) -> tuple[np.ndarray, np.ndarray]:
    """Rows weighted by the slope of the loss, so that squares have its gradient."""
    if limits.loss == "squares":
        return residual, jacobian
    samples, beliefs = _parted(residual, limits)
    root = np.sqrt(np.append(loss_slopes(samples, limits.loss, limits.scale), np.ones(len(beliefs))))
    return root * residual, root[:, None] * jacobian
