"""What can be said before a fit: of the data, and of what they can show."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping

import numpy as np

from jmbs.identification.data_findings import recording_findings
from jmbs.identification.estimation import rows_of
from jmbs.identification.findings import Finding
from jmbs.identification.problem import Experiment, FitProblem, deviations_of, pose
from jmbs.identification.result import InvisibleDirection
from jmbs.identification.start_findings import findings_at_start
from jmbs.identification.steps import is_coarse
from jmbs.identification.study import Channel, Study
from jmbs.identification.trust import estimates_of, invisible_directions, sensitivity_of
from jmbs.identification.unknowns import samples, starts_of, unknowns_of


@dataclasses.dataclass(frozen=True)
class Check:
    """What `jmbs.check_fit` returns.

    **Arguments:** `findings`; `singular_values` (p,) and `invisible_directions` at the start; `no_effect`: names of
    unknowns that change nothing; `predicted_standard_errors` by name, None where not visible; `problem`: what was
    checked, None where errors kept it from being posed; `seconds`.
    """

    findings: tuple[Finding, ...]
    singular_values: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0))
    invisible_directions: tuple[InvisibleDirection, ...] = ()
    no_effect: tuple[str, ...] = ()
    predicted_standard_errors: Mapping[str, float | None] = dataclasses.field(default_factory=dict)
    problem: FitProblem | None = None
    seconds: float = 0.0

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
    if any(finding.severity == "error" for finding in findings) or not sensitivity:
        return Check(tuple(findings), seconds=time.perf_counter() - started)
    problem = pose(study)
    x = problem.unknowns.first
    for experiment in problem.experiments:
        findings += _steps(problem, experiment) + _at_start(problem, experiment, x)
    residual, jacobian = rows_of(problem, 1.0, pull=False)[0](x)
    if not (np.all(np.isfinite(residual)) and np.all(np.isfinite(jacobian))):
        message = "the model at the start does not come to the end of each recording; a growing horizon may still do"
        findings.append(Finding("start_fails", "warning", message))
        return Check(tuple(findings), problem=problem, seconds=time.perf_counter() - started)
    found = sensitivity_of(problem, x, jacobian)
    idle = tuple(n for n, slope in zip(found.names, found.slopes, strict=True) if not _has_effect(found, slope))
    findings += [Finding("no_effect", "warning", f"{name} changes nothing that is measured") for name in idle]
    directions = invisible_directions(found)
    for direction in directions:
        if set(direction.coefficients) - set(idle):
            findings.append(Finding("invisible_direction", "warning", f"the data do not show {direction.text}"))
    errors = {name: e.standard_error for name, e in estimates_of(problem, found, x, len(residual)).items()}
    seconds = time.perf_counter() - started
    return Check(tuple(findings), found.singular_values, directions, idle, errors, problem, seconds)


def _steps(problem: FitProblem, experiment: Experiment) -> list[Finding]:
    """Whether the step that a model gives follows the motion; others are chosen so that they do."""
    recording, model = experiment.recording, experiment.member.model
    if model.settings.dt is None or not experiment.program.simulates:
        return []
    noise = deviations_of(problem.study, recording, experiment.outputs, problem.noise)
    if not is_coarse(recording, model, experiment.outputs, noise):
        return []
    message = (
        f"recordings/{recording.name}: found steps of {model.settings.dt:g} s whose error is no longer small beside"
    )
    message += " the noise, wanted a shorter simulation/dt, or a tolerance in its place, which lets the fit choose"
    return [Finding("coarse_steps", "warning", message, recording.name)]


def _at_start(problem: FitProblem, experiment: Experiment, x: np.ndarray) -> list[Finding]:
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

    predicted = problem.predicted(experiment, problem.local(experiment, x))
    ts = np.asarray(recording.ts, float)
    # What else is unknown does not depend on the samples, so the model shows the same.
    measures = any(block.kind == "initial" for block in problem.unknowns.of(recording.name))
    found = {"given": given, "noise": noise, "exchanged": exchanged if measures else None}
    return findings_at_start(recording.name, ts, measured, predicted, units, **found)


def _has_effect(found, slope: np.ndarray) -> bool:
    """Whether the coordinates that a value depends on move any residual."""
    seen = found.directions[~found.invisible]
    return bool(np.linalg.norm(seen @ slope) > 1e-9 * np.linalg.norm(slope))
