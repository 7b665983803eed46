"""What one wants to know of a run first, from its trajectory: the content of `summary.json`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import ArrayLike

from jmbs.simulation import BrokenLaw, Status, Trajectory, is_successful, members, message, status_name


def summarise(
    trajectory: Trajectory, wall_time: float | None = None, compile_time: float | None = None
) -> dict[str, Any]:
    """What `summary.json` holds, as plain Python values; what is not known is `None`.

    Times in s, energies in J, entropy in J/K. `energy_drift` is the largest energy that the account of stored energy,
    heat and work leaves unexplained (the first-law residual) over `energy_scale`, the largest of kinetic energy,
    change of potential energy, work supplied and energy dissipated; for a mechanism without losses and drives it is
    the relative drift of the total energy. `laws` is "kept" or "broken", by what `broken_laws` lists (law, component,
    time, size, unit, member; see `Trajectory.broken_laws`). `outputs` has unit, smallest and largest of what components
    declare, over time and entries. A batch (one axis) gets the worst over its members and the sum of times, steps and
    of the accounts; its `failed_members` are listed. `event` says of which joint (or function) the run ended, and at
    what `time`; None where it did not, and of a batch.
    """
    device = _device(trajectory)
    trajectory = jax.device_get(trajectory)
    simulated = _simulated_time(trajectory)
    scale = _energy_scale(trajectory)
    residual = _largest(trajectory.first_law_residual)
    broken = trajectory.broken_laws()
    return {
        "name": trajectory.labels.name,
        **_status_entries(trajectory),
        "event": _event(trajectory),
        "simulated_time_s": simulated,
        "wall_time_s": wall_time,
        "compile_time_s": compile_time,
        "simulated_seconds_per_wall_second": simulated / wall_time if wall_time else None,
        **{name: int(np.sum(np.asarray(count))) for name, count in trajectory.stats.items()},
        "largest_constraint_residuals": _constraint_residuals(trajectory),
        "energy_drift": None if residual is None or scale is None else residual / scale if scale > 0 else 0.0,
        "energy_scale": scale,
        "first_law_residual": residual,
        "dissipated": _last(trajectory.dissipated),
        "supplied": _last(trajectory.supplied),
        "entropy_produced": _last(trajectory.entropy_produced),
        "exergy_destroyed": _last(trajectory.exergy_destroyed),
        "projection_work": _last(trajectory.projection_work),
        "outputs": _outputs(trajectory),
        "chosen_by_assembly": _chosen_by_assembly(trajectory),
        "laws": None if trajectory.production is None else "broken" if broken else "kept",
        "broken_laws": [law._asdict() for law in broken],
        "warnings": _warnings(trajectory, residual, scale, broken),
        "method": trajectory.labels.method,
        "jmbs_version": trajectory.labels.version,
        "jax_version": jax.__version__,
        "device": device,
        "precision": np.dtype(trajectory.ts.dtype).name,
    }


def _event(trajectory: Trajectory) -> dict[str, Any] | None:
    if trajectory.event_time is None or trajectory.event_which is None or np.ndim(trajectory.ts) > 1:
        return None
    which = int(trajectory.event_which)
    return None if which < 0 else {"of": trajectory.labels.events[which], "time": float(trajectory.event_time)}


def _chosen_by_assembly(trajectory: Trajectory) -> dict[str, list[float]] | None:
    """Where joints of loops started of which nothing was given, rad or m; None of a batch, whose members differ."""
    if np.ndim(trajectory.ts) > 1:
        return None
    return {name: np.asarray(trajectory.q[name][0], float).tolist() for name in trajectory.labels.assembled}


def _outputs(trajectory: Trajectory) -> dict[str, dict[str, Any]]:
    """Unit and range of what components declare as outputs, by path and name."""
    units, found = dict(trajectory.labels.output_units), {}
    for name, values in trajectory.outputs.items():
        finite = _finite(values)
        least, most = (float(np.min(finite)), float(np.max(finite))) if finite.size else (None, None)
        found[name] = {"unit": units.get(name, "1"), "smallest": least, "largest": most}
    return found


ACCEPTABLE_DRIFT = 1e-3
"""Energy that the account may leave unexplained, relative to its scale, before the summary warns."""


def _warnings(
    trajectory: Trajectory, residual: float | None, scale: float | None, broken: Sequence[BrokenLaw]
) -> list[str]:
    """What a user should know of a run that finished all the same."""
    warnings = [str(law) for law in broken]
    if residual is not None and scale and residual > ACCEPTABLE_DRIFT * scale:
        makers = ", ".join(law.component for law in broken if law.unit == "W")
        reason = f"made by {makers}" if makers else "the step or tolerance is too coarse"
        warnings.append(f"{residual / scale:.1%} of the energy is unaccounted for: {reason}")
    if trajectory.constraint_margin is not None:
        for ts, margin in zip(np.atleast_2d(trajectory.ts), np.atleast_2d(trajectory.constraint_margin), strict=True):
            seen = np.isfinite(margin)
            times = rank_drops(ts[seen], margin[seen])
            warnings += [f"the constraints lose rank near t = {time:.4g} s" for time in times]
    return list(dict.fromkeys(warnings))


def rank_drops(ts: np.ndarray, margin: np.ndarray) -> list[float]:
    """Times near which the smallest singular value of the constraint rows comes to zero, between saved times too.

    At a simple drop it falls and rises along two straight lines that meet at zero, so the lines through the two
    neighbours on either side of a minimum tell a drop from a mere dip. **Arguments:** `ts` (T,) s; `margin` (T,), see
    `Trajectory.constraint_margin`.
    """
    found = []
    level = float(np.median(margin)) if len(margin) else 0.0
    for k in range(len(ts)):
        if margin[k] <= 1e-9:
            found.append(float(ts[k]))
        elif 2 <= k < len(ts) - 2 and margin[k] == np.min(margin[k - 2 : k + 3]) and margin[k] < 0.2 * level:
            left = np.polyfit(ts[k - 2 : k], margin[k - 2 : k], 1)
            right = np.polyfit(ts[k + 1 : k + 3], margin[k + 1 : k + 3], 1)
            if left[0] < 0 < right[0]:
                meet = (right[1] - left[1]) / (left[0] - right[0])
                if np.polyval(left, meet) < 0.1 * margin[k - 2]:
                    found.append(float(meet))
    return found


def _device(trajectory: Trajectory) -> str:
    if not isinstance(trajectory.ts, jax.Array):
        return "unknown"  # already brought to the host by the caller
    device = next(iter(trajectory.ts.devices()))
    return f"{device.platform} ({device.device_kind})"


def _status_entries(trajectory: Trajectory) -> dict[str, Any]:
    failure_times = np.atleast_1d(trajectory.failure_time)
    failure_time = float(np.min(failure_times, initial=np.inf, where=np.isfinite(failure_times)))
    entries: dict[str, Any] = {"failure_time": failure_time if math.isfinite(failure_time) else None}
    if trajectory.ts.ndim == 1:
        return {"status": status_name(trajectory.status), "message": message(trajectory.status), **entries}
    singles = members(trajectory.status)
    failed = [
        {"member": index, "status": status_name(single), "failure_time": float(time)}
        for index, (single, time) in enumerate(zip(singles, failure_times, strict=True))
        if not bool(is_successful(single))
    ]
    text = f"{len(failed)} of {len(singles)} members failed." if failed else message(Status.successful)
    entries |= {"members": len(singles), "failed_members": failed}
    return {"status": failed[0]["status"] if failed else "successful", "message": text, **entries}


def _simulated_time(trajectory: Trajectory) -> float:
    """Seconds from the first saved time to the end or the failure, summed over a batch."""
    ts, failure_times = np.atleast_2d(trajectory.ts), np.atleast_1d(trajectory.failure_time)
    total = 0.0
    for member, failure_time in zip(ts, failure_times, strict=True):
        saved = member[np.isfinite(member)]
        if saved.size:
            total += float((failure_time if math.isfinite(failure_time) else saved[-1]) - saved[0])
    return total


def _finite(values: ArrayLike) -> np.ndarray:
    array = np.asarray(values)
    return array[np.isfinite(array)]


def _largest(values: ArrayLike | None) -> float | None:
    """Largest finite magnitude over time and members."""
    if values is None or not _finite(values).size:
        return None
    return float(np.max(np.abs(_finite(values))))


def _last(values: ArrayLike | None) -> float | None:
    """Last finite value in time, summed over members."""
    if values is None:
        return None
    last = [_finite(member)[-1] for member in np.atleast_2d(values) if _finite(member).size]
    return float(np.sum(last)) if last else None


def _energy_scale(trajectory: Trajectory) -> float | None:
    if trajectory.potential is None:
        return None
    with np.errstate(invalid="ignore"):  # infinities just before a failure
        swing = trajectory.potential - trajectory.potential[..., :1]
    candidates = (trajectory.kinetic, swing, trajectory.supplied, trajectory.dissipated)
    known = [value for value in map(_largest, candidates) if value is not None]
    return max(known) if known else None


def _constraint_residuals(trajectory: Trajectory) -> dict[str, dict[str, float | None]] | None:
    """By joint or other constraint: position (m or rad) and velocity (per s), the largest over time and members."""
    position, velocity = trajectory.constraint_position, trajectory.constraint_velocity
    if position is None or velocity is None:
        return None
    return {
        name: {"position": _largest(position[name]), "velocity": _largest(velocity[name])}
        for name in (*trajectory.labels.joints, *(name for name, _ in trajectory.labels.constraints))
    }
