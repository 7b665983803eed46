"""What a sweep keeps of each member: values at the end, series over saved times, and reductions of these."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from jmbs.errors import ModelError
from jmbs.library.mechanics import nearest, show
from jmbs.simulation import Model, Trajectory, is_successful
from jmbs.sweeping.quantities import Axis, KeptQuantity, quantities

TIME, EVENT_TIME = "time", "event_time"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
FINAL = "final_"
"""What names of variables with values at the end begin with."""


class Reduction(NamedTuple):
    """One number for each entry over the saved times of a run: `by` one of `REDUCTIONS`; `entry` of the last axis
    that it is of alone, as (axis, index), or None."""

    name: str
    of: KeptQuantity
    by: str
    entry: tuple[int, int] | None = None


@dataclasses.dataclass(frozen=True)
class Keep:
    """**Arguments:** quantities whose last values, and whose series, are kept; reductions; `every`: time between the
    samples of series, s, None for that of the simulation."""

    final: tuple[KeptQuantity, ...] = ()
    series: tuple[KeptQuantity, ...] = ()
    reductions: tuple[Reduction, ...] = ()
    every: float | None = None

    @property
    def needs_audit(self) -> bool:
        """Whether the run must carry its account."""
        return any(kept.needs_audit for kept in (*self.final, *self.series, *(entry.of for entry in self.reductions)))


def _mean(x: Array, there: Bool[Array, " T"]) -> Array:
    return jnp.sum(jnp.where(_wide(there, x), x, 0.0), axis=0) / jnp.sum(there.astype(x.dtype))


def _lowest(x: Array, there: Bool[Array, " T"]) -> Array:
    return jnp.min(jnp.where(_wide(there, x), x, jnp.inf), axis=0)


def _highest(x: Array, there: Bool[Array, " T"]) -> Array:
    return jnp.max(jnp.where(_wide(there, x), x, -jnp.inf), axis=0)


def _place_of_highest(x: Array, there: Bool[Array, " T"]) -> Array:
    return jnp.argmax(jnp.where(_wide(there, x), x, -jnp.inf), axis=0)


def _last(x: Array, there: Bool[Array, " T"]) -> Array:
    return x[jnp.maximum(jnp.sum(there.astype(int)) - 1, 0)]


def _wide(mask: Array, x: Array) -> Array:
    return mask.reshape(mask.shape + (1,) * (x.ndim - 1))


REDUCTIONS: dict[str, Callable[[Array, Array, Array], Array]] = {
    "min": lambda x, there, ts: _lowest(x, there),
    "max": lambda x, there, ts: _highest(x, there),
    "mean": lambda x, there, ts: _mean(x, there),
    "range": lambda x, there, ts: _highest(x, there) - _lowest(x, there),
    "rms": lambda x, there, ts: jnp.sqrt(_mean(x * x, there)),
    "last": lambda x, there, ts: _last(x, there),
    "argmax": lambda x, there, ts: ts[_place_of_highest(x, there)],
}
"""Of values (T, ...) where `there` (T,), at times (T,); `argmax` is the time of the largest, s."""


def parse_keep(model: Model, given: Mapping[str, Any]) -> Keep:
    """What the section `keep` of a study says. Raises `ModelError`, with paths below `keep`."""
    final = _all(model, given.get("final") or (), "keep/final")
    series = given.get("series") or {}
    names = _all(model, series.get("names") or (), "keep/series/names")
    reductions = tuple(_reduction(model, name, entry) for name, entry in (given.get("reduce") or {}).items())
    if not (final or names or reductions):
        raise ModelError("keep", "nothing", "final, series or reduce: what to keep of each member")
    return Keep(final, names, reductions, series.get("every"))


def _all(model: Model, names: Any, place: str) -> tuple[KeptQuantity, ...]:
    found = [quantity for name in names for quantity in quantities(model, name, place)]
    return tuple(dict.fromkeys(found))


def _reduction(model: Model, name: str, given: Mapping[str, Any]) -> Reduction:
    place = f"keep/reduce/{name}"
    if not _NAME.fullmatch(name):
        raise ModelError(place, show(name), "a name of letters, digits, _, - and .")
    of = quantities(model, given["of"], f"{place}/of")
    if len(of) != 1:
        each = ", ".join(f"{one.field}/{one.elements[0]}" for one in of)
        raise ModelError(f"{place}/of", show(given["of"]), f"one of {each}")
    by = given["by"]
    if by not in REDUCTIONS:
        raise ModelError(f"{place}/by", show(by), f"one of {', '.join(REDUCTIONS)}{nearest(str(by), REDUCTIONS)}")
    axis = given.get("axis")
    return Reduction(name, of[0], by, None if axis is None else _entry(of[0], axis, f"{place}/axis"))


def _entry(quantity: KeptQuantity, axis: Any, place: str) -> tuple[int, int]:
    """The axis, counted behind time, and the index in it of a label."""
    labels = {label: (i, n) for i, one in enumerate(quantity.axes or ()) for n, label in enumerate(one.labels)}
    if axis not in labels:
        raise ModelError(place, show(axis), f"one of {', '.join(labels)}" if labels else "none: it has no axis")
    return labels[axis]


def kept_of(keep: Keep, run: Trajectory, times: np.ndarray, rows: np.ndarray) -> dict[str, Array]:
    """What is kept of a run, by variable.

    **Arguments:** `times` (T,) that it was to save, s; `rows`: which of them the series have.

    What a run that failed would have come to is NaN; its series go as far as it came. One that ended at an event has
    its last values there, and a sample there only if that is one of the times.
    """
    done, there = is_successful(run.status), jnp.isfinite(run.ts)
    safe = lambda value: jnp.where(done, value, jnp.nan)  # noqa: E731
    found = {FINAL + one.name: safe(_last(one.read(run), there)) for one in keep.final}
    for one in keep.series:
        values = one.read(run)
        if run.event_time is not None:
            values = jnp.where(_wide(run.ts == jnp.asarray(times, run.ts.dtype), values), values, jnp.nan)
        found[one.name] = values[rows]
    if run.event_time is not None:
        found[EVENT_TIME] = run.event_time
    for one in keep.reductions:
        values = one.of.read(run)
        if one.entry is not None:
            values = jnp.take(values, one.entry[1], axis=one.entry[0] + 1)
        found[one.name] = safe(REDUCTIONS[one.by](values, there, run.ts))
    return found


def described(keep: Keep, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[tuple[Axis, ...], dict[str, str]]]:
    """Axes, time among them, and attributes of what is kept, by variable; `shapes` of the arrays of one member."""
    found: dict[str, tuple[tuple[Axis, ...], dict[str, str]]] = {}
    if EVENT_TIME in shapes:
        found[EVENT_TIME] = (), {"units": "s", "long_name": "time of the event that ended the run"}
    for one in keep.final:
        axes = one.axes_of(shapes[FINAL + one.name])
        found[FINAL + one.name] = axes, {"units": one.unit, "long_name": f"{_called(one)} at the end"}
    for one in keep.series:
        axes = one.axes_of(shapes[one.name][1:])
        found[one.name] = (Axis(TIME), *axes), {"units": one.unit, "long_name": _called(one)}
    for one in keep.reductions:
        axes = list(one.of.axes_of(shapes[one.name]))
        label = ""
        if one.entry is not None:
            label = f", {axes.pop(one.entry[0]).labels[one.entry[1]]}"
        text = f"{one.by} of {_called(one.of)}{label}"
        found[one.name] = tuple(axes), {"units": "s" if one.by == "argmax" else one.of.unit, "long_name": text}
    return found


def _called(quantity: KeptQuantity) -> str:
    element = "" if quantity.stacked or not quantity.elements else f" of {quantity.elements[0]}"
    return f"{quantity.field}{element}"


def nothing_twice(keep: Keep, others: Mapping[str, str]) -> None:
    """Refuses a reduction whose name another variable has; `others`: what they are, by name. Raises `ModelError`."""
    taken = dict(others)
    taken |= {one.name: "a series" for one in keep.series} | {FINAL + one.name: "a final value" for one in keep.final}
    for one in keep.reductions:
        axes = {axis.name: "an axis" for axis in one.of.axes or ()} | {TIME: "an axis"}
        if one.name in taken | axes:
            raise ModelError(f"keep/reduce/{one.name}", f"the name of {(taken | axes)[one.name]}", "a name of its own")
