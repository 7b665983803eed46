"""What jmbs wants to reach, and whether a result shows it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from experiments.benchmarks.tables import failure, name_of, number

MECHANISMS = ("chain8", "humanoid")
MANY = 256


class Claim(NamedTuple):
    """A goal and what was found; `value` is None where nothing was measured."""

    text: str
    value: float | None
    wanted: str
    met: Callable[[float], bool]
    remark: str = ""

    def cells(self) -> list[str]:
        """A row of the table."""
        verdict = "not measured" if self.value is None else ("yes" if self.met(self.value) else "no")
        return [self.text, number(self.value), self.wanted, verdict, self.remark]


def claims(result: dict[str, Any]) -> list[Claim]:
    """All goals for a result; on a GPU there are none but to compare."""
    cpu = [*_throughput(result), *_single(result), *_growth(result), *_loops(result), *_gradients(result)]
    return [] if "gpu" in result["hardware"] else cpu


def _cases(result: dict[str, Any], study: str) -> list[dict[str, Any]]:
    return result["studies"].get(study, {}).get("cases", [])


def _row(case: dict[str, Any] | None, code: str, precision: str, threads: int, **more: Any) -> dict[str, Any] | None:
    wanted = {"code": code, "precision": precision, "threads": threads, "audit": False, "derivative": "none"} | more
    for row in case["rows"] if case else []:
        if not failure(row) and all(row["contender"][key] == value for key, value in wanted.items()):
            return row
    return None


def _find(cases: list[dict[str, Any]], **wanted: Any) -> dict[str, Any] | None:
    return next((c for c in cases if all(c["case"][key] == value for key, value in wanted.items())), None)


def _ratio(a: dict[str, Any] | None, b: dict[str, Any] | None, figure: Callable[[dict[str, Any]], float]):
    return figure(a) / figure(b) if a and b and figure(b) else None


def _rate(row: dict[str, Any]) -> float:
    return row["steps_per_second"]


def _time_per_step(row: dict[str, Any]) -> float:
    return 1.0 / row["steps_per_second"]


def _compile_time(row: dict[str, Any]) -> float:
    return row["trace_s"] + row["compile_s"]


def _throughput(result: dict[str, Any]) -> list[Claim]:
    rows = []
    for case in _cases(result, "batches"):
        if name_of(case["case"]) not in MECHANISMS or case["case"]["batch"] < MANY:
            continue
        for threads in (1, 0):
            place = (
                f"{name_of(case['case'])}, batch {case['case']['batch']}, {'1 thread' if threads else 'all threads'}"
            )
            peer = _row(case, "mujoco", "float64", threads)
            for precision, least in (("float64", 1.0), ("float32", 1.5)):
                value = _ratio(_row(case, "jmbs", precision, threads), peer, _rate)
                text = f"{place}: jmbs {precision} / C MuJoCo"
                rows.append(Claim(text, value, f">= {least:g}", lambda x, least=least: x >= least))
            mjx = [_row(case, "mjx", precision, threads) for precision in ("float32", "float64")]
            best = max((row for row in mjx if row), key=_rate, default=None)
            precision = best["contender"]["precision"] if best else "float32"
            value = _ratio(_row(case, "jmbs", precision, threads), best, _rate)
            rows.append(Claim(f"{place}: jmbs {precision} / MJX at its best", value, ">= 6", lambda x: x >= 6))
    return rows


def _single(result: dict[str, Any]) -> list[Claim]:
    rows = []
    for case in _cases(result, "one mechanism"):
        if name_of(case["case"]) in MECHANISMS:
            value = _ratio(_row(case, "jmbs", "float64", 1), _row(case, "mujoco", "float64", 1), _rate)
            text = f"{name_of(case['case'])}, one mechanism alone: jmbs / C MuJoCo"
            rows.append(Claim(text, value, ">= 0.25", lambda x: x >= 0.25))
    return rows


def _growth(result: dict[str, Any]) -> list[Claim]:
    cases, rows = _cases(result, "growth"), []
    for batch in sorted({case["case"]["batch"] for case in cases}):
        long, short = (_row(_find(cases, size=n, batch=batch), "jmbs", "float64", 1) for n in (128, 8))
        place = f"chain of 128 / chain of 8, batch {batch}"
        time, compile_time = _ratio(long, short, _time_per_step), _ratio(long, short, _compile_time)
        rows.append(Claim(f"{place}: time per step", time, "<= 20", lambda x: x <= 20))
        rows.append(Claim(f"{place}: compile time", compile_time, "<= 1.3", lambda x: x <= 1.3))
        seconds = _compile_time(long) if long else None
        rows.append(Claim(f"chain of 128, batch {batch}: compile time, s", seconds, "< 10", lambda x: x < 10))
    return rows


def _loops(result: dict[str, Any]) -> list[Claim]:
    cases = _cases(result, "loops")
    if not cases:
        return []
    many, one = (_row(_find(cases, size=n), "jmbs", "float64", 1) for n in (40, 1))
    value = _ratio(many, one, _time_per_step)
    pairs = [(c["case"]["size"], _row(c, "jmbs", "float64", 1)) for c in cases]
    exponent = _exponent([(size, _time_per_step(row)) for size, row in pairs if row])
    remark = "" if exponent is None else f"exponent of growth at the end: {exponent:.2f}"
    return [Claim("40 windows / 1 window: time per step", value, "<= 60", lambda x: x <= 60, remark)]


def _exponent(points: list[tuple[int, float]]) -> float | None:
    if len(points) < 2:
        return None
    (n0, t0), (n1, t1) = points[-2:]
    return math.log(t1 / t0) / math.log(n1 / n0)


def _gradients(result: dict[str, Any]) -> list[Claim]:
    rows = []
    for case in _cases(result, "gradients"):
        forward, reverse, naive = (
            _row(case, "jmbs", "float64", 1, derivative=kind) for kind in ("none", "reverse", "naive")
        )
        place = f"{name_of(case['case'])}, {case['case']['steps']} steps: reverse gradient"
        time = _ratio(reverse, forward, lambda row: row["quartiles_s"][1])
        rows.append(Claim(f"{place} / forward run, time", time, "<= 3", lambda x: x <= 3))
        compile_time = _ratio(reverse, forward, _compile_time)
        rows.append(Claim(f"{place} / forward run, compile time", compile_time, "<= 3", lambda x: x <= 3))
        memory = _ratio(reverse, naive, lambda row: row["memory_bytes"] or math.nan)
        rows.append(Claim(f"{place} / naive reverse mode, memory", memory, "<= 0.1", lambda x: x <= 0.1))
    return rows
