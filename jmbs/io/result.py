"""Result files: `result.nc` holds the trajectory, `summary.json` what one wants to know first."""

from __future__ import annotations

import json
import math
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import ArrayLike

from jmbs.errors import ModelError
from jmbs.simulation import Status, Trajectory, is_successful, members, message, status_name

RESULT_FILE = "result.nc"
SUMMARY_FILE = "summary.json"
RESULT_FILES = (RESULT_FILE, SUMMARY_FILE)
PLOT_FOLDER = "plots"


class ResultFolderError(ModelError):
    """The folder for a result cannot take one."""


def default_directory(name: str, root: str | Path = "runs") -> Path:
    """`runs/<name>-<UTC time>`, with a counter behind when that folder is already there."""
    stem = f"{name}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    candidate = Path(root) / stem
    count = 1
    while candidate.exists():
        count += 1
        candidate = Path(root) / f"{stem}-{count}"
    return candidate


def check_directory(directory: str | Path, force: bool = False) -> None:
    """Refuse a folder that a result cannot be written to, before time is spent on computing it; creates nothing.

    Raises `ResultFolderError` (a `ModelError`) when the path is a file, cannot be written, or, without `force`, holds
    an earlier result. Other files in the folder do no harm and are left alone.
    """
    directory = Path(directory)
    if directory.exists() and not directory.is_dir():
        raise ResultFolderError(str(directory), "a file", "a folder for the result, new or without one")
    if not force:
        for name in (*RESULT_FILES, PLOT_FOLDER):
            if (directory / name).exists():
                raise ResultFolderError(
                    str(directory), f"an earlier result ({name})", "a folder without one, or --force"
                )
    # Links that lead nowhere do not "exist", so the nearest ancestor that does is asked.
    nearest = next(path for path in (directory.absolute(), *directory.absolute().parents) if path.exists())
    if not (nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)):
        raise ResultFolderError(
            str(directory), f"{nearest}, which cannot be written to", "a folder that can be written to"
        )


def write_result(
    trajectory: Trajectory,
    directory: str | Path,
    wall_time: float | None = None,
    compile_time: float | None = None,
    force: bool = False,
) -> dict[str, Any]:
    """Write `result.nc` and `summary.json` into `directory`, which is created, and return the summary.

    Each file is written under a temporary name and then renamed, so a reader never meets half of one. `wall_time`
    and `compile_time` are in seconds. Raises `ResultFolderError` (a `ModelError`) when a result is there and `force`
    is not given.
    """
    directory = Path(directory)
    for name in RESULT_FILES:
        if not force and (directory / name).exists():
            raise ResultFolderError(
                str(directory), f"an earlier result ({name})", "a folder without one, or force=True"
            )
    dataset = trajectory.to_xarray()
    summary = summarise(trajectory, wall_time, compile_time)
    text = json.dumps(_json_ready(summary), indent=2, allow_nan=False) + "\n"

    directory.mkdir(parents=True, exist_ok=True)
    partial = {name: directory / f".{name}.{os.getpid()}.partial" for name in RESULT_FILES}
    # xarray would mark missing values with a fill value; NaN says the same without another convention.
    encoding = {name: {"_FillValue": None} for name in dataset.variables}
    try:
        # netCDF4 rather than h5netcdf: its wheel is complete and the reference implementation, while h5netcdf from
        # 1.8 on comes without a backend (h5py has to be asked for besides). Either reads the file.
        dataset.to_netcdf(partial[RESULT_FILE], engine="netcdf4", encoding=encoding)
        partial[SUMMARY_FILE].write_text(text, encoding="utf-8")
        for name, path in partial.items():
            os.replace(path, directory / name)
    finally:
        for path in partial.values():
            path.unlink(missing_ok=True)
    return summary


def summarise(
    trajectory: Trajectory, wall_time: float | None = None, compile_time: float | None = None
) -> dict[str, Any]:
    """What `summary.json` holds, as plain Python values; what is not known is `None`.

    Times in s, energies in J, entropy in J/K. `energy_drift` is the largest energy that the account of stored energy,
    heat and work leaves unexplained (the first-law residual) over `energy_scale`, the largest of kinetic energy,
    change of potential energy, work supplied and energy dissipated; for a mechanism without losses and drives it is
    the relative drift of the total energy. A batch (one axis) gets the worst over its members and the sum of times,
    steps and of the accounts; its `failed_members` are listed.
    """
    device = _device(trajectory)
    trajectory = jax.device_get(trajectory)
    simulated = _simulated_time(trajectory)
    scale = _energy_scale(trajectory)
    residual = _largest(trajectory.first_law_residual)
    return {
        "name": trajectory.labels.name,
        **_status_entries(trajectory),
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
        "warnings": _warnings(trajectory, residual, scale),
        "method": trajectory.labels.method,
        "jmbs_version": trajectory.labels.version,
        "jax_version": jax.__version__,
        "device": device,
        "precision": np.dtype(trajectory.ts.dtype).name,
    }


ACCEPTABLE_DRIFT = 1e-3
"""Energy that the account may leave unexplained, relative to its scale, before the summary warns."""


def _warnings(trajectory: Trajectory, residual: float | None, scale: float | None) -> list[str]:
    """What a user should know of a run that finished all the same."""
    warnings = []
    if residual is not None and scale and residual > ACCEPTABLE_DRIFT * scale:
        warnings.append(f"{residual / scale:.1%} of the energy is unaccounted for: the step or tolerance is too coarse")
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


def _json_ready(value: Any) -> Any:
    """The same with `None` for what JSON cannot say (NaN, infinity)."""
    if isinstance(value, dict):
        return {key: _json_ready(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_json_ready(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
