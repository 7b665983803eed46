"""What a fit or a check says of unknowns and channels, one by one."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from jmbs.identification.residual_tests import autocorrelation


@dataclasses.dataclass(frozen=True)
class Estimate:
    """One unknown: values in its own `unit`, SI.

    **Arguments:** `estimate`, `start`; `kind`: `model`, `sensor`, `initial` or `tied`; `visible`: whether the data show
    it (None: without a covariance, see `Fit`), else `standard_error` and the 95 % `interval` are None; `at_bound`;
    `relative_to_prior`: standard error over that of its prior, None without; `standard_error_robust`: where residuals
    are not white, the one that allows for it.
    """

    estimate: float
    start: float
    unit: str
    kind: str
    visible: bool | None
    standard_error: float | None
    interval: tuple[float, float] | None
    at_bound: bool = False
    relative_to_prior: float | None = None
    standard_error_robust: float | None = None


@dataclasses.dataclass(frozen=True)
class DerivedEstimate:
    """The value of an expression of unknowns, with its standard error by the delta method; others as of `Estimate`."""

    estimate: float
    expression: str
    visible: bool | None
    standard_error: float | None
    interval: tuple[float, float] | None
    standard_error_robust: float | None = None


@dataclasses.dataclass(frozen=True)
class InvisibleDirection:
    """A combination of unknowns that the data do not show: `coefficients` are relative changes, the largest 1."""

    singular_value: float
    coefficients: Mapping[str, float]
    text: str


@dataclasses.dataclass(frozen=True)
class ChannelFit:
    """One channel of a recording beside the model: (n,) each, SI; `noise` is the standard deviation of a sample, `unit`
    that of all these.

    Samples that were missing are left out.
    """

    ts: np.ndarray
    measured: np.ndarray
    predicted: np.ndarray
    noise: np.ndarray
    unit: str = ""

    @property
    def residual(self) -> np.ndarray:
        """Measured less predicted (n,)."""
        return self.measured - self.predicted

    @property
    def whitened(self) -> np.ndarray:
        """The residual over its noise (n,)."""
        return self.residual / self.noise

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        del copy  # what follows is new
        return np.asarray(self.residual, dtype)

    @property
    def samples(self) -> int:
        """How many were compared."""
        return self.residual.size

    @property
    def rms(self) -> float:
        """Root mean square of the residual; NaN without samples."""
        return _rms(self.residual)

    @property
    def rms_over_noise(self) -> float:
        """Root mean square of the residual over its noise: one, where the model and the noise are right."""
        return _rms(self.whitened)

    @property
    def mean(self) -> float:
        """Mean of the residual."""
        return float(np.mean(self.residual)) if self.samples else math.nan

    @property
    def lag1(self) -> float:
        """Autocorrelation of the residual from one sample to the next."""
        return float(autocorrelation(self.residual, 1)[0])

    @property
    def largest(self) -> float:
        """Largest magnitude of the residual."""
        return float(np.max(np.abs(self.residual))) if self.samples else math.nan

    @property
    def largest_at(self) -> float:
        """When it is largest, s."""
        return float(self.ts[np.argmax(np.abs(self.residual))]) if self.samples else math.nan


def _rms(values: np.ndarray) -> float:
    largest = float(np.max(np.abs(values), initial=0.0))
    if not (values.size and 0 < largest < math.inf):
        return largest if values.size else math.nan
    return largest * math.sqrt(float(np.mean((values / largest) ** 2)))
