"""Checks shared by every part of a mechanism's description; each refuses with path, found and wanted."""

from __future__ import annotations

import dataclasses
import difflib
import math
import re
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jmbs.errors import ModelError, shortened

NAME_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
RESERVED_NAMES = ("ground", "environment", "gravity", "initial", "inputs")
# Bytes; a file's name has at most 255, and a time and an ending are added.
LONGEST_TITLE = 200
# Norms this close to one are rounding in the file and are normalised away; larger errors are mistakes.
UNIT_TOLERANCE = 1e-6
# Relative to the largest entry or eigenvalue: what decimal rounding does to a symmetric or singular matrix.
MATRIX_TOLERANCE = 1e-9

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 70
# Aliases in YAML let a short file stand for an enormous value.
_short.maxlevel = 4
_short.maxlist = _short.maxtuple = 9


def show(value: Any) -> str:
    """The value as a message shows it: one line, shortened, without numpy's decoration."""
    if value is None:
        return "nothing"
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    return shortened(" ".join(_short.repr(value).split()))


def nearest(word: object, known: Iterable[str]) -> str:
    """A clause that names the known words, or the nearest one if the word looks like a slip."""
    names = list(known)
    close = difflib.get_close_matches(str(word), names, n=1, cutoff=0.6)
    if close:
        return f"; the nearest known is {shortened(close[0])}"
    return f"; known: {', '.join(shortened(name) for name in names[:16])}" if names else "; there is none"


def known_seed(value: Any) -> int:
    """What everything random derives from. Raises `ModelError`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 0 <= value < 2**63:
        raise ModelError("seed", show(value), "a non-negative whole number below 2**63")
    return int(value)


LARGEST = 1e38
"""In magnitude, of any number in a model: single precision holds it, and products of six are still finite in double."""


def refuse_large(path: str, value: Any, wanted: str) -> None:
    """Raises `ModelError` for finite numbers beyond `LARGEST`, which overflow where they are multiplied."""
    if np.any(np.abs(np.asarray(value, dtype=np.float64)) > LARGEST):
        raise ModelError(path, show(value), f"{wanted}, none beyond {LARGEST:g} in magnitude")


def is_law(value: Any) -> bool:
    """Whether a spring is given by a law, a module with `energy`, and not by numbers."""
    return hasattr(value, "energy")


def is_friction_law(value: Any) -> bool:
    """Whether friction is given by a law, a module with `damping(v)`, and not by numbers."""
    return callable(getattr(value, "damping", None))


def shape_made(path: str, function: Callable, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of what a law's function makes of an array of a shape; what it refuses is refused at `path`."""
    try:
        return jax.eval_shape(function, jnp.zeros(shape)).shape
    except ModelError as error:
        raise ModelError(path, error.found, error.wanted) from error


