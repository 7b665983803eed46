"""Accelerometers beside inputs that jump are named, with how many samples are smeared."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from jmbs.identification import Input, Recording
from jmbs.identification.jump_findings import jump_findings

TS = np.arange(0.0, 1.0, 0.01)
TABLE = np.arange(0.0, 1.01, 0.25)


def experiment(kind: str, hold: str, values: Any) -> Any:
    """What is looked at of an experiment with steps of 10 ms."""
    given = Recording("one", TS, {"a": 0 * TS}, {"hinge/actuation": Input(TABLE, np.asarray(values, float), hold)})
    member = SimpleNamespace(step=0.01)
    return SimpleNamespace(
        recording=given, member=member, outputs={"a": SimpleNamespace(kind=kind)}, weights={"a": np.ones(120)}
    )


def test_samples_near_jumps_are_counted():
    (found,) = jump_findings(experiment("accelerometer", "zero", [0, 0, 1, 1, 0]))
    assert (found.code, found.severity, found.recording, found.channel) == ("smeared_jumps", "warning", "one", "a")
    # Five about 0.5 s, two before 1 s.
    assert "found 7 of 100 samples" in found.message


def test_nothing_is_said_where_nothing_jumps_or_nothing_smears():
    assert not jump_findings(experiment("accelerometer", "zero", [1, 1, 1, 1, 1]))
    assert not jump_findings(experiment("accelerometer", "linear", [0, 0, 1, 1, 0]))
    assert not jump_findings(experiment("q", "zero", [0, 0, 1, 1, 0]))
