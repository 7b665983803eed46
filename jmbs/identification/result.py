"""What a fit found: estimates with standard errors, residuals, and what the data cannot show."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from jmbs.identification.findings import Finding
from jmbs.simulation import Model


@dataclasses.dataclass(frozen=True)
class Estimate:
    """One unknown: values in its own `unit`, SI.

    **Arguments:** `estimate`, `start`; `kind`: `model`, `sensor`, `initial` or `tied`; `visible`: whether the data show
    it, else `standard_error` and the 95 % `interval` are None; `at_bound`; `relative_to_prior`: standard error over
    that of its prior, None without.
    """

    estimate: float
    start: float
    unit: str
    kind: str
    visible: bool
    standard_error: float | None
    interval: tuple[float, float] | None
    at_bound: bool = False
    relative_to_prior: float | None = None


@dataclasses.dataclass(frozen=True)
class DerivedEstimate:
    """The value of an expression of unknowns, with its standard error by the delta method."""

    estimate: float
    expression: str
    visible: bool
    standard_error: float | None
    interval: tuple[float, float] | None


@dataclasses.dataclass(frozen=True)
class InvisibleDirection:
    """A combination of unknowns that the data do not show: `coefficients` are relative changes, the largest 1."""

    singular_value: float
    coefficients: Mapping[str, float]
    text: str


@dataclasses.dataclass(frozen=True)
class ChannelFit:
    """One channel of a recording beside the model: (n,) each, SI; `noise` is the standard deviation of a sample.

    Samples that were missing are left out.
    """

    ts: np.ndarray
    measured: np.ndarray
    predicted: np.ndarray
    noise: np.ndarray

    @property
    def residual(self) -> np.ndarray:
        """Measured less predicted (n,)."""
        return self.measured - self.predicted


@dataclasses.dataclass(frozen=True)
class Fit:
    """What `jmbs.fit` returns.

    **Arguments:**

    - `parameters`: path to `Estimate`, in the order `order` of `covariance` and `correlation` (p, p), whose rows and
      columns are NaN where an unknown is not visible; tied ones follow after them.
    - `scaling` (p,), `singular_values` (p,), `invisible_directions`: of the whitened Jacobian in scaled unknowns.
    - `noise`: by sensor, `given` (or None) and `estimated`; `samples`; `chi2_per_degree`.
    - `channels`, `heldout`: by recording and sensor, `ChannelFit`, of what was fitted and of what was held out.
    - `evaluations`: how many `simulations`, `jacobians`, `iterations`; `seconds`: `total`, `compile`, `check`.
    - `model`: the fitted one; `models`: by recording, with what holds in it.
    """

    name: str
    status: str
    message: str
    parameters: Mapping[str, Estimate]
    derived: Mapping[str, DerivedEstimate]
    order: tuple[str, ...]
    covariance: np.ndarray
    correlation: np.ndarray
    scaling: np.ndarray
    singular_values: np.ndarray
    invisible_directions: tuple[InvisibleDirection, ...]
    noise: Mapping[str, Mapping[str, float | None]]
    samples: int
    chi2_per_degree: float
    channels: Mapping[str, Mapping[str, ChannelFit]]
    heldout: Mapping[str, Mapping[str, ChannelFit]]
    evaluations: Mapping[str, int]
    seconds: Mapping[str, float]
    warnings: tuple[Finding, ...]
    model: Model
    models: Mapping[str, Model]
    source: Mapping[str, Any] = dataclasses.field(default_factory=dict)
