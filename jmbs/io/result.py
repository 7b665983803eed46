"""Result files: `result.nc` holds the trajectory, `summary.json` what one wants to know first.

One run at a time has a folder for results, by a lock that goes with it.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from jmbs.errors import ModelError
from jmbs.files import reason, remove_stale, replacing, write_text
from jmbs.io.netcdf import write_netcdf
from jmbs.io.summary import summarise
from jmbs.simulation import LabelledArrays, Trajectory, labelled_arrays

RESULT_FILE = "result.nc"
SUMMARY_FILE = "summary.json"
RESULT_FILES = (RESULT_FILE, SUMMARY_FILE)
PLOT_FOLDER = "plots"
RUN_FILES = (*RESULT_FILES, PLOT_FOLDER)
LOCK_FILE = ".jmbs.lock"


class ResultFolderError(ModelError):
    """The folder for a result cannot take one."""


def default_directory(name: str, root: str | Path = "runs") -> Path:
    """`runs/<name>-<UTC time>`, with a counter behind when that folder is already there."""
    stem = f"{name}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    candidate = Path(root) / stem
    count = 1
    while os.path.lexists(candidate):
        count += 1
        candidate = Path(root) / f"{stem}-{count}"
    return candidate


def check_directory(directory: str | Path, force: bool = False, files: Sequence[str] = RUN_FILES) -> None:
    """Refuse a folder that a result cannot be written to, before time is spent on computing it; creates nothing.

    `files`: names of which one in the folder makes an earlier result.

    Raises `ResultFolderError` (a `ModelError`) when the path is a file, cannot be written, or, without `force`, holds
    an earlier result. Other files in the folder do no harm and are left alone.
    """
    directory = Path(directory)
    try:
        _check_directory(directory, force, files)
    except (OSError, ValueError) as error:
        raise ResultFolderError(str(directory), reason(error), "a folder that can be written to") from None


def _check_directory(directory: Path, force: bool, files: Sequence[str]) -> None:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        os.lstat(directory)  # what no folder can be called, pathlib takes for absent
    if directory.exists() and not directory.is_dir():
        raise ResultFolderError(str(directory), "a file", "a folder for the result, new or without one")
    for name in files:
        if os.path.lexists(directory / name) and not force:
            wanted = "a folder without one, or --force"
            raise ResultFolderError(str(directory), f"an earlier result ({name})", wanted)
    plots = directory / PLOT_FOLDER
    if plots.is_symlink() or (plots.exists() and not plots.is_dir()):
        raise ResultFolderError(str(plots), "a link" if plots.is_symlink() else "a file", "a folder, or none")
    # Links that lead nowhere do not "exist", but no folder can be made in their place.
    ancestors = (directory.absolute(), *directory.absolute().parents)
    nearest = next(path for path in ancestors if os.path.lexists(path))
    if not (nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)):
        raise ResultFolderError(
            str(directory), f"{nearest}, which cannot be written to", "a folder that can be written to"
        )


@contextlib.contextmanager
def claimed(
    directory: str | Path | None, name: str = "run", force: bool = False, files: Sequence[str] = RUN_FILES
) -> Iterator[Path]:
    """The folder for a result, which is made and which no other run gets meanwhile; goes again if it stays empty.

    **Arguments:** `directory`: None for a new one, `default_directory(name)`; `force`: earlier results in it will be
    overwritten; `files` as for `check_directory`, which raises `ResultFolderError` as this does, also where another run
    has the folder.
    """
    with _made(name if directory is None else Path(directory), force, files) as folder, _alone(folder):
        check_directory(folder, force, files)  # once more: another run may have ended since
        yield folder


@contextlib.contextmanager
def _made(place: str | Path, force: bool, files: Sequence[str] = RUN_FILES) -> Iterator[Path]:
    """A folder that is there, of its own for a run with this name if a name is given; what is made and empty goes."""
    made: list[Path] = []
    try:
        folder = place if isinstance(place, Path) else default_directory(place)
        check_directory(folder, force, files)
        _make(folder.parent, made)
        while not isinstance(place, Path) and not _make(folder, made):
            folder = default_directory(place)  # another run that started at the same time has it
        _make(folder, made)
        yield folder
    finally:
        for place_made in reversed(made):
            with contextlib.suppress(OSError):  # not empty
                place_made.rmdir()


def _make(folder: Path, made: list[Path]) -> bool:
    """Makes a folder and those above it, where they are absent, and notes which; whether it was."""
    absent = not folder.exists()
    if absent:
        _make(folder.parent, made)
        try:
            folder.mkdir()
        except FileExistsError:
            return False
        except OSError as error:
            raise ResultFolderError(str(folder), reason(error), "a folder that can be made") from error
        made.append(folder)
    return absent


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Holds the lock of a folder; one thread may do so several times. Raises `ResultFolderError`."""
    file = folder.resolve() / LOCK_FILE
    lock = FileLock(file, timeout=0, is_singleton=True)
    outermost = not lock.is_locked
    try:
        lock.acquire()
    except Timeout:
        found, wanted = "another run, which is writing there", "a folder of its own for each run"
        raise ResultFolderError(str(folder), found, wanted) from None
    try:
        for place in (folder, folder / PLOT_FOLDER):
            remove_stale(place)
        yield
    finally:
        if outermost:  # while it is held, so that nobody else's goes
            with contextlib.suppress(OSError):  # some systems keep a file that is open
                file.unlink()
        lock.release()


def write_result(
    trajectory: Trajectory,
    directory: str | Path,
    wall_time: float | None = None,
    compile_time: float | None = None,
    force: bool = False,
    result: LabelledArrays | None = None,
) -> dict[str, Any]:
    """Write `result.nc` and `summary.json` into `directory`, which is created, and return the summary.

    Each file is written under a temporary name and then renamed, so a reader never meets half of one. `wall_time`
    and `compile_time` are in seconds; `result` is `labelled_arrays(trajectory)`, for callers that need it too. Raises
    `ResultFolderError` (a `ModelError`) when a result is there and `force` is not given, or another run is writing
    there.
    """
    directory = Path(directory)
    result = labelled_arrays(trajectory) if result is None else result
    summary = summarise(trajectory, wall_time, compile_time)
    text = json.dumps(_json_ready(summary), indent=2, allow_nan=False) + "\n"
    with _made(directory, force=True), _alone(directory):
        for name in RESULT_FILES:
            if not force and os.path.lexists(directory / name):
                wanted = "a folder without one, or force=True"
                raise ResultFolderError(str(directory), f"an earlier result ({name})", wanted)
        with replacing(directory / RESULT_FILE) as partial:
            write_netcdf(result, partial)
            write_text(directory / SUMMARY_FILE, text)
    return summary


def _json_ready(value: Any) -> Any:
    """The same with `None` for what JSON cannot say (NaN, infinity)."""
    if isinstance(value, dict):
        return {key: _json_ready(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_json_ready(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
