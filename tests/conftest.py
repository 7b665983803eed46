"""Settings and fixtures for all tests: float64, strict dtype promotion, no display, reference data.

Array shapes in annotations are checked on demand: `pytest --jaxtyping-packages=jmbs,beartype.beartype`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Read when matplotlib is first imported, which a test module may do at collection.
os.environ["MPLBACKEND"] = "Agg"

import jax  # noqa: E402
import pytest  # noqa: E402

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")

ROOT = Path(__file__).parent.parent
REFERENCE_DATA = Path(__file__).parent / "reference" / "data"


def load_reference(name: str) -> dict[str, Any]:
    """The reference case `tests/reference/data/<name>.json` as plain dicts, lists and floats (SI units)."""
    return json.loads((REFERENCE_DATA / f"{name}.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def reference() -> Callable[[str], dict[str, Any]]:
    """`reference(name)` loads a reference case; the file's `conventions` say what its fields mean."""
    return load_reference


@pytest.fixture(scope="session")
def configs() -> Path:
    """The folder of the shipped configs."""
    return ROOT / "configs"