def is_number(value: Any) -> bool:
    """Whether the value is a finite real number: neither a bool nor a string."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        return False
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def number(path: str, value: Any, *, positive: bool = False, non_negative: bool = False, unit: str = "") -> float:
    """A finite float, positive or non-negative on demand. Raises `ModelError`."""
    kind = "positive " if positive else "non-negative " if non_negative else ""
    wanted = f"a finite {kind}number{', ' + unit if unit else ''}"
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        value = value.item()
    if not is_number(value) or (positive and value <= 0) or (non_negative and value < 0):
        raise ModelError(path, show(value), wanted)
    refuse_large(path, value, wanted)
    return float(value)


def _leaves_are_numbers(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(_leaves_are_numbers(entry) for entry in value)
    if getattr(value, "shape", ()) != ():
        return bool(np.asarray(value).dtype.kind in "iuf" and np.all(np.isfinite(value)))
    return is_number(value.item() if hasattr(value, "item") else value)


def freeze(value: Any) -> np.ndarray:
    """A read-only float64 copy."""
    result = np.array(value, dtype=np.float64)
    result.setflags(write=False)
    return result


def array(path: str, value: Any, shapes: Iterable[tuple[int, ...]] | None, wanted: str) -> np.ndarray:
    """A read-only float64 array of finite numbers in one of the shapes (any if None). Raises `ModelError`."""
    if value is None or not _leaves_are_numbers(value):
        raise ModelError(path, show(value), wanted)
    try:
        result = freeze(value)
    except ValueError:  # rows of unequal length
        raise ModelError(path, show(value), wanted) from None
    if shapes is not None and result.shape not in set(shapes):
        raise ModelError(path, show(value), wanted)
    refuse_large(path, value, wanted)
    return result


def numbers(path: str, value: Any) -> Any:
    """Arrays as they are, for they may be traced; else a number, a list or rows of numbers. Raises `ModelError`."""
    return value if hasattr(value, "shape") else array(path, value, None, "numbers, in rows of equal length if in rows")


def vector(path: str, value: Any, size: int, wanted: str | None = None) -> np.ndarray:
    """`size` finite numbers as a read-only float64 array. Raises `ModelError`."""
    return array(path, value, [(size,)], wanted or f"{size} finite numbers")


def per_coordinate(path: str, value: Any, size: int) -> np.ndarray:
    """A number, or one number per coordinate, as an array `(size,)`. Raises `ModelError`."""
    wanted = "a number" if size == 1 else f"a number or {size} numbers"
    result = array(path, value, [(), (size,)], wanted)
    return freeze(np.broadcast_to(result, (size,)))


def per_coordinate_non_negative(path: str, value: Any, size: int, *, positive: bool = False) -> np.ndarray:
    """Like `per_coordinate`, refusing negative entries, and zero too if `positive`."""
    result = per_coordinate(path, value, size)
    if np.any(result < 0) or (positive and np.any(result == 0)):
        raise ModelError(path, show(value), "positive numbers" if positive else "non-negative numbers")
    return result


def unit_quaternion(path: str, value: Any) -> np.ndarray:
    """A quaternion wxyz `(4,)`, refused unless its norm is one to 1e-6, then normalised exactly."""
    quaternion = vector(path, value, 4, "a unit quaternion, 4 numbers wxyz")
    norm = float(np.linalg.norm(quaternion))
    if abs(norm - 1) > UNIT_TOLERANCE:
        raise ModelError(path, f"{show(value)} of norm {norm:.8g}", "a unit quaternion, 4 numbers wxyz")
    return freeze(quaternion / norm)


def direction(path: str, value: Any) -> np.ndarray:
    """A direction `(3,)`, normalised; zero is refused."""
    raw = vector(path, value, 3, "3 finite numbers, not all zero")
    largest = np.max(np.abs(raw))
    if largest == 0:
        raise ModelError(path, show(value), "3 finite numbers, not all zero")
    scaled = raw / largest
    return freeze(scaled / np.linalg.norm(scaled))


def symmetric(path: str, value: Any, matrix: np.ndarray, wanted: str) -> np.ndarray:
    """The matrix made exactly symmetric; refused if it is not so up to rounding."""
    if np.max(np.abs(matrix - matrix.T)) > MATRIX_TOLERANCE * np.max(np.abs(matrix)):
        raise ModelError(path, show(value), wanted)
    return freeze((matrix + matrix.T) / 2)


def non_negative_matrix(path: str, value: Any, size: int) -> np.ndarray:
    """A number, `size` numbers, or a symmetric non-negative matrix, as a matrix `(size, size)`."""
    wanted = f"a non-negative number, {size} of them, or a symmetric non-negative matrix of {size} rows"
    raw = array(path, value, [(), (size,), (size, size)], wanted)
    matrix = raw if raw.ndim == 2 else np.diag(np.broadcast_to(raw, (size,)))
    matrix = symmetric(path, value, matrix, wanted)
    eigenvalues = np.linalg.eigvalsh(matrix)
    if eigenvalues[0] < -MATRIX_TOLERANCE * max(abs(eigenvalues[-1]), abs(eigenvalues[0])):
        raise ModelError(path, show(value), wanted)
    return matrix


def choice(path: str, value: Any, known: Iterable[str], absent: Iterable[str] = ()) -> str:
    """One of the known words; words of later versions are refused as such. Raises `ModelError`."""
    words = list(known)
    if isinstance(value, str) and value in words:
        return value
    wanted = f"one of {', '.join(words)}" if len(words) > 1 else words[0]
    if isinstance(value, str) and value in set(absent):
        raise ModelError(path, value, f"{wanted} ({value} is not available in this version)")
    close = difflib.get_close_matches(str(value), words, n=1, cutoff=0.6)
    raise ModelError(path, show(value), f"{wanted}; the nearest known is {close[0]}" if close else wanted)


def given(
    path: str, values: Mapping[str, Any], required: Iterable[str], optional: Iterable[str], owner: str
) -> dict[str, Any]:
    """Those values that are not None, by key. Raises `ModelError` for one that `owner` has not, or that is missing."""
    required, found = tuple(required), {key: value for key, value in values.items() if value is not None}
    for key, value in found.items():
        if key not in (*required, *optional):
            raise ModelError(f"{path}/{key}", show(value), f"no {key}: {owner} has none")
    for key in required:
        if key not in found:
            raise ModelError(f"{path}/{key}", "nothing", f"the {key} of {owner}")
    return found


def name(path: str, value: Any) -> str:
    """A name of a part of a mechanism. Raises `ModelError` for a malformed or reserved one."""
    if not isinstance(value, str) or not NAME_PATTERN.fullmatch(value):
        wanted = "a name of letters, digits, _ and -, starting with a letter or _"
        raise ModelError(path, f"the name {show(value)}", wanted)
    if value in RESERVED_NAMES:
        raise ModelError(path, f"the reserved name {value}", f"a name other than {', '.join(RESERVED_NAMES)}")
    return value


def title(path: str, value: Any) -> str:
    """The name of a mechanism. It becomes part of a folder's name, so it must not lead elsewhere, or be too long."""
    if not isinstance(value, str) or not value.isprintable() or not value.strip(" .") or set(value) & set("/\\"):
        raise ModelError(path, show(value), "a non-empty printable name without slashes")
    if len(value.encode()) > LONGEST_TITLE:
        raise ModelError(path, f"{len(value.encode())} bytes", f"a name of at most {LONGEST_TITLE}")
    return value


