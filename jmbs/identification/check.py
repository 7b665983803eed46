"""What can be said before a fit: of the data, and of what they can show."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from jmbs.identification.channels import channels_beside
from jmbs.identification.data_findings import recording_findings
from jmbs.identification.estimates import ChannelFit, InvisibleDirection
from jmbs.identification.estimation import evaluations_expected, rows_of
from jmbs.identification.findings import Finding
from jmbs.identification.jump_findings import jump_findings
from jmbs.identification.measured_starts import samples
from jmbs.identification.posing import pose
from jmbs.identification.problem import Experiment, FitProblem
from jmbs.identification.problem_steps import shows_of
from jmbs.identification.sampling import sampling_findings
from jmbs.identification.start_findings import findings_at_start
from jmbs.identification.steps import is_coarse
from jmbs.identification.study import Channel, Study
from jmbs.identification.trust import estimates_of, has_errors, invisible_directions, sensitivity_of
from jmbs.identification.unknowns import coordinate_names, starts_of, unknowns_of
from jmbs.jaxext import compile_clock

TANGENT, GRADIENT = 0.6, 5.0
"""Of a run, what the derivative by each unknown adds to it, and what a gradient and a cost take: only for what a fit is
expected to take."""


class Sensitivities(NamedTuple):
    """What the samples of a channel at `ts` (n,), s, say of the unknowns.

    `changes`: by unknown, by how many of its standard deviations a sample moves (n,) where the unknown moves by one of
    its coordinates: its own size where it is fitted as a logarithm, else its start (`scaling`).
    """

    ts: np.ndarray
    changes: Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Check:
    """What `jmbs.check_fit` returns.

    **Arguments:** `findings`; `singular_values` (p,) and `invisible_directions` at the start; `no_effect`: names of
    unknowns that change nothing; `predicted_standard_errors` by name, None where not visible; `problem`: what was
    checked, None where errors kept it from being posed; `seconds`, of which `compile_seconds` went into tracing and
    compiling; `expected_seconds`: what the fit will about take, None where it was not tried; `channels` beside the
    model at the start and `sensitivities` there, by recording and sensor.
    """

    findings: tuple[Finding, ...]
    singular_values: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0))
    invisible_directions: tuple[InvisibleDirection, ...] = ()
    no_effect: tuple[str, ...] = ()
    predicted_standard_errors: Mapping[str, float | None] = dataclasses.field(default_factory=dict)
    problem: FitProblem | None = None
    seconds: float = 0.0
    compile_seconds: float = 0.0
    expected_seconds: float | None = None
    channels: Mapping[str, Mapping[str, ChannelFit]] = dataclasses.field(default_factory=dict)
    sensitivities: Mapping[str, Mapping[str, Sensitivities]] = dataclasses.field(default_factory=dict)

    @property
    def status(self) -> str:
        """`errors`, `warnings` or `clean`."""
        severities = {finding.severity for finding in self.findings}
        return "errors" if "error" in severities else "warnings" if severities else "clean"


def check_fit(study: Study, sensitivity: bool = True) -> Check:
    """Looks at a study without fitting it: what was found while reading, and at the start of the model.

    **Arguments:** `sensitivity`: also simulate each recording once, with derivatives. Raises `ModelError` for a study
    that cannot be posed.
    """
    started = time.perf_counter()
    findings = list(study.findings)
    if not study.source:
        for recording in study.data:
            model = study.model if recording.model is None else recording.model
            findings += recording_findings(recording, study.sensors, model.settings.t0)
    check = Check(tuple(findings))
    with compile_clock() as compiled:
        if sensitivity and check.status != "errors":
            check = _at_start(pose(study), findings)
        return dataclasses.replace(check, seconds=time.perf_counter() - started, compile_seconds=compiled())


def _at_start(problem: FitProblem, findings: list[Finding]) -> Check:
    """What is said of a study at the start of its model, after what was found before."""
    x, channels, seconds = problem.unknowns.first, {}, 0.0
    for experiment in problem.experiments:
        local = problem.local(experiment, x)
        predicted = problem.predicted(experiment, local)
        channels[experiment.recording.name] = channels_beside(problem, experiment, predicted, problem.noise)
        findings += _steps(problem, experiment) + jump_findings(experiment)
        findings += _beside_the_model(problem, experiment, predicted)
        started, before = time.perf_counter(), problem.counts.simulations
        findings += sampling_findings(problem, experiment, local)
        if experiment.recording.role == "train":
            runs = problem.counts.simulations - before
            run = (time.perf_counter() - started) / runs if runs else math.nan
            by_gradients = problem.study.estimator.method == "gradient_descent"
            seconds += run * (GRADIENT if by_gradients else 1 + TANGENT * len(local))
    check = Check((), problem=problem, channels=channels)
    if math.isfinite(seconds):
        check = dataclasses.replace(check, expected_seconds=seconds * evaluations_expected(problem.study.estimator))
    if not has_errors(problem):
        message = f"{len(x)} unknowns by gradient descent: no Jacobian is worked out, so no covariance follows"
        findings.append(Finding("no_covariance", "warning", f"{message}, nor what the data cannot show"))
        return dataclasses.replace(check, findings=tuple(findings))
    residual, jacobian = rows_of(problem, 1.0, pull=False)[0](x)
    if not (np.all(np.isfinite(residual)) and np.all(np.isfinite(jacobian))):
        message = "the model at the start does not come to the end of each recording; a growing horizon may still do"
        findings.append(Finding("start_fails", "warning", message))
        return dataclasses.replace(check, findings=tuple(findings))
    found = sensitivity_of(problem, x, jacobian)
    idle = tuple(n for n, slope in zip(found.names, found.slopes, strict=True) if not _has_effect(found, slope))
    findings += [Finding("no_effect", "warning", f"{name} changes nothing that is measured") for name in idle]
    directions = invisible_directions(found)
    for direction in directions:
        if set(direction.coefficients) - set(idle):
            findings.append(Finding("invisible_direction", "warning", f"the data do not show {direction.text}"))
    return dataclasses.replace(
        check,
        findings=tuple(findings),
        singular_values=found.singular_values,
        invisible_directions=directions,
        no_effect=idle,
        predicted_standard_errors={
            name: e.standard_error for name, e in estimates_of(problem, found, x, len(residual)).items()
        },
        sensitivities=_sensitivities(problem, jacobian),
    )


def _sensitivities(problem: FitProblem, jacobian: np.ndarray) -> dict[str, dict[str, Sensitivities]]:
    """By recording and sensor what its samples say of each coordinate; rows as of `rows_of`."""
    names, found, start = coordinate_names(problem.unknowns.blocks), {}, 0
    for experiment in problem.training:
        weights = np.asarray(experiment.member.weights)
        own = jacobian[start : start + weights.size].reshape(*weights.shape, -1)
        start += weights.size
        found[experiment.recording.name] = {
            sensor: Sensitivities(
                np.asarray(experiment.member.times)[seen], {names[i]: rows[seen, i] for i in experiment.local}
            )
            for sensor, rows, seen in zip(experiment.program.sensors, own, weights > 0, strict=True)
        }
    return found


def _steps(problem: FitProblem, experiment: Experiment) -> list[Finding]:
    """Whether the step that a model gives follows the motion; others are chosen so that they do."""
    recording, model = experiment.recording, experiment.member.model
    if model.settings.dt is None or not experiment.program.simulates:
        return []
    local = problem.local(experiment, problem.unknowns.first)
    if not is_coarse(model.settings.dt, shows_of(problem, experiment, local), np.asarray(experiment.member.weights)):
        return []
    message = (
        f"recordings/{recording.name}: found steps of {model.settings.dt:g} s whose error is no longer small beside"
    )
    message += " the noise, wanted a shorter simulation/dt, or a tolerance in its place, which lets the fit choose"
    return [Finding("coarse_steps", "warning", message, recording.name)]


def _beside_the_model(
    problem: FitProblem, experiment: Experiment, predicted: Mapping[str, np.ndarray]
) -> list[Finding]:
    """What a recording says beside the model at the start."""
    recording, program = experiment.recording, experiment.program
    measured = {name: samples(recording, name) for name in program.sensors}
    units = {name: output.unit for name, output in experiment.outputs.items()}
    given = {name: channel.unit for name, channel in recording.channels.items() if isinstance(channel, Channel)}
    noise = {name: 1 / float(np.max(row)) for name, row in zip(program.sensors, experiment.member.weights, strict=True)}

    def exchanged(a: str, b: str) -> dict[str, np.ndarray]:
        """What the model shows where initial values are measured and two channels stand in each other's place."""
        channels = {**recording.channels, a: recording.channels[b], b: recording.channels[a]}
        others = tuple(
            dataclasses.replace(r, channels=channels) if r.name == recording.name else r for r in problem.study.data
        )
        blocks = unknowns_of(dataclasses.replace(problem.study, data=others), problem.models).of(recording.name)
        return problem.predicted(experiment, starts_of(blocks))

    ts = np.asarray(recording.ts, float)
    # What else is unknown does not depend on the samples, so the model shows the same.
    measures = any(block.kind == "initial" for block in problem.unknowns.of(recording.name))
    found = {"given": given, "noise": noise, "exchanged": exchanged if measures else None}
    return findings_at_start(recording.name, ts, measured, predicted, units, **found)


def _has_effect(found, slope: np.ndarray) -> bool:
    """Whether the coordinates that a value depends on move any residual."""
    seen = found.directions[~found.invisible]
    return bool(np.linalg.norm(seen @ slope) > 1e-9 * np.linalg.norm(slope))
