"""A fit as an xarray dataset."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from jmbs.identification.fit_record import FIT_SCHEMA
from jmbs.simulation import jmbs_version

if TYPE_CHECKING:
    import xarray as xr

    from jmbs.identification.estimates import ChannelFit
    from jmbs.identification.result import Fit

_ESTIMATES = (
    *("estimate", "start", "standard_error", "standard_error_robust"),
    *("visible", "at_bound", "relative_to_prior", "unit", "kind"),
)
_SAMPLES = ("measured", "predicted", "residual", "noise")


def channel_rows(fit: Fit) -> Iterator[tuple[str, str, str, ChannelFit]]:
    """Role (train or test), recording, sensor, and what was measured and predicted."""
    for role, channels in (("train", fit.channels), ("test", fit.heldout)):
        for recording, sensors in channels.items():
            for sensor, one in sensors.items():
                yield role, recording, sensor, one


def fit_dataset(fit: Fit) -> xr.Dataset:
    """Estimates along `parameter`, (co)variances along `free` and `free_`, samples of all channels along `sample`."""
    import xarray as xr

    unknowns = list(fit.parameters.values())
    data: dict[str, Any] = {
        name: ("parameter", [_value(getattr(one, name)) for one in unknowns]) for name in _ESTIMATES
    }
    ends = [(np.nan, np.nan) if one.interval is None else one.interval for one in unknowns]
    data["interval"] = (("parameter", "end"), np.reshape(np.array(ends, float), (-1, 2)))
    for name in ("covariance", "correlation"):
        matrix = np.asarray(getattr(fit, name))
        data[name] = (("free", "free_"), matrix if matrix.size else np.full([len(fit.order)] * 2, np.nan))
    data["scaling"] = ("free", np.asarray(fit.scaling))
    data["singular_values"] = ("direction", np.asarray(fit.singular_values))
    rows = list(channel_rows(fit))
    for name in _SAMPLES:
        data[name] = ("sample", np.concatenate([getattr(one, name) for *_, one in rows] or [np.zeros(0)]))
    coords: dict[str, Any] = {"role": [], "recording": [], "sensor": []}
    for *labels, one in rows:
        for key, label in zip(coords, labels, strict=True):
            coords[key] += [label] * one.samples
    coords = {key: ("sample", np.array(values, str)) for key, values in coords.items()}
    coords["time"] = ("sample", np.concatenate([one.ts for *_, one in rows] or [np.zeros(0)]))
    coords |= {"parameter": list(fit.parameters), "free": list(fit.order), "free_": list(fit.order)}
    attributes = {"name": fit.name, "status": fit.status, "message": fit.message, "samples": fit.samples}
    attributes |= {"chi2_per_degree": fit.chi2_per_degree, "result_schema": FIT_SCHEMA, "jmbs": jmbs_version()}
    return xr.Dataset(data, coords | {"end": ["lower", "upper"]}, attributes)


def _value(value: object) -> object:
    return np.nan if value is None else value
