"""Packages that jmbs does not need itself, imported where they are asked for."""

from __future__ import annotations

import importlib
from types import ModuleType

from jmbs.errors import ModelError


def optional(package: str, extra: str) -> ModuleType:
    """The package. Raises `ModelError` that says how to get it, where it is not installed."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        wanted = f"it installed: pip install 'jmbs[{extra}]'"
        raise ModelError(f"jmbs[{extra}]", f"no package {package}", wanted) from None
