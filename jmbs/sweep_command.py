"""What the command `jmbs sweep` does with a study: says what it will take, runs it, and counts failures."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

# What needs JAX is imported where it is used, as in the command line.
from jmbs.errors import ModelError
from jmbs.files import named_path

if TYPE_CHECKING:
    from jmbs.sweeping import Sweeping, SweepPlan, SweepProgress, SweepStudy

DONE, FAILED, INTERRUPTED = 0, 1, 130
SHARE = 0.1
"""Of the members, after which a line tells how far a sweep is, where there is no terminal."""


DESCRIPTION = (
    "Runs all members of a study and writes a Zarr store, which xarray.open_zarr opens. A kill at any time loses no"
    " finished chunk: --resume goes on. Exit status: 0 done, 1 if members failed and --strict is given, 2 wrong input."
)


def add_arguments(sweep: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    sweep.add_argument("config", metavar="STUDY", type=named_path, help="a YAML file, schema jmbs-sweep/1")
    sweep.add_argument(
        "--set",
        metavar="a.b=value",
        action="append",
        default=[],
        help="replace a value of the study, by its path in the file; may be repeated",
    )
    sweep.add_argument(
        "--out", metavar="STORE", type=named_path, help="the store (default: runs/<name>-<UTC time>.zarr)"
    )
    sweep.add_argument("--resume", action="store_true", help="go on with the store that is there")
    sweep.add_argument("--shard", metavar="I/N", help="only the I-th of N parts; all may write to one store at once")
    sweep.add_argument("--plan", action="store_true", help="say members, chunk, bytes and time, and write nothing")
    sweep.add_argument("--strict", action="store_true", help="exit with 1 if any member failed")


def sweep_command(args: argparse.Namespace, complain: Callable[[str], None]) -> int:
    """Does what the arguments of `jmbs sweep` say and returns the exit status; `complain` prints a message."""
    from jmbs.simulation import waiting
    from jmbs.sweeping import Shard, Sweeping, parse_shard, versions

    shard = Shard() if args.shard is None else parse_shard(args.shard)
    for option, given in (("--resume", args.resume), ("--shard", args.shard is not None)):
        if given and args.out is None and not args.plan:
            raise ModelError(option, "no --out", "the store that it is about: --out STORE")
    with waiting("reading the study"):
        study = _read(args)
    with waiting("compiling"):
        out = None if args.plan and args.out is None else args.out or _default_place(study)
        sweeping = Sweeping(study, out, args.resume, shard)
    if sweeping.begun_with != versions():
        complain(f"{out}: begun with {sweeping.begun_with}, goes on with {versions()}: equal to rounding at best")
    if args.plan:
        with waiting("running a chunk to see how long it takes"):
            plan = sweeping.plan(timed=True)
        print(plan_text(plan))
        return DONE
    print(plan_text(sweeping.plan()), flush=True)
    return _run(sweeping, args.strict, complain)


def _run(sweeping: Sweeping, strict: bool, complain: Callable[[str], None]) -> int:
    name, lines = sweeping.study.name, SweepLines()
    try:
        store = sweeping.run(lines)
    except KeyboardInterrupt:
        complain(f"{name}: interrupted; what is finished stays: go on with --out {sweeping.out} --resume")
        return INTERRUPTED
    finally:
        lines.close()
    failures = sweeping.failures(store)
    for status, count in failures.items():
        print(f"{status}: {count} members")
    print(f"\n{sweeping.out}\nNext, look at it: xarray.open_zarr({str(sweeping.out)!r})")
    if failures and strict:
        complain(f"{name}: {sum(failures.values())} members failed")
        return FAILED
    return DONE


def _read(args: argparse.Namespace) -> SweepStudy:
    import jax

    from jmbs import io

    # Only programs compiled in float64 need it; a study in float32 computes the same with it.
    jax.config.update("jax_enable_x64", True)
    try:
        return io.load_sweep(args.config, args.set)
    except OSError as error:
        raise ModelError(str(args.config), error.strerror or str(error), "a study that can be read") from error


def _default_place(study: SweepStudy) -> Path:
    from jmbs.io import default_directory

    folder = default_directory(study.name)
    return folder.with_name(f"{folder.name}.zarr")


def plan_text(plan: SweepPlan) -> str:
    """What a sweep will take, a line for each thing."""
    rows = [
        ("members", f"{plan.open} to run" + (f", of {plan.members}" if plan.open < plan.members else "")),
        ("chunk", f"{plan.chunk} members at a time, {plan.chunks} chunks, on {plan.devices}"),
        ("memory", f"{_bytes(plan.program_bytes)} for the program of a chunk"),
        ("store", f"{_bytes(plan.store_bytes)}, before compression"),
        ("compiled in", f"{plan.compile_seconds:.1f} s"),
    ]
    if plan.seconds is not None:
        rows.append(("time to go", f"{duration(plan.seconds)}, by the first chunk"))
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {text}" for name, text in rows)


def _bytes(count: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


def duration(seconds: float) -> str:
    """A time in seconds, minutes or hours."""
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"


class SweepLines:
    """Tells how far a sweep is: in one line that changes on a terminal, elsewhere in a line after the first chunk and
    after each tenth of the members."""

    def __init__(self) -> None:
        self._told = -1.0
        self._terminal = sys.stderr.isatty()

    def __call__(self, at: SweepProgress) -> None:
        """Tells of a chunk."""
        share = at.done / at.members
        text = f"{at.done} of {at.members} members"
        if at.failed:
            text += f", {at.failed} failed"
        if at.done < at.members:
            text += f", {duration(at.seconds * (at.members - at.done) / at.done)} to go"
        if self._terminal:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
        elif self._told < 0 or share - self._told >= SHARE or share == 1:
            self._told = share
            print(f"{share:.0%}  {text}", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Takes the line away that changes."""
        if self._terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
