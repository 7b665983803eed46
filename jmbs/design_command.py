"""What the command `jmbs design` does with a study: finds the most telling inputs and writes what to expect of them."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

# What needs JAX is imported where it is used, as in the command line.
from jmbs.errors import ModelError
from jmbs.studies import read_study

if TYPE_CHECKING:
    from jmbs.identification import DesignProgress, ExcitationDesign, Study

DONE, INPUT_WRONG, INTERRUPTED = 0, 2, 130


def design_command(args: argparse.Namespace, complain: Callable[[str], None]) -> int:
    """Does what the arguments of `jmbs design` say and returns the exit status; `complain` prints a message."""
    from jmbs.io import DESIGN_FILE, DESIGN_PICTURE_FILE, check_directory, claimed
    from jmbs.simulation import waiting

    files = (DESIGN_FILE, DESIGN_PICTURE_FILE)
    if args.out is not None:
        check_directory(args.out, args.force, files)
    with waiting("reading the study and its recordings"):
        study = read_study(args.config, args.set)
    if study.design is None:
        raise ModelError("design", "nothing", "the experiment to be designed: inputs, limits, criterion")
    for finding in study.findings:
        complain(f"{finding.severity}: {finding.message}")
    if any(finding.severity == "error" for finding in study.findings):
        return INPUT_WRONG
    with claimed(args.out, study.name, args.force, files) as folder:
        found = _design(study)
        written = _write(found, folder)
    print(found.summary())
    print(f"\n{folder}: {', '.join(str(file.relative_to(folder)) for file in written)}")
    if found.status == "interrupted":
        complain(f"{study.name}: interrupted: the best so far")
        return INTERRUPTED
    return DONE


def _design(study: Study) -> ExcitationDesign:
    """The design; errors say where in the study what is wrong with it stands."""
    from jmbs import identification

    assert study.design is not None
    try:
        return identification.design_study(study, study.design, DesignLines())
    except ModelError as error:
        if error.path.partition("/")[0] not in ("inputs", "limits"):
            raise
        raise ModelError(f"design/{error.path}", error.found, error.wanted) from None


def _write(design: ExcitationDesign, folder: Path) -> list[Path]:
    from jmbs.io import DESIGN_PICTURE_FILE, write_design
    from jmbs.simulation import waiting
    from jmbs.visualise import write_design_picture

    files = write_design(design, folder, force=True)
    with waiting("drawing the experiment"):
        write_design_picture(design, folder / DESIGN_PICTURE_FILE)
    return [*files, folder / DESIGN_PICTURE_FILE]


class DesignLines:
    """Prints one line for each iteration; to be made when the search starts."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    def __call__(self, at: DesignProgress) -> None:
        """Tells of an iteration."""
        kept = "limits kept" if at.beyond <= 0 else f"beyond a limit by {at.beyond:.1e} of its half width"
        words = [
            f"start {at.start} of {at.starts}",
            f"iteration {at.iteration:3d}",
            f"criterion {at.criterion:.6g}",
            kept,
            f"{time.monotonic() - self._started:.1f} s",
        ]
        print("  ".join(words), file=sys.stderr, flush=True)
