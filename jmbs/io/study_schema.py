"""The shape of a study, `schema: jmbs-fit/1`: which keys there are and what kind of value each takes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, PlainValidator, Tag, model_validator

from jmbs.io.schema_values import NamedParts, Number, NumberOrList, Section, Seed, Word, Words, refusal
from jmbs.library.mechanics import is_number

STUDY_SCHEMA = "jmbs-fit/1"
MEASURED = "measured"
ESTIMATE = "estimate"


def _positive(value: Any) -> float:
    if not is_number(value) or value <= 0:
        raise refusal("a positive number")
    return float(value)


def _at_least_one(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 2**31:
        raise refusal("a whole number, 1 or more")
    return value


def _start(value: Any) -> Any:
    rows = value if isinstance(value, list) else [value]
    entries = [entry for row in rows for entry in (row if isinstance(row, list) else [row])]
    if value == MEASURED:
        return value
    if not entries or not all(is_number(entry) for entry in entries):
        raise refusal(f"a finite number, a list of them, or {MEASURED}")
    return value


def _bounds(value: Any) -> tuple[float | None, float | None]:
    well_formed = isinstance(value, list) and len(value) == 2
    if not well_formed or not all(entry is None or is_number(entry) for entry in value):
        raise refusal("two numbers, lower and upper, or null where there is none")
    lower, upper = (None if entry is None else float(entry) for entry in value)
    if lower is not None and upper is not None and not lower < upper:
        raise refusal("a lower bound below the upper one")
    return lower, upper


def _span(value: Any) -> tuple[float, float]:
    lower, upper = _bounds(value)
    if lower is None or upper is None:
        raise refusal("two times, s")
    return lower, upper


def _limits(value: Any) -> float | tuple[float, float]:
    if is_number(value):
        return _positive(value)
    lower, upper = _bounds(value)
    if lower is None or upper is None:
        raise refusal("a positive number for both signs, or a lower and an upper one")
    return lower, upper


def _noise(value: Any) -> float | str:
    if value != ESTIMATE and not (is_number(value) and value > 0):
        raise refusal(f"a positive standard deviation in SI units, {ESTIMATE}, or {{column: name}}")
    return value if value == ESTIMATE else float(value)


def _expression(value: Any) -> str:
    if not isinstance(value, str) and not is_number(value):
        raise refusal("an expression of parameters, such as 0.5 * link1/mass")
    return str(value)


def _fraction(value: Any) -> float:
    if not is_number(value) or not 0 < value <= 1:
        raise refusal("a share of the recording, above 0 and up to 1")
    return float(value)


def _empty(value: Any) -> Any:
    return {} if value is None else value


Positive = Annotated[float, PlainValidator(_positive)]
AtLeastOne = Annotated[int, PlainValidator(_at_least_one)]
Start = Annotated[Any, PlainValidator(_start)]
Bounds = Annotated[tuple, PlainValidator(_bounds)]
Limits = Annotated[Any, PlainValidator(_limits)]
Span = Annotated[tuple, PlainValidator(_span)]
Text = Annotated[str, PlainValidator(_expression)]
Fraction = Annotated[float, PlainValidator(_fraction)]


class NoiseColumn(Section):
    """Standard deviations in a column of the recording's file; SI unless a unit is given."""

    column: Word
    unit: Word | None = None


def _mapping_tag(value: Any) -> str:
    return "<mapping>" if isinstance(value, dict | Section) else "<constant>"


# The tags stand in pydantic's error locations; the angle brackets let the reader of errors take them out again.
Noise = Annotated[
    Annotated[NoiseColumn, Tag("<mapping>")] | Annotated[Any, PlainValidator(_noise), Tag("<constant>")],
    Discriminator(_mapping_tag),
]


class PriorSection(Section):
    """A Gaussian on a value, or on its logarithm."""

    mean: Number
    std: Positive
    log: Annotated[Any, PlainValidator(lambda value: _truth(value))] = False


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise refusal("true or false")
    return value


class ParameterSection(Section):
    """An unknown; nothing at all stands for the defaults."""

    start: Start | None = None
    bounds: Bounds | None = None
    transform: Literal["log", "linear", "pseudo_inertia", "rotation"] | None = None
    prior: PriorSection | None = None
    per: Literal["study", "recording"] = "study"

    @model_validator(mode="before")
    @classmethod
    def from_nothing(cls, value: Any) -> Any:
        """The defaults."""
        return _empty(value)


