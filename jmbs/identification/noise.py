"""How noisy samples are, from the samples alone."""

from __future__ import annotations

import numpy as np

from jmbs.identification.study import Recording, Study
from jmbs.identification.unknowns import samples

_THIRD = np.array([1.0, -3.0, 3.0, -1.0])


def noise_of(study: Study) -> dict[str, float]:
    """By sensor the standard deviation of its samples, over all recordings: of third differences, in which smooth
    motion is small, by their median, which jumps do not move."""
    found = {}
    for name in study.sensors:
        differences = [_differences(r, name) for r in study.data if name in r.channels]
        sizes = np.abs(np.concatenate([np.zeros(0), *differences]))
        deviation = float(np.median(sizes)) / 0.6745 / float(np.linalg.norm(_THIRD)) if sizes.size else 0.0
        values = [np.zeros(0), *(samples(r, name) for r in study.data if name in r.channels)]
        largest = float(np.nanmax(np.abs(np.concatenate(values)), initial=0.0))
        found[name] = max(deviation, 1e-9 * largest, 1e-12)
    return found


def _differences(recording: Recording, sensor: str) -> np.ndarray:
    values = samples(recording, sensor)
    values = values[np.isfinite(values)]
    return np.convolve(values, _THIRD, mode="valid") if len(values) >= len(_THIRD) else np.zeros(0)
