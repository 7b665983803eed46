"""Reading mechanisms from files, writing results."""

from jmbs.io.config import ConfigError, read_config
from jmbs.io.result import check_directory, default_directory, write_result

load = read_config

__all__ = ["ConfigError", "check_directory", "default_directory", "load", "read_config", "write_result"]
