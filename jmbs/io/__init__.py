"""Reading mechanisms and studies from files, writing them and results."""

import typing

from jmbs.io.config import ConfigError, read_config
from jmbs.io.export import mechanism_config, write_config
from jmbs.io.load import ModelNotes, import_model, load, load_model
from jmbs.io.models import ImportedModel, is_model, read_model
from jmbs.io.result import (
    PLOT_FOLDER,
    RESULT_FILE,
    RESULT_FILES,
    ResultFolderError,
    check_directory,
    claimed,
    default_directory,
    write_result,
)
from jmbs.io.summary import summarise

if typing.TYPE_CHECKING:
    from jmbs.io.design_result import DESIGN_FILE, DESIGN_PICTURE_FILE, write_design
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
    from jmbs.io.study import load_study
    from jmbs.io.sweep_study import load_sweep, sweep_of

__all__ = [
    "CHECKPOINT_FILE",
    "CHECK_FILE",
    "DESIGN_FILE",
    "DESIGN_PICTURE_FILE",
    "FITTED_FILE",
    "FIT_FILES",
    "PLOT_FOLDER",
    "REPORT_FILE",
    "RESULT_FILE",
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
    "load_study",
    "load_sweep",
    "mechanism_config",
    "read_config",
    "read_model",
    "summarise",
    "sweep_of",
    "write_check",
    "write_config",
    "write_covariance",
    "write_design",
    "write_fit",
    "write_fitted",
    "write_residuals",
    "write_result",
]

_OF_FITS = ("FIT_FILES", "write_check", "write_covariance", "write_fit", "write_residuals")


def __getattr__(name: str) -> typing.Any:
    # Most programs identify nothing: what fits need is imported when it is asked for.
    if name == "write_fitted":
        from jmbs.io.fitted_config import write_fitted

        return write_fitted
    if name in ("DESIGN_FILE", "DESIGN_PICTURE_FILE", "write_design"):
        from jmbs.io import design_result

        return getattr(design_result, name)
    if name.endswith("_FILE") or name in _OF_FITS:
        from jmbs.io import fit_result

        return getattr(fit_result, name)
    if name in ("load_sweep", "sweep_of"):
        from jmbs.io import sweep_study

        return getattr(sweep_study, name)
    if name == "load_study":
        from jmbs.io.study import load_study

        return load_study
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
