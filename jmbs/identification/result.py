"""What a fit found: estimates with standard errors, residuals, and what the data cannot show."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jmbs.errors import ModelError
from jmbs.files import write_text
from jmbs.identification.estimates import ChannelFit, DerivedEstimate, Estimate, InvisibleDirection
from jmbs.identification.findings import Finding
from jmbs.identification.fit_record import as_json, fit_record
from jmbs.identification.fit_table import fit_summary
from jmbs.simulation import Model, Trajectory

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

    from jmbs.identification.predictions import PredictedChannel
    from jmbs.identification.profiles import Profile
    from jmbs.identification.solution import Solution
    from jmbs.identification.study import Recording


@dataclasses.dataclass(frozen=True)
class Fit:
    """What `jmbs.fit` returns.

    **Arguments:**

    - `parameters`: path to `Estimate`, in the order `order` of `covariance` and `correlation` (p, p), whose rows and
      columns are NaN where an unknown is not visible; tied ones follow after them. Gradient descent of more than 100
      unknowns gives no covariance: it, `correlation` and `singular_values` are empty then.
    - `scaling` (p,), `singular_values` (p,), `invisible_directions`: of the whitened Jacobian in scaled unknowns.
    - `noise`: by sensor, `given` (or None) and `estimated`; `samples`, of which unknowns leave `degrees` of freedom;
      `chi2_per_degree`.
    - `channels`, `heldout`: by recording and sensor, `ChannelFit`, of what was fitted and of what was held out;
      `cross_validation`: of each training recording by a fit of the others, where that was asked for.
    - `evaluations`: how many `simulations`, `jacobians`, `iterations`; `seconds`: `total`, and in it `compile` (tracing
      and compiling, in the check too) and `check`.
    - `model`: the fitted one; `models`: by recording, with what holds in it.
    - `source`: the study as it was written; `solution`: what `predict` and `profile` go on from.
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
    degrees: int
    chi2_per_degree: float
    channels: Mapping[str, Mapping[str, ChannelFit]]
    heldout: Mapping[str, Mapping[str, ChannelFit]]
    evaluations: Mapping[str, int]
    seconds: Mapping[str, float]
    warnings: tuple[Finding, ...]
    model: Model
    models: Mapping[str, Model]
    source: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    cross_validation: Mapping[str, Mapping[str, ChannelFit]] = dataclasses.field(default_factory=dict)
    solution: Solution | None = dataclasses.field(default=None, repr=False, compare=False)

    @property
    def residuals(self) -> Mapping[str, Mapping[str, ChannelFit]]:
        """By recording and sensor, with their statistics; `numpy.asarray` of one is the residual."""
        return self.channels

    @property
    def null_dimension(self) -> int:
        """How many directions the data do not show."""
        return len(self.invisible_directions)

    def summary(self) -> str:
        """What was found, as a table to print."""
        return fit_summary(self)

    def predict(self, recording: Recording) -> dict[str, PredictedChannel]:
        """What the sensors would show at the times of a recording, by name, with standard deviations (delta method).

        The recording brings its inputs, `set` and model. With channels, its own unknowns (initial values) are estimated
        from their first part (`test_window`), as of a held-out recording; without, they are the model's. One that was
        fitted keeps those of the fit. After inverse dynamics, whose recordings bring the angle of each joint, it is all
        torques, and the channels it has, along the motion that these tell. Raises `ModelError`.
        """
        from jmbs.identification.predictions import predict_recording

        return predict_recording(self._solution("predict"), recording)

    def profile(self, name: str, n: int = 15, span: float = 3.0) -> Profile:
        """Chi-squared along an unknown, tied or derived value, all others fitted again, and its likelihood interval.

        **Arguments:** `n`: points, the estimate among them; `span`: how far to each side, in standard errors. Raises
        `ModelError` for what is none of these, and for what the data do not show.
        """
        from jmbs.identification.profiles import profile_of

        return profile_of(self._solution("profile"), name, n, span)

    def _solution(self, what: str) -> Solution:
        if self.solution is None or self.status == "diverged":
            raise ModelError(what, f"a fit that is {self.status}, without an estimate", "one that jmbs.fit has found")
        return self.solution

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Writes `fit.json`, schema jmbs-fit-result/1; replaces what is there."""
        write_text(Path(path), as_json(fit_record(self)))

    def to_xarray(self) -> xr.Dataset:
        """Estimates along `parameter`, and all samples along `sample`, those of held-out recordings too."""
        from jmbs.identification.fit_dataset import fit_dataset

        return fit_dataset(self)

    def report(
        self, path: str | os.PathLike[str], trajectory: Trajectory | None = None, profiles: Iterable[str | Profile] = ()
    ) -> None:
        """Writes a page in HTML, complete in one file.

        **Arguments:** `trajectory`: a run of the fitted model, for its energies; `profiles`: names of values, or
        profiles, that it shows too.
        """
        from jmbs.visualise import write_fit_report

        found = [self.profile(one) if isinstance(one, str) else one for one in profiles]
        write_fit_report(self, path, trajectory, found)

    def plot_trajectories(self, recordings: Iterable[str] | None = None) -> Figure:
        """What was measured beside the model, a panel for each channel; `recordings`: those, None for all."""
        from jmbs.visualise import trajectories_figure

        return trajectories_figure(self, recordings)

    def plot_residuals(self, recordings: Iterable[str] | None = None) -> Figure:
        """Residuals over time with their autocorrelation; `recordings`: those, None for all."""
        from jmbs.visualise import residuals_figure

        return residuals_figure(self, recordings)

    def plot_correlation(self) -> Figure:
        """The correlation of the estimates."""
        from jmbs.visualise import correlation_figure

        return correlation_figure(self)
