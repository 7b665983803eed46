"""Files, with care: only regular ones are read, and what is written appears as a whole or not at all."""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from jmbs.errors import ModelError

LARGEST_FILE = 2**28
"""Bytes of a file that is read."""
WANTED = "a file in an existing folder"
_PARTIAL = re.compile(r"\..+\.(\d+)\.partial")


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """The content of a regular file; of a pipe or device, which may never end, nothing is read.

    Raises `OSError`, whose `strerror` says why in words.
    """

    def open_at_once(name: str, flags: int) -> int:
        return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))

    try:
        with open(path, "rb", opener=open_at_once) as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise OSError(errno.EINVAL, "a pipe or a device")
            content = stream.read(LARGEST_FILE + 1)
    except ValueError as error:
        raise OSError(errno.EINVAL, "a name that no file can have") from error
    if len(content) > LARGEST_FILE:
        raise OSError(errno.EFBIG, f"more than {LARGEST_FILE >> 20} MiB")
    return content


def reason(error: OSError | ValueError) -> str:
    """What went wrong with a file, in words, without its name."""
    return getattr(error, "strerror", None) or str(error)


def named_path(text: str) -> Path:
    """A path of the command line, for argparse: an empty one, as of a variable of the shell that is not set, would be
    the folder that one is in."""
    if not text:
        raise argparse.ArgumentTypeError("found nothing, wanted a path")
    return Path(text)


def check_new_file(path: Path, force: bool = False) -> None:
    """Refuses a path where a file cannot be written: an existing one (unless `force`), what is no file, no folder.

    A link is replaced, not followed. Creates nothing. Raises `ModelError`.
    """
    try:
        if path.is_dir() or not path.parent.is_dir():
            raise ModelError(str(path), "no place for a file", WANTED)
        there = _kind(path)
    except (OSError, ValueError) as error:
        raise ModelError(str(path), f"no place for a file ({reason(error)})", WANTED) from None
    if there is not None and not stat.S_ISREG(there):
        raise ModelError(str(path), "a pipe or a device", WANTED)
    if there is not None and not force:
        raise ModelError(str(path), "an existing file", "a new file, or --force")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise ModelError(str(path), "a folder that cannot be written to", WANTED)


def _kind(path: Path) -> int | None:
    """The mode of what stands at a path, None where there is nothing; that of a file for a link that leads nowhere."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(mode):
        try:
            return os.stat(path).st_mode
        except OSError:
            return stat.S_IFREG
    return mode


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """An empty file beside `path`, to be written; it takes its name at the end, and goes if something fails.

    So nobody meets half a file, and a link at `path` is replaced and not followed. Raises `ModelError` where no file
    can be made.
    """
    partial = path.parent / f".{secrets.token_hex(4)}.{os.getpid()}.partial"
    try:
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except OSError as error:
        raise ModelError(str(path), f"no place for a file ({reason(error)})", WANTED) from error
    try:
        yield partial
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Writes a file in UTF-8 as `replacing` does."""
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")


def remove_stale(folder: Path) -> None:
    """Removes what processes that are no more have left half written in a folder."""
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        named = _PARTIAL.fullmatch(path.name)
        if named and not _lives(int(named[1])):
            with contextlib.suppress(OSError):
                path.unlink()


def _lives(process: int) -> bool:
    if os.name != "posix":
        return True  # elsewhere signal 0 is not a question
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True
