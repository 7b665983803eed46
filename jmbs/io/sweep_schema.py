"""The shape of a sweep's study, `schema: jmbs-sweep/1`: which keys there are and what kind of value each takes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import PlainValidator

from jmbs.io.schema import ToleranceSection
from jmbs.io.schema_values import NamedParts, Number, Section, Seed, Whole, Word, Words, refusal
from jmbs.library.mechanics import is_number

SWEEP_SCHEMA = "jmbs-sweep/1"
AUTO = "auto"


def _chunk(value: Any) -> int | None:
    if value == AUTO:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise refusal(f"{AUTO}, or a number of members")
    return value


def _every(value: Any) -> float:
    if not is_number(value) or value <= 0:
        raise refusal("a positive time, s")
    return float(value)


def _names(value: Any) -> list[str]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise refusal("a list of names of results")
    return names


class SeriesSection(Section):
    """What is kept at saved times."""

    names: Words
    every: Annotated[float, PlainValidator(_every)] | None = None


class ReductionSection(Section):
    """One number over time of a result, or of one entry of it."""

    of: Word
    by: Word
    axis: Word | None = None


class KeepSection(Section):
    """What is kept of each member."""

    final: Annotated[list[str], PlainValidator(_names)] = []
    series: SeriesSection | None = None
    reduce: Annotated[dict[str, ReductionSection], NamedParts] = {}


class SimulationOverrides(Section):
    """Settings in place of the model's."""

    t1: Number | None = None
    t0: Number | None = None
    save_every: Number | None = None
    formulation: Word | None = None
    cut_joints: list[Word] | None = None
    method: Word | None = None
    dt: Number | None = None
    tolerance: ToleranceSection | None = None
    constraints: Word | None = None
    precision: Word | None = None
    max_steps: Whole | None = None
    until: Annotated[dict[str, Number], NamedParts] | None = None


class SweepSection(Section):
    """A whole study of a sweep, `schema` taken off."""

    name: Word | None = None
    model: Word
    seed: Seed = 0
    design: Literal["grid", "random", "sobol", "latin_hypercube", "file"] = "grid"
    members: Whole | None = None
    vary: Annotated[dict[str, Any], NamedParts]
    keep: KeepSection
    simulation: SimulationOverrides = SimulationOverrides()
    chunk: Annotated[Any, PlainValidator(_chunk)] = None
