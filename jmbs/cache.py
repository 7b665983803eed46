"""The folder where programs are kept, compiled and before that, so that a later process need not make them again."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

import jax
import platformdirs
from jax.experimental.compilation_cache.compilation_cache import reset_cache

from jmbs.errors import ModelError
from jmbs.files import read_bytes, reason, remove_stale, replacing

LIMIT = 2**30
"""Bytes of what JAX keeps, compiled programs; what was used least recently goes first."""
OWN_LIMIT = 2**28
"""The same of what jmbs keeps: what its programs are before JAX compiles them."""
OWN = "jmbs"
CHECKSUM = 32
"""Bytes in front of what is kept: one that was damaged might be a program, but another."""

_folders: list[Path] = []


def default_cache() -> Path:
    """The folder for jmbs among the user's caches."""
    return Path(platformdirs.user_cache_dir("jmbs", appauthor=False)) / "programs"


def use_cache(folder: str | Path | None = None) -> Path:
    """Keeps what JAX compiles from now on, what jmbs traces and what NVRTC makes of it, and takes what was kept before.
    It changes JAX's configuration for the whole process.

    **Arguments:** `folder`: where; the default is jmbs's own among the user's caches. It holds up to 1 GiB of compiled
    programs and 256 MiB of others; what was used least recently goes first. Programs of other versions, machines and
    XLA options are told apart. Only a folder that nobody else can write to is safe: what is in it is run.

    Raises `ModelError` where no folder can be made. Returns the folder.
    """
    folder = default_cache() if folder is None else Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(OSError):  # JAX alone can read such a folder
            (folder / OWN).mkdir(exist_ok=True)
    except (OSError, ValueError) as error:
        raise ModelError(str(folder), reason(error), "a folder for compiled programs") from error
    reset_cache()  # else JAX stays with the folder that it has used
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_compilation_cache_max_size", LIMIT)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
    _folders[:] = [folder / OWN]
    return folder


def keeps_programs() -> bool:
    """Whether jmbs keeps what it makes: while JAX keeps what it compiles in the folder of `use_cache`."""
    folder = jax.config.values["jax_compilation_cache_dir"]
    return _folders == [Path(folder or "", OWN)] and jax.config.values["jax_enable_compilation_cache"]


def kept(name: str) -> bytes | None:
    """What was kept under a file's name, None if nothing was."""
    file = _folders[0] / name
    try:
        content = read_bytes(file)
    except OSError:
        return None
    with contextlib.suppress(OSError):
        os.utime(file)  # it was used
    checksum, data = content[:CHECKSUM], content[CHECKSUM:]
    if hashlib.sha256(data).digest() == checksum:
        return data
    forget(name)
    return None


def keep(name: str, data: bytes) -> None:
    """Keeps data, and makes room for them; where the folder cannot be written to, it does without."""
    with contextlib.suppress(OSError, ModelError):
        with replacing(_folders[0] / name) as partial:
            partial.write_bytes(hashlib.sha256(data).digest() + data)
        remove_stale(_folders[0])
        _make_room(_folders[0], OWN_LIMIT)


def forget(name: str) -> None:
    """Removes what cannot be read."""
    with contextlib.suppress(OSError):
        (_folders[0] / name).unlink()


def _make_room(folder: Path, limit: int) -> None:
    """Removes what was used least recently until the rest is not larger than the limit."""
    files = [(path.stat(), path) for path in folder.iterdir()]
    size = sum(status.st_size for status, _ in files)
    for status, path in sorted(files, key=lambda entry: entry[0].st_mtime):
        if size <= limit:
            break
        path.unlink(missing_ok=True)
        size -= status.st_size