Known = Annotated[
    Annotated[ParameterSection, Tag("<mapping>")] | Annotated[Number, Tag("<constant>")], Discriminator(_mapping_tag)
]
"""A number that is known, or an unknown."""


class SensorSection(Section):
    """What is measured, and how well."""

    output: Word
    unit: Word | None = None
    noise: Noise = ESTIMATE
    gain: Known = 1.0
    bias: Known = 0.0
    delay: Known = 0.0


class TimeSection(Section):
    """The column of times; a word stands for one in seconds."""

    column: Word
    unit: Word | None = None

    @model_validator(mode="before")
    @classmethod
    def from_word(cls, value: Any) -> Any:
        """A mapping from the column's name."""
        return {"column": value} if isinstance(value, str) else value


class ChannelSection(Section):
    """A column that holds what a sensor gave; a word stands for its name."""

    column: Word | None = None
    unit: Word | None = None
    noise: Noise | None = None

    @model_validator(mode="before")
    @classmethod
    def from_word(cls, value: Any) -> Any:
        """A mapping from the column's name."""
        return {"column": value} if isinstance(value, str) else _empty(value)


class InputSection(Section):
    """A known input from columns of the recording's file, or of one of its own."""

    file: Word | None = None
    time: TimeSection | None = None
    column: Word | None = None
    columns: Words | None = None
    unit: Word | None = None
    hold: Literal["linear", "zero"] = "linear"


InputSource = Annotated[
    Annotated[InputSection, Tag("<mapping>")] | Annotated[NumberOrList, Tag("<constant>")],
    Discriminator(_mapping_tag),
]


class RecordingSection(Section):
    """One recorded motion."""

    file: Word
    time: TimeSection = TimeSection(column="t")
    channels: Annotated[dict[str, ChannelSection], NamedParts]
    inputs: Annotated[dict[str, InputSource], NamedParts] = {}
    model: Word | None = None
    set: Annotated[dict[str, NumberOrList], NamedParts] = {}
    role: Literal["train", "test"] = "train"
    t: Span | None = None
    missing: Literal["error", "drop"] = "error"


class TrajectorySection(Section):
    """A smooth motion through recorded angles, for inverse dynamics."""

    basis: Literal["fourier", "spline"]
    period: Positive | None = None
    harmonics: AtLeastOne | None = None
    cutoff: Positive | None = None


class OptimiserSection(Section):
    """How gradient descent steps."""

    name: Literal["adam", "rmsprop", "sgd", "lbfgs"] = "adam"
    learning_rate: Positive = 0.02
    schedule: Literal["constant", "cosine", "linear"] = "cosine"
    batch: AtLeastOne | None = None


class EstimatorSection(Section):
    """How to estimate."""

    method: Literal["shooting", "multiple_shooting", "gradient_descent", "inverse_dynamics"] = "shooting"
    horizon: Literal["growing", "full"] = "growing"
    loss: Literal["squares", "huber", "cauchy"] = "squares"
    scale: Positive = 1.0
    max_iterations: AtLeastOne = 100
    tolerance: Positive = 1e-8
    starts: AtLeastOne = 1
    segments: AtLeastOne | None = None
    trajectory: TrajectorySection | None = None
    cross_validation: bool = False
    optimiser: OptimiserSection | None = None


class BasisSection(Section):
    """What an input that is to be designed is made of."""

    basis: Literal["multisine", "b_spline"] = "multisine"
    period: Positive | None = None
    harmonics: AtLeastOne | None = None
    coefficients: AtLeastOne | None = None
    degree: AtLeastOne | None = None


class DesignSection(Section):
    """An experiment to be designed."""

    inputs: Annotated[dict[str, BasisSection], NamedParts]
    limits: Annotated[dict[str, Limits], NamedParts] = {}
    duration: Positive | None = None
    rate: Positive = 100.0
    criterion: Literal["D", "A", "E"] = "D"
    starts: AtLeastOne = 3
    max_iterations: AtLeastOne = 60


class StudySection(Section):
    """A whole study, `schema` taken off."""

    model: Word
    name: Word | None = None
    seed: Seed = 0
    parameters: Annotated[dict[str, ParameterSection], NamedParts] = {}
    ties: Annotated[dict[str, Text], NamedParts] = {}
    derived: Annotated[dict[str, Text], NamedParts] = {}
    sensors: Annotated[dict[str, SensorSection], NamedParts]
    recordings: Annotated[dict[str, RecordingSection], NamedParts] = {}
    estimator: EstimatorSection = EstimatorSection()
    test_window: Fraction = 0.2
    design: DesignSection | None = None
