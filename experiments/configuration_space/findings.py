"""From runs to numbers: orders of drift, ratios between the groups, rows of `result.json`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from cases import ERROR_T1, GROUPS, Key, Options, Study
from programs import Record, turn


def rounded(value: float) -> float | None:
    """Four digits; None for what is not finite."""
    return float(f"{value:.4g}") if np.isfinite(value) else None


def largest(values: Any) -> Any:
    """The largest absolute value over time; NaN if any is."""
    return np.max(np.abs(values), axis=0)


def slope(sizes: Iterable[float], values: Iterable[float], low: float, high: float) -> float:
    """Observed order on the values between `low` and `high`; NaN for fewer than three of them."""
    points = [(dt, value) for dt, value in zip(sizes, values, strict=True) if low < value < high]
    if len(points) < 3:
        return np.nan
    x, y = np.log(np.array(points)).T
    return float(np.polyfit(x, y, 1)[0])


def rows(result: Study) -> list[dict[str, Any]]:
    """One row per run, for `result.json`."""
    table = []
    for key, run in result.runs.items():
        gaps = dict(zip(result.grounded, largest(run.gap), strict=True))
        row: dict[str, Any] = {"groups": "+".join(key.groups), "method": key.method, "dt": key.dt}
        row["gap_m"] = {joint: rounded(gap) for joint, gap in gaps.items()}
        row["energy_drift_J"] = rounded(largest(run.drift))
        row["error_m"] = rounded(result.errors[key])
        row["evaluations_per_step"] = rounded(result.evaluations[key])
        table.append(row)
    return table


def drift_orders(result: Study, options: Options) -> dict[str, dict[str, float | None]]:
    """Observed order of the gap of each joint, by groups and method."""
    orders: dict[str, dict[str, float | None]] = {}
    for groups, method in result.times:
        gaps = [largest(result.runs[Key(groups, method, dt)].gap) for dt in options.sizes]
        values = zip(result.grounded, np.array(gaps).T, strict=True)
        found = {joint: rounded(slope(options.sizes, gap, 1e-11, 0.05)) for joint, gap in values}
        orders[f"{'+'.join(groups)} {method}"] = found
    return orders


def both(result: Study, method: str, sizes: Iterable[float]) -> list[tuple[Record, Record]]:
    """Runs of a method with all bodies on SE(3) and all on SO(3)xR3, for each step size."""
    bodies = len(next(iter(result.runs)).groups)
    a, b = ((group,) * bodies for group in GROUPS)
    return [(result.runs[Key(a, method, dt)], result.runs[Key(b, method, dt)]) for dt in sizes]


def energy_ratios(result: Study, options: Options) -> dict[str, list[float | None]]:
    """By method and for each step size: largest energy drift on SO(3)xR3 over that on SE(3)."""
    ratio = lambda a, b: rounded(largest(b.drift) / largest(a.drift))  # noqa: E731
    return {m: [ratio(a, b) for a, b in both(result, m, options.sizes)] for m in options.methods}


def gap_ratios(result: Study, options: Options) -> dict[str, list[float | None]]:
    """The same for the largest gap of the joints between bodies; None at rounding."""
    places = [i for i, ground in enumerate(result.grounded.values()) if not ground]

    def ratio(a: Record, b: Record) -> float | None:
        x, y = (np.max(run.gap[:, places]) for run in (a, b))
        return rounded(y / x) if min(x, y) > 1e-12 else None

    return {m: [ratio(a, b) for a, b in both(result, m, options.sizes)] for m in options.methods} if places else {}


def rotation_differences(result: Study, options: Options) -> dict[str, list[float | None]]:
    """By method and for each step size: the largest difference (rad) between the axes of bodies on the two groups."""
    return {m: [rounded(turn(a, b, ERROR_T1)) for a, b in both(result, m, options.sizes)] for m in options.methods}


def cost_ratios(result: Study, options: Options) -> dict[str, dict[str, float | None]]:
    """By method: SO(3)xR3 over SE(3) of time per step, of steps for the same error, and of time for the same error.

    Steps for the same error: from the geometric mean of the errors' ratio at equal steps, and the order of the method.
    """
    bodies, found = len(next(iter(result.runs)).groups), {}
    for method in options.methods:
        time_ratio = result.times[(GROUPS[1],) * bodies, method] / result.times[(GROUPS[0],) * bodies, method]
        a, b = ([result.errors[Key((g,) * bodies, method, dt)] for dt in options.sizes] for g in GROUPS)
        clean = [(x, y) for x, y in zip(a, b, strict=True) if 100 * result.floor < min(x, y) and max(x, y) < 1e-2]
        order = sum(slope(options.sizes, errors, 100 * result.floor, 1e-2) for errors in (a, b)) / 2
        excess = float(np.exp(np.mean([np.log(y / x) for x, y in clean]))) if clean else np.nan
        steps = excess ** (1 / order)
        found[method] = {
            "time_per_step": rounded(time_ratio),
            "error_at_equal_steps": rounded(excess),
            "steps_at_equal_error": rounded(steps),
            "time_at_equal_error": rounded(time_ratio * steps),
        }
    return found


def report(result: Study, options: Options) -> dict[str, Any]:
    """What `result.json` holds of a mechanism."""
    on_se3 = [
        float(gap)
        for key, run in (*result.runs.items(), *result.long.items())
        for joint, gap in zip(result.grounded, largest(run.gap), strict=True)
        if result.grounded[joint] and set(key.groups) == {"SE3"} and np.isfinite(gap)
    ]
    long = {
        f"{'+'.join(key.groups)} {key.method}": {
            "gap_m": rounded(float(largest(run.gap)[0])),
            "energy_drift_J": rounded(largest(run.drift)),
        }
        for key, run in result.long.items()
    }
    return {
        "largest_ground_gap_on_SE3_m": rounded(max(on_se3)) if on_se3 else None,
        "order_of_gap": drift_orders(result, options),
        "energy_drift_SO3xR3_over_SE3": energy_ratios(result, options),
        "gap_between_bodies_SO3xR3_over_SE3": gap_ratios(result, options),
        "rotation_difference_between_groups_rad": rotation_differences(result, options),
        "SO3xR3_over_SE3": cost_ratios(result, options),
        "time_per_step": {f"{'+'.join(groups)} {method}": rounded(t) for (groups, method), t in result.times.items()},
        "reference_uncertainty_m": rounded(result.floor),
        "five_seconds": long,
        "runs": rows(result),
    }
