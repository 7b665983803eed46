"""A horizon that grows: over long times a motion that is far off is compared with another turn, over short ones not."""

from __future__ import annotations

import numpy as np

from jmbs.identification.problem import Experiment, FitProblem

FIRST, GROWTH, STAGES = 1 / 24, 1.5, 8
PARTS = (*(FIRST * GROWTH**i for i in range(STAGES)), 1.0)
"""Of what is measured, one after the other."""
NEAR = 0.2
"""A model follows a channel that it misses by no more than this part of how far the channel spreads."""


def next_part(problem: FitProblem, x: np.ndarray, least: int) -> int:
    """Which of `PARTS` comes next, number `least` or a longer one: the longest over which the model at `x` (p,) follows
    every recording. Each is run for it, until none of the longer parts is left."""
    longer = list(range(least + 1, len(PARTS)))
    for e in problem.training:
        if longer:
            shown = problem.shown(e, problem.local(e, x))
            longer = [part for part in longer if _follows(e, shown, e.end_of(PARTS[part]))]
    return max(longer, default=least)


def _follows(experiment: Experiment, shown: np.ndarray, end: float) -> bool:
    """Whether what the sensors show (c, n) is near the samples up to a time, s. A channel's spread is about a straight
    line: a shaft that turns on may be many turns from where it was, and still miss by half of one."""
    times, measured, weights = (
        np.asarray(array, float)
        for array in (experiment.member.times, experiment.member.measured, experiment.member.weights)
    )
    for channel, samples, weight in zip(shown, measured, weights, strict=True):
        seen = (weight > 0) & (times <= end)
        line = np.stack([np.ones(seen.sum()), times[seen]], axis=1)
        about = samples[seen] - line @ np.linalg.lstsq(line, samples[seen], rcond=None)[0]
        if not np.linalg.norm((channel - samples)[seen]) <= NEAR * np.linalg.norm(about):
            return False
    return True
