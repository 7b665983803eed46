"""Times that a run stops at and steps between them: known ones are checked, of traced ones a predicate is kept."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from jmbs.arrays import is_traced
from jmbs.errors import ModelError
from jmbs.library.mechanics import refuse_steps, refuse_times, show
from jmbs.simulation.arguments import known_number, scalar

DEFAULT_INTERVALS = 100
"""Between saved times where nothing says how often to save."""


class Times(NamedTuple):
    """**Arguments:** `ts` (n,) s, that the run stops at, from its start on; `lead`: how many of them at the start were
    not asked for; `valid`: whether traced ones are finite and in order, None for known ones, which are."""

    ts: Any
    lead: int
    valid: Bool[Array, ""] | None


def run_times(settings: Any, t0: Any, t1: Any, save_every: Any, ts: Any, dtype: np.dtype) -> Times:
    """Times of a run from the arguments of `simulate` and a model's settings. Raises `ModelError`."""
    t0 = settings.t0 if t0 is None else t0
    if ts is not None:
        if save_every is not None:
            raise ModelError("save_every", show(save_every), "nothing beside ts, which says when to save")
        return _traced_given(ts, t0, t1, dtype) if is_traced((ts, t0, t1)) else _given(ts, t0, t1)
    t1 = settings.t1 if t1 is None else t1
    if t1 is None:
        raise ModelError("t1", "nothing", "the end of the simulation, s; in a config simulation.t1")
    save_every = settings.save_every if save_every is None else save_every
    if is_traced((t0, t1, save_every)):
        return _traced_spread(t0, t1, save_every, dtype)
    return _spread(known_number("t0", t0, "s"), known_number("t1", t1, "s"), save_every)


def _spread(t0: float, t1: float, save_every: Any) -> Times:
    if t1 <= t0:
        raise ModelError("t1", show(t1), f"a time after t0 = {t0:g} s")
    save_every = (t1 - t0) / DEFAULT_INTERVALS if save_every is None else save_every
    save_every = known_number("save_every", save_every, "s", positive=True)
    refuse_times("save_every", t0, t1, save_every)
    last = int(np.floor((t1 - t0) / save_every * (1 + 1e-12) + 1e-9))
    times = t0 + save_every * np.arange(last + 1)
    if t1 - times[-1] > 1e-9 * (t1 - t0):
        times = np.append(times, t1)
    times[-1] = t1
    return Times(times, 0, None)


def _traced_spread(t0: Any, t1: Any, save_every: Any, dtype: np.dtype) -> Times:
    if save_every is not None:
        found = "a traced value" if is_traced(save_every) else f"{show(save_every)} s beside a traced t0 or t1"
        wanted = "ts=, such as jnp.linspace(t0, t1, 101): how many times are saved must be known before tracing"
        raise ModelError("save_every", found, wanted)
    start, end = scalar("t0", t0, dtype), scalar("t1", t1, dtype)
    times = start + (end - start) * jnp.linspace(0.0, 1.0, DEFAULT_INTERVALS + 1, dtype=dtype)
    return Times(times, 0, jnp.isfinite(end) & jnp.isfinite(start) & (end > start))


def _given(ts: Any, t0: Any, t1: Any) -> Times:
    t0 = known_number("t0", t0, "s")
    wanted = f"increasing finite times from t0 = {t0:g} s on"
    try:
        times = np.asarray(ts, dtype=np.float64)
    except (TypeError, ValueError):
        raise ModelError("ts", show(ts), wanted) from None
    if times.ndim != 1 or times.size == 0 or not np.all(np.isfinite(times)) or np.any(np.diff(times) <= 0):
        raise ModelError("ts", show(ts), wanted)
    if times[0] < t0:
        raise ModelError("ts", show(ts), wanted)
    if t1 is not None and abs(times[-1] - known_number("t1", t1, "s")) > 1e-6 * max(abs(times[-1]), times[-1] - t0):
        raise ModelError("ts", f"a last time {times[-1]:g} s", f"t1 = {t1:g} s, or no t1: a run ends at the last of ts")
    return Times(np.concatenate([[t0], times]), 1, None) if times[0] > t0 else Times(times, 0, None)


def _traced_given(ts: Any, t0: Any, t1: Any, dtype: np.dtype) -> Times:
    """Whether the first of the times is the start cannot be known, so the start is put ahead in any case."""
    start, wanted = scalar("t0", t0, dtype), "times (n,), s, one or more"
    try:
        times = jnp.asarray(jnp.stack(ts) if isinstance(ts, Sequence) else ts, dtype)
    except (TypeError, ValueError):
        raise ModelError("ts", show(ts), wanted) from None
    if times.ndim != 1 or times.size == 0:
        raise ModelError("ts", f"an array of shape {times.shape}", wanted)
    valid = jnp.all(jnp.isfinite(times)) & jnp.all(times[1:] > times[:-1]) & (times[0] >= start)
    if t1 is not None:
        valid = valid & (times[-1] <= scalar("t1", t1, dtype) + 1e-12)
    return Times(jnp.concatenate([start[None], times]), 1, valid)


def step_counts(ts: np.ndarray, dt: float) -> np.ndarray:
    """How many equal steps of at most `dt` lie between neighbouring saved times."""
    refuse_steps("dt", ts[-1] - ts[0], dt)
    return np.maximum(1, np.ceil(np.diff(ts) / dt * (1 - 1e-9))).astype(int)


def traced_step_counts(ts: Any, dt: Any, most: Any, dtype: np.dtype) -> Int[Array, " intervals"]:
    """The same of traced times or a traced step; with one more than the `most` steps of a run where there are more."""
    times, slack = jnp.asarray(ts, dtype), max(1e-9, 16 * float(jnp.finfo(dtype).eps))
    wanted = jnp.ceil(jnp.diff(times) / dt * (1 - slack))
    most = jnp.asarray(most, dtype)
    return jnp.where(wanted <= most, jnp.maximum(wanted, 1.0), most + 1.0).astype(int)


def refuse_memory(model: Any, times: int) -> None:
    """Refuses more saved times than fit the memory of this machine. Raises `ModelError`."""
    # By body a pose and a velocity, also in its state, by joint a reaction, residuals and about two coordinates with
    # rates; the account.
    numbers = 31 * len(model.layout.bodies) + 14 * len(model.layout.joints) + 12
    needed, there = numbers * times * model.dtype.itemsize, _memory()
    if needed > there:
        found = f"{times} saved times, about {needed / 1e9:.3g} GB"
        raise ModelError("save_every", found, f"what fits this machine's memory of {there / 1e9:.3g} GB")


def _memory() -> float:
    """Bytes of this machine's memory, infinite where that cannot be told."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return math.inf
