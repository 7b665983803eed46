"""Reading mechanisms from files, writing results."""

from jmbs.io.config import ConfigError, read_config
from jmbs.io.result import PLOT_FOLDER, ResultFolderError, check_directory, default_directory, summarise, write_result

load = read_config

__all__ = [
    "PLOT_FOLDER",
    "ConfigError",
    "ResultFolderError",
    "check_directory",
    "default_directory",
    "load",
    "read_config",
    "summarise",
    "write_result",
]
