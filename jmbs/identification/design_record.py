"""A designed experiment as plain values, the content of `design.json`, and in words, as it is printed."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from jmbs.identification.fit_record import plain_values
from jmbs.identification.fit_table import columns, number_text, printable_lines
from jmbs.simulation import jmbs_version

if TYPE_CHECKING:
    from jmbs.identification.design_result import ExcitationDesign, Expectation

DESIGN_SCHEMA = "jmbs-design-result/1"


def design_record(design: ExcitationDesign) -> dict[str, Any]:
    """What `design.json` holds."""
    record = {
        "schema": DESIGN_SCHEMA,
        "name": design.name,
        "study": design.source,
        "jmbs": jmbs_version(),
        "criterion": design.criterion,
        "criterion_value": design.criterion_value,
        "first_criterion_value": design.first_value,
        "information_gain": design.information_gain,
        "first_information_gain": design.first.information_gain,
        "parameters": {name: _parameter(design, name) for name in design.values},
        "limits": {name: reach._asdict() for name, reach in design.limits.items()},
        "coefficients": design.coefficients,
        "singular_values": design.after.singular_values,
        "invisible_directions": [dataclasses.asdict(found) for found in design.after.invisible_directions],
        "evaluations": design.evaluations,
        "seconds": design.seconds,
    }
    return plain_values(record)


def _parameter(design: ExcitationDesign, name: str) -> dict[str, Any]:
    stages = {"before": design.before, "first": design.first, "after": design.after}
    errors = {f"standard_error_{stage}": found.standard_errors[name] for stage, found in stages.items()}
    return {"value": design.values[name], "unit": design.units[name], **errors}


def design_summary(design: ExcitationDesign) -> str:
    """Expected standard errors before and after, the information gained, and limits with what is reached."""
    rows: list[tuple[str, ...]] = [("expected standard error of", "value", "before", "first input", "designed", "unit")]
    for name, value in design.values.items():
        stages = (design.before, design.first, design.after)
        rows.append((name, number_text(value), *(_error(stage, name) for stage in stages), design.units[name]))
    limits: list[tuple[str, ...]] = [("limit of", "lower", "least", "most", "upper")]
    for name, one in design.limits.items():
        limits.append((name, *(number_text(x) for x in (one.lower, one.least, one.most, one.upper))))
    gains = f"{design.information_gain:.3g} nats, with the first input {design.first.information_gain:.3g}"
    counts = ", ".join(f"{count} {what}" for what, count in design.evaluations.items())
    parts = [
        f"{design.name}: an experiment of {design.ts[-1] - design.ts[0]:g} s, criterion {design.criterion}",
        columns(rows),
        *(f"not visible: {direction.text}" for direction in design.after.invisible_directions),
        columns(limits),
        f"information gained {gains}; {counts}, {number_text(design.seconds)} s",
    ]
    return printable_lines("\n".join(parts))


def _error(stage: Expectation, name: str) -> str:
    error = stage.standard_errors[name]
    return "not visible" if error is None else f"{error:.2g}"
