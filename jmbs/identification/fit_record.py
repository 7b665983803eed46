"""A fit and a check as plain values, the content of `fit.json` and `check.json`: every number finite or None."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from jmbs.identification.findings import Finding
from jmbs.simulation import jmbs_version

if TYPE_CHECKING:
    from jmbs.identification.check import Check
    from jmbs.identification.estimates import ChannelFit
    from jmbs.identification.result import Fit

FIT_SCHEMA = "jmbs-fit-result/1"
STATISTICS = ("samples", "rms", "rms_over_noise", "mean", "lag1", "largest", "largest_at")
"""What is told of the residual of a channel, by the names of `ChannelFit`."""


def fit_record(fit: Fit) -> dict[str, Any]:
    """What `fit.json` holds."""
    record = {
        "schema": FIT_SCHEMA,
        "name": fit.name,
        "status": fit.status,
        "message": fit.message,
        "study": fit.source,
        "jmbs": jmbs_version(),
        "parameters": {path: dataclasses.asdict(estimate) for path, estimate in fit.parameters.items()},
        "derived": {name: dataclasses.asdict(estimate) for name, estimate in fit.derived.items()},
        "order": fit.order,
        "covariance": fit.covariance,
        "correlation": fit.correlation,
        "scaling": fit.scaling,
        "singular_values": fit.singular_values,
        "null_dimension": fit.null_dimension,
        "invisible_directions": [dataclasses.asdict(direction) for direction in fit.invisible_directions],
        "noise": fit.noise,
        "samples": fit.samples,
        "chi2_per_degree": fit.chi2_per_degree,
        "residuals": _statistics(fit.channels),
        "heldout": _statistics(fit.heldout),
        "cross_validation": _statistics(fit.cross_validation),
        "evaluations": fit.evaluations,
        "seconds": fit.seconds,
        "warnings": [finding_record(finding) for finding in fit.warnings],
    }
    return plain_values(record)


def check_record(check: Check) -> dict[str, Any]:
    """What `check.json` holds."""
    record = {
        "status": check.status,
        "findings": [finding_record(finding) for finding in check.findings],
        "singular_values": check.singular_values,
        "invisible_directions": [dataclasses.asdict(found) for found in check.invisible_directions],
        "no_effect": check.no_effect,
        "predicted_standard_errors": check.predicted_standard_errors,
        "expected_seconds": check.expected_seconds,
        "seconds": {"total": check.seconds, "compile": check.compile_seconds},
    }
    return plain_values(record)


def finding_record(finding: Finding) -> dict[str, Any]:
    """One finding as a mapping."""
    return dataclasses.asdict(finding)


def as_json(record: Mapping[str, Any]) -> str:
    """The text of a file."""
    return json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def plain_values(value: Any) -> Any:
    """The same in mappings, lists, words and numbers, with None for what is not finite."""
    if isinstance(value, Mapping):
        return {str(key): plain_values(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain_values(entry) for entry in value]
    if hasattr(value, "shape"):
        return plain_values(np.asarray(value).tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def _statistics(channels: Mapping[str, Mapping[str, ChannelFit]]) -> dict[str, dict[str, dict[str, Any]]]:
    return {
        recording: {sensor: {name: getattr(one, name) for name in STATISTICS} for sensor, one in sensors.items()}
        for recording, sensors in channels.items()
    }
