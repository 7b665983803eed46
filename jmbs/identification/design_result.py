"""What a design found: inputs, and what will be known of the unknowns from them; as plain values, and in words."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from jmbs.identification.design_limits import Reach
from jmbs.identification.estimates import InvisibleDirection
from jmbs.identification.fit_record import plain_values
from jmbs.identification.fit_table import columns, number_text, printable_lines
from jmbs.simulation import jmbs_version

DESIGN_SCHEMA = "jmbs-design-result/1"


class InputTable(NamedTuple):
    """An input as recordings and `simulate` take it: `values` (n,) at `times` (n,), s, linear in between."""

    times: np.ndarray
    values: np.ndarray


@dataclasses.dataclass(frozen=True)
class Expectation:
    """What is known of the unknowns, or will be.

    **Arguments:** `information_gain`: nats, over what was known before; `standard_errors` by name, None where not
    visible; `singular_values` (p,) of the whitened Jacobian; `invisible_directions`.
    """

    information_gain: float
    standard_errors: Mapping[str, float | None]
    singular_values: np.ndarray
    invisible_directions: tuple[InvisibleDirection, ...]


@dataclasses.dataclass(frozen=True)
class ExcitationDesign:
    """What `jmbs.design_excitation` returns.

    **Arguments:**

    - `inputs`: by port path a table; `coefficients` of their bases; `limits`: by name, with what is reached.
    - `before`: what recordings and priors say; `first`: with an input drawn at random within the limits; `after`: with
      the designed one.
    - `values`: by name of unknowns, at which all this holds; `units`.
    - `ts` (n,), s; `shown` and `first_shown`: by name of sensors and limited outputs, (n,); `first_inputs`.
    - `criterion`, its `criterion_value` and `first_value`; `evaluations`; `seconds`; `source`: the study as written.
    - `status`: `done`, or `interrupted` by Ctrl-C, with the best so far.
    """

    name: str
    inputs: Mapping[str, InputTable]
    coefficients: Mapping[str, np.ndarray]
    limits: Mapping[str, Reach]
    before: Expectation
    first: Expectation
    after: Expectation
    values: Mapping[str, float]
    units: Mapping[str, str]
    ts: np.ndarray
    shown: Mapping[str, np.ndarray]
    first_shown: Mapping[str, np.ndarray]
    first_inputs: Mapping[str, InputTable]
    criterion: str
    criterion_value: float
    first_value: float
    evaluations: Mapping[str, int]
    seconds: float
    source: Mapping[str, object] = dataclasses.field(default_factory=dict)
    status: str = "done"

    @property
    def information_gain(self) -> float:
        """Half the logarithm of the ratio of determinants of the information, with the experiment and before, nats.

        Both with a belief of a tenth in every coordinate (standard deviation 10), so that it is finite.
        """
        return self.after.information_gain

    @property
    def predicted_standard_errors(self) -> Mapping[str, float | None]:
        """By name, of a fit to the experiment with what was known before, at the values of the start."""
        return self.after.standard_errors

    def summary(self) -> str:
        """What the command prints."""
        return design_summary(self)


def design_record(design: ExcitationDesign) -> dict[str, Any]:
    """A designed experiment as plain values, the content of `design.json`."""
    record = {
        "schema": DESIGN_SCHEMA,
        "name": design.name,
        "status": design.status,
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
