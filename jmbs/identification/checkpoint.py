"""Where a fit was when it stopped, as a file of plain arrays: going on from it gives the same bits."""

from __future__ import annotations

import dataclasses
import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jmbs.errors import ModelError
from jmbs.files import replacing
from jmbs.identification.least_squares import Iterate
from jmbs.identification.position import Position
from jmbs.identification.problem import Counts, FitProblem

MEMORY = "memory/"
_NUMBERS = ("damping", "grows", "iterations", "evaluations", "cost", "step", "change")


def fingerprint(problem: FitProblem) -> str:
    """Of what a fit depends on: unknowns, samples, noise, steps, models, estimator."""
    found = hashlib.sha256()
    for block in problem.unknowns.blocks:
        found.update(repr((block.names, type(block.transform).__name__, block.prior)).encode())
        for array in (block.start, block.lower, block.upper):
            found.update(np.ascontiguousarray(array).tobytes())
    for experiment in problem.experiments:
        found.update(repr((experiment.recording.name, experiment.recording.role, experiment.program)).encode())
        for leaf in jax.tree.leaves(experiment.member):
            found.update(np.ascontiguousarray(leaf).tobytes())
    # More iterations may be asked for where there were too few, and what is asked of the estimate afterwards.
    asked = dataclasses.replace(problem.study.estimator, max_iterations=1, cross_validation=False)
    found.update(repr(asked).encode())
    found.update(repr((dict(problem.study.ties), problem.study.seed)).encode())
    return found.hexdigest()


def save(
    file: Path, problem: FitProblem, position: Position, refits: int, noise: dict[str, float], steps: list[float]
) -> None:
    """Writes where a fit is, whole or not at all."""
    at, best, waiting = position.iterate, position.best, position.waiting
    memory: dict[str, Any] = {f"{MEMORY}{name}": array for name, array in position.memory.items()}
    with replacing(file) as partial, partial.open("wb") as stream:
        np.savez(
            stream,
            study=fingerprint(problem),
            x=at.x,
            windows=position.windows,
            iterate=_numbers(at),
            stopped=at.stopped,
            best_x=np.zeros(0) if best is None else best.x,
            best=np.zeros(0) if best is None else _numbers(best),
            best_stopped="" if best is None else best.stopped,
            stage=np.array([position.stage, *position.before, position.start, refits]),
            sensors=np.array(list(noise)),
            noise=np.array(list(noise.values())),
            steps=np.array(steps),
            counts=np.array(dataclasses.astuple(problem.counts)),
            waiting_x=np.array([one.iterate.x for one in waiting]),
            waiting=np.array([_numbers(one.iterate) for one in waiting]),
            waiting_stopped=np.array([one.iterate.stopped for one in waiting], str),
            waiting_stage=np.array([[one.stage, *one.before, one.start] for one in waiting]),
            **memory,
        )


def _numbers(at: Iterate) -> np.ndarray:
    return np.array([np.nan if getattr(at, key) is None else float(getattr(at, key)) for key in _NUMBERS])


def _iterate(x: np.ndarray, numbers: np.ndarray, stopped: str) -> Iterate:
    damping, grows, taken, tries, cost, step, change = numbers.tolist()
    damping = None if np.isnan(damping) else damping
    return Iterate(x, damping, grows, int(taken), int(tries), cost, step, change, stopped)


def _waiting(found: Mapping[str, np.ndarray]) -> tuple[Position, ...]:
    rows = zip(*(found[f"waiting{key}"] for key in ("_x", "", "_stopped", "_stage")), strict=True)
    positions = []
    for x, numbers, stopped, (stage, iterations, evaluations, start) in rows:
        at = _iterate(x, numbers, str(stopped))
        positions.append(Position(int(stage), at, (int(iterations), int(evaluations)), int(start)))
    return tuple(positions)


def load(file: Path) -> tuple[str, Position, int, dict[str, float], list[float], Counts]:
    """What `save` wrote: the study's fingerprint, the position, how often it went on from the end, noise, steps,
    counts.

    Raises `ModelError` for a file that is none of these.
    """
    try:
        with np.load(file, allow_pickle=False) as found:
            at = _iterate(found["x"], found["iterate"], str(found["stopped"]))
            best = None
            if found["best"].size:
                best = _iterate(found["best_x"], found["best"], str(found["best_stopped"]))
            stage, iterations, evaluations, start, refits = (int(i) for i in found["stage"])
            noise = dict(zip(found["sensors"].tolist(), found["noise"].tolist(), strict=True))
            study, steps, windows = str(found["study"]), found["steps"].tolist(), found["windows"]
            waiting = _waiting(found)
            counts = Counts(*(found["counts"].tolist() if "counts" in found.files else ()))
            memory = {key.removeprefix(MEMORY): found[key] for key in found.files if key.startswith(MEMORY)}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        wanted = "a checkpoint that jmbs fit wrote; leave out --resume to begin anew"
        raise ModelError("checkpoint", f"{file.name}: {error}", wanted) from None
    return (
        study,
        Position(stage, at, (iterations, evaluations), start, best, windows, memory, waiting),
        refits,
        noise,
        steps,
        counts,
    )
