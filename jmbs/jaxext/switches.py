"""Off switches of the work-arounds: anyone may see what each is worth, or whether a newer JAX still needs it."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator

from jmbs.errors import ModelError

VARIABLE = "JMBS_WITHOUT"
"""An environment variable: names of work-arounds that are off, with commas between, or `all`."""
WORKAROUNDS = (
    "one_kernel",
    "evaluated_once",
    "static_places",
    "along_batches",
    "batches",
    "forward_kernel",
    "kept_rule",
    "deferred",
    "any_member",
    "xla_options",
    "lapack",
)
"""What each is for stands in `docs/jaxext.md`. The plain program, without any of them, has the same results."""

_said: list[frozenset[str]] = []


def is_off(name: str) -> bool:
    """Whether what is traced now is to do without a work-around. Raises `ModelError` for a name that is none."""
    return name in switched_off()


def switched_off() -> frozenset[str]:
    """Names of all work-arounds that are off. Raises `ModelError` for a name that is none."""
    return _said[-1] if _said else _names(os.environ.get(VARIABLE, ""))


@contextlib.contextmanager
def without(names: str = "all") -> Iterator[None]:
    """Turns work-arounds off, as the environment variable would, for what is traced in its context. What `jax.jit` has
    traced before stays as it was. Raises `ModelError` for a name that is none."""
    _said.append(_names(names))
    try:
        yield
    finally:
        _said.pop()


@functools.cache
def _names(text: str) -> frozenset[str]:
    names = frozenset(WORKAROUNDS if text.strip() == "all" else filter(None, map(str.strip, text.split(","))))
    for unknown in sorted(names - set(WORKAROUNDS)):
        raise ModelError(VARIABLE, repr(unknown), f"all, or names among {', '.join(WORKAROUNDS)}, with commas between")
    return names
