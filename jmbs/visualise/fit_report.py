"""The report of a fit: one page in HTML with everything that one needs to trust it, or not to."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

import jax
import numpy as np
import yaml

from jmbs.files import write_text
from jmbs.fusing import on_cpu
from jmbs.identification import (
    ChannelFit,
    Fit,
    Profile,
    effort_text,
    error_text,
    has_robust_errors,
    interval_text,
    number_text,
    plain_values,
    whiteness,
)
from jmbs.jaxext import platform_of_programs
from jmbs.simulation import Trajectory, jmbs_version
from jmbs.visualise.energy_account import account_section
from jmbs.visualise.fit_plots import (
    correlation_figure,
    intervals_figure,
    residuals_figure,
    singular_values_figure,
    trajectories_figure,
)
from jmbs.visualise.profile_plot import profile_figure
from jmbs.visualise.web_page import bullets, escaped, page, paragraph, picture, preformatted, section, table

MOST_RECORDINGS = 12
"""Recordings that the report draws."""
MOST_COEFFICIENTS = 12


def write_fit_report(
    fit: Fit, path: str | os.PathLike[str], trajectory: Trajectory | None = None, profiles: Sequence[Profile] = ()
) -> None:
    """Writes the report; replaces what is there.

    **Arguments:** `trajectory`: a run of the fitted model with audit, from which the energy account is taken;
    `profiles`: of values of the fit, which are drawn too.
    """
    write_text(Path(path), fit_page(fit, trajectory, profiles))


def fit_page(fit: Fit, trajectory: Trajectory | None = None, profiles: Sequence[Profile] = ()) -> str:
    """The page as text. See `write_fit_report`."""
    sections = [
        _parameters(fit),
        _identifiability(fit),
        _data_and_fit(fit),
        _residuals(fit),
        _held_out(fit),
        _correlation(fit),
        *([_profiles(profiles)] if profiles else []),
        account_section(trajectory),
        _effort(fit),
        section("The study", preformatted(_study_text(fit))),
    ]
    return page(f"{fit.name}: report of a fit", _head(fit), sections)


def _head(fit: Fit) -> str:
    good = fit.status == "converged"
    status = f'<span class="status{"" if good else " bad"}">{escaped(fit.status)}</span>'
    facts = (
        f"{fit.samples} samples in {len(fit.channels)} recordings, {len(fit.order)} unknowns, "
        f"chi-squared per degree of freedom {number_text(fit.chi2_per_degree)}; {effort_text(fit)}"
    )
    warnings = "".join(paragraph(warning.message, "warning") for warning in fit.warnings)
    return (
        f"<h1>{escaped(fit.name)}</h1>\n<p>{status} {escaped(fit.message)}</p>\n"
        + paragraph(facts)
        + (warnings or paragraph("No warnings."))
    )


def _parameters(fit: Fit) -> tuple[str, str]:
    robust = has_robust_errors(fit)
    more = ("robust",) if robust else ()
    header = ("parameter", "start", "estimate", "standard error", *more, "95 % interval", "unit", "remarks")
    rows = [
        (
            path,
            number_text(one.start),
            number_text(one.estimate),
            error_text(one),
            *((number_text(one.standard_error_robust),) if robust else ()),
            interval_text(one.interval),
            one.unit,
            _remarks(one),
        )
        for path, one in fit.parameters.items()
    ]
    body = table(header, rows) + picture(intervals_figure(fit), "Estimates with 95 % intervals beside their starts")
    if robust:
        body += paragraph(
            "Residuals are not white: the standard errors beside, and the intervals, take samples for independent; "
            "robust ones allow for their correlation over time (Newey and West)."
        )
    if fit.derived:
        derived = [
            (
                *(name, one.expression, number_text(one.estimate), error_text(one)),
                *((number_text(one.standard_error_robust),) if robust else ()),
                interval_text(one.interval),
            )
            for name, one in fit.derived.items()
        ]
        body += "<h3>Derived values</h3>\n"
        body += table(("name", "expression", "estimate", "standard error", *more, "95 % interval"), derived)
    noise = [(name, number_text(of["given"]), number_text(of["estimated"])) for name, of in fit.noise.items()]
    body += "<h3>Noise of the sensors</h3>\n" + table(("sensor", "given", "estimated from residuals"), noise)
    return section("Parameters", body)


def _remarks(one) -> str:
    remarks = [one.kind] if one.kind != "model" else []
    if one.visible is False:
        remarks.append("the data do not show it: it stays at its start or prior")
    if one.at_bound:
        remarks.append("at its bound")
    if one.relative_to_prior is not None:
        remarks.append(f"standard error {number_text(one.relative_to_prior)} of its prior's")
    return ", ".join(remarks)


def _identifiability(fit: Fit) -> tuple[str, str]:
    if not np.size(fit.singular_values):
        return section("Identifiability", paragraph("Not worked out: there is no Jacobian of so many unknowns."))
    if not fit.invisible_directions:
        body = paragraph("The data show every unknown: no combination of them leaves all samples as they are.")
    else:
        count = fit.null_dimension
        body = paragraph(
            f"Along {count} combination{'s' if count > 1 else ''} of the unknowns no sample changes. There the "
            "estimate stays at its start, or follows the prior; what depends on it has no standard error."
        )
        body += bullets(f"{found.text} ({_coefficients(found.coefficients)})" for found in fit.invisible_directions)
    return section("Identifiability", body, picture(singular_values_figure(fit), "Singular values of the Jacobian"))


def _coefficients(coefficients: Mapping[str, float]) -> str:
    """The relative changes of a direction, largest first."""
    ordered = sorted(coefficients.items(), key=lambda item: -abs(item[1]))
    shown = [f"{path} {value:+.3g}" for path, value in ordered[:MOST_COEFFICIENTS]]
    more = len(ordered) - len(shown)
    return "relative changes: " + ", ".join(shown) + (f" and {more} more" if more else "")


def _drawn(fit: Fit) -> list[str]:
    return list(dict.fromkeys((*fit.channels, *fit.heldout)))[:MOST_RECORDINGS]


def _not_drawn(fit: Fit) -> str:
    more = len({*fit.channels, *fit.heldout}) - len(_drawn(fit))
    return paragraph(f"{more} more recordings are not drawn; residuals.csv has them.") if more else ""


def _data_and_fit(fit: Fit) -> tuple[str, str]:
    pictures = [
        f"<h3>{escaped(name)}</h3>\n"
        + picture(trajectories_figure(fit, [name]), f"What was measured in {name} and what the fitted model says")
        for name in _drawn(fit)
    ]
    return section("Data and fit", *pictures, _not_drawn(fit))


def _residuals(fit: Fit) -> tuple[str, str]:
    header = ("channel", "samples", "rms", "rms / noise", "mean", "largest", "at (s)", "lag 1", "runs", "white?")
    rows = [
        (f"{recording}/{sensor}", *_residual_entries(one))
        for recording, sensors in fit.channels.items()
        for sensor, one in sensors.items()
    ]
    pictures = [
        f"<h3>{escaped(name)}</h3>\n"
        + picture(residuals_figure(fit, [name]), f"Residuals of {name} over time and their autocorrelation")
        for name in _drawn(fit)
    ]
    what = paragraph(
        "Residuals of a model that says it all are noise: no correlation from sample to sample beyond the shaded band, "
        "as many runs of one sign as chance has, and a root mean square of one noise. Values in SI units; lag 1 is the "
        "autocorrelation from one sample to the next, runs are found / expected, and white? is the probability of as "
        "much correlation in noise."
    )
    return section("Residuals", what, table(header, rows), *pictures, _not_drawn(fit))


def _residual_entries(one: ChannelFit) -> tuple[str, ...]:
    tests = whiteness(one.residual)
    runs, white = (
        ("-", "-") if tests is None else (f"{tests.runs} / {tests.expected_runs:.0f}", f"{tests.correlated:.2g}")
    )
    return (
        str(one.samples),
        *(f"{value:.3g}" for value in (one.rms, one.rms_over_noise, one.mean, one.largest, one.largest_at)),
        f"{one.lag1:.2f}",
        runs,
        white,
    )


def _held_out(fit: Fit) -> tuple[str, str]:
    title = "Held-out recordings"
    if not fit.heldout and not fit.cross_validation:
        none = "No recording was held out (role: test, or cross_validation), so nothing says how the model predicts."
        return section(title, paragraph(none))
    body = ""
    if fit.heldout:
        body += paragraph("Never fitted; only their initial states are estimated, from their first samples.")
        body += _errors_of(fit.heldout)
    if fit.cross_validation:
        body += paragraph("Left out once each: predicted by a fit of the others, from the estimate of all on.")
        body += _errors_of(fit.cross_validation)
    return section(title, body)


def _errors_of(channels: Mapping[str, Mapping[str, ChannelFit]]) -> str:
    rows = [
        (f"{recording}/{sensor}", str(one.samples), f"{one.rms:.3g}", f"{one.rms_over_noise:.3g}")
        for recording, sensors in channels.items()
        for sensor, one in sensors.items()
    ]
    return table(("channel", "samples", "rms error", "rms error / noise"), rows)


def _correlation(fit: Fit) -> tuple[str, str]:
    if not np.size(fit.correlation):
        return section("Correlation", paragraph("Not worked out: there is no covariance of so many unknowns."))
    matrix = np.nan_to_num(np.asarray(fit.correlation, float))
    pairs = sorted(
        ((abs(matrix[i, j]), i, j) for i in range(len(fit.order)) for j in range(i)), key=lambda pair: -pair[0]
    )
    strong = [f"{fit.order[j]} and {fit.order[i]}: {matrix[i, j]:.3f}" for size, i, j in pairs[:8] if size > 0.9]
    body = paragraph("Pairs above 0.9, known better together than each by itself:") + bullets(strong) if strong else ""
    return section("Correlation", body, picture(correlation_figure(fit), "Correlation matrix of the estimates"))


def _profiles(profiles: Sequence[Profile]) -> tuple[str, str]:
    what = paragraph(
        "How chi-squared rises where one value is moved and all others are fitted again. A straight model gives the "
        "dashed parabola; the 95 % interval by likelihood ends where the curve meets the line."
    )
    rows = [
        (
            one.name,
            number_text(one.estimate),
            f"{one.standard_error:.2g}",
            *("beyond the picture" if end is None else number_text(end) for end in one.interval),
            one.unit,
        )
        for one in profiles
    ]
    header = ("value", "estimate", "standard error", "95 % from", "to", "unit")
    pictures = [picture(profile_figure(one), f"Profile of {one.name}") for one in profiles]
    return section("Profiles", what, table(header, rows), *pictures)


def _effort(fit: Fit) -> tuple[str, str]:
    rows = [(f"{key} in all", str(value)) for key, value in fit.evaluations.items()]
    rows += [(f"seconds: {key}", number_text(value)) for key, value in fit.seconds.items()]
    rows += [("jmbs", jmbs_version()), ("JAX", jax.__version__), ("NumPy", np.__version__)]
    with on_cpu():  # as fits do
        rows += [("Python", platform.python_version()), ("device", platform_of_programs())]
    return section("Effort and versions", table(("what", "value"), rows))


def _study_text(fit: Fit) -> str:
    if not fit.source:
        return "The study was given in Python."
    return yaml.safe_dump(
        plain_values(fit.source), sort_keys=False, default_flow_style=None, width=100, allow_unicode=True
    )
