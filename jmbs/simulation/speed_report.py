"""What a measurement of speed found, as a table for people and as plain data for JSON."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import os
import platform
import re
import statistics
from pathlib import Path
from typing import Any

import jax

from jmbs.simulation.batch import usable_cores

SCHEMA = "jmbs-speed/1"
COLUMNS = {"audit_off": "audit off", "audit_on": "audit on", "gradient": "gradient"}


@dataclasses.dataclass(frozen=True)
class SpeedCase:
    """What was run: `batch` members, `steps` steps of `dt_s` s each; `bodies` of one member."""

    name: str
    bodies: int
    batch: int
    steps: int
    dt_s: float
    method: str
    formulation: str
    constraints: str
    precision: str
    seed: int


@dataclasses.dataclass(frozen=True)
class Timing:
    """One compiled program: seconds to trace and to compile it, bytes of temporary memory (None where the device does
    not tell), and seconds of each run of the whole batch."""

    trace_s: float
    compile_s: float
    temporary_bytes: int | None
    run_s: tuple[float, ...] = ()

    def with_run(self, seconds: float) -> Timing:
        """The same with one more run."""
        return dataclasses.replace(self, run_s=(*self.run_s, seconds))


@dataclasses.dataclass(frozen=True)
class SpeedReport:
    """The case, the machine, and a timing for each program: `audit_off`, `audit_on` and, if asked for, `gradient`."""

    case: SpeedCase
    machine: dict[str, Any]
    timings: dict[str, Timing]

    def figures(self, program: str) -> dict[str, Any]:
        """The timing of a program, and what follows from it and the case.

        `median_s`: of the runs; `spread`: from the fastest to the slowest, relative to it; `steps_per_second` and
        `simulated_per_wall` (simulated seconds per second): of all members together; `seconds_per_step_and_body`: None
        without bodies; `run_ratio` and `compile_ratio`: to the program without audit.
        """
        case, timing, plain = self.case, self.timings[program], self.timings["audit_off"]
        median = statistics.median(timing.run_s)
        per_second = case.batch * case.steps / median
        return dataclasses.asdict(timing) | {
            "median_s": median,
            "spread": (max(timing.run_s) - min(timing.run_s)) / median,
            "steps_per_second": per_second,
            "simulated_per_wall": per_second * case.dt_s,
            "seconds_per_step_and_body": 1 / (per_second * case.bodies) if case.bodies else None,
            "run_ratio": median / statistics.median(plain.run_s),
            "compile_ratio": timing.compile_s / plain.compile_s,
        }

    def as_dict(self) -> dict[str, Any]:
        """Everything, as dictionaries, lists, numbers and strings."""
        programs = {name: self.figures(name) for name in self.timings}
        return {"schema": SCHEMA, "case": dataclasses.asdict(self.case), "machine": self.machine, "programs": programs}

    def table(self) -> str:
        """Case and machine in words, then one column for each program."""
        case, machine = self.case, self.machine
        count = len(self.timings["audit_off"].run_s)
        programs = [self.figures(name) for name in self.timings]
        rows = [
            ("", "", *(COLUMNS[name] for name in self.timings)),
            ("trace", "s", *_column(programs, "trace_s")),
            ("compile", "s", *_column(programs, "compile_s")),
            (f"run, median of {count}", "s", *_column(programs, "median_s")),
            ("spread of runs", "%", *_column(programs, "spread", 100)),
            ("steps per second", "1/s", *_column(programs, "steps_per_second")),
            ("simulated per wall second", "s/s", *_column(programs, "simulated_per_wall")),
            ("time per step and body", "us", *_column(programs, "seconds_per_step_and_body", 1e6)),
            ("run time, relative", "1", *_column(programs, "run_ratio")),
            ("compile time, relative", "1", *_column(programs, "compile_ratio")),
            ("temporary memory", "MiB", *_column(programs, "temporary_bytes", 2.0**-20)),
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(
            [
                f"{case.name}: {_count(case.bodies, 'body', 'bodies')}, {case.formulation} formulation, "
                f"constraints {case.constraints}, {case.precision}",
                f"{_count(case.batch, 'member')}, {_count(case.steps, 'step')} of {case.dt_s:g} s, {case.method}",
                f"{_count(machine['devices'], 'device')} ({machine['device']}), jax {machine['jax']}",
                "",
                *("  ".join(_aligned(row, widths)).rstrip() for row in rows),
            ]
        )


def this_machine() -> dict[str, Any]:
    """The device that JAX computes on, usable threads of the processor, versions, and settings that change timings."""
    device = jax.devices()[0]
    name = _processor() if device.platform == "cpu" else device.device_kind
    return {
        "device": f"{device.platform}: {name}",
        "processor": _processor(),
        "threads": usable_cores(),
        "devices": jax.device_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        **{package: _version(package) for package in ("jmbs", "jax", "jaxlib", "diffrax", "equinox")},
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "compilation_cache": bool(jax.config.values["jax_compilation_cache_dir"]),
    }


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    text = information.read_text(encoding="utf-8") if information.exists() else ""
    models = re.findall(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return (models or [platform.processor() or platform.machine()])[0].strip()


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def _column(programs: list[dict[str, Any]], key: str, factor: float = 1.0) -> list[str]:
    return ["-" if figures[key] is None else f"{figures[key] * factor:.4g}" for figures in programs]


def _aligned(row: tuple[str, ...], widths: list[int]) -> list[str]:
    """Names and units flush left, numbers flush right."""
    words, numbers = zip(row[:2], widths[:2], strict=True), zip(row[2:], widths[2:], strict=True)
    return [*(f"{text:<{width}}" for text, width in words), *(f"{text:>{width}}" for text, width in numbers)]
