"""Before anything is timed: do all codes simulate the same mechanisms? Their accelerations say so."""

from __future__ import annotations

import contextlib
from dataclasses import asdict
from typing import Any

import numpy as np

from experiments.benchmarks.cases import Case, Contender
from experiments.benchmarks.environments import Missing
from experiments.benchmarks.kinematics import random_states
from experiments.benchmarks.measure import Open
from experiments.benchmarks.mechanisms import system_of

CASES = (Case("chain", 8, batch=3), Case("humanoid", batch=3), Case("panda", batch=3), Case("four_bar", 2, batch=3))
QUICK_CASES = (Case("chain", 2, batch=2), Case("four_bar", 1, batch=2))
CODES, GPU_CODES = ("mujoco", "mjx", "pinocchio", "exudyn"), ("mjx",)
TOLERANCE = 1e-9
"""Largest difference of an acceleration from jmbs's, relative to the largest acceleration of that state."""
TURN = 0.3
"""rad, by which the uprights of windows lean: a row of parallelograms, so all of them may."""


class Different(Exception):
    """Two codes do not simulate the same mechanism."""


def check(cases: tuple[Case, ...], codes: tuple[str, ...], start: Open, limit: float) -> list[dict[str, Any]]:
    """A row for each case and code: `relative_difference`, or why there is none.

    Raises `Different` beyond the tolerance, and `Missing` where jmbs itself cannot answer.
    """
    rows = []
    for case in cases:
        system = system_of(case.mechanism, case.size)
        q, v = random_states(system, case.batch)
        if system.loops:
            q = q + TURN * system.v
        own = _ask(Contender("jmbs", threads=1), case, q.tolist(), v.tolist(), start, limit)
        if "acceleration" not in own:
            raise Missing(f"jmbs: accelerations of {case.name}: {own.get('missing', own.get('error'))}")
        for code in codes:
            other = _ask(Contender(code, threads=1), case, own["q"], own["v"], start, limit)
            row: dict[str, Any] = {"mechanism": case.name, "code": code}
            if "acceleration" in other:
                row["relative_difference"] = _difference(own["acceleration"], other["acceleration"])
            else:
                row |= {key: other[key] for key in ("missing", "error") if key in other}
            print(f"accelerations of {case.name}, {code} and jmbs: {_told(row)}", flush=True)
            if not row.get("relative_difference", 0.0) <= TOLERANCE:
                found = f"accelerations that differ by {row['relative_difference']:.1e} of the largest"
                raise Different(f"{case.name}: {code} and jmbs: found {found}, wanted at most {TOLERANCE:g}")
            rows.append(row)
    return rows


def _ask(contender: Contender, case: Case, q: Any, v: Any, start: Open, limit: float) -> dict[str, Any]:
    try:
        with contextlib.closing(start(contender)) as worker:
            return worker.ask({"do": "accelerations", "case": asdict(case), "q": q, "v": v}, limit)
    except Missing as reason:
        return {"missing": str(reason)}


def _difference(own: Any, other: Any) -> float:
    a, b = np.array(own), np.array(other)
    return float(np.max(np.abs(a - b).max(axis=1) / np.abs(a).max(axis=1)))


def _told(row: dict[str, Any]) -> str:
    if "relative_difference" in row:
        return f"{row['relative_difference']:.1e}"
    return row.get("missing") or f"error: {row['error']}"
