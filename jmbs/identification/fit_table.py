"""A fit in words and columns, as it is printed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jmbs.identification.check import Check
    from jmbs.identification.estimates import ChannelFit, DerivedEstimate, Estimate
    from jmbs.identification.result import Fit


def fit_summary(fit: Fit) -> str:
    """Status, table of unknowns, what is invisible, residuals by channel and warnings; printable text."""
    robust = ["robust"] if has_robust_errors(fit) else []
    parts = [
        f"{fit.name}: {fit.status}: {fit.message}",
        columns([("parameter", "start", "estimate", "standard error", *robust, "95 % interval", "unit"), *_rows(fit)]),
        *(f"not visible: {direction.text}" for direction in fit.invisible_directions),
        columns([("residual of", "samples", "rms", "rms / noise", "lag 1"), *_residual_rows(fit)]),
        held_out_text(fit),
        f"chi-squared per degree {number_text(fit.chi2_per_degree)}, {fit.samples} samples; {effort_text(fit)}",
        *(f"warning: {warning.message}" for warning in fit.warnings),
    ]
    return "\n".join(printable_lines(part) for part in parts)


def check_summary(check: Check) -> str:
    """What a check found, in lines: errors and warnings, what is invisible, expected standard errors."""
    lines = [f"{finding.severity}: {finding.message}" for finding in check.findings]
    lines += [f"not visible: {direction.text}" for direction in check.invisible_directions]
    lines += [f"no effect: {path}" for path in check.no_effect]
    if len(check.singular_values):
        lines.append(f"singular values {' '.join(f'{value:.3g}' for value in check.singular_values)}")
    if check.predicted_standard_errors:
        expected = check.predicted_standard_errors.items()
        rows = [(path, "not visible" if error is None else f"{error:.2g}") for path, error in expected]
        lines.append(columns([("parameter", "expected standard error"), *rows]))
    if check.expected_seconds is not None:
        lines.append(
            f"a fit will take about {_seconds(check.expected_seconds)}; this took {_seconds(check.seconds)}, "
            f"{_seconds(check.compile_seconds)} of it for compiling, which stays"
        )
    words = {"errors": "there are errors: no fit", "warnings": "there are warnings", "clean": "nothing is wrong"}
    return printable_lines("\n".join([*lines, f"check: {words[check.status]}"]))


def effort_text(fit: Fit) -> str:
    """What the fit took, in words."""
    counts = [
        f"{fit.evaluations[key]} {key}" for key in ("iterations", "simulations", "jacobians") if key in fit.evaluations
    ]
    seconds = fit.seconds.get("total")
    return ", ".join([*counts, *([] if seconds is None else [f"{number_text(seconds)} s"])])


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows of equal length as aligned text; the first column to the left, others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        entries = [entry.rjust(width) for entry, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join([row[0].ljust(widths[0]), *entries]).rstrip())
    return "\n".join(lines)


def number_text(value: float | None) -> str:
    """A number in six digits, a dash where there is none."""
    return "-" if value is None or not np.isfinite(value) else f"{value:.6g}"


def interval_text(interval: tuple[float, float] | None) -> str:
    """An interval in words."""
    return "-" if interval is None else f"{number_text(interval[0])} ... {number_text(interval[1])}"


def error_text(estimate: Estimate | DerivedEstimate) -> str:
    """The standard error in two digits, or that the data do not show the value."""
    if estimate.visible is False:
        return "not visible"
    return "-" if estimate.standard_error is None else f"{estimate.standard_error:.2g}"


def printable_lines(text: str) -> str:
    """The text with control characters escaped, line by line."""
    return "\n".join(
        "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
        for line in text.split("\n")
    )


def has_robust_errors(fit: Fit) -> bool:
    """Whether robust standard errors stand beside the others."""
    return any(one.standard_error_robust is not None for one in (*fit.parameters.values(), *fit.derived.values()))


def held_out_text(fit: Fit) -> str:
    """How well what was not fitted is predicted, in words."""
    channels = [
        one for found in (fit.heldout, fit.cross_validation) for sensors in found.values() for one in sensors.values()
    ]
    if not channels:
        return "held out: nothing, so nothing says how the model predicts (role: test, or cross_validation)"
    known = [one.rms_over_noise for one in channels if np.isfinite(one.rms_over_noise)]
    worst = f"{max(known):.3g} noises at worst" if len(known) == len(channels) else "not everywhere"
    return f"held out: predicted to {worst}, in {len(channels)} channel{'' if len(channels) == 1 else 's'}"


def _rows(fit: Fit) -> list[tuple[str, ...]]:
    rows, robust = [], has_robust_errors(fit)

    def errors(one: Estimate | DerivedEstimate) -> tuple[str, ...]:
        beside = "-" if one.standard_error_robust is None else f"{one.standard_error_robust:.2g}"
        return (error_text(one), *([beside] if robust else []), interval_text(one.interval))

    for path, one in fit.parameters.items():
        name = path + (" (at its bound)" if one.at_bound else "") + (" (tied)" if one.kind == "tied" else "")
        rows.append((name, number_text(one.start), number_text(one.estimate), *errors(one), one.unit))
    for name, one in fit.derived.items():
        rows.append((f"{name} = {one.expression}", "", number_text(one.estimate), *errors(one), ""))
    return rows


def _residual_rows(fit: Fit) -> list[tuple[str, ...]]:
    rows = []
    for what, channels in (("", fit.channels), (" (held out)", fit.heldout), (" (left out)", fit.cross_validation)):
        for recording, sensors in channels.items():
            for sensor, one in sensors.items():
                rows.append(_residual_row(f"{recording}/{sensor}{what}", one))
    return rows


def _residual_row(name: str, one: ChannelFit) -> tuple[str, ...]:
    return name, str(one.samples), number_text(one.rms), f"{one.rms_over_noise:.3g}", f"{one.lag1:.2f}"


def _seconds(value: float) -> str:
    return f"{value:.2g} s" if value < 99.5 else f"{value:.0f} s"
