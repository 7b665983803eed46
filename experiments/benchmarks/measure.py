"""One case, several codes, side by side: all are prepared, then timed in turns, A B C A B C."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from experiments.benchmarks.cases import Case, Contender, Study
from experiments.benchmarks.environments import Missing
from experiments.benchmarks.kinematics import position_errors
from experiments.benchmarks.mechanisms import system_of
from experiments.benchmarks.processes import Worker
from experiments.benchmarks.worker import KEPT_MEMBERS

Open = Callable[[Contender], Worker]
"""Starts a contender's worker; raises `Missing`."""

REFERENCE_STEPS = 4096
"""Of the reference. The second one takes twice as many: with equal ones both would share the method's own error."""
TIGHT_TOLERANCE = 1e-12
"""Of jmbs's own most accurate run, which is compared with the reference and never is one: jmbs is what is judged."""


def measure(study: Study, start: Open, limit: float) -> Iterator[dict[str, Any]]:
    """A study's cases, as they are done, with a row for each contender; `limit`: seconds that one answer may take."""
    references: dict[tuple[str, int, float], dict[str, Any]] = {}
    for case in study.cases:
        print(f"{study.name}: {case.name}, batch {case.batch}, {case.steps} steps of {case.dt:g} s", flush=True)
        rows = measure_case(case, study.contenders, study.repeats, start, limit)
        result: dict[str, Any] = {"case": asdict(case)}
        if study.name == "precision":
            key = (case.mechanism, case.size, round(case.steps * case.dt, 9))
            if key not in references:
                references[key] = reference(case, start, limit)
            result["reference"] = {k: v for k, v in references[key].items() if k != "q"}
            goal = references[key].get("q")
        else:
            goal = next((row["q"] for row in rows if "q" in row), None)
        yield result | {"rows": [_finished(case, row, goal) for row in rows]}


def measure_case(
    case: Case, contenders: tuple[Contender, ...], repeats: int, start: Open, limit: float
) -> list[dict[str, Any]]:
    """A row for each contender: what preparing told, final states, `seconds` of each repeat."""
    rows = [{"name": contender.name, "contender": asdict(contender)} for contender in contenders]
    with contextlib.ExitStack() as stack:
        workers: list[Worker | None] = []
        for contender, row in zip(contenders, rows, strict=True):
            try:
                worker = start(contender)
                stack.callback(worker.close)
                answer = worker.ask({"do": "prepare", "case": asdict(contender.case(case))}, limit)
            except Missing as reason:
                worker, answer = None, {"missing": str(reason)}
            row |= answer
            workers.append(None if _failed(answer) else worker)
            print(f"  {row['name']}: {_told(answer)}", flush=True)
        for _ in range(repeats):
            for worker, row in zip(workers, rows, strict=True):
                if worker is not None and not _failed(row):
                    answer = worker.ask({"do": "run"}, limit)
                    row |= answer if _failed(answer) else {"seconds": [*row.get("seconds", []), answer["seconds"]]}
    return rows


def reference(case: Case, start: Open, limit: float) -> dict[str, Any]:
    """Final coordinates `q` of the first members by C MuJoCo with a very small step; or `missing` or `error`, why not.

    Beside them, how far from it others end, m, the largest of all members, or a reason in words: `exudyn_m`, which is
    the reference's uncertainty, and `jmbs_m`, with the adaptive method of eighth order at a tight tolerance.
    """
    span, system = case.steps * case.dt, system_of(case.mechanism, case.size)
    asked = replace(case, batch=min(case.batch, KEPT_MEMBERS))

    def steps(count: int) -> Case:
        return replace(asked, steps=count, dt=span / count)

    found = _final(Contender("mujoco", threads=1), steps(REFERENCE_STEPS), start, limit)
    if _failed(found):
        return found
    others = {
        "exudyn_m": (Contender("exudyn", threads=1), steps(2 * REFERENCE_STEPS)),
        "jmbs_m": (Contender("jmbs", threads=1), replace(steps(1), tolerance=TIGHT_TOLERANCE, method="dopri8")),
    }
    for name, (contender, task) in others.items():
        other = _final(contender, task, start, limit)
        if _failed(other):
            found[name] = _told(other)
        else:
            found[name] = float(position_errors(system, np.array(other["q"]), np.array(found["q"])).max())
    return found


def _final(contender: Contender, case: Case, start: Open, limit: float) -> dict[str, Any]:
    case = replace(case, precision=contender.precision, threads=contender.threads)
    try:
        with contextlib.closing(start(contender)) as worker:
            answer = worker.ask({"do": "prepare", "case": asdict(case)}, limit)
    except Missing as reason:
        return {"missing": str(reason)}
    return answer if _failed(answer) else {"q": answer["q"]}


def _finished(case: Case, row: dict[str, Any], goal: Any) -> dict[str, Any]:
    """The row with its statistics in place of the final state: `steps_per_second` of all members together, and
    `distance_m`, the median over members of the largest distance of a centre of mass from the goal's."""
    q = row.pop("q", None)
    row.pop("v", None)
    if _failed(row):
        return row
    quartiles = np.quantile(row["seconds"], (0.25, 0.5, 0.75))
    row["quartiles_s"] = quartiles.tolist()
    row["steps_per_second"] = row.get("members", case.batch) * case.steps / quartiles[1]
    if q is not None and goal is not None:
        count = min(len(q), len(goal))
        distances = position_errors(system_of(case.mechanism, case.size), np.array(q[:count]), np.array(goal[:count]))
        if not np.all(np.isfinite(distances)):
            row["error"] = "the final state is not finite"
        else:
            row["distance_m"] = float(np.median(distances))
    return row


def _failed(answer: dict[str, Any]) -> bool:
    return "missing" in answer or "error" in answer


def _told(answer: dict[str, Any]) -> str:
    if _failed(answer):
        return answer.get("missing") or f"error: {answer['error']}"
    return f"compiled in {answer.get('trace_s', 0.0) + answer.get('compile_s', 0.0):.1f} s"
