"""Leave one recording out: fit the others, from the estimate of all, and predict it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from jmbs.errors import ModelError
from jmbs.identification.estimation import estimate, limits_of, rows_of
from jmbs.identification.held_out import held_out_local
from jmbs.identification.least_squares import Iterate, minimise, visible_directions
from jmbs.identification.position import Position
from jmbs.identification.problem import Experiment, FitProblem
from jmbs.identification.study import Study
from jmbs.identification.unknowns import Unknowns


def require_several(study: Study) -> None:
    """Raises `ModelError` where a study asks for cross-validation and has one recording to be fitted, or descends along
    gradients."""
    if study.estimator.cross_validation and study.estimator.method == "gradient_descent":
        wanted = "one of the other methods, or recordings of role test"
        raise ModelError("estimator/cross_validation", "method gradient_descent", wanted)
    count = sum(recording.role == "train" for recording in study.data)
    if study.estimator.cross_validation and count < 2:
        wanted = "two recordings of role train or more, of which each is left out once"
        raise ModelError("estimator/cross_validation", f"{count} recording to be fitted", wanted)


class LeftOut(NamedTuple):
    """A training recording, what its sensors show by a fit of the others, and whether these show all of the rest."""

    experiment: Experiment
    predicted: dict[str, np.ndarray]
    others_show_all: bool


def left_out_predictions(problem: FitProblem, x: np.ndarray) -> Iterator[LeftOut]:
    """Each training recording with what its sensors show by a fit of the others, from the estimate `x` (p,) on.

    Its own unknowns are those of a held-out recording. Where the others do not show all of the rest, they are fitted
    from the study's first start: the estimate knows of the recording that is left out. A fit that does not converge
    predicts nothing, and its recording is not given. Nothing is compiled anew.
    """
    for experiment in problem.training:
        others, kept, left_out = without(problem, experiment)
        rows = rows_of(others, 1.0, pull=False)[0]
        show_all = len(visible_directions(rows(x[kept])[1])[1]) == len(kept)
        if show_all:
            found = minimise(rows, Iterate(x[kept]), limits_of(others), lambda _: None)
        else:
            found = estimate(others, Position(0, Iterate(others.unknowns.first)), lambda *_: None).iterate
        if found.stopped == "converged":
            predicted = others.predicted(left_out, held_out_local(others, left_out, found.x))
            yield LeftOut(left_out, predicted, show_all)


def without(problem: FitProblem, experiment: Experiment) -> tuple[FitProblem, np.ndarray, Experiment]:
    """The problem with one recording held out, where its unknowns (p,) stand in the vector of the whole one, and the
    recording as it stands in it."""
    name, unknowns = experiment.recording.name, problem.unknowns
    own = {other: blocks for other, blocks in unknowns.own.items() if other != name}
    fewer = Unknowns(unknowns.shared, own, {**unknowns.held_out, name: unknowns.own.get(name, ())})
    shared = sum(block.size for block in unknowns.shared)
    kept = [np.arange(shared), *(unknowns.local(other)[shared:] for other in own)]
    tested = dataclasses.replace(experiment.recording, role="test")
    experiments = tuple(
        e._replace(
            recording=tested if e.recording.name == name else e.recording,
            member=e.program.held_out(e.member) if e.recording.name == name else e.member,
            local=fewer.local(e.recording.name),
        )
        for e in problem.experiments
    )
    study = dataclasses.replace(problem.study, data=tuple(e.recording for e in experiments))
    changed = dataclasses.replace(problem, study=study, unknowns=fewer, experiments=experiments)
    return changed, np.concatenate(kept), next(e for e in experiments if e.recording.name == name)
