"""Limits of an experiment: which there are, what coefficients reach, and constraints for the search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from jmbs.errors import ModelError
from jmbs.identification.design_problem import DesignProblem, ExperimentPlan, Limit
from jmbs.identification.excitation import (
    CRITERIA,
    Basis,
    Excitation,
    require_count,
    require_positive,
)
from jmbs.identification.output_names import OutputName, parse_output
from jmbs.library.mechanics import is_number, nearest, show
from jmbs.simulation import Model

WINDOWS = 40
"""Parts of an experiment in each of which the search looks at the extremes of a limited output."""
RATE = "/rate"
MOST_SAMPLES = 1e7
"""Of an experiment."""
FEWEST_ROWS = 10
"""Samples, and rows of a table, in the shortest time in which an input changes."""


class Reach(NamedTuple):
    """A limit, `lower` and `upper`, and between what a designed experiment stays: `least` and `most`."""

    lower: float
    upper: float
    least: float
    most: float


def check_excitation(excitation: Excitation, model: Model) -> tuple[tuple[Limit, ...], dict[str, OutputName]]:
    """The limits of an experiment with a model, and the outputs among them by name. Raises `ModelError` for whatever is
    wrong in it."""
    _require_inputs(excitation, model)
    if excitation.criterion not in CRITERIA:
        wanted = f"one of {', '.join(CRITERIA)}"
        raise ModelError("criterion", show(excitation.criterion), wanted)
    require_positive("rate", excitation.rate, "Hz")
    require_count("starts", excitation.starts, 1)
    require_count("max_iterations", excitation.max_iterations, 1)
    duration = duration_of(excitation)
    if not duration * excitation.rate <= MOST_SAMPLES:
        found = f"{excitation.rate:g} Hz for {duration:g} s"
        raise ModelError("rate", found, f"no more than {MOST_SAMPLES:g} samples")
    return _limits(excitation, model)


def _require_inputs(excitation: Excitation, model: Model) -> None:
    if not excitation.inputs:
        raise ModelError("inputs", "none", "at least one, which is designed")
    slots = model.dae.plan.drive_slots
    for path, basis in excitation.inputs.items():
        if path not in slots:
            raise ModelError(f"inputs/{path}", "no such port", f"a known one{nearest(path, slots)}")
        if len(slots[path]) != 1:
            wanted = "a port of one entry, such as <joint>/actuation of a hinge"
            raise ModelError(f"inputs/{path}", f"{len(slots[path])} entries", wanted)
        if not isinstance(basis, Basis):
            raise ModelError(f"inputs/{path}", show(basis), "a jmbs.Multisine or a jmbs.BSpline")
        basis.refuse(f"inputs/{path}")


def duration_of(excitation: Excitation) -> float:
    """How long the experiment lasts, s. Raises `ModelError` where nothing says it, and for samples too far apart."""
    lengths = [length for basis in excitation.inputs.values() if (length := basis.length()) is not None]
    if excitation.duration is not None:
        require_positive("duration", excitation.duration, "s")
    elif not lengths:
        raise ModelError("duration", "nothing", "how long the experiment lasts, s: B-splines have no period")
    duration = float(max(lengths) if excitation.duration is None else excitation.duration)
    shortest = min(basis.shortest(duration) for basis in excitation.inputs.values())
    if excitation.rate * shortest < FEWEST_ROWS * (1 - 1e-9):
        wanted = (
            f"{FEWEST_ROWS / shortest:g} Hz or more: {FEWEST_ROWS} samples in the {shortest:g} s of the quickest change"
        )
        raise ModelError("rate", f"{excitation.rate:g} Hz", wanted)
    return duration


def _limits(excitation: Excitation, model: Model) -> tuple[tuple[Limit, ...], dict[str, OutputName]]:
    limits, outputs = [], {}
    for name, given in excitation.limits.items():
        where = f"limits/{name}"
        lower, upper = _pair(where, given)
        path = name.removesuffix(RATE)
        kind = "input" if name in excitation.inputs else "rate" if path in excitation.inputs else "output"
        if kind == "output":
            outputs[name] = parse_output(model, name, where)
            if outputs[name].kind == "actuation":
                raise ModelError(where, "an input that is not designed", f"one of {', '.join(excitation.inputs)}")
        elif not lower < 0 < upper:
            raise ModelError(where, f"{lower:g} to {upper:g}", "limits on both sides of zero")
        limits.append(Limit(name, kind, name if kind == "output" else path, lower, upper))
    for path in excitation.inputs:
        if path not in excitation.limits:
            raise ModelError(f"limits/{path}", "nothing", "a number or a pair: without a limit no input is the best")
    return tuple(limits), outputs


def _pair(where: str, given: Any) -> tuple[float, float]:
    if is_number(given) and given > 0:
        return -float(given), float(given)
    if isinstance(given, tuple | list) and len(given) == 2 and all(is_number(end) for end in given):
        lower, upper = (float(end) for end in given)
        if lower < upper:
            return lower, upper
    raise ModelError(where, show(given), "a positive number for both signs, or a lower and an upper one")


def reached(plan: ExperimentPlan, coefficients: np.ndarray, shown: Mapping[str, np.ndarray]) -> dict[str, Reach]:
    """By name each limit and what is reached: by tables, between whose rows inputs are linear, and at sample times."""
    inputs = plan.inputs(coefficients)
    found = {}
    for limit in plan.limits:
        if limit.kind == "output":
            values = shown[limit.name]
        elif limit.kind == "input":
            values = inputs[limit.path]
        else:
            values = np.diff(inputs[limit.path]) / np.diff(plan.ts)
        found[limit.name] = Reach(limit.lower, limit.upper, float(np.min(values)), float(np.max(values)))
    return found


def beyond(reach: Mapping[str, Reach]) -> tuple[float, str]:
    """How far the worst limit is left, beside half its width, and its name; not above zero where all are kept."""
    worst, name = -np.inf, ""
    for key, one in reach.items():
        by = 2 * max(one.lower - one.least, one.most - one.upper) / (one.upper - one.lower)
        by = np.inf if np.isnan(by) else by
        if by > worst:
            worst, name = by, key
    return float(worst), name


def input_rows(plan: ExperimentPlan) -> tuple[np.ndarray, np.ndarray]:
    """Rows (r, k) and bounds (r,): inputs and rates keep their limits where `rows @ coefficients <= bounds`."""
    total = sum(plan.sizes)
    rows, bounds = [np.zeros((0, total))], [np.zeros(0)]
    first = dict(zip(plan.excitation.inputs, np.cumsum([0, *plan.sizes[:-1]]), strict=True))
    for limit in plan.limits:
        if limit.kind == "output":
            continue
        basis = plan.excitation.inputs[limit.path]
        own = basis.value_rows(plan.duration) if limit.kind == "input" else basis.rate_rows(plan.duration)
        whole = np.zeros((len(own), total))
        whole[:, first[limit.path] : first[limit.path] + own.shape[1]] = own
        middle, half = (limit.upper + limit.lower) / 2, limit.half * basis.margin
        for sign in (1.0, -1.0):
            rows.append(sign * whole / half)
            bounds.append(np.full(len(own), (sign * middle + half) / half))
    return np.concatenate(rows), np.concatenate(bounds)


def scaled_to_inputs(plan: ExperimentPlan, coefficients: np.ndarray, part: float) -> np.ndarray:
    """The coefficients times what takes the inputs to a `part` of what their limits allow."""
    rows, bounds = input_rows(plan)
    return coefficients * part / float(np.max(rows @ coefficients / bounds))


def output_room(problem: DesignProblem, coefficients: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How far the extremes of limited outputs in each window are from their limits, (r,), beside half their width, and
    the derivative (r, k)."""
    shown, slope = problem.limited(coefficients)
    limits = [limit for limit in problem.plan.limits if limit.kind == "output"]
    windows = np.array_split(np.arange(shown.shape[1]), min(WINDOWS, shown.shape[1]))
    room, rows = [np.zeros(0)], [np.zeros((0, len(coefficients)))]
    for values, derivative, limit in zip(shown, slope, limits, strict=True):
        high = np.array([window[np.argmax(values[window])] for window in windows])
        low = np.array([window[np.argmin(values[window])] for window in windows])
        room += [(limit.upper - values[high]) / limit.half, (values[low] - limit.lower) / limit.half]
        rows += [-derivative[high] / limit.half, derivative[low] / limit.half]
    return np.concatenate(room), np.concatenate(rows)
