"""How noisy samples are: as the study says, or from the samples alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

import numpy as np

from jmbs.errors import ModelError
from jmbs.identification.measured_starts import samples
from jmbs.identification.study import Channel, Recording, Study

MEDIAN_OF_NOISE = 0.6745
"""Of the sizes of normal noise, in standard deviations."""
_THIRD = np.array([1.0, -3.0, 3.0, -1.0])


def noise_of(study: Study) -> dict[str, float]:
    """By sensor the standard deviation of its samples, over all recordings: of third differences, in which smooth
    motion is small, by their median, which jumps do not move."""
    found = {}
    for name in study.sensors:
        differences = [_differences(r, name) for r in study.data if name in r.channels]
        sizes = np.abs(np.concatenate([np.zeros(0), *differences]))
        deviation = float(np.median(sizes)) / MEDIAN_OF_NOISE / float(np.linalg.norm(_THIRD)) if sizes.size else 0.0
        values = [np.zeros(0), *(samples(r, name) for r in study.data if name in r.channels)]
        largest = float(np.nanmax(np.abs(np.concatenate(values)), initial=0.0))
        found[name] = max(deviation, 1e-9 * largest, 1e-12)
    return found


def _differences(recording: Recording, sensor: str) -> np.ndarray:
    values = samples(recording, sensor)
    values = values[np.isfinite(values)]
    return np.convolve(values, _THIRD, mode="valid") if len(values) >= len(_THIRD) else np.zeros(0)


def noise_given(study: Study, recording: Recording, sensor: str) -> float | np.ndarray | str:
    """What is said of the noise of a channel: by the recording, else by the sensor."""
    channel = recording.channels[sensor]
    own = channel.noise if isinstance(channel, Channel) else None
    return study.sensors[sensor].noise if own is None else own


def deviations_of(
    study: Study, recording: Recording, sensors: Iterable[str], noise: Mapping[str, float]
) -> dict[str, np.ndarray]:
    """By sensor the standard deviations (n,) or () of a recording's samples."""
    return {name: deviation_of(study, recording, name, noise) for name in sensors}


def deviation_of(study: Study, recording: Recording, sensor: str, noise: Mapping[str, float]) -> np.ndarray:
    """The standard deviation (n,) or () of a channel's samples: the recording's, the sensor's, or an estimate."""
    given = noise_given(study, recording, sensor)
    if isinstance(given, str):
        return np.asarray(noise[sensor])
    deviation = np.asarray(given, float)
    seen = np.isfinite(samples(recording, sensor))
    if deviation.ndim:
        deviation = np.where(seen, deviation, 1.0)
    if not (np.all(np.isfinite(deviation)) and np.all(deviation > 0)):
        raise ModelError(f"sensors/{sensor}/noise", json.dumps(np.ravel(deviation)[:4].tolist()), "positive numbers")
    return deviation
