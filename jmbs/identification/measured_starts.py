"""Starts of initial values by what a recording shows first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from jmbs.errors import ModelError
from jmbs.identification.places import Place
from jmbs.identification.study import Parameter, Recording, Sensor

MEASURED_SAMPLES = 12
"""A start rate is the slope of so many first samples of an angle, where no sensor measures it."""


def measured_start(
    path: str, sensors: Mapping[str, Sensor], recording: Recording, size: int, place: Place
) -> np.ndarray:
    """The first sample of the sensor of each coordinate; of a rate that nothing measures, the first slope of it."""
    joint, _, key = place.base.removeprefix("initial/").rpartition("/")
    indices = range(size) if place.index is None else place.index
    found = []
    for i in indices:
        value = _first(sensors, recording, _outputs(joint, key, i, size))
        if value is None and key == "v":
            value = _first(sensors, recording, _outputs(joint, "q", i, size), slope=True)
        if value is None:
            wanted = f"a sensor of {joint}/{key} among the channels of {recording.name}"
            raise ModelError(f"parameters/{path}/start", "measured", wanted)
        found.append(value)
    return np.array(found)


def _outputs(joint: str, key: str, index: int, size: int) -> tuple[str, ...]:
    return (f"{joint}/{key}[{index}]", *((f"{joint}/{key}",) if size == 1 else ()))


def _first(
    sensors: Mapping[str, Sensor], recording: Recording, outputs: Sequence[str], slope: bool = False
) -> float | None:
    for name, sensor in sensors.items():
        if sensor.output in outputs and name in recording.channels:
            values = samples(recording, name)
            seen = np.isfinite(values)
            gain = sensor.gain.start if isinstance(sensor.gain, Parameter) else sensor.gain
            bias = sensor.bias.start if isinstance(sensor.bias, Parameter) else sensor.bias
            values = (values[seen] - (bias or 0.0)) / (1.0 if gain is None else gain)
            times = np.asarray(recording.ts)[seen]
            if not len(values):
                continue
            if not slope:
                return float(values[0])
            few = min(MEASURED_SAMPLES, len(values))
            if few > 2:
                return float(np.polyfit(times[:few] - times[0], values[:few], 2)[1])
    return None


def samples(recording: Recording, sensor: str) -> np.ndarray:
    """The values (n,) that a recording holds of a sensor, NaN where one is missing."""
    channel = recording.channels[sensor]
    return np.asarray(getattr(channel, "values", channel), float)
