"""How long a fit's fixed steps may be: so long that what they get wrong is small beside the noise of the sensors."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from jmbs.errors import ModelError
from jmbs.identification.study import Recording, table_times
from jmbs.simulation import Model

MOVES = 0.1
"""By how much the errors of the steps may move an estimate, in standard errors: the root of their sum of squares over
all samples of a channel, in standard deviations of these, is an upper bound of that."""
ROUNDING = 100
"""What is always allowed beside the largest value, in units of the precision of the model's numbers."""
LONGEST, SHORTEST = 1 / 60, 1 / 200_000
"""Steps, beside the length of a recording."""
CAPACITY = 4096
"""For how many knots programs of fits have room at least. Those that are not wanted cost no steps; shorter steps or
other recordings find the program compiled."""


def capacity_of(knots: int) -> int:
    """For how many knots a program has room that is wanted for so many."""
    return next(CAPACITY * 4**i for i in itertools.count() if CAPACITY * 4**i >= knots)


def fixed_method(model: Model) -> str:
    """The method of a fit's fixed steps: RK4, or the model's own if that is implicit."""
    method = str(model.settings.method)
    return method if method.startswith(("kvaerno", "implicit")) else "rk4"


def chosen_step(
    recording: Recording,
    model: Model,
    shows: Callable[[float], np.ndarray],
    weights: np.ndarray,
    longest: float | None = None,
) -> float:
    """The step, s, for a recording: by halving, of the model as it is, until that changes little.

    **Arguments:** `shows`: what sensors show (c, n), by the step; `weights` (c, n), one over the standard deviation of
    each sample; `longest`, s, what is tried first; None: what inputs that are tables want, so that their kinks lie on
    the ends of steps.

    Raises `ModelError` where no step is short enough.
    """
    if model.settings.dt is not None:
        return float(model.settings.dt)
    span = float(np.max(recording.ts)) - model.settings.t0
    step = _longest(recording, span) if longest is None else longest
    before = shows(step)
    while step > SHORTEST * span:
        after = shows(step / 2)
        # What halving changes is nearly the whole error of a method of fourth order.
        if _agree(before, after, weights):
            return step
        step, before = step / 2, after
    where, wanted = f"recordings/{recording.name}", "a motion that steps can follow; is the model at the start sound?"
    if (np.isfinite(before).sum(axis=1) < 2).any():
        wanted = "a start at which the model runs: its values, and those that ties and sensors give"
        raise ModelError(where, "runs of the model at the start that fail at once, with steps of any length", wanted)
    raise ModelError(where, "an error of steps that stays above the noise", wanted)


def is_coarse(step: float, shows: Callable[[float], np.ndarray], weights: np.ndarray) -> bool:
    """Whether a step is too long beside the noise; `shows`, `weights` as of `chosen_step`."""
    return not _agree(shows(step), shows(step / 2), weights)


def _agree(before: np.ndarray, after: np.ndarray, weights: np.ndarray) -> bool:
    """Whether two runs differ by less than is allowed, as long as both of them last."""
    for a, b, weight in zip(before, after, weights, strict=True):
        seen = weight > 0
        lasting = seen & np.isfinite(a) & np.isfinite(b)
        if not seen.any():
            continue
        if lasting.sum() < min(2, seen.sum()):
            return False
        allowed = np.maximum(MOVES / np.sqrt(seen.sum()), _rounding(b[seen]) * weight[lasting])
        if np.mean(((a - b)[lasting] * weight[lasting] / allowed) ** 2) > 1:
            return False
    return True


def shortest_of(recording: Recording, model: Model, step: float, knots: int) -> float:
    """The shortest step that comes to the recording's end with so many knots, no longer than `step`: what a program of
    more knots makes of them. Kinks of tables stay on the ends of steps; a step that the model gives stays too."""
    if model.settings.dt is not None:
        return step
    span, spacing = float(np.max(recording.ts)) - model.settings.t0, _spacing(recording)
    if not np.isfinite(spacing):
        return min(step, span / (knots - 1))
    within = np.floor((knots - 1) * spacing / span * (1 + 1e-9))
    return min(step, spacing / within) if within > 0 else step


def _spacing(recording: Recording) -> float:
    """Between the times of the densest table among the inputs, s; infinite without one."""
    tables = [table_times(value) for value in recording.inputs.values()]
    return min((float(np.median(np.diff(times))) for times in tables if times is not None), default=np.inf)


def _longest(recording: Recording, span: float) -> float:
    """A part of the recording's length, or what the spacing of its inputs is a multiple of."""
    spacing, longest = _spacing(recording), LONGEST * span
    return spacing / np.ceil(spacing / longest) if np.isfinite(spacing) else longest


def _rounding(values: np.ndarray) -> float:
    """The error that is always allowed of values."""
    largest = float(np.max(np.abs(values), initial=0.0, where=np.isfinite(values)))
    return ROUNDING * float(np.finfo(values.dtype).eps) * largest
