"""Reading mechanisms from files, writing them and results."""

from jmbs.io.config import ConfigError, read_config
from jmbs.io.export import mechanism_config, write_config
from jmbs.io.fit_result import (
    CHECK_FILE,
    CHECKPOINT_FILE,
    FIT_FILES,
    FITTED_FILE,
    REPORT_FILE,
    write_check,
    write_covariance,
    write_fit,
    write_residuals,
)
from jmbs.io.fitted_config import write_fitted
from jmbs.io.load import ModelNotes, import_model, load, load_model
from jmbs.io.models import ImportedModel, is_model, read_model
from jmbs.io.result import (
    PLOT_FOLDER,
    RESULT_FILES,
    ResultFolderError,
    check_directory,
    claimed,
    default_directory,
    write_result,
)
from jmbs.io.summary import summarise

__all__ = [
    "CHECKPOINT_FILE",
    "CHECK_FILE",
    "FITTED_FILE",
    "FIT_FILES",
    "PLOT_FOLDER",
    "REPORT_FILE",
    "RESULT_FILES",
    "ConfigError",
    "ImportedModel",
    "ModelNotes",
    "ResultFolderError",
    "check_directory",
    "claimed",
    "default_directory",
    "import_model",
    "is_model",
    "load",
    "load_model",
    "mechanism_config",
    "read_config",
    "read_model",
    "summarise",
    "write_check",
    "write_config",
    "write_covariance",
    "write_fit",
    "write_fitted",
    "write_residuals",
    "write_result",
]
