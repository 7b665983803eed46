"""The steps of a problem's recordings: as long as the motion allows, in programs that have room for them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import jax.numpy as jnp
import numpy as np

from jmbs.errors import ModelError
from jmbs.identification.interpolation import ORDER
from jmbs.identification.problem import Experiment, FitProblem, groups_of
from jmbs.identification.steps import capacity_of, chosen_step, shortest_of

SAME_STEP = 1e-6
"""Steps that differ by no more than this part are the same: they are rounded to the model's precision."""


def with_steps(
    problem: FitProblem,
    x: np.ndarray,
    at_most: Mapping[str, float] | None = None,
    part: float = 1.0,
    keep: bool = False,
) -> FitProblem:
    """The problem with steps that follow the motion at `x` over a `part` of each recording, none longer than `at_most`
    (s, by recording).

    Raises `ModelError` where no step is short enough; with `keep` that recording keeps its step of `at_most`.
    """
    steps = {}
    for e in (e for e in problem.experiments if e.program.simulates):
        name, shows = e.recording.name, shows_of(problem, e, problem.local(e, x))
        longest, weights = None if at_most is None else at_most[name], np.asarray(e.member.weights)
        weights = np.where(np.asarray(e.member.times) <= e.end_of(part), weights, 0.0)
        try:
            steps[name] = chosen_step(e.recording, e.member.model, shows, weights, longest)
        except ModelError:
            if longest is None or not keep:
                raise
            steps[name] = longest
    return of_steps(problem, steps)


def has_shorter_steps(problem: FitProblem, steps: Mapping[str, float], training: bool = False) -> bool:
    """Whether a recording, or one of those that are fitted, has a shorter step, s, by more than rounding."""
    names = {e.recording.name for e in (problem.training if training else problem.experiments)}
    return any(step < steps[name] * (1 - SAME_STEP) for name, step in problem.steps().items() if name in names)


def shows_of(problem: FitProblem, experiment: Experiment, local: np.ndarray) -> Callable[[float], np.ndarray]:
    """What the sensors of a recording show (c, n) at its local unknowns, by the step, s."""
    return lambda step: problem.shown(stepped(experiment, step)._replace(program=experiment.program), local)


def of_steps(problem: FitProblem, steps: Mapping[str, float]) -> FitProblem:
    """The problem with given steps, s, by recording, or a little shorter ones."""
    experiments = {e.recording.name: e for e in problem.experiments}
    for group in groups_of(problem.study, [experiments[name].recording for name in steps]):
        knots = max(knots_of(experiments[r.name], steps[r.name]) for r in group)
        experiments |= {r.name: stepped(experiments[r.name], steps[r.name], knots) for r in group}
    return dataclasses.replace(problem, experiments=tuple(experiments.values()))


def stepped(experiment: Experiment, step: float, most: int = 0) -> Experiment:
    """The experiment with steps of `step`, s, or a little shorter so that the last sample ends one; in a program that
    has room for `most` knots too."""
    own, before = knots_of(experiment, step), experiment.member
    step = shortest_of(experiment.recording, before.model, step, own)
    arrays = {"step": jnp.asarray(step, before.step.dtype), "knots": jnp.asarray(own, before.knots.dtype)}
    knots = max(capacity_of(max(own, most)), experiment.run.knots)
    program = dataclasses.replace(experiment.run, knots=knots)
    return experiment._replace(program=program, member=dataclasses.replace(before, **arrays))


def knots_of(experiment: Experiment, step: float) -> int:
    """How many ends of steps there are from a model's start to the last sample."""
    span = float(np.max(experiment.recording.ts)) - experiment.member.model.settings.t0
    rounding = max(1e-9, 4 * float(np.finfo(experiment.member.step.dtype).eps))
    return max(int(np.ceil(span / step * (1 - rounding))) + 1, ORDER)
