"""What the command `jmbs fit` does with a study: checks it, estimates with progress, and writes what was found."""

from __future__ import annotations

import argparse
import dataclasses
import re
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

# What needs JAX is imported where it is used, as in the command line.
from jmbs.errors import ModelError, printable
from jmbs.studies import read_study

if TYPE_CHECKING:
    from jmbs.identification import Check, Fit, Input, Profile, Recording, Study
    from jmbs.simulation import Trajectory

CONVERGED, NOT_CONVERGED, INPUT_WRONG, INTERRUPTED = 0, 1, 2, 130
ACCOUNT_SAMPLES = 400


def fit_command(args: argparse.Namespace, complain: Callable[[str], None]) -> int:
    """Does what the arguments of `jmbs fit` say and returns the exit status; `complain` prints a message."""
    from jmbs import identification
    from jmbs.io import CHECK_FILE, CHECKPOINT_FILE, FIT_FILES, check_directory, claimed, write_check
    from jmbs.simulation import waiting
    from jmbs.visualise import write_check_figures

    if args.resume and args.out is None:
        raise ModelError("--resume", "no --out", "the folder of the fit that shall go on: --out DIR")
    files = FIT_FILES if args.check else (*FIT_FILES, CHECKPOINT_FILE)
    may_be_there = args.force or args.resume
    if args.out is not None:
        check_directory(args.out, may_be_there, files)
    with waiting("reading the study and its recordings"):
        study = _read(args)
    with claimed(args.out, study.name, may_be_there, files) as folder:
        with waiting("checking what the data can show"):
            check = identification.check_fit(study, sensitivity=not args.no_check)
        if check.problem is not None:
            identification.require_names(check.problem, args.profile)
        write_check(check, folder / CHECK_FILE)
        print(identification.check_summary(check), flush=True)
        troubles: list[str] = []
        drawn: list[Path] = []
        if args.check:
            with waiting("drawing what was found"):
                drawn = _attempt("its pictures", troubles, lambda: write_check_figures(check, folder))
        for trouble in troubles:
            complain(f"{folder}: the check is written, but {trouble}")
        if errors := [finding.message for finding in check.findings if finding.severity == "error"]:
            found = f"{_counted(len(errors), 'error')} in the study or its data, nothing was fitted"
            complain(f"{study.name}: {found}: {errors[0]}")
            return INPUT_WRONG
        if args.check:
            print("\n" + "\n".join(str(file) for file in (folder / CHECK_FILE, *drawn)))
            return CONVERGED
        return _estimate(args, study, check, folder, complain)


def _read(args: argparse.Namespace) -> Study:
    study = read_study(args.config, args.set)
    if args.cross_validate:
        study = dataclasses.replace(study, estimator=dataclasses.replace(study.estimator, cross_validation=True))
    return study


def _estimate(
    args: argparse.Namespace, study: Study, check: Check, folder: Path, complain: Callable[[str], None]
) -> int:
    from jmbs.fitting import estimated
    from jmbs.io import CHECKPOINT_FILE, write_fit

    checkpoint = folder / CHECKPOINT_FILE
    resume = args.resume and checkpoint.exists()
    if args.resume and not resume:
        print(f"{checkpoint}: not there, so the fit starts anew", file=sys.stderr)
    options = {"checkpoint": checkpoint, "resume": resume, "progress": ProgressLines()}
    found = with_warnings(estimated(study, check, **options), check)
    files = write_fit(found, folder, force=True)
    troubles: list[str] = []
    files += _attempt("fitted.yaml", troubles, lambda: write_models(found, study, args.config.parent, folder))
    profiles = _profiles(args.profile, found, troubles)
    files += _attempt(
        "report.html", troubles, lambda: _write_report(args.report, found, study, folder, profiles, troubles)
    )
    print(found.summary())
    for one in profiles:
        print(one.summary())
    print(f"\n{folder}: {', '.join(str(file.relative_to(folder)) for file in files)}")
    for trouble in troubles:
        complain(f"{folder}: the fit is written, but {trouble}")
    if found.status == "converged":
        return CONVERGED
    complain(f"{study.name}: {found.status}: {found.message}")
    return INTERRUPTED if found.status == "interrupted" else NOT_CONVERGED


def with_warnings(fit: Fit, check: Check) -> Fit:
    """The fit with the warnings of the check before its own; one of a kind, recording and channel is enough."""
    own = {(found.code, found.recording, found.channel) for found in fit.warnings}
    before = tuple(found for found in check.findings if (found.code, found.recording, found.channel) not in own)
    return dataclasses.replace(fit, warnings=(*before, *fit.warnings))


