"""Studies as commands read them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

# What needs JAX is imported where it is used, as in the command line.
from jmbs.errors import ModelError

if TYPE_CHECKING:
    from jmbs.identification import Study


def read_study(file: Path, overrides: Sequence[str]) -> Study:
    """The study in a file, in float64, with what `--set` says of it. Raises `ModelError`."""
    import jax

    from jmbs import io

    jax.config.update("jax_enable_x64", True)  # standard errors of small effects drown in the rounding of less
    try:
        return io.load_study(file, overrides)
    except OSError as error:
        raise ModelError(str(file), error.strerror or str(error), "a study that can be read") from error
