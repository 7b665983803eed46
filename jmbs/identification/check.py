"""What can be said before a fit: of the data, and of what they can show."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from jmbs.identification.findings import Finding
from jmbs.identification.result import InvisibleDirection


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
    problem: Any = None
    seconds: float = 0.0

    @property
    def status(self) -> str:
        """`errors`, `warnings` or `clean`."""
        severities = {finding.severity for finding in self.findings}
        return "errors" if "error" in severities else "warnings" if severities else "clean"
