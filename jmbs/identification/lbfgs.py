"""Descent along gradients with the curvature that earlier steps have shown: the method of Broyden, Fletcher, Goldfarb
and Shanno with limited memory (Nocedal and Wright, "Numerical Optimization", algorithm 7.4), within bounds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

Evaluate = Callable[[np.ndarray], tuple[float, np.ndarray]]
"""`z` (k,) to a cost and its gradient (k,)."""

PAIRS = 20
"""Steps that are remembered."""
FALL = 1e-4
"""A step is taken whose cost falls by this part of what the slope at its start promises."""
SHORTER, SHORTENED = (0.1, 0.5), 25
"""By what part at least and at most, and how often, a step is shortened that does not: to the bottom of the parabola
through what is known."""
CURVED = 1e-10
"""The least cosine between a step and the change of the gradient along it, of steps that are remembered."""


@dataclasses.dataclass(frozen=True)
class Descent:
    """Where it is: `z` (k,), the `cost` and the `gradient` (k,) there, NaN where they are not known, and the `steps`
    (m, k), with the `changes` (m, k) of the gradient along them, that are remembered, the latest last."""

    z: np.ndarray
    cost: float
    gradient: np.ndarray
    steps: np.ndarray
    changes: np.ndarray

    @staticmethod
    def at(z: np.ndarray) -> Descent:
        """Nothing is known yet."""
        nothing = np.zeros((0, len(z)))
        return Descent(z, np.nan, np.full(len(z), np.nan), nothing, nothing)

    def known(self) -> tuple[np.ndarray, ...]:
        """All but the place, as arrays that a checkpoint keeps: `Descent(z, *known)` is the same."""
        return np.asarray(self.cost), self.gradient, self.steps, self.changes

    def without_curvature(self) -> Descent:
        """At the same place, all steps forgotten."""
        return dataclasses.replace(Descent.at(self.z), cost=self.cost, gradient=self.gradient)


def stepped(evaluate: Evaluate, at: Descent, lower: np.ndarray, upper: np.ndarray) -> tuple[Descent, int]:
    """One step further, or the same place where no step lowers the cost; and how often it evaluated.

    Where the curvature that is remembered leads nowhere it is forgotten, and the step goes along the gradient.
    """
    count = 0
    if not np.isfinite(at.cost):
        cost, gradient = evaluate(at.z)
        at, count = dataclasses.replace(at, cost=cost, gradient=gradient), 1
    if not np.all(np.isfinite(at.gradient)):
        return at, count
    held = ((at.z <= lower) & (at.gradient > 0)) | ((at.z >= upper) & (at.gradient < 0))
    slope = np.where(held, 0.0, at.gradient)
    ahead = -_curved(at, slope)
    if not ahead @ slope < 0:
        ahead = -slope
    if not len(at.steps):
        ahead = ahead / max(float(np.linalg.norm(ahead)), 1.0)
    ahead = np.where(held, 0.0, ahead)
    part = 1.0
    for _ in range(SHORTENED):
        z = np.clip(at.z + part * ahead, lower, upper)
        promised = float(at.gradient @ (z - at.z))
        if not promised < 0:
            break
        cost, gradient = evaluate(z)
        count += 1
        if np.all(np.isfinite(gradient)) and cost < at.cost and cost <= at.cost + FALL * promised:
            return _after(at, z, cost, gradient), count
        excess = 2 * (cost - at.cost - promised)
        part *= float(np.clip(-promised / excess, *SHORTER)) if np.isfinite(excess) and excess > 0 else SHORTER[0]
    if not len(at.steps):
        return at, count
    after, more = stepped(evaluate, at.without_curvature(), lower, upper)
    return after, count + more


def _after(at: Descent, z: np.ndarray, cost: float, gradient: np.ndarray) -> Descent:
    step, change = z - at.z, gradient - at.gradient
    steps, changes = at.steps, at.changes
    if step @ change > CURVED * np.linalg.norm(step) * np.linalg.norm(change):
        steps, changes = (np.concatenate([old, new[None]])[-PAIRS:] for old, new in ((steps, step), (changes, change)))
    return Descent(z, cost, gradient, steps, changes)


def _curved(at: Descent, gradient: np.ndarray) -> np.ndarray:
    """The inverse Hessian, as the remembered steps tell it, times the gradient."""
    pairs = list(zip(at.steps, at.changes, strict=True))
    q, shares = gradient.copy(), []
    for step, change in reversed(pairs):
        shares.append((step @ q) / (change @ step))
        q -= shares[-1] * change
    if pairs:
        step, change = pairs[-1]
        q *= (step @ change) / (change @ change)
    for (step, change), share in zip(pairs, reversed(shares), strict=True):
        q += (share - (change @ q) / (change @ step)) * step
    return q
