"""A study of a damped oscillator: ten members in chunks of four, some of which are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

MEMBERS, CHUNK = 10, 4
CONFIG = str(Path(__file__).parents[1] / "configs" / "damped_oscillator.yaml")
STUDY: dict[str, Any] = {
    "name": "oscillators",
    "seed": 3,
    "design": "random",
    "members": MEMBERS,
    "chunk": CHUNK,
    "vary": {
        "mass/mass": {"uniform": [-1.0, 4.0]},  # some members are refused
        "rail/friction/viscous": {"log_uniform": [0.1, 4.0]},
        "initial/rail/q[0]": {"normal": {"mean": 0.0, "std": 0.1}},
        "gravity[0]": {"uniform": [-1.0, 1.0]},
    },
    "keep": {
        "final": ["v", "position/mass"],
        "series": {"names": ["q/rail"], "every": 0.2},
        "reduce": {
            "drift": {"of": "total", "by": "range"},
            "furthest": {"of": "position/mass", "axis": "x", "by": "max"},
            "when": {"of": "q/rail", "by": "argmax"},
        },
    },
    "simulation": {"t1": 1.0, "save_every": 0.1, "dt": 0.01, "method": "rk4"},
}
