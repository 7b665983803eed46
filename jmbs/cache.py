"""Compiled programs that are kept in a folder, so that a later process need not compile them again."""

from __future__ import annotations

from pathlib import Path

import jax
import platformdirs
from jax.experimental.compilation_cache.compilation_cache import reset_cache

from jmbs.errors import ModelError
from jmbs.files import reason

LIMIT = 2**30
"""Bytes; what was used least recently goes first."""


def default_cache() -> Path:
    """The folder for jmbs among the user's caches."""
    return Path(platformdirs.user_cache_dir("jmbs", appauthor=False)) / "programs"


def use_cache(folder: str | Path | None = None) -> Path:
    """Keeps what JAX compiles from now on, and takes what was kept before. It changes JAX's configuration for the whole
    process.

    **Arguments:** `folder`: where; the default is jmbs's own among the user's caches. It holds up to 1 GiB; what was
    used least recently goes first. Programs of other versions, machines and XLA options are told apart.

    Raises `ModelError` where no folder can be made. Returns the folder.
    """
    folder = default_cache() if folder is None else Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise ModelError(str(folder), reason(error), "a folder for compiled programs") from error
    reset_cache()  # else JAX stays with the folder that it has used
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_compilation_cache_max_size", LIMIT)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
    return folder