class ProgressLines:
    """Prints one line for each iteration; to be made when the fit starts."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._first: tuple[int, float] | None = None

    def __call__(self, at: Any) -> None:
        """Tells of an iteration: `stage` of `stages`, `iteration`, `cost_per_sample`, `step` and perhaps `change` and
        how many are `left`."""
        change, now = getattr(at, "change", None), time.monotonic()
        first, begun = self._first = self._first or (at.iteration, now)
        left = getattr(at, "left", None) if at.iteration > first else None
        to_go = [] if left is None else [f"{left * (now - begun) / (at.iteration - first):.0f} s to go"]
        words = [
            f"iteration {at.iteration:3d}",
            f"cost per sample {at.cost_per_sample:.6g}",
            f"step {at.step:.2e}",
            *([] if change is None else [f"largest change {change:.2e}"]),
            f"{now - self._started:.1f} s",
            *to_go,
            *([f"horizon {at.stage} of {at.stages}"] if at.stages > 1 else []),
        ]
        print("  ".join(words), file=sys.stderr, flush=True)


def _attempt(what: str, troubles: list[str], write: Callable[[], list[Path]]) -> list[Path]:
    """What was written; what went wrong is noted, for a fit must not be lost for a file beside it."""
    try:
        return write()
    except ModelError as error:
        troubles.append(f"{what} is not: {error}")
    except Exception as error:  # of anything that draws or runs
        troubles.append(f"{what} is not: {type(error).__name__}: {error}")
    return []


def write_models(fit: Fit, study: Study, folder: Path, out: Path) -> list[Path]:
    """Writes the fitted model, and as `fitted_<recording>.yaml` those of recordings with a model of their own.

    **Arguments:** `folder`: of the study's file, which the paths in it are relative to; `out`: where they go.
    """
    from jmbs.io import FITTED_FILE

    (out / FITTED_FILE).unlink(missing_ok=True)
    models = {FITTED_FILE: (fit.model, study.source.get("model"))}
    own = {recording.name for recording in study.data if recording.model is not None}
    for name, entry in (study.source.get("recordings") or {}).items():
        if name in own and name in fit.models:
            models[f"fitted_{re.sub('[^A-Za-z0-9_-]', '_', name)}.yaml"] = fit.models[name], entry.get("model")
    note = f"Fitted by jmbs: study {fit.name}, {fit.status}."
    return [
        file
        for name, (model, source) in models.items()
        for file in _write_model(model, folder / str(source), out / name, note, study)
    ]


def _write_model(model: Any, source: Path, file: Path, note: str, study: Study) -> list[Path]:
    from jmbs.io import ModelNotes, load, write_fitted

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelNotes)  # they were told when the study was read
        mechanism = load(source)
    if mechanism.simulation.t1 is None:
        end = max(float(recording.ts[-1]) for recording in study.data)
        mechanism.simulation = dataclasses.replace(mechanism.simulation, t1=end)
    return write_fitted(model, mechanism, file, [printable(note)], force=True, folder=source.parent)


def _profiles(names: Sequence[str], fit: Fit, troubles: list[str]) -> list[Profile]:
    """Profiles of the values that were asked for; what cannot have one is noted."""
    from jmbs.simulation import waiting

    found: list[Profile] = []
    for name in names:
        with waiting(f"fitting along {printable(name)}"):
            _attempt(f"the profile of {name}", troubles, lambda name=name: found.append(fit.profile(name)) or [])
    return found


def _write_report(
    wanted: bool, fit: Fit, study: Study, folder: Path, profiles: Sequence[Profile], troubles: list[str]
) -> list[Path]:
    from jmbs.io import REPORT_FILE
    from jmbs.simulation import waiting

    file = folder / REPORT_FILE
    file.unlink(missing_ok=True)
    if not wanted:
        return []
    runs: list[Trajectory] = []
    if study.estimator.method != "inverse_dynamics":  # whose models are not run at all
        with waiting("running the fitted model with its energy account"):
            _attempt("its energy account", troubles, lambda: runs.append(account_run(fit, study)) or [])
    with waiting("drawing the report"):
        fit.report(file, runs[0] if runs else None, profiles)
    return [file]


def account_run(fit: Fit, study: Study) -> Trajectory:
    """The fitted model of the first recording that was fitted, run as recorded, with its account."""
    from jmbs.simulation import simulate

    recording = next(recording for recording in study.data if recording.name in fit.channels)
    model = fit.models[recording.name]
    t0, t1 = model.settings.t0, float(recording.ts[-1])
    every = (t1 - t0) / ACCOUNT_SAMPLES
    return simulate(model, t1=t1, save_every=every, inputs=plain_inputs(recording), audit=True, throw=False)


def plain_inputs(recording: Recording) -> Mapping[str, Any]:
    """The inputs of a recording as `simulate` takes them."""
    from jmbs.identification import Input

    def plain(value: Any) -> Any:
        if not isinstance(value, Input):
            return value
        return _steps(value) if value.hold == "zero" else (value.times, value.values)

    return {path: plain(value) for path, value in recording.inputs.items()}


def _steps(given: Input) -> Callable[..., Any]:
    """An input that is held from one of its times to the next, as a function of time."""
    import jax.numpy as jnp

    times, values = jnp.asarray(given.times), jnp.asarray(given.values)
    return lambda t, *_: values[jnp.maximum(jnp.searchsorted(times, t, side="right") - 1, 0)]


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
