"""Designs an experiment: the inputs within limits from which a study's unknowns will be known best."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from jmbs.errors import ModelError
from jmbs.identification.check import check_fit
from jmbs.identification.design_limits import check_excitation, duration_of
from jmbs.identification.design_problem import DesignProblem, ExperimentPlan, study_of_design
from jmbs.identification.design_result import ExcitationDesign, Expectation, InputTable
from jmbs.identification.design_search import DesignProgress, Search, best_of_drawn, first_coefficients, reach_of
from jmbs.identification.excitation import Excitation
from jmbs.identification.information import information_gain, known_rows
from jmbs.identification.noise import noise_of
from jmbs.identification.study import Study
from jmbs.identification.trust import estimates_of, invisible_directions, sensitivity_of

MOST_STEPS = 3
"""How often a search goes on because a better input wants shorter steps."""


def design_study(
    study: Study, excitation: Excitation, progress: Callable[[DesignProgress], None] | None = None
) -> ExcitationDesign:
    """The most telling inputs within limits, at the start of a study's unknowns.

    **Arguments:** `study`: its recordings of role `train`, if there are any, count as known; `progress`: called after
    each iteration. Raises `ModelError`.
    """
    started = time.perf_counter()
    plan = plan_of(study, excitation)
    seen = progress or (lambda _: None)
    problem, first = _begun(plan)
    searches, status = [Search(problem, first, 0, seen)], "done"
    try:
        for number in range(1, excitation.starts + 1):
            start = best_of_drawn(problem, np.random.default_rng([study.seed, number]))
            searches.append(Search(problem, start, number, seen))
            searches[-1].improve()
        for _ in range(MOST_STEPS):
            best = _best_of(searches)
            again = DesignProblem(plan, best.coefficients)
            searches.append(Search(again, best.coefficients, excitation.starts, seen))
            if again.step >= best.problem.step:
                break
            searches[-1].improve()
    except KeyboardInterrupt:
        status = "interrupted"
    best, runs = _best_of(searches), {id(search.problem): search.problem.runs for search in searches}
    counts = {"iterations": sum(search.iterations for search in searches), "simulations": sum(runs.values())}
    seconds = time.perf_counter() - started
    return dataclasses.replace(_design(study, best.problem, first, best.coefficients, counts, seconds), status=status)


def _best_of(searches: Sequence[Search]) -> Search:
    """The one of the highest criterion, among those with the latest steps."""
    return max((s for s in searches if s.problem is searches[-1].problem), key=lambda s: s.criterion)


def plan_of(study: Study, excitation: Excitation) -> ExperimentPlan:
    """What decides the experiment but for its coefficients. Raises `ModelError`."""
    limits, outputs = check_excitation(excitation, study.model)
    errors = [f for f in check_fit(study, sensitivity=False).findings if f.severity == "error"]
    if errors:
        raise ModelError("recordings", f"{len(errors)} errors, the first: {errors[0].message}", "data without errors")
    duration = duration_of(excitation)
    samples = round(duration * excitation.rate)
    ts = study.model.settings.t0 + np.arange(samples + 1) / excitation.rate
    noise = noise_of(study)
    measured = {name: noise[name] for name in study.sensors if any(name in r.channels for r in study.data)}
    return ExperimentPlan(
        study_of_design(study, measured), excitation, ts, duration, limits, outputs, known_rows(study)
    )


def _begun(plan: ExperimentPlan) -> tuple[DesignProblem, np.ndarray]:
    """The problem with steps that fit an input drawn at random within the limits, and its coefficients."""
    seed = plan.study.seed
    drawn = np.random.default_rng([seed, 0]).normal(size=sum(plan.sizes))
    problem = DesignProblem(plan, 1e-3 * drawn / np.max(np.abs(drawn)))
    first = first_coefficients(problem, np.random.default_rng([seed, 0]))
    return DesignProblem(plan, first), first


def _design(
    study: Study, problem: DesignProblem, first: np.ndarray, best: np.ndarray, counts: Mapping[str, int], seconds: float
) -> ExcitationDesign:
    plan, fit = problem.plan, problem.problem
    before = problem.beliefs

    def expected(jacobian: np.ndarray) -> Expectation:
        if not np.all(np.isfinite(jacobian)):
            raise ModelError("inputs", "a run that fails", "a model at the start that runs to the end")
        found = sensitivity_of(fit, problem.x, jacobian)
        errors = {name: e.standard_error for name, e in estimates_of(fit, found, problem.x, len(jacobian)).items()}
        gain = information_gain(jacobian, before)
        return Expectation(gain, errors, found.singular_values, invisible_directions(found))

    after = problem.jacobian(best)
    estimates = estimates_of(fit, sensitivity_of(fit, problem.x, after), problem.x, len(after))
    return ExcitationDesign(
        name=study.name,
        inputs=_tables(plan, best),
        coefficients=plan.parts(best),
        limits=reach_of(problem, best),
        before=expected(before),
        first=expected(problem.jacobian(first)),
        after=expected(after),
        values={name: one.estimate for name, one in estimates.items()},
        units={name: one.unit for name, one in estimates.items()},
        ts=plan.ts,
        shown=problem.shown(best),
        first_shown=problem.shown(first),
        first_inputs=_tables(plan, first),
        criterion=plan.excitation.criterion,
        criterion_value=problem.value(best),
        first_value=problem.value(first),
        evaluations=dict(counts),
        seconds=seconds,
        source=study.source,
    )


def _tables(plan: ExperimentPlan, coefficients: np.ndarray) -> dict[str, InputTable]:
    return {path: InputTable(plan.ts, values) for path, values in plan.inputs(coefficients).items()}