def reference(path: str, value: Any) -> str:
    """The name of a body or ground, or of a store or environment; whether it exists is seen later."""
    if not isinstance(value, str) or not NAME_PATTERN.fullmatch(value):
        raise ModelError(path, show(value), "a name")
    return value


def part_path(path: str, value: Any) -> str:
    """The name of a part, or the path of one within added systems (`arm/elbow`); whether it exists is seen later."""
    if not isinstance(value, str) or not all(NAME_PATTERN.fullmatch(name) for name in value.split("/")):
        raise ModelError(path, show(value), "a name")
    return value


def require_keys(path: str, given: Iterable[Any], known: Sequence[str]) -> None:
    """Refuses keys that are not known. Raises `ModelError`."""
    for key in given:
        if key not in known:
            raise ModelError(f"{path}/{key}", "an unknown key", f"a known one{nearest(key, known)}")


def record(path: str, value: Any, cls: type) -> Any:
    """An instance of the dataclass `cls` from itself or a mapping, None as it is. Raises `ModelError` for unknown
    keys."""
    if value is None or isinstance(value, cls):
        return value
    fields = [field.name for field in dataclasses.fields(cls)]
    if not isinstance(value, Mapping):
        raise ModelError(path, show(value), f"a mapping with the keys {', '.join(fields)}")
    require_keys(path, value, fields)
    return cls(**{key: entry for key, entry in value.items() if entry is not None})


def pose_coordinates(path: str, value: Any) -> np.ndarray:
    """Position (m), then a unit quaternion wxyz, `(7,)`. Raises `ModelError`."""
    pose = vector(path, value, 7, "a pose, 7 numbers: position then wxyz")
    return freeze(np.concatenate([pose[:3], unit_quaternion(path, pose[3:])]))
