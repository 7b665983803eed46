"""What the command `jmbs run` does with a model: simulates it with a clock at hand, draws, and says what came of it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

# What needs JAX is imported where it is used, as in the command line.
from jmbs.errors import RunInterrupted

if TYPE_CHECKING:
    from jmbs.simulation import LabelledArrays, Trajectory


def simulate_timed(model: Any) -> tuple[Trajectory, float, float]:
    """Simulate from the assembled initial state: trajectory, seconds to compile, seconds to run."""
    import jax

    from jmbs.jaxext import compile_clock
    from jmbs.simulation import chosen_by_assembly, waiting

    with waiting("assembling the initial state"):
        state = model.initial_state()
    with compile_clock() as compiled:
        start = time.perf_counter()
        trajectory = jax.block_until_ready(_simulate(model, state))
        whole, compile_time = time.perf_counter() - start, compiled()
    labels = dataclasses.replace(trajectory.labels, assembled=chosen_by_assembly(model))
    return dataclasses.replace(trajectory, labels=labels), compile_time, whole - compile_time


def tolerance_note(model: Any) -> str:
    """What to tell of tolerances that the precision does not hold; empty of others, and of zeros, which are meant."""
    from jmbs.simulation import least_rtol

    settings, least = model.settings, least_rtol(model.dtype)
    if settings.rtol and settings.rtol < least:
        costs = f"; an atol of {settings.atol:g} may cost many steps" if 0 < settings.atol < least else ""
        found = f"{settings.rtol:g} is less than {model.dtype} holds and counts as {least:.2g}"
        return f"simulation/tolerance/rtol: {found}{costs}"
    return ""


def _simulate(model: Any, state: Any) -> Trajectory:
    """The trajectory, or that of what was computed when the run was interrupted."""
    from jmbs.simulation import simulate, waiting

    try:
        return simulate(model, state, progress=True, throw=False)
    except RunInterrupted as stop:
        with waiting("reading what was computed (interrupt once more to do without)"):
            return stop.trajectory()


def draw_plots(result: LabelledArrays, directory: Path) -> tuple[list[Path], str]:
    """Draws what a run did, where its result is written already; the files, and what went wrong, if anything did."""
    from jmbs.io import PLOT_FOLDER
    from jmbs.visualise import plot_trajectory

    try:
        return plot_trajectory(result, directory / PLOT_FOLDER), ""
    except Exception as error:  # of anything that draws: the result must not be lost for it
        return sorted((directory / PLOT_FOLDER).glob("*.png")), f"{type(error).__name__}: {error}"


def report(summary: dict[str, Any], directory: Path, plots: Sequence[Path]) -> str:
    """What a run prints at its end: a line for each thing, from its summary."""
    from jmbs.io import RESULT_FILES

    files = [*RESULT_FILES, *(str(path.relative_to(directory)) for path in plots)]
    rows = [
        ("status", summary["message"]),
        *_event(summary.get("event")),
        ("simulated", f"{number(summary['simulated_time_s'])} s"),
        ("wall time", f"{number(summary['wall_time_s'])} s, and {number(summary['compile_time_s'])} s to compile"),
        ("steps", str(summary.get("steps", "unknown"))),
        ("energy drift", f"{number(summary['energy_drift'])} of {number(summary['energy_scale'])} J"),
        ("constraints", _worst_residuals(summary["largest_constraint_residuals"])),
        ("entropy produced", f"{number(summary['entropy_produced'])} J/K"),
        *_branch(summary.get("chosen_by_assembly")),
        *(("warning", warning) for warning in summary["warnings"]),
        ("result", str(directory)),
        ("files", ", ".join(files)),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {text}" for name, text in rows)


def _event(event: dict[str, Any] | None) -> list[tuple[str, str]]:
    """What ended the run, and when."""
    return [("event", f"{event['of']} at t = {number(event['time'])} s")] if event else []


def _branch(chosen: dict[str, list[float]] | None) -> list[tuple[str, str]]:
    """Where assembly put joints of loops of which nothing was given."""
    if not chosen:
        return []
    places = ", ".join(f"{name} {' '.join(map(number, q))}" for name, q in chosen.items())
    return [("branch", f"assembly chose {places}; a guess of q chooses another")]


def _worst_residuals(residuals: dict[str, dict[str, float | None]] | None) -> str:
    parts = []
    for level, unit in (("position", "m or rad"), ("velocity", "m/s or rad/s")):
        known = {joint: entry[level] for joint, entry in (residuals or {}).items() if entry[level] is not None}
        if known:
            joint = max(known, key=lambda name: known[name] or 0.0)
            parts.append(f"{level} {number(known[joint])} {unit} ({joint})")
    return ", ".join(parts) if parts else "none to hold" if residuals == {} else "unknown"


def number(value: float | None) -> str:
    """Four digits of a number that may not be known."""
    return "unknown" if value is None else f"{value:.4g}"
