"""Where an estimation is, and what is shown of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from jmbs.identification.least_squares import Iterate


@dataclasses.dataclass(frozen=True)
class Progress:
    """What is shown of an iteration: `stage` of `stages`, `iteration` of all stages, cost per sample (squared residuals
    over standard deviations), how long the `step` was, the largest `change` of a coordinate, and how many iterations
    are `left`, None where nobody knows."""

    stage: int
    stages: int
    iteration: int
    cost_per_sample: float
    step: float
    change: float
    left: int | None = None


@dataclasses.dataclass(frozen=True)
class Position:
    """Where an estimation is, all that decides how it goes on: the `stage`, its `iterate`, iterations and evaluations
    of the stages `before`, which `start` it is, and the `best` end of those before; `windows` (k,): coordinates of the
    states at windows' starts, empty before the first stage that has them; `memory`: what gradient descent goes on from,
    whose `iterate` is the best so far; `waiting`: where each start is whose first stages are taken side by side;
    `steps`: of the runs of gradient descent, s, by recording."""

    stage: int
    iterate: Iterate
    before: tuple[int, int] = (0, 0)
    start: int = 0
    best: Iterate | None = None
    windows: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0))
    memory: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    waiting: tuple[Position, ...] = ()
    steps: Mapping[str, float] = dataclasses.field(default_factory=dict)


def iterations_before(position: Position) -> tuple[int, int]:
    """Iterations and evaluations of all stages, with the one at hand."""
    iterate = position.iterate
    return position.before[0] + iterate.iterations, position.before[1] + iterate.evaluations
