"""Markdown tables of a result's studies."""

from __future__ import annotations

import itertools
import math
from typing import Any

GOALS_M = (1e-4, 1e-6, 1e-9)
"""Errors at which codes are compared at equal accuracy, m."""


def name_of(case: dict[str, Any]) -> str:
    """A case's mechanism, with its size where it has one."""
    return f"{case['mechanism']}{case['size']}" if case["mechanism"] in ("chain", "four_bar") else case["mechanism"]


def table(head: list[str], rows: list[list[str]]) -> str:
    """Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)


def number(value: float | None, digits: int = 3) -> str:
    """With so many significant digits, without an exponent where that is readable; a dash for nothing."""
    if value is None or not math.isfinite(value):
        return "-"
    if value == 0:
        return "0"
    exponent = math.floor(math.log10(abs(value)))
    if -4 < exponent < 7:
        return f"{round(value, digits - 1 - exponent):,.{max(0, digits - 1 - exponent)}f}"
    return f"{value:.{digits - 1}e}"


def failure(row: dict[str, Any]) -> str | None:
    """Why a row has no figures."""
    return row.get("missing") or (f"error: {row['error']}" if "error" in row else None)


def throughput(result: dict[str, Any]) -> str:
    """One case: steps per second of all members together, beside C MuJoCo's on as many threads."""
    case, rows = result["case"], []
    for row in result["rows"]:
        if failure(row):
            rows.append([row["name"], "-", "-", "-", "-", "-", str(failure(row))])
            continue
        low, middle, high = row["quartiles_s"]
        peer = _peer(result["rows"], row)
        rows.append(
            [
                row["name"],
                number(row["steps_per_second"]),
                number(row["steps_per_second"] / peer["steps_per_second"]) if peer else "-",
                f"{100 * (high - low) / middle:.0f} %",
                number(_compile_time(row)),
                number(row.get("distance_m"), 2),
                row.get("note", ""),
            ]
        )
    head = ["code", "steps/s", "x C MuJoCo", "quartiles", "compile s", "distance m", "note"]
    title = (
        f"**{name_of(case)}**, batch {case['batch']}, {case['steps']} steps of {number(case['dt'])} s, {case['method']}"
    )
    return f"{title}\n\n{table(head, rows)}"


def _peer(rows: list[dict[str, Any]], row: dict[str, Any]) -> dict[str, Any] | None:
    threads = row["contender"]["threads"]
    peers = [r for r in rows if r["contender"]["code"] == "mujoco" and r["contender"]["threads"] == threads]
    return peers[0] if peers and not failure(peers[0]) and row["contender"]["device"] == "cpu" else None


def _compile_time(row: dict[str, Any]) -> float:
    return row.get("trace_s", 0.0) + row.get("compile_s", 0.0)


def growth(results: list[dict[str, Any]]) -> str:
    """Microseconds per step and member, and compile time, by size; one row for each code and batch."""
    sizes = sorted({result["case"]["size"] for result in results})
    rows = []
    for batch in sorted({result["case"]["batch"] for result in results}):
        of_batch = {r["case"]["size"]: r for r in results if r["case"]["batch"] == batch}
        for i, row in enumerate(next(iter(of_batch.values()))["rows"]):
            times, compiles = [], []
            for size in sizes:
                found: dict[str, Any] = of_batch[size]["rows"][i] if size in of_batch else {"missing": "-"}
                times.append("-" if failure(found) else number(1e6 / found["steps_per_second"]))
                compiles.append("-" if failure(found) else number(_compile_time(found), 2))
            rows.append([row["name"], str(batch), "us per step and member", *times])
            if any(text not in ("-", "0") for text in compiles):
                rows.append([row["name"], str(batch), "compile s", *compiles])
    return table(["code", "batch", "", *map(str, sizes)], rows)


def precision(results: list[dict[str, Any]]) -> str:
    """Simulated seconds per second of all members together, at equal accuracy or better."""
    rows, ranges = [], []
    for mechanism in dict.fromkeys(name_of(result["case"]) for result in results):
        own = [result for result in results if name_of(result["case"]) == mechanism]
        ranges.append([mechanism, *_references(own[0]["reference"])])
        for i, row in enumerate(own[0]["rows"]):
            points = work_precision(own, i)
            rates = [number(rate_at(points, goal)) for goal in GOALS_M]
            smallest = min((error for error, _ in points), default=None)
            rows.append([mechanism, row["name"], *rates, number(smallest, 2)])
    head = ["mechanism", "code", *[f"at {goal:g} m" for goal in GOALS_M], "smallest error m"]
    introduction = "The reference is C MuJoCo's with 4096 steps; how far others end from it, largest of all members:"
    compared = table(["mechanism", "Exudyn, 8192 steps, m", "jmbs, tolerance 1e-12, m"], ranges)
    return f"{table(head, rows)}\n{introduction}\n\n{compared}"


def _references(found: dict[str, Any]) -> list[str]:
    values = [found.get(key, failure(found)) for key in ("exudyn_m", "jmbs_m")]
    return [value if isinstance(value, str) else number(value, 2) for value in values]


def work_precision(results: list[dict[str, Any]], index: int) -> list[tuple[float, float]]:
    """`(error m, simulated seconds per second)` of a contender, for each step size that worked."""
    points = []
    for result in results:
        row, case = result["rows"][index], result["case"]
        if not failure(row) and row.get("distance_m"):
            points.append((row["distance_m"], row["steps_per_second"] * case["dt"]))
    return points


def rate_at(points: list[tuple[float, float]], goal: float) -> float | None:
    """The highest rate within an error: of the points, and of the straight lines between neighbours in logarithms."""
    rates = [rate for error, rate in points if error <= goal]
    for (e0, r0), (e1, r1) in itertools.pairwise(points):
        if min(e0, e1) < goal < max(e0, e1):
            share = math.log(goal / e0) / math.log(e1 / e0)
            rates.append(math.exp(math.log(r0) + share * math.log(r1 / r0)))
    return max(rates, default=None)


def gradients(result: dict[str, Any]) -> str:
    """Derivatives of one rollout: time, compile and memory, also relative to the code's own forward run."""
    rows = []
    for row in result["rows"]:
        if failure(row):
            rows.append([row["name"], "-", "-", "-", "-", "-", str(failure(row))])
            continue
        base = next(
            (
                r
                for r in result["rows"]
                if r["contender"] == row["contender"] | {"derivative": "none"} and not failure(r)
            ),
            None,
        )
        time, memory = row["quartiles_s"][1], row.get("memory_bytes")
        rows.append(
            [
                row["name"],
                number(time),
                number(time / base["quartiles_s"][1]) if base else "-",
                number(_compile_time(row)),
                number(_compile_time(row) / _compile_time(base)) if base else "-",
                number(None if memory is None else memory / 2**20),
                row.get("note", ""),
            ]
        )
    head = ["code", "run s", "x run", "compile s", "x compile", "memory MiB", "note"]
    case = result["case"]
    return f"**{name_of(case)}**, batch {case['batch']}, {case['steps']} steps\n\n{table(head, rows)}"
