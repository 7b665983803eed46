"""Recordings of a study, from their files, in SI and radians, with all that is found wrong on the way."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from jmbs.errors import ModelError
from jmbs.identification import (
    Channel,
    Finding,
    Input,
    OutputName,
    Recording,
    Sensor,
    before_start,
    conversion,
    increasing,
    input_findings,
    missing_column,
    number_findings,
    signal_findings,
    time_findings,
)
from jmbs.io.csv_columns import Columns
from jmbs.io.recordings import read_columns
from jmbs.io.study_schema import (
    ChannelSection,
    InputSection,
    NoiseColumn,
    RecordingSection,
    SensorSection,
    TimeSection,
)
from jmbs.simulation import Model, input_units, with_inputs


class Measured(NamedTuple):
    """A sensor of a study: its `section`, what it says as data, and what its output means."""

    section: SensorSection
    sensor: Sensor
    output: OutputName


def read_recording(
    name: str, section: RecordingSection, model: Model, sensors: dict[str, Measured], folder: Path
) -> tuple[Recording | None, list[Finding]]:
    """A recording and what is wrong with it; None where there is no column of times.

    What is found wrong is left out: columns that are not there, rows whose times do not increase. Samples that are no
    numbers are NaN. Raises `ModelError` for what is no data at all, wrong units, and unknown names.
    """
    reader = _Reader(name, section, model, sensors, folder)
    return reader.recording(), reader.findings


class _Reader:
    """Reads one recording and gathers findings; see `read_recording`."""

    def __init__(self, name: str, section: RecordingSection, model: Model, sensors: dict[str, Measured], folder: Path):
        self.name, self.section, self.model, self.sensors, self.folder = name, section, model, sensors, folder
        self.path, self.drop = f"recordings/{name}", section.missing == "drop"
        self.findings: list[Finding] = []
        self.file = read_columns(f"{self.path}/file", folder / section.file, self._wanted())

    def recording(self) -> Recording | None:
        times = self._times(self.file, self.section.time, None)
        if times is None:
            return None
        lower, upper = self.section.t or (-np.inf, np.inf)
        inside = ~(times < lower) & ~(times > upper)
        rows = self.file.rows
        self.findings += time_findings(self.name, times[inside], rows[inside])
        kept = inside & increasing(np.where(inside, times, np.nan))
        if kept.sum() < 2:
            found = f"{kept.sum()} samples in {self.file.file}" + (" within t" if self.section.t else "")
            raise ModelError(f"{self.path}/file", found, "at least 2, at increasing times")
        ts = times[kept]
        self.findings += before_start(self.name, ts, self.model.settings.t0)
        channels = {}
        for channel, given in self.section.channels.items():
            values = self._channel(channel, given, inside, kept)
            if values is not None:
                channels[channel] = values
                sensor = self.sensors[channel].sensor
                self.findings += signal_findings(self.name, channel, ts, values.values, values, sensor)
        inputs = {port: self._input(port, given, times, ts[-1]) for port, given in self.section.inputs.items()}
        inputs = {port: given for port, given in inputs.items() if given is not None}
        model = self.model if self.section.model is not None else None
        return Recording(self.name, ts, channels, inputs, self.section.role, dict(self.section.set), model)

    def _wanted(self) -> list[str]:
        """Names of the columns of the recording's own file."""
        names = [self.section.time.column]
        for channel, given in self.section.channels.items():
            noise = given.noise or self.sensors[channel].section.noise
            names += [given.column or channel, *([noise.column] if isinstance(noise, NoiseColumn) else [])]
        for port, given in self.section.inputs.items():
            if isinstance(given, InputSection) and given.file is None:
                names += _columns(f"{self.path}/inputs/{port}", given)
        return names

    def _times(self, file: Columns, time: TimeSection, port: str | None) -> np.ndarray | None:
        """Times of all rows, s; None where the column is not there. Those that are no numbers are found."""
        where = f"inputs/{port}/time" if port else "time"
        if time.column not in file.values:
            self._missing(port, where, time.column, file)
            return None
        factor = conversion(f"{self.path}/{where}/unit", time.unit, ("s",))
        times = file.values[time.column] * factor
        self._not_numbers(port, file, time.column, times, np.full(len(times), True))
        return np.where(np.isfinite(times), times, np.nan)

    def _channel(self, channel: str, given: ChannelSection, inside: np.ndarray, kept: np.ndarray) -> Channel | None:
        measured, column = self.sensors[channel], given.column or channel
        where = f"channels/{channel}"
        if column not in self.file.values:
            self._missing(channel, where, column, self.file)
            return None
        unit = given.unit or measured.section.unit
        factor = conversion(f"{self.path}/{where}/unit", unit, wanted_units(measured))
        values = self.file.values[column] * factor
        self._not_numbers(channel, self.file, column, values, inside)
        noise = given.noise if given.noise is not None else measured.section.noise
        if isinstance(noise, NoiseColumn):
            noise = self._noise(channel, noise, measured, kept & np.isfinite(values))
            noise = None if noise is None else noise[kept]
        elif given.noise is None:
            noise = None
        return Channel(np.where(np.isfinite(values), values, np.nan)[kept], noise, unit or measured.output.unit)

    def _noise(self, channel: str, given: NoiseColumn, measured: Measured, used: np.ndarray) -> np.ndarray | None:
        """Standard deviations by row, from a column of them; None where it is not there."""
        where = f"channels/{channel}/noise"
        if given.column not in self.file.values:
            self._missing(channel, where, given.column, self.file)
            return None
        factor = conversion(f"{self.path}/{where}/unit", given.unit, wanted_units(measured))
        noise = self.file.values[given.column] * factor
        self._not_numbers(channel, self.file, given.column, noise, used)
        wrong = used & (noise <= 0)
        if wrong.any():
            row = int(self.file.rows[wrong][0])
            found = f"{noise[wrong][0]:g} in column {given.column}, row {row} of {self.file.file}"
            raise ModelError(f"{self.path}/{where}", found, "positive standard deviations")
        return noise

    def _input(self, port: str, given: object, times: np.ndarray, end: float) -> object:
        """An input, or None where a column of it is not there."""
        path = f"{self.path}/inputs/{port}"
        if not isinstance(given, InputSection):
            self._try_input(port, given)
            return given
        self._try_input(port, 0.0)
        file, time = self.file, self.section.time
        if given.file is not None:
            time, columns = given.time or TimeSection(column="t"), _columns(path, given)
            file = read_columns(f"{path}/file", self.folder / given.file, [time.column, *columns])
            read = self._times(file, time, port)
            if read is None:
                return None
            times = read
            self.findings += time_findings(self.name, times, file.rows, port)
        elif given.time is not None:
            raise ModelError(f"{path}/time", "a time without a file", "a file of its own, or the recording's times")
        return self._table(port, given, file, times, end)

    def _try_input(self, port: str, value: object) -> None:
        """Refuses an input that the model does not take."""
        try:
            with_inputs(self.model, {port: value})
        except ModelError as error:
            raise ModelError(f"{self.path}/{error.path}", error.found, error.wanted) from None

    def _table(self, port: str, given: InputSection, file: Columns, times: np.ndarray, end: float) -> Input | None:
        path, columns = f"{self.path}/inputs/{port}", _columns(f"{self.path}/inputs/{port}", given)
        missing = [column for column in columns if column not in file.values]
        for column in missing:
            self._missing(port, f"inputs/{port}", column, file)
        if missing:
            return None
        wanted = [unit for entry in input_units(self.model, port) for unit in entry.split(" or ")]
        factor = conversion(f"{path}/unit", given.unit, wanted)
        table = np.stack([file.values[column] * factor for column in columns], axis=1)
        used = ~(times > end)
        for column, values in zip(columns, table.T, strict=True):
            self._not_numbers(port, file, column, values, used)
        kept = increasing(times) & np.isfinite(table).all(axis=1)
        begin = self.model.settings.t0
        where = file.file.name
        self.findings += input_findings(self.name, port, times[kept], given.hold, begin, end, where)
        if kept.sum() < 2:
            return None
        values = table[kept, 0] if len(columns) == 1 else table[kept]
        self._try_input(port, (times[kept], values))
        return Input(times[kept], values, given.hold)

    def _missing(self, channel: str | None, where: str, column: str, file: Columns) -> None:
        self.findings.append(missing_column(self.name, channel, where, column, file.file.name, file.names))

    def _not_numbers(
        self, channel: str | None, file: Columns, column: str, values: np.ndarray, inside: np.ndarray
    ) -> None:
        texts, what = file.texts.get(column, {}), f"column {column} of {file.file.name}"
        self.findings += number_findings(self.name, channel, values[inside], file.rows[inside], what, texts, self.drop)


def _columns(path: str, given: InputSection) -> list[str]:
    if (given.column is None) == (given.columns is None):
        found = "neither column nor columns" if given.column is None else "both column and columns"
        raise ModelError(path, found, "the column that holds the input, or the columns where it has several entries")
    return [given.column] if given.column is not None else list(given.columns or ())


def wanted_units(measured: Measured) -> tuple[str, ...]:
    """Units that a channel may be given in; any where a gain other than one makes something else of the output."""
    if measured.section.gain != 1.0 or not measured.output.unit:
        return ()
    return (measured.output.unit,)
