"""The error where a package that reads models is not installed."""

from __future__ import annotations

from pathlib import Path

from jmbs.io.config_error import ConfigError


def missing_package(file: Path, package: str, what: str) -> ConfigError:
    """Says that `package` reads `what` and how to get it."""
    return ConfigError(
        file, "", f"no package {package}, which reads {what}", "it installed: pip install 'jmbs[models]'"
    )
