"""A small valid config, and a way to write changed copies of it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from jmbs.io import read_config
from jmbs.library.mechanics.mechanism import Mechanism

BASE: dict[str, Any] = {
    "schema": "jmbs/1",
    "bodies": {
        "link1": {"mass": 2.0, "inertia": [0.1, 0.2, 0.25]},
        "link2": {"shape": {"box": [0.2, 0.1, 0.05]}, "density": 2700.0},
    },
    "joints": {
        "base": {"type": "revolute", "parent": "ground", "child": "link1", "axis": [0, 1, 0]},
        "elbow": {"type": "spherical", "parent": "link1", "child": "link2"},
    },
    "loads": {"push": {"body": "link2", "force": [0, 0, 1]}},
    "elements": {"wire": {"type": "spring_damper", "a": "ground", "b": "link2", "stiffness": 10.0}},
    "stores": {"bearing": {"type": "thermal", "capacity": 10.0}},
    "initial": {"joints": {"base": {"q": [0.1]}}},
    "simulation": {"t1": 1.0, "dt": 0.001},
}

ReadChanged = Callable[..., Mechanism]


@pytest.fixture
def base() -> dict[str, Any]:
    """A fresh copy of the valid config."""
    return copy.deepcopy(BASE)


@pytest.fixture
def read_changed(tmp_path: Path, base: dict[str, Any]) -> ReadChanged:
    """Reads the valid config after changes by dotted path, given as YAML text, in `tmp_path/arm.yaml`."""

    def read(changes: dict[str, str] | None = None, overrides: tuple[str, ...] = ()) -> Mechanism:
        for dotted, text in (changes or {}).items():
            *sections, last = dotted.split(".")
            place = base
            for key in sections:
                place = place.setdefault(key, {})
            place[last] = yaml.safe_load(text)
        (tmp_path / "arm.yaml").write_text(yaml.safe_dump(base))
        return read_config(tmp_path / "arm.yaml", overrides)

    return read
