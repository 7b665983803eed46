"""Kinds of values in a config: sections with known keys, numbers, vectors and words, with messages of our own."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainValidator, model_validator
from pydantic_core import PydanticCustomError

from jmbs.errors import ModelError
from jmbs.library.mechanics import is_number, known_seed, nearest

# What a required key holds, for the message when it is not there.
_WANTED = {
    "body": "the name of a body",
    "columns": "the names of the table's columns",
    "parent": "the name of a body or ground",
    "child": "the name of a body",
    "a": "the name of a body or ground",
    "b": "the name of a body or ground",
    "points": "rows of 3 numbers, m",
    "masses": "a mass for each point, kg",
    "point_a": "3 numbers, m",
    "point_b": "3 numbers, m",
    "capacity": "a heat capacity, J/K",
    "conductance": "a heat conductance, W/K",
    "ports": "a list of ports written box.port",
    "stiffness": "the spring's stiffness",
    "t1": "the end time, s",
    "table": "a CSV file",
    "type": "a type",
    "model": "a config of the mechanism",
    "sensors": "a mapping of names to what is measured",
    "recordings": "a mapping of names to recordings",
    "output": "what the sensor measures, such as elbow/q",
    "file": "a file of recorded data",
    "column": "the name of a column",
    "channels": "a mapping of sensors to columns",
    "inputs": "a mapping of ports to what their inputs are made of",
    "mean": "a number",
    "std": "a standard deviation",
    "basis": "fourier or spline",
    "vary": "a mapping of paths to distributions, or file: a table with one column per path",
    "keep": "what to keep of each member: final, series or reduce",
    "names": "a list of names of results",
    "of": "the name of a result, such as total or position/link2",
    "by": "min, max, mean, range, rms, last or argmax",
}


def refusal(wanted: str, key: str = "", found: str = "") -> PydanticCustomError:
    """An error at the value being validated, or at `key` below it; `found` empty: the value itself."""
    return PydanticCustomError("jmbs", "{wanted}", {"wanted": wanted, "key": key, "found": found})


class Section(BaseModel):
    """A mapping with known keys; a key whose value is null counts as not given."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def check_keys(cls, value: Any) -> Any:
        """Refuses unknown keys with the nearest known one, and absent required keys."""
        known = cls.model_fields
        if not isinstance(value, dict):
            raise refusal(f"a mapping with keys from {', '.join(known)}")
        for key in value:
            if key not in known:
                raise refusal(f"a known key{nearest(key, known)}", str(key), "an unknown key")
        for key, field in known.items():
            if field.is_required() and value.get(key) is None:
                raise refusal(_WANTED[key], key, "nothing")
        return {key: entry for key, entry in value.items() if entry is not None}


def _number(value: Any) -> float:
    if not is_number(value):
        raise refusal("a finite number")
    return float(value)


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 2**63:
        raise refusal("a whole number of at most 18 digits")
    return value


def _seed(value: Any) -> int:
    try:
        return known_seed(value)
    except ModelError as error:
        raise refusal(error.wanted) from None


def _word(value: Any) -> str:
    if not isinstance(value, str):
        raise refusal("a word")
    return value


def _words(value: Any) -> list[str]:
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not values or not all(isinstance(entry, str) for entry in values):
        raise refusal("a list of words")
    return values


def _numbers(size: int) -> Any:
    def check(value: Any) -> list[float]:
        if not isinstance(value, list) or len(value) != size or not all(is_number(entry) for entry in value):
            raise refusal(f"{size} finite numbers")
        return [float(entry) for entry in value]

    return PlainValidator(check)


def _is_list_of_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(is_number(entry) for entry in value)


def _number_or_list(value: Any) -> Any:
    if not is_number(value) and not _is_list_of_numbers(value):
        raise refusal("a finite number or a list of finite numbers")
    return value


def _number_list_or_guess(value: Any) -> Any:
    guessed = value["guess"] if isinstance(value, dict) and set(value) == {"guess"} else value
    if not is_number(guessed) and not _is_list_of_numbers(guessed):
        raise refusal("a finite number, a list of finite numbers, or {guess: ...} with either")
    return value


def _number_list_or_matrix(value: Any) -> Any:
    is_matrix = isinstance(value, list) and all(_is_list_of_numbers(row) for row in value)
    if not is_number(value) and not _is_list_of_numbers(value) and not is_matrix:
        raise refusal("a finite number, a list of finite numbers, or rows of them")
    return value


def _none_is_empty(value: Any) -> Any:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise refusal("a mapping of names")
    return value


Number = Annotated[float, PlainValidator(_number)]
Whole = Annotated[int, PlainValidator(_whole)]
Seed = Annotated[int, PlainValidator(_seed)]
Word = Annotated[str, PlainValidator(_word)]
Words = Annotated[list[str], PlainValidator(_words)]
Vector3 = Annotated[list[float], _numbers(3)]
Quaternion = Annotated[list[float], _numbers(4)]
NumberOrList = Annotated[Any, PlainValidator(_number_or_list)]
NumberListOrGuess = Annotated[Any, PlainValidator(_number_list_or_guess)]
NumberListOrMatrix = Annotated[Any, PlainValidator(_number_list_or_matrix)]
Vector2 = Annotated[list[float], _numbers(2)]
NamedParts = BeforeValidator(_none_is_empty)
