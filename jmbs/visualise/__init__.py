"""Pictures of models, results and fits."""

import typing

from jmbs.visualise.diagram import draw
from jmbs.visualise.plots import plot_trajectory

if typing.TYPE_CHECKING:
    from jmbs.visualise.check_plots import check_figures, write_check_figures
    from jmbs.visualise.design_plots import design_figure, write_design_picture
    from jmbs.visualise.fit_plots import (
        correlation_figure,
        intervals_figure,
        residuals_figure,
        singular_values_figure,
        trajectories_figure,
    )
    from jmbs.visualise.fit_report import fit_page, write_fit_report
    from jmbs.visualise.profile_plot import profile_figure

__all__ = [
    "check_figures",
    "correlation_figure",
    "design_figure",
    "draw",
    "fit_page",
    "intervals_figure",
    "plot_trajectory",
    "profile_figure",
    "residuals_figure",
    "singular_values_figure",
    "trajectories_figure",
    "write_check_figures",
    "write_design_picture",
    "write_fit_report",
]


def __getattr__(name: str) -> typing.Any:
    # Most programs identify nothing: what fits need is imported when it is asked for.
    if name in ("design_figure", "write_design_picture"):
        from jmbs.visualise import design_plots

        return getattr(design_plots, name)
    if name in ("fit_page", "write_fit_report"):
        from jmbs.visualise import fit_report

        return getattr(fit_report, name)
    if name in ("check_figures", "write_check_figures"):
        from jmbs.visualise import check_plots

        return getattr(check_plots, name)
    if name == "profile_figure":
        from jmbs.visualise import profile_plot

        return profile_plot.profile_figure
    if name.endswith("_figure") and name in __all__:
        from jmbs.visualise import fit_plots

        return getattr(fit_plots, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
